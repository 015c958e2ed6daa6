"""Calibration of a judge: human verdicts compared with its scores, reported and stored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.errors import CaseError
from otel_agentic.evaluation.run import judge_json, judge_models
from otel_agentic.judges.calibration import (
    TARGETS,
    UNSURE,
    Calibration,
    HumanLabel,
    JudgeVersion,
    Labelled,
    Target,
    calibrate,
    parse_human_labels,
)
from otel_agentic.reports.metric_calibration import calibrate_metrics
from otel_agentic.scoring.scope import OPEN_REASONS
from otel_agentic.stats.annotators import annotator_agreement
from otel_agentic.store.annotations import current_annotations
from otel_agentic.store.conversations import shared_id_message
from otel_agentic.store.judges import (
    CalibrationRun,
    ConversationLocation,
    HumanVerdict,
    locations_of,
    save_calibration,
    save_human_verdicts,
)
from otel_agentic.store.queries.scores import newest_model, origins, stored_scores
from otel_agentic.store.scores import save_evaluations
from otel_agentic.store.table import Selection
from otel_agentic.truth.annotations import ANSWER, CORRECT, resolve, votes_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.batch import Tally
    from otel_agentic.evaluation.scope import Truth, TruthFile
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.scoring.model import TurnScore
    from otel_agentic.stats import Estimate
    from otel_agentic.stats.judge_error import Agreement, CurvePoint
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key

#: The reason if no judge was called because the outcome is certain: no answer, or a forbidden text.
NO_QUESTION: Final = "settled_without_judge"
#: The start of an explanation, before the judge's reasoning; it is removed because tables have columns for its content.
_SCORED: Final = re.compile(
    r"\Aanswer of turn \d+ scores [\d.]+, (?:threshold [\d.e-]+|of which the judge is unsure): "
)
#: Unused labels that are listed in a warning.
_MAX_LABELS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLabels:
    """Verdicts on conversations and turns in the store, and a warning for each kind of label that cannot be used."""

    verdicts: tuple[HumanVerdict, ...]
    warnings: tuple[str, ...]


def find(labels: Sequence[HumanLabel], stored: Mapping[str, Sequence[ConversationLocation]]) -> FoundLabels:
    """Return the labelled conversations and turns in the store.

    Args:
        labels: the verdicts of people.
        stored: the stored conversations of each id.

    Raises:
        CaseError: an id exists in several environments and the label names none; the message lists all of these.
    """
    verdicts: list[HumanVerdict] = []
    unused: dict[str, list[str]] = {}
    problems: list[str] = []
    for label in labels:
        matches = [
            candidate
            for candidate in stored.get(label.conversation_id, ())
            if label.environment is None or candidate.environment == label.environment
        ]
        environments = sorted({match.environment for match in matches})
        if len(environments) > 1:
            names = ", ".join(map(repr, environments))
            problems.append(
                f"{label.source}: conversation {label.conversation_id!r} exists in environments {names}; "
                "name one in a column environment"
            )
        elif len(matches) > 1:
            keys = [(match.environment, match.conversation_id) for match in matches]
            problems.append(f"{label.source}: {shared_id_message(label.conversation_id, keys)}")
        elif (problem := _problem(label, matches)) is not None:
            unused.setdefault(problem, []).append(_name_of(label))
        else:
            verdicts.append(_verdict(label, matches[0]))
    if problems:
        raise CaseError("\n".join(problems))
    return FoundLabels(
        verdicts=tuple(verdicts), warnings=tuple(_warning(problem, names) for problem, names in unused.items())
    )


def of_turn(
    matched: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion
) -> Labelled:
    """Return a labelled turn with the judge's score of its answer."""
    assert verdict.turn_index is not None  # noqa: S101 — a verdict on a turn
    turn = matched.conversation.turns[verdict.turn_index]
    turn_score = next((candidate for candidate in score.turns if candidate.turn_index == turn.index), None)
    has_score = turn_score is not None and turn.answer is not None and turn_score.answer_score is not None
    decided = has_score and turn_score is not None and turn_score.answer_outcome != "not_evaluated"
    return Labelled(
        environment=verdict.environment,
        conversation_id=verdict.conversation_id,
        revision=score.revision,
        turn_index=turn.index,
        dataset=score.dataset,
        case_id=score.case_id,
        human=verdict.verdict,
        outcome=turn_score.answer_outcome if turn_score is not None and has_score else "not_evaluated",
        reason=_reason_of(turn_score) if turn_score is not None and not decided else None,
        score=turn_score.answer_score if turn_score is not None and has_score else None,
        ended_ns=matched.conversation.ended_ns,
        query=turn.query,
        expected=_expected(matched, turn_score),
        answer=turn.answer,
        reasoning=_reasoning(turn_score.explanation) if turn_score is not None else None,
        judge=judge if has_score else None,
    )


def of_conversation(
    matched: MatchedConversation, score: ConversationScore, verdict: HumanVerdict, judge: JudgeVersion
) -> Labelled:
    """Return a labelled conversation with its computed outcome, independent of existing labels.

    If answers decide, its score is the lowest of its answers, and query, expected and actual answer are those of that turn.
    """
    weakest = _weakest(matched, score)
    is_judged = weakest is not None or score.computed_reason == UNSURE
    turn = _turn_of(matched, weakest)
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
        ended_ns=matched.conversation.ended_ns,
        query=turn.query if turn else None,
        expected=_expected(matched, weakest),
        answer=turn.answer if turn and weakest else None,
        reasoning=_reasoning(weakest.explanation) if weakest is not None else score.explanation,
        judge=judge if is_judged else None,
    )


def _problem(label: HumanLabel, matches: Sequence[ConversationLocation]) -> str | None:
    """Return the problem of a label that cannot be used, or None."""
    if not matches:
        return "the store has no such conversation"
    if not matches[0].closed:
        return "the conversation is not closed yet"
    if label.turn_index is not None and label.turn_index >= matches[0].turn_count:
        return "the conversation has no such turn"
    return None


def _name_of(label: HumanLabel) -> str:
    turn = "" if label.turn_index is None else f" turn {label.turn_index + 1}"
    return f"{label.conversation_id}{turn} ({label.source})"


def _warning(problem: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LABELS:,} more" if len(names) > _MAX_LABELS else ""
    labels = "1 label" if len(names) == 1 else f"{len(names):,} labels"
    return f"{labels} skipped ({problem}): {', '.join(names[:_MAX_LABELS])}{more}"


def _verdict(label: HumanLabel, conversation: ConversationLocation) -> HumanVerdict:
    return HumanVerdict(
        environment=conversation.environment,
        conversation_id=conversation.conversation_id,
        revision=conversation.revision,
        turn_index=label.turn_index,
        verdict=label.verdict,
        source=label.source,
    )


def _reason_of(turn_score: TurnScore) -> str:
    if turn_score.answer_outcome != "not_evaluated":
        return NO_QUESTION
    return turn_score.answer_reason or "no_data"


def _reasoning(explanation: str) -> str:
    """Return the reasoning of the judge, without the score, which is reported separately.

    >>> _reasoning("answer of turn 1 scores 0.80, threshold 0.7: The day matches.")
    'The day matches.'
    """
    return _SCORED.sub("", explanation)


def _weakest(matched: MatchedConversation, score: ConversationScore) -> TurnScore | None:
    """Return the turn with the lowest judged score, or None if the outcome does not depend on judged answers."""
    if score.computed_outcome != "pass" and score.computed_reason != "wrong_answer":
        return None
    answered = {turn.index for turn in matched.conversation.turns if turn.answer is not None}
    judged_turns = [
        turn
        for turn in score.turns
        if turn.answer_score is not None
        and turn.turn_index in answered
        and any(criterion.name == "answer" for criterion in score.criteria)
    ]
    if score.computed_outcome == "fail" and not any(turn.answer_outcome == "fail" for turn in judged_turns):
        return None  # a missing answer is wrong without a judge
    return min(judged_turns, key=lambda turn: (turn.answer_score or 0.0, turn.turn_index), default=None)


def _turn_of(matched: MatchedConversation, turn_score: TurnScore | None) -> Turn | None:
    index = 0 if turn_score is None else turn_score.turn_index
    return next((turn for turn in matched.conversation.turns if turn.index == index), None)


def _expected(matched: MatchedConversation, turn_score: TurnScore | None) -> str | None:
    case = matched.match.case
    if (
        case is None
        or turn_score is None
        or turn_score.case_turn_index is None
        or turn_score.case_turn_index >= len(case.turns)
    ):
        return None
    return " | ".join(case.turns[turn_score.case_turn_index].accepted_answers) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """Labelled conversations with their scores, stored or computed now."""

    matched: Mapping[Key, MatchedConversation]
    scores: Mapping[Key, ConversationScore]
    computed: int
    tally: Tally


def calibrate_judge(
    engine: Engine,
    files: Sequence[TruthFile],
    *,
    random_sample: bool,
    examples: int,
    metrics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compare the judge with people and store both; return the calibration as the documented JSON object.

    Scores of the active evaluator version are used as they are. Conversations without one are scored now, with verdicts from
    the cache if possible; these scores are not stored, so the active evaluation does not change. Metrics are compared by
    their stored scores.

    Args:
        engine: the opened store.
        files: CSV files of human verdicts on answers and outcomes; without any, the stored annotations are used.
        random_sample: whether the labelled conversations are a random sample.
        examples: maximum number of reported disagreements of each kind and target.
        metrics: what to compare: `answer`, `correct` and names of metrics; None for everything that people annotated,
            without answers and outcomes from other files if there are files.

    Raises:
        CaseError: a file is malformed, or a conversation id is ambiguous; the message lists all problems.
        UsageError: no metric has one of the names.
    """
    human_labels = _given_labels(engine, files, metrics)
    truth = engine.runner.truth()
    scored = _scored(engine, truth, human_labels.matches)
    judge = (truth.judge.name, truth.judge.version)
    if engine.stopping.is_set():
        return {"stopped": True, "judge": judge_json(engine.runner, scored.tally, list(scored.matched))}
    labelled = _labelled(human_labels.matches, scored, judge)
    settings = (engine.settings.scoring.answer_threshold, engine.settings.stats.level)
    results = {target: _calibrated(target, labelled, settings, examples) for target in TARGETS}
    random_sample = random_sample or human_labels.random_sample
    run = _run(engine, truth, scored, random_sample=random_sample, labels=human_labels.names)
    calibrations = [calibration for calibration in results.values() if calibration is not None]
    if labelled or files:
        _save(engine, run, truth=truth, human_labels=human_labels, results=calibrations, labelled=labelled)
    compared = calibrate_metrics(
        engine, metrics, calibration_id=run.calibration_id, random_sample=random_sample, examples=examples
    )
    return {
        "stopped": False,
        "calibration_id": run.calibration_id,
        "evaluation_id": run.evaluation_id,
        "judge": judge_json(engine.runner, scored.tally, list(scored.matched)) | {"model": run.model},
        "labels": human_labels.count,
        "blank": human_labels.blank,
        "judged_now": scored.computed,
        "random_sample": random_sample,
        **{target: calibration and calibration_json(calibration) for target, calibration in results.items()},
        "metrics": [metric.to_json(calibration_json) for metric in compared],
        "annotators": _annotators_json(engine),
        "warnings": [
            *human_labels.matches.warnings,
            *_other_judges(engine, judge, scored),
            *([] if random_sample or not labelled else [_HAND_PICKED]),
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _GivenLabels:
    """The verdicts of people on answers and outcomes, from files (`names`) or from stored annotations.

    `count` and `blank` are the rows with and without a verdict.
    """

    matches: FoundLabels
    count: int
    blank: int
    names: tuple[str, ...]
    files: tuple[str, ...]
    random_sample: bool


def _given_labels(engine: Engine, files: Sequence[TruthFile], metrics: Sequence[str] | None) -> _GivenLabels:
    if not files:
        return _annotated_labels(engine, {CORRECT, ANSWER} if metrics is None else set(metrics))
    threshold = engine.settings.scoring.reward_threshold
    label_files = [parse_human_labels(file.name, file.text, reward_threshold=threshold).require() for file in files]
    redact = engine.store.redacting.value  # conversation ids may contain redacted text
    labels = [
        replace(label, conversation_id=redact(label.conversation_id)) for file in label_files for label in file.labels
    ]
    with engine.store.read() as con:
        matches = find(labels, locations_of(con, [label.conversation_id for label in labels]))
    names = tuple(file.name for file in files)
    return _GivenLabels(
        matches=matches,
        count=len(labels),
        blank=sum(file.blank for file in label_files),
        names=names,
        files=names,
        random_sample=False,
    )


def _annotated_labels(engine: Engine, names: AbstractSet[str]) -> _GivenLabels:
    """Return the stored verdicts of people on outcomes (`correct`) and on answers of turns."""
    with engine.store.read() as con:
        stored = [
            annotation
            for annotation in current_annotations(con)
            if annotation.name in names and (annotation.name == ANSWER) == (annotation.turn_index is not None)
        ]
        locations = locations_of(con, [annotation.conversation_id for annotation in stored])
    resolved = resolve(stored)
    labels = [
        HumanLabel(
            conversation_id=target.conversation_id,
            environment=target.environment,
            turn_index=target.turn_index,
            verdict=verdict.verdict,
            source=verdict.annotation.origin or verdict.annotation.annotator,
        )
        for target, verdict in resolved.items()
        if verdict.verdict is not None and target.position is None
    ]
    differing = sum(verdict.verdict is None for verdict in resolved.values())
    matches = find(labels, locations)
    if differing:
        skipped = "1 item" if differing == 1 else f"{differing:,} items"
        text = f"{skipped} skipped (annotators disagree): `otel-agentic label ID pass|fail --adjudicate` decides"
        matches = replace(matches, warnings=(*matches.warnings, text))
    return _GivenLabels(
        matches=matches,
        count=len(labels),
        blank=0,
        names=tuple(sorted({annotation.annotator for annotation in stored})),
        files=(),
        random_sample=bool(stored) and all(annotation.random_sample for annotation in stored),
    )


def labelled_answers(engine: Engine) -> list[tuple[Labelled, MatchedConversation]]:
    """Return the annotated answers of stored conversations with the verdict of the judge, and their conversations."""
    human_labels = _annotated_labels(engine, {ANSWER})
    truth = engine.runner.truth()
    scored = _scored(engine, truth, human_labels.matches)
    judge = (truth.judge.name, truth.judge.version)
    labelled = _labelled(human_labels.matches, scored, judge)
    return [(item, scored.matched[item.environment, item.conversation_id]) for item in labelled]


def _annotators_json(engine: Engine) -> dict[str, Any] | None:
    """Return the agreement between annotators on all that two or more of them judged; None without such items."""
    with engine.store.read() as con:
        resolved = resolve(current_annotations(con))
    agreement = annotator_agreement(votes_of(resolved.values()))
    return asdict(agreement) if agreement.items else None


_HAND_PICKED = (
    "the labels are not marked as a random sample (--random-sample): a judge may perform better or worse on selected "
    "conversations than on all"
)


def _other_judges(engine: Engine, judge: JudgeVersion, scored: _Scored) -> Iterator[str]:
    """Yield warnings about other judges of the reported scores, to which this calibration does not apply."""
    with engine.store.read() as con:
        reported = origins(con, Selection())
    others = Counter(
        (origin.judge, origin.judge_version)
        for key in scored.matched
        if (origin := reported.get(key)) and origin.has_judged_answer
    )
    for name, version in sorted(others):
        if (name, version) != judge:
            yield (
                f"in reports, {others[name, version]:,} of these conversations are judged by {name}, version {version}, to which "
                "this calibration does not apply; pass that judge with --judge to compare it with people"
            )


def _scored(engine: Engine, truth: Truth, labels: FoundLabels) -> _Scored:
    keys = sorted({(verdict.environment, verdict.conversation_id) for verdict in labels.verdicts})
    matched = {
        (match.conversation.environment, str(match.conversation.conversation_id)): match
        for match in engine.runner.match(truth, keys)
    }
    with engine.store.read() as con:
        scores = stored_scores(con, truth.evaluation.evaluation_id, keys)
    missing = [key for key in matched if key not in scores or _is_open(scores[key])]
    with engine.runner.judge_run(engine.stopping.is_set) as runner:
        evaluation = engine.runner.evaluation(truth)
        for index, scored in runner.run([matched[key] for key in missing], evaluation.dialogue):
            scores[missing[index]] = scored.score
    return _Scored(matched=matched, scores=scores, computed=len(missing), tally=runner.tally)


def _is_open(score: ConversationScore) -> bool:
    """Return whether the judge failed for a part of a score, or was not called."""
    reasons = {score.reason, score.computed_reason, *(turn.answer_reason for turn in score.turns)}
    return not reasons.isdisjoint(OPEN_REASONS)


def _labelled(labels: FoundLabels, scored: _Scored, judge: JudgeVersion) -> list[Labelled]:
    rows = []
    for verdict in labels.verdicts:
        key = (verdict.environment, verdict.conversation_id)
        match, score = scored.matched[key], scored.scores[key]
        if verdict.turn_index is None:
            rows.append(of_conversation(match, score, verdict, judge))
        else:
            rows.append(of_turn(match, score, verdict, judge))
    return rows


def _calibrated(
    target: Target, labelled: Sequence[Labelled], settings: tuple[float, float], examples: int
) -> Calibration | None:
    rows = [row for row in labelled if (row.turn_index is not None) == (target == "turn")]
    threshold, level = settings
    return calibrate(target, rows, threshold=threshold, level=level, examples=examples) if rows else None


def _run(
    engine: Engine, truth: Truth, scored: _Scored, *, random_sample: bool, labels: Sequence[str]
) -> CalibrationRun:
    judge = truth.judge
    with engine.store.read() as con:
        newest = newest_model(con, judge.name, judge.version)
    models = judge_models(judge, scored.tally)
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


def _save(
    engine: Engine,
    run: CalibrationRun,
    *,
    truth: Truth,
    human_labels: _GivenLabels,
    results: Sequence[Calibration],
    labelled: Sequence[Labelled],
) -> None:
    def write(con: Connection) -> None:
        save_evaluations(con, [truth.evaluation], run.calibrated_ns)
        if human_labels.files:
            verdicts, now_ns = human_labels.matches.verdicts, run.calibrated_ns
            save_human_verdicts(con, verdicts, human_labels.files, random_sample=run.random_sample, now_ns=now_ns)
        save_calibration(con, run, results, labelled)

    engine.store.write(write)


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """Return the calibration of one target as a JSON object."""
    return {
        **_agreement_json(calibration.agreement),
        "deciders": [
            {
                "judge": decider.judge and decider.judge[0],
                "version": decider.judge and decider.judge[1],
                "unsure": decider.unsure,
                **_agreement_json(decider.agreement),
            }
            for decider in calibration.deciders
        ],
        "not_judged": dict(calibration.not_judged),
        "threshold": calibration.threshold,
        "curve": [_point(point) for point in calibration.curve],
        "curve_n": calibration.curve_n,
        "best_threshold": None
        if calibration.best is None
        else _point(calibration.best) | {"chosen_on": "these labels"},
        "examples": [_example(row) for row in calibration.examples],
        "warnings": list(calibration.warnings),
    }


def _agreement_json(agreement: Agreement) -> dict[str, Any]:
    rates = ("agreement", "kappa", "sensitivity", "specificity")
    return {
        "n": int(agreement.confusion.n),
        **{name: _estimate_json(getattr(agreement, name)) for name in rates},
        "interval_method": agreement.interval_method,
        "level": agreement.level,
        "confusion": {name: int(count) for name, count in asdict(agreement.confusion).items()},
    }


def _estimate_json(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}


def _point(point: CurvePoint) -> dict[str, Any]:
    return asdict(point) | {"youden": point.youden}


def _example(row: Labelled) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "judge"} | {
        "human": "pass" if row.human else "fail"
    }
    return fields | {"turn": None if row.turn_index is None else row.turn_index + 1, "judge": fields.pop("outcome")}
