"""Calibration of a judge: human verdicts compared with its scores, reported and stored."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.errors import CaseError
from otel_agentic.evaluation.run import judge_json, judge_models
from otel_agentic.judges.calibration import TARGETS, UNSURE, Calibration, Labelled, calibrate, parse_human_labels
from otel_agentic.scoring.model import OPEN_REASONS
from otel_agentic.store.judges import CalibrationRun, HumanVerdict, locations_of, save_calibration, save_human_verdicts
from otel_agentic.store.queries.scores import newest_model, origins, stored_scores
from otel_agentic.store.scores import save_evaluation
from otel_agentic.store.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.counts import Tally
    from otel_agentic.evaluation.truth import Truth, TruthFile
    from otel_agentic.judges.calibration import HumanLabel, JudgeVersion, Target
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.scoring.model import TurnScore
    from otel_agentic.scoring.outcome import TurnRule
    from otel_agentic.stats import Estimate
    from otel_agentic.stats.agreement import Agreement, CurvePoint
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.judges import ConversationLocation
    from otel_agentic.store.table import Key

#: Why the judge gave no verdict on an answer whose outcome is known all the same: nothing was said, or a text that must not be.
NO_QUESTION: Final = "settled_without_judge"
#: What scoring tells before the judge's own words: a table has columns for it.
_SCORED: Final = re.compile(
    r"\Aanswer of turn \d+ scores [\d.]+, (?:threshold [\d.e-]+|of which the judge is unsure): "
)
#: Labels that lead nowhere, told one by one.
_TOLD: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The labels whose conversation or turn is in the store, and a sentence for each kind of label that is not."""

    verdicts: tuple[HumanVerdict, ...]
    warnings: tuple[str, ...]


def find(labels: Sequence[HumanLabel], places: Mapping[str, Sequence[ConversationLocation]]) -> Found:
    """Return where the labelled conversations and turns stand in the store.

    Args:
        labels: what people said.
        places: where the conversations of each id stand.

    Raises:
        CaseError: an id stands in several environments and the label does not say which; lists all of these.
    """
    verdicts: list[HumanVerdict] = []
    lost: dict[str, list[str]] = {}
    problems: list[str] = []
    for label in labels:
        fitting = [
            place
            for place in places.get(label.conversation_id, ())
            if label.environment is None or place.environment == label.environment
        ]
        if len(fitting) > 1:
            names = ", ".join(repr(place.environment) for place in fitting)
            problems.append(
                f"{label.source}: conversation {label.conversation_id!r} exists in environments {names}; "
                "name one in a column environment"
            )
        elif (why := _lost(label, fitting)) is not None:
            lost.setdefault(why, []).append(_named(label))
        else:
            verdicts.append(_verdict(label, fitting[0]))
    if problems:
        raise CaseError("\n".join(problems))
    return Found(verdicts=tuple(verdicts), warnings=tuple(_told(why, names) for why, names in lost.items()))


def of_turn(one: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion) -> Labelled:
    """Return a labelled turn with what the judge says of its answer."""
    assert verdict.turn_index is not None  # noqa: S101 — a verdict on a turn
    turn = one.conversation.turns[verdict.turn_index]
    said = next((each for each in score.turns if each.turn_index == turn.index), None)
    judged = said is not None and turn.answer is not None and said.answer_score is not None
    decided = judged and said is not None and said.answer_outcome != "not_evaluated"
    return Labelled(
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=score.revision,
        turn_index=turn.index,
        dataset=score.dataset,
        case_id=score.case_id,
        human=verdict.verdict,
        outcome=said.answer_outcome if said is not None and judged else "not_evaluated",
        reason=_why_not(said) if said is not None and not decided else None,
        score=said.answer_score if said is not None and judged else None,
        ended_ns=one.conversation.ended_ns,
        query=turn.query,
        expected=_expected(one, said),
        answer=turn.answer,
        reasoning=_reasons(said.explanation) if said is not None else None,
        judge=judge if judged else None,
    )


def of_conversation(
    one: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion, rule: TurnRule
) -> Labelled:
    """Return a labelled conversation with what was computed of it, whatever a given label says.

    Its score is the lowest of its answers, and its texts are of that answer, where answers decide.
    """
    weakest = _weakest(one, score, rule)
    judged = weakest is not None or score.computed_reason == UNSURE
    turn = _turn_of(one, weakest)
    return Labelled(
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=score.revision,
        turn_index=None,
        dataset=score.dataset,
        case_id=score.case_id,
        human=verdict.verdict,
        outcome=score.computed_outcome,
        reason=score.computed_reason,
        score=weakest.answer_score if weakest is not None else None,
        ended_ns=one.conversation.ended_ns,
        query=turn.query if turn else None,
        expected=_expected(one, weakest),
        answer=turn.answer if turn and weakest else None,
        reasoning=_reasons(weakest.explanation) if weakest is not None else score.explanation,
        judge=judge if judged else None,
    )


def _lost(label: HumanLabel, fitting: Sequence[ConversationLocation]) -> str | None:
    """Return why a label leads nowhere, None where it leads to a conversation or turn."""
    if not fitting:
        return "is in the store"
    if not fitting[0].closed:
        return "is closed yet"
    if label.turn_index is not None and label.turn_index >= fitting[0].turn_count:
        return "has that turn"
    return None


def _named(label: HumanLabel) -> str:
    turn = "" if label.turn_index is None else f" turn {label.turn_index + 1}"
    return f"{label.conversation_id}{turn} ({label.source})"


def _told(why: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD:,} more" if len(names) > _TOLD else ""
    labels = "1 label is" if len(names) == 1 else f"{len(names):,} labels are"
    return f"{labels} left out, for no such conversation {why}: {', '.join(names[:_TOLD])}{more}"


def _verdict(label: HumanLabel, place: ConversationLocation) -> HumanVerdict:
    return HumanVerdict(
        environment=place.environment,
        conversation_id=label.conversation_id,
        revision=place.revision,
        turn_index=label.turn_index,
        verdict=label.verdict,
        source=label.source,
    )


def _why_not(said: TurnScore) -> str:
    if said.answer_outcome != "not_evaluated":
        return NO_QUESTION
    return said.answer_reason or "no_data"


def _reasons(explanation: str) -> str:
    """Return what the judge said, without what stands beside it anyway.

    >>> _reasons("answer of turn 1 scores 0.80, threshold 0.7: The day matches.")
    'The day matches.'
    """
    return _SCORED.sub("", explanation)


def _weakest(one: MatchedConversation, score: ConversationScore, rule: TurnRule) -> TurnScore | None:
    """Return the turn with the lowest score of a judge, None where something else than judged answers decides."""
    if score.computed_outcome != "pass" and score.computed_reason != "wrong_answer":
        return None
    answered = {turn.index for turn in one.conversation.turns if turn.answer is not None}
    judged = [
        turn
        for turn in score.turns
        if turn.answer_score is not None
        and turn.turn_index in answered
        and (rule != "tools" or turn.tool_outcome is None)
    ]
    if score.computed_outcome == "fail" and not any(turn.answer_outcome == "fail" for turn in judged):
        return None  # an answer that was never given is wrong without a judge
    return min(judged, key=lambda turn: (turn.answer_score or 0.0, turn.turn_index), default=None)


def _turn_of(one: MatchedConversation, said: TurnScore | None) -> Turn | None:
    index = 0 if said is None else said.turn_index
    return next((turn for turn in one.conversation.turns if turn.index == index), None)


def _expected(one: MatchedConversation, said: TurnScore | None) -> str | None:
    case = one.match.case
    if case is None or said is None or said.case_turn_index is None or said.case_turn_index >= len(case.turns):
        return None
    return " | ".join(case.turns[said.case_turn_index].accepted_answers) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """Labelled conversations with the scores that they have, or just got."""

    matched: Mapping[Key, MatchedConversation]
    scores: Mapping[Key, ConversationScore]
    anew: int
    tally: Tally


def calibrate_judge(
    engine: Engine, files: Sequence[TruthFile], *, random_sample: bool, examples: int
) -> dict[str, Any]:
    """Compare the judge with people and remember both; return it as the JSON object of the contract.

    Scores under the evaluator version in force are taken as they are; what has none is scored now, by verdicts from the
    cache where there are some, and that score is not stored: which evaluation is in force does not change.

    Args:
        engine: the opened store.
        files: CSV files of people's verdicts.
        random_sample: whether the labelled conversations are a random sample.
        examples: disagreements told at most, of each kind and target.

    Raises:
        CaseError: a file has problems, or does not say which conversation it means; lists them all.
    """
    threshold = engine.settings.scoring.reward_threshold
    read = [parse_human_labels(file.name, file.text, reward_threshold=threshold).require() for file in files]
    redacted = engine.store.redacting.value  # conversations may be called by what is taken out of them
    labels = [replace(label, conversation_id=redacted(label.conversation_id)) for file in read for label in file.labels]
    with engine.store.read() as con:
        found = find(labels, locations_of(con, [label.conversation_id for label in labels]))
    truth = engine.evaluating.truth()
    judged = _judged(engine, truth, found)
    judge = (truth.judge.name, truth.judge.version)
    if engine.stopping.is_set():
        return {"stopped": True, "judge": judge_json(engine.evaluating, judged.tally, list(judged.matched))}
    labelled = _labelled(found, judged, judge, engine.settings.scoring.turn_rule)
    settings = (engine.settings.scoring.answer_threshold, engine.settings.stats.level)
    results = {target: _calibrated(target, labelled, settings, examples) for target in TARGETS}
    run = _run(engine, truth, judged, random_sample=random_sample, labels=[file.name for file in files])
    known = [one for one in results.values() if one is not None]
    _remember(engine, run, truth=truth, found=found, results=known, labelled=labelled)
    return {
        "stopped": False,
        "calibration_id": run.calibration_id,
        "evaluation_id": run.evaluation_id,
        "judge": judge_json(engine.evaluating, judged.tally, list(judged.matched)) | {"model": run.model},
        "labels": len(labels),
        "blank": sum(file.blank for file in read),
        "judged_now": judged.anew,
        "random_sample": random_sample,
        **{target: None if one is None else calibration_json(one) for target, one in results.items()},
        "warnings": [
            *found.warnings,
            *_other_judges(engine, judge, judged),
            *([] if random_sample or not labelled else [_HAND_PICKED]),
        ],
    }


_HAND_PICKED = (
    "the labels are not said to be a random sample (--random-sample): on conversations picked by hand a judge may do better "
    "or worse than on all"
)


def _other_judges(engine: Engine, judge: JudgeVersion, judged: _Judged) -> Iterator[str]:
    """Yield which other judges the scores that reports show come from: what is compared here says nothing of them."""
    with engine.store.read() as con:
        shown = origins(con, Selection())
    others = Counter(
        (origin.judge, origin.judge_version)
        for key in judged.matched
        if (origin := shown.get(key)) and origin.has_judged_answer
    )
    for name, version in sorted(others):
        if (name, version) != judge:
            yield (
                f"reports show {others[name, version]:,} of these conversations as judged by {name}, version {version}, which this "
                "says nothing of; choose that judge with --judge to compare it with people"
            )


def _judged(engine: Engine, truth: Truth, found: Found) -> _Judged:
    keys = sorted({(verdict.environment, verdict.conversation_id) for verdict in found.verdicts})
    matched = {
        (one.conversation.environment, str(one.conversation.conversation_id)): one
        for one in engine.evaluating.match(truth, keys)
    }
    with engine.store.read() as con:
        scores = stored_scores(con, truth.evaluation.evaluation_id, keys)
    missing = [key for key in matched if key not in scores or _is_open(scores[key])]
    with engine.evaluating.judge_run(engine.stopping.is_set) as judging:
        for place, score in judging.scores([matched[key] for key in missing]):
            scores[missing[place]] = score
    return _Judged(matched=matched, scores=scores, anew=len(missing), tally=judging.tally)


def _is_open(score: ConversationScore) -> bool:
    """Return whether the judge failed on something of a score, or was not asked."""
    reasons = {score.reason, score.computed_reason, *(turn.answer_reason for turn in score.turns)}
    return not reasons.isdisjoint(OPEN_REASONS)


def _labelled(found: Found, judged: _Judged, judge: JudgeVersion, rule: TurnRule) -> list[Labelled]:
    rows = []
    for verdict in found.verdicts:
        key = (verdict.environment, verdict.conversation_id)
        one, score = judged.matched[key], judged.scores[key]
        if verdict.turn_index is None:
            rows.append(of_conversation(one, score, verdict, judge, rule))
        else:
            rows.append(of_turn(one, score, verdict, judge))
    return rows


def _calibrated(
    target: Target, labelled: Sequence[Labelled], settings: tuple[float, float], examples: int
) -> Calibration | None:
    those = [one for one in labelled if (one.turn_index is not None) == (target == "turn")]
    threshold, level = settings
    return calibrate(target, those, threshold=threshold, level=level, examples=examples) if those else None


def _run(
    engine: Engine, truth: Truth, judged: _Judged, *, random_sample: bool, labels: Sequence[str]
) -> CalibrationRun:
    judge = truth.judge
    with engine.store.read() as con:
        newest = newest_model(con, judge.name, judge.version)
    models = judge_models(judge, judged.tally)
    return CalibrationRun(
        calibration_id=uuid4().hex[:16],
        evaluation_id=truth.evaluation.evaluation_id,
        judge=judge.name,
        judge_version=judge.version,
        model=models[-1] if models else newest,
        random_sample=random_sample,
        labels=tuple(labels),
        calibrated_ns=engine.clock(),
    )


def _remember(
    engine: Engine,
    run: CalibrationRun,
    *,
    truth: Truth,
    found: Found,
    results: Sequence[Calibration],
    labelled: Sequence[Labelled],
) -> None:
    def write(con: Connection) -> None:
        save_evaluation(con, truth.evaluation, run.calibrated_ns)
        save_human_verdicts(con, found.verdicts, random_sample=run.random_sample, now_ns=run.calibrated_ns)
        save_calibration(con, run, results, labelled)

    engine.store.write(write)


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return one target's calibration as JSON can say it."""
    return {
        **_agreement_json(found.agreement),
        "deciders": [
            {
                "judge": one.judge and one.judge[0],
                "version": one.judge and one.judge[1],
                "unsure": one.unsure,
                **_agreement_json(one.agreement),
            }
            for one in found.deciders
        ],
        "not_judged": dict(found.not_judged),
        "threshold": found.threshold,
        "curve": [_point(point) for point in found.curve],
        "curve_n": found.curve_n,
        "best_threshold": None if found.best is None else _point(found.best) | {"chosen_on": "these labels"},
        "examples": [_example(one) for one in found.examples],
        "warnings": list(found.warnings),
    }


def _agreement_json(agreement: Agreement) -> dict[str, Any]:
    rates = ("agreement", "kappa", "sensitivity", "specificity")
    return {
        "n": int(agreement.confusion.n),
        **{name: _estimate(getattr(agreement, name)) for name in rates},
        "interval_method": agreement.interval_method,
        "level": agreement.level,
        "confusion": {name: int(count) for name, count in asdict(agreement.confusion).items()},
    }


def _estimate(found: Estimate) -> dict[str, float | None]:
    return {"value": found.value, "lower": found.lower, "upper": found.upper}


def _point(point: CurvePoint) -> dict[str, Any]:
    return asdict(point) | {"youden": point.youden}


def _example(one: Labelled) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(one).items() if name != "judge"} | {
        "human": "pass" if one.human else "fail"
    }
    return shown | {"turn": None if one.turn_index is None else one.turn_index + 1, "judge": shown.pop("outcome")}
