"""The dry run of a backfill: conversations, windows and judge questions counted in advance, with cost; results as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from otel_agentic.backfill.plan import duration, moment, plan_of
from otel_agentic.backfill.run import selection_of, unscored_in
from otel_agentic.engine.engine import stored_estimator_names
from otel_agentic.evaluation.judge_runs import scorer_of
from otel_agentic.evaluation.sampling import sample_of
from otel_agentic.evaluation.truth import cases_of, labels_of
from otel_agentic.judges import ExactJudge, JudgeFailure, kinds_of
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import BudgetAwareJudge
from otel_agentic.store.judges import known_verdicts
from otel_agentic.store.maintenance.retention import retention_state
from otel_agentic.store.queries.windows import conversation_range, ended_by_group
from otel_agentic.store.truth import load_cases, load_labels, save_cases, save_labels
from otel_agentic.windows.rolling import parse_windows, widest_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.backfill.plan import BackfillRequest, Plan
    from otel_agentic.backfill.run import Backfilled
    from otel_agentic.config import JudgeSettings
    from otel_agentic.engine.engine import Engine, Progress
    from otel_agentic.evaluation.truth import Truth, TruthFile
    from otel_agentic.judges import Judge, Question, Verdict
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case, Label

    IntArray = npt.NDArray[np.int64]


def count_points(group: IntArray, ended_ns: IntArray, windows: Sequence[str], ends: range) -> int:
    """Return the number of pairs of a group and a window of these ends that contain a conversation, over all widths.

    Args:
        group: (conversations,) integer id of the group.
        ended_ns: (conversations,) end of each conversation, ns.
        windows: such as "24h", or "n200".
        ends: window ends, ns.

    >>> hours = 3_600 * 10**9
    >>> count_points(np.array([0, 0, 1]), np.array([1, 5, 5]) * hours, ["2h"], range(0, 9 * hours, hours))
    6
    """
    order = np.lexsort((ended_ns, group))
    group, ended_ns = group[order], ended_ns[order]
    same = np.concatenate(([False], group[1:] == group[:-1])) if len(group) else np.zeros(0, dtype=bool)
    first = np.maximum(_steps_up_to(ended_ns, ends), 0)
    parsed = parse_windows(windows)
    # A window of the newest conversations counts as long as the widest window of a period.
    widths_ns = [widest_ns(parsed) if window.width_ns is None else window.width_ns for window in parsed]
    return sum(_covered(first, _last(ended_ns, width_ns, ends), same) for width_ns in widths_ns)


def _last(ended_ns: IntArray, width_ns: int, ends: range) -> IntArray:
    """Return the index of the last end whose window contains each conversation; negative without one."""
    return np.minimum(_steps_up_to(ended_ns + width_ns, ends) - 1, len(ends) - 1)


def _steps_up_to(times_ns: IntArray, ends: range) -> IntArray:
    """Return the index of the first end that is not before each time."""
    return -((ends.start - times_ns) // ends.step)


def _covered(first: IntArray, last: IntArray, same: npt.NDArray[np.bool_]) -> int:
    """Return how many ends are in any range from first to last; ranges are sorted by group, ends of a group count once."""
    begun = first.copy()
    begun[1:] = np.where(same[1:], np.maximum(first[1:], last[:-1] + 1), first[1:])
    return int(np.maximum(last - begun + 1, 0).sum())


_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEstimate:
    """The judge questions of a scoring run: distinct questions, and those with a cached verdict.

    Every question counts as one call; retries, votes and canaries are not included. `tokens` and `cost_usd` are None if the
    judge gives no estimate or no price is set. `over` names the limit of the budget that would be exceeded, or is None.
    """

    judge: str
    asks_a_model: bool
    questions: int = 0
    cached: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    over: str | None = None

    @property
    def calls(self) -> int:
        """Questions without a cached verdict."""
        return self.questions - self.cached


class QuestionRecorder:
    """A judge that records its questions and answers none."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.questions: dict[Question, None] = {}

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise NotImplementedError: this is not a plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a failure for each question."""
        self.questions |= dict.fromkeys(questions)
        return [JudgeFailure(reason="judge_error", message="not sent: this is a dry run") for _ in questions]


def judge_estimate(engine: Engine, parts: Iterable[Sequence[MatchedConversation]]) -> JudgeEstimate:
    """Return the judge questions that scoring conversations would need, without sending any.

    Questions that depend on the verdict of another question are not counted.
    """
    judge = engine.evaluating.judge
    if isinstance(judge, ExactJudge):
        return JudgeEstimate(judge=judge.name, asks_a_model=False)
    recorder = QuestionRecorder(judge)
    settings = engine.settings.scoring
    score = scorer_of(settings)
    for matched in parts:
        score(matched, judge=recorder, settings=settings)
    return _estimate(engine, judge, list(recorder.questions))


def _estimate(engine: Engine, judge: Judge, questions: Sequence[Question]) -> JudgeEstimate:
    cautious_judge = AskingJudge(judge)
    keys = {cautious_judge.key(question): question for question in questions}
    with engine.store.read() as con:
        known = known_verdicts(con, list(keys)) if engine.settings.judge.cache else {}
    missing = [question for key, question in keys.items() if key not in known]
    tokens = sum(map(judge.estimated_tokens, missing)) if isinstance(judge, BudgetAwareJudge) else None
    return JudgeEstimate(
        judge=judge.name,
        asks_a_model=True,
        questions=len(keys),
        cached=len(keys) - len(missing),
        tokens=tokens,
        cost_usd=_cost_usd(engine.settings.judge, tokens),
        over=_over(engine, len(missing), tokens or 0),
    )


def _cost_usd(settings: JudgeSettings, tokens: int | None) -> float | None:
    """Return the maximum cost of tokens: at the higher of the two prices."""
    prices = [price for price in (settings.input_price_usd, settings.output_price_usd) if price is not None]
    return None if tokens is None or not prices else tokens * max(prices) / _TOKENS_A_PRICE


def _over(engine: Engine, calls: int, tokens: int) -> str | None:
    budget = engine.evaluating.budget
    return None if budget.allows(calls=calls, tokens=tokens) else budget.used_up


#: Conversations that are matched together.
_PORTION: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillEstimate:
    """The work of a backfill, counted in advance.

    `conversations` are in the windows of the plan; `to_score` of them have no score, or an incomplete one because the judge
    failed, and `not_sampled` of these are not in the sample. `points` are pairs of an agent and a window with a conversation,
    without windows of case tags; `rows` are the rows for these. `spans` are all spans in the store.
    """

    plan: Plan
    spans: int
    conversations: int
    to_score: int
    not_sampled: int
    points: int
    rows: int
    judge: JudgeEstimate


def estimate_backfill(
    engine: Engine, request: BackfillRequest, *, truth: Truth, live: bool, progress: Progress
) -> BackfillEstimate | None:
    """Return the work of a backfill, or None if no conversation is closed.

    Args:
        engine: the opened store.
        request: the checked request.
        truth: the cases and labels that would be active.
        live: whether this is a running collector.
        progress: called with the progress.

    Raises:
        UsageError: the range contains no window end, or too many.
    """
    with engine.store.read() as con:
        stored, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
    if stored is None:
        return None
    plan = plan_of(request, stored, engine.clock(), removed_until_ns)
    chosen = selection_of(plan)
    with engine.store.read() as con:
        group, ended_ns = ended_by_group(con, chosen.since_ns, plan.last_ns + 1)
        ((spans,),) = con.execute("SELECT count(*) FROM spans").fetchall()
    unscored = unscored_in(engine.evaluating, truth, plan, live=live).keys
    with engine.store.read() as con:
        sample = sample_of(con, engine.settings.sampling, truth.evaluation.evaluation_id, unscored)
    sampled, not_sampled = sample.parted(unscored)
    points = count_points(group, ended_ns, request.windows, plan.ends)
    return BackfillEstimate(
        plan=plan,
        spans=int(spans),
        conversations=len(ended_ns),
        to_score=len(unscored),
        not_sampled=len(not_sampled),
        points=points,
        rows=points * len(request.k) * len(stored_estimator_names(engine.settings)),
        judge=judge_estimate(engine, _matched(engine, truth, sampled, progress)),
    )


def _matched(
    engine: Engine, truth: Truth, keys: Sequence[Key], progress: Progress
) -> Iterator[Sequence[MatchedConversation]]:
    for start in range(0, len(keys), _PORTION):
        yield engine.evaluating.match(truth, keys[start : start + _PORTION])
        progress("matching", min(start + _PORTION, len(keys)), len(keys))


class _Rollback(Exception):  # noqa: N818 — not an error: it rolls a transaction back
    """Carries the result of a transaction that is rolled back."""

    def __init__(self, cases: Sequence[Case], labels: Mapping[str, Label]) -> None:
        super().__init__()
        self.cases = cases
        self.labels = labels


def truth_with(engine: Engine, cases: Sequence[TruthFile], labels: Sequence[TruthFile]) -> Truth:
    """Return the ground truth that further files would result in, without changing the store.

    Raises:
        CaseError: a file is malformed; the message lists all problems.
    """
    if not cases and not labels:
        return engine.evaluating.truth()
    redacting, threshold = engine.store.redacting, engine.settings.scoring.reward_threshold
    read_cases = [(file.name, cases_of(file, redacting)) for file in cases]
    read_labels = [(file.name, labels_of(file, redacting, threshold)) for file in labels]

    def write(con: Connection) -> None:
        for name, file_labels in read_labels:
            save_labels(con, file_labels, name, engine.clock())
        for name, file_cases in read_cases:
            save_cases(con, file_cases, name, engine.clock())
        raise _Rollback(load_cases(con), load_labels(con))

    try:
        engine.store.write(write)
    except _Rollback as result:
        return engine.evaluating.truth_of(result.cases, result.labels)
    raise AssertionError  # `write` always raises


def done_json(done: Backfilled, request: BackfillRequest) -> dict[str, Any]:
    """Return the result of a backfill as a JSON object."""
    newest, scoring = done.newest, done.scoring
    return {
        "dry_run": False,
        "run_id": newest.run_id if newest else None,
        "finished": newest is not None and newest.finished and not done.stopped,
        "stopped": done.stopped,
        "again": done.repeated,
        "resumed_after": moment(done.resumed_ns) if done.resumed_ns is not None else None,
        "notes": list(done.plan.notes) if done.plan else [],
        "scoring": {
            "to_score": scoring.to_score,
            "scored": scoring.scored,
            "unchanged": scoring.unchanged,
            "outcomes": dict(scoring.outcomes),
            "reasons": dict(scoring.reasons),
            "warnings": sorted(scoring.warnings),
            "judge": dict(done.judge) if done.judge is not None else None,
        },
        "windows": {
            **_windows(done.plan, request),
            "rows_changed": newest.rows_changed if newest else 0,
            "pass": newest.number if newest else 0,
            "done_up_to": moment(newest.position_ns) if newest and newest.position_ns is not None else None,
        },
        "emit": {
            "to": request.emit,
            "points": newest.points_sent if newest else 0,
            "events": done.events.sent,
            "events_lost": done.events.lost,
            "events_problem": done.events.problem,
        },
    }


def estimate_json(estimate: BackfillEstimate | None, request: BackfillRequest) -> dict[str, Any]:
    """Return the estimate of a dry run as a JSON object."""
    plan = estimate.plan if estimate else None
    return {
        "dry_run": True,
        "notes": list(plan.notes) if plan else [],
        "spans": estimate.spans if estimate else 0,
        "conversations": {
            "in_windows": estimate.conversations if estimate else 0,
            "to_score": estimate.to_score if estimate else 0,
            "left_out_by_sampling": estimate.not_sampled if estimate else 0,
        },
        "windows": {
            **_windows(plan, request),
            "points": estimate.points if estimate else 0,
            "rows": estimate.rows if estimate else 0,
        },
        "judge": {**asdict(estimate.judge), "calls": estimate.judge.calls} if estimate else None,
        "emit": {"to": request.emit},
    }


def _windows(plan: Plan | None, request: BackfillRequest) -> dict[str, Any]:
    return {
        "windows": list(request.windows),
        "step": duration(request.step_ns),
        "k": list(request.k),
        "ends": len(plan.ends) if plan else 0,
        "first_end": moment(plan.first_ns) if plan else None,
        "last_end": moment(plan.last_ns) if plan else None,
    }
