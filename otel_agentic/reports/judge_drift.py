"""Drift of a judge: a frozen set of annotated answers and scores is judged again and compared.

Two things can change: how lenient the judge is (its pass rate) and how often it agrees with people. Each is tested with the exact
McNemar test on the verdicts that changed. A name (answers, or one metric) has drifted if one of its two p-values is below
half of 1 - level (Bonferroni).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.errors import BadInputError
from otel_agentic.evaluation.batch import Tally
from otel_agentic.evaluation.judge_runs import StoppableBudget, answers_to
from otel_agentic.evaluation.run import judge_json
from otel_agentic.evaluators.base import MetricScore, Subject, asks
from otel_agentic.evaluators.registry import metrics_by_name, owner_of
from otel_agentic.evaluators.run import FailureRules, evaluating
from otel_agentic.judges import ExactJudge, JudgeFailure, Question, Verdict
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.calibration import UNSURE, Labelled
from otel_agentic.judges.dialogue import run_dialogues
from otel_agentic.reports.calibration import labelled_answers
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.metric_calibration import (
    ALWAYS_PASSES,
    NO_LOCATION,
    always_passes,
    annotated_metrics,
    compared_with_people,
)
from otel_agentic.results import from_json
from otel_agentic.results.evaluation import AnchorDrift, Drift, DriftFlip, FrozenAnchors, JudgeUse
from otel_agentic.scoring.outcome import aligned_turns
from otel_agentic.scoring.parts import ROUNDING, question_of
from otel_agentic.stats.annotators import mcnemar
from otel_agentic.store.calibrations import Anchor, load_anchors, save_anchors
from otel_agentic.store.judges import DuckDbJudgeCache
from otel_agentic.store.queries.scores import newest_model
from otel_agentic.truth.annotations import ANSWER

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.judges import Judge
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.table import Key

#: Reasons for an anchor without a verdict now.
_MISSING: Final = "conversation_not_stored"
_CHANGED: Final = "conversation_changed"
#: The number of tests for each name.
_TESTS: Final = 2


def freeze_anchors(engine: Engine, names: Sequence[str] | None) -> FrozenAnchors:
    """Store the current verdicts of the judge on everything that people annotated as the anchor set.

    Args:
        engine: the opened store.
        names: `answer` and names of metrics; None for answers and all judged metrics that have annotations.

    Raises:
        BadInputError: no annotated item has a verdict of the judge.
        UsageError: no metric has one of the names.
    """
    freeze_id, now_ns, left_out = uuid4().hex[:16], engine.clock(), Counter[str]()
    anchors: list[Anchor] = []
    if names is None or ANSWER in names:
        for item, matched in labelled_answers(engine):
            question = _question(engine, item, matched)
            if item.judge is None or item.outcome == "not_evaluated" or question is None:
                left_out[item.reason or "no_data"] += 1
            else:
                anchors.append(_anchor(engine, item, ANSWER, (freeze_id, now_ns), asdict(question)))
    for metric in annotated_metrics(engine, names):
        for item in compared_with_people(engine, metric).labelled:
            if item.judge is None or item.outcome == "not_evaluated":
                left_out[item.reason or "no_data"] += 1
            else:
                anchors.append(_anchor(engine, item, metric.name, (freeze_id, now_ns), None))
    if not anchors:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        next_step = "`otel-agentic label ID pass|fail --turn N --name answer` annotates one"
        if left_out["not_scored"]:
            next_step = "`otel-agentic evaluate --metrics NAME` scores what people annotated"
        raise BadInputError(
            f"no annotated answer or score has a verdict of the judge{f' ({reasons})' if reasons else ''}; {next_step}"
        )
    engine.store.write(lambda con: save_anchors(con, anchors))
    return FrozenAnchors(
        freeze_id=freeze_id,
        anchors=dict(Counter(anchor.name for anchor in anchors)),
        left_out=dict(left_out),
    )


def _question(engine: Engine, item: Labelled, matched: MatchedConversation) -> Question | None:
    """Return the question about the answer of an annotated turn; None if no judge is needed for it."""
    case, settings = matched.match.case, engine.settings.scoring
    if case is None or item.turn_index is None:
        return None
    aligned = aligned_turns(case, matched.conversation.turns)
    if item.turn_index not in aligned:
        return None
    threshold = settings.answer_threshold if case.answer_threshold is None else case.answer_threshold
    turn = next(turn for turn in matched.conversation.turns if turn.index == item.turn_index)
    question = question_of(case.turns[aligned[item.turn_index]], turn, threshold)
    return question if isinstance(question, Question) else None


def _anchor(engine: Engine, item: Labelled, name: str, freeze: tuple[str, int], question: Any) -> Anchor:
    assert item.judge is not None  # noqa: S101 — checked by the caller
    with engine.store.read() as con:
        model = newest_model(con, *item.judge)
    return Anchor(
        freeze_id=freeze[0],
        environment=item.environment,
        conversation_id=item.conversation_id,
        revision=item.revision,
        turn_index=item.turn_index,
        position=item.position,
        name=name,
        human=item.human,
        question=question,
        judge=item.judge[0],
        judge_version=item.judge[1],
        model=model,
        passed=item.outcome == "pass",
        score=item.score,
        label=None if name == ANSWER else item.answer,
        frozen_ns=freeze[1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """The judge's verdict on an anchor now: True for a pass, or None with the reason."""

    passed: bool | None
    reason: str | None = None
    score: float | None = None
    reasoning: str | None = None


def measure_drift(engine: Engine, names: Sequence[str] | None) -> Drift:
    """Judge the anchors again, without cached verdicts, and compare.

    The new verdicts count for the budget, but they are not used by scores.

    Args:
        engine: the opened store, whose judge is compared.
        names: `answer` and full names of metrics; None for all anchors.

    Raises:
        BadInputError: no anchors are frozen.
    """
    with engine.store.read() as con:
        anchors = [anchor for anchor in load_anchors(con) if names is None or anchor.name in names]
    if not anchors:
        raise BadInputError("no anchors are frozen; `otel-agentic judge drift --freeze` stores the current verdicts")
    run = _JudgeAgain(engine)
    judgements = run.judgements(anchors)
    level, metrics = engine.settings.stats.level, metrics_by_name(engine.runner.installed)
    rules = FailureRules(metrics.values(), engine.settings.evaluators)
    by_name = [
        _drift(name, [(anchor, now) for anchor, now in judgements if anchor.name == name], level)
        for name in sorted({anchor.name for anchor in anchors})
    ]
    by_name = [
        replace(item, verdict=f"cannot drift: the metric {ALWAYS_PASSES}")
        if item.name in metrics and always_passes(metrics[item.name], rules)
        else item
        for item in by_name
    ]
    keys = sorted({(anchor.environment, anchor.conversation_id) for anchor in anchors})
    return Drift(
        stopped=engine.stopping.is_set(),
        frozen_at=iso(anchors[0].frozen_ns),
        judges_before=sorted({_judge_text(anchor) for anchor in anchors}),
        judge_now=from_json(JudgeUse, judge_json(engine.runner, run.tally, keys)),
        level=level,
        anchors=by_name,
        flips=[
            _flip(anchor, now) for anchor, now in judgements if now.passed is not None and now.passed != anchor.passed
        ],
        drifted=any(item.drifted for item in by_name),
    )


def _judge_text(anchor: Anchor) -> str:
    model = f" ({anchor.model})" if anchor.model else ""
    return f"{anchor.judge}{model}, version {anchor.judge_version}"


class _JudgeAgain:
    """Asks the current judge about anchors again; `tally` counts its answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._judge: Judge = engine.runner.judge
        self.tally = Tally()

    def judgements(self, anchors: Sequence[Anchor]) -> list[tuple[Anchor, _Judgement]]:
        """Return each anchor with the current verdict."""
        judge, stop = self._judge, self._engine.stopping.is_set
        if isinstance(judge, ExactJudge):
            return list(self._compared(anchors, lambda questions: enumerate(judge.judge(list(questions)))))
        store, prefix = self._engine.store, f"drift-{uuid4().hex}-"
        cache = DuckDbJudgeCache(store, judge.name, judge.version, reads=False, prefix=prefix)
        try:
            budget = StoppableBudget(self._engine.runner.budget, stop)
            asker = AskingJudge(judge, cache=cache, budget=budget)
            ask = partial(answers_to, judge=asker, tally=self.tally, stop=stop)
            return list(self._compared(anchors, ask))
        finally:
            cache.close()

    def _compared(self, anchors: Sequence[Anchor], ask: Any) -> Iterator[tuple[Anchor, _Judgement]]:
        answers = [anchor for anchor in anchors if anchor.question is not None]
        questions = [_loaded(anchor.question) for anchor in answers]
        verdicts = dict(ask(questions)) if questions else {}
        for index, anchor in enumerate(answers):
            yield anchor, _of_answer(verdicts.get(index), questions[index].threshold)
        yield from self._of_metrics([anchor for anchor in anchors if anchor.question is None], ask)

    def _of_metrics(self, anchors: Sequence[Anchor], ask: Any) -> Iterator[tuple[Anchor, _Judgement]]:
        engine, installed = self._engine, self._engine.runner.installed
        keys = sorted({(anchor.environment, anchor.conversation_id) for anchor in anchors})
        matched = {
            (item.conversation.environment, str(item.conversation.conversation_id)): item
            for item in engine.runner.match(engine.runner.truth(), keys)
        }
        rules = FailureRules(metrics_by_name(installed).values(), engine.settings.evaluators)
        evaluators = {anchor.name: owner_of(anchor.name, installed) for anchor in anchors}
        scores: dict[tuple[Key, str], tuple[MetricScore, ...]] = {}
        for evaluator in {id(owner): owner for owner in evaluators.values() if owner is not None}.values():
            if not asks(evaluator):
                continue
            own = [key for key in keys if key in matched and _is_of(anchors, key, evaluators, evaluator)]
            dialogues = (evaluating([evaluator], _subject(engine, matched[key])) for key in own)
            for index, (ran,) in run_dialogues(dialogues, ask):
                scores[own[index], evaluator.name] = ran.scores
        for anchor in anchors:
            key = (anchor.environment, anchor.conversation_id)
            owner = evaluators[anchor.name]
            if key not in matched:
                yield anchor, _Judgement(passed=None, reason=_MISSING)
            elif matched[key].conversation.revision != anchor.revision:
                yield anchor, _Judgement(passed=None, reason=_CHANGED)
            else:
                yield anchor, _of_metric(anchor, scores.get((key, owner.name if owner is not None else ""), ()), rules)


def _is_of(anchors: Sequence[Anchor], key: Key, evaluators: Mapping[str, Any], evaluator: Any) -> bool:
    """Return whether a conversation has an anchor of an evaluator."""
    return any(
        (anchor.environment, anchor.conversation_id) == key and evaluators[anchor.name] is evaluator
        for anchor in anchors
    )


def _subject(engine: Engine, matched: MatchedConversation) -> Subject:
    """Return the input of an evaluator, without a score of the conversation."""
    case = matched.match.case if matched.match.case is not None and matched.match.case.reviewed else None
    return Subject(
        conversation=matched.conversation,
        case=case,
        score=None,
        aligned={} if case is None else aligned_turns(case, matched.conversation.turns),
        settings=engine.settings.scoring,
    )


def _loaded(payload: Mapping[str, Any]) -> Question:
    return Question(**{**payload, "also_accepted": tuple(payload["also_accepted"]), "material": ()})


def _of_answer(verdict: Verdict | JudgeFailure | None, threshold: float) -> _Judgement:
    if verdict is None or isinstance(verdict, JudgeFailure):
        return _Judgement(passed=None, reason="not_asked" if verdict is None else verdict.reason)
    if verdict.unsure:
        return _Judgement(passed=None, reason=UNSURE, score=verdict.score, reasoning=verdict.reasoning)
    return _Judgement(passed=verdict.score >= threshold - ROUNDING, score=verdict.score, reasoning=verdict.reasoning)


def _of_metric(anchor: Anchor, scores: Sequence[MetricScore], rules: FailureRules) -> _Judgement:
    """Return the verdict of a metric on an anchor: a fail if any of its scores there is a failure."""
    own = [
        score
        for score in scores
        if (score.name, score.turn_index, score.position) == (anchor.name, anchor.turn_index, anchor.position)
    ]
    present = [score for score in own if not score.abstained]
    if not present:
        return _Judgement(passed=None, reason=next((score.reason for score in own if score.reason), "not_asked"))
    return _Judgement(
        passed=all(rules.failure(NO_LOCATION, score) is None for score in present),
        score=present[0].value,
        reasoning=present[0].explanation,
    )


def _drift(name: str, judgements: Sequence[tuple[Anchor, _Judgement]], level: float) -> AnchorDrift:
    compared = [(anchor, now.passed) for anchor, now in judgements if now.passed is not None]
    changed = [(anchor, now) for anchor, now in compared if now != anchor.passed]
    to_pass = sum(now for _, now in changed)
    corrected = sum(now == anchor.human for anchor, now in changed)
    to_fail, spoiled, n = len(changed) - to_pass, len(changed) - corrected, len(compared)
    before = sum(anchor.passed == anchor.human for anchor, _ in compared) / n if n else None
    agreement = sum(now == anchor.human for anchor, now in compared) / n if n else None
    p_verdicts, p_agreement = mcnemar(to_pass, to_fail), mcnemar(corrected, spoiled)
    alpha = (1.0 - level) / _TESTS
    return AnchorDrift(
        name=name,
        n=n,
        not_judged=dict(Counter(now.reason or "no_data" for _, now in judgements if now.passed is None)),
        agreement_before=before,
        agreement_now=agreement,
        to_pass=to_pass,
        to_fail=to_fail,
        corrected=corrected,
        spoiled=spoiled,
        p_verdicts=p_verdicts,
        p_agreement=p_agreement,
        drifted=min(p_verdicts, p_agreement) < alpha,
        verdict=_verdict_text(n, (to_pass, to_fail, p_verdicts), (corrected, spoiled, p_agreement), alpha),
    )


def _verdict_text(n: int, verdicts: tuple[int, int, float], agreement: tuple[int, int, float], alpha: float) -> str:
    """Return the result in words."""
    if not n:
        return "no anchor could be compared"
    to_pass, to_fail, p_verdicts = verdicts
    corrected, spoiled, p_agreement = agreement
    changes = []
    if p_verdicts < alpha:
        changes.append("passes more than before" if to_pass > to_fail else "passes less than before")
    if p_agreement < alpha:
        changes.append("agrees more with people" if corrected > spoiled else "agrees less with people")
    if changes:
        return f"drift: the judge {' and '.join(changes)}"
    if not to_pass + to_fail:
        return "no drift: all verdicts are the same"
    return f"no drift shown: {to_pass + to_fail} of {n} verdicts changed, without a significant direction"


def _flip(anchor: Anchor, now: _Judgement) -> DriftFlip:
    return DriftFlip(
        environment=anchor.environment,
        conversation_id=anchor.conversation_id,
        turn=None if anchor.turn_index is None else anchor.turn_index + 1,
        call=None if anchor.position is None else anchor.position + 1,
        name=anchor.name,
        human="pass" if anchor.human else "fail",
        before="pass" if anchor.passed else "fail",
        now="pass" if now.passed else "fail",
        score_before=anchor.score,
        score_now=now.score,
        reasoning=now.reasoning,
    )
