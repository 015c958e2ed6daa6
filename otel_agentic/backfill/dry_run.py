"""The dry run of a backfill: conversations, windows and judge questions counted in advance, with their cost; results as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from otel_agentic.backfill.plan import duration, moment, plan_of
from otel_agentic.backfill.run import selection_of, wanted_of
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

    from otel_agentic.backfill.plan import Asked, Plan
    from otel_agentic.backfill.run import Backfilled
    from otel_agentic.config import JudgeSettings
    from otel_agentic.engine.engine import Engine, Progress
    from otel_agentic.evaluation.truth import Truth, TruthFile
    from otel_agentic.judges import Judge, Question, Verdict
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case, Label

if TYPE_CHECKING:
    IntArray = npt.NDArray[np.int64]


def count_points(group: IntArray, ended_ns: IntArray, windows: Sequence[str], ends: range) -> int:
    """Return how many pairs of a group and a window of these ends hold a conversation, over all windows.

    Args:
        group: (conversations,) whole number of the group.
        ended_ns: (conversations,) when each ended, ns.
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
    asked = parse_windows(windows)
    # One of the newest conversations goes on as long as the widest one of a time.
    widths_ns = [widest_ns(asked) if window.width_ns is None else window.width_ns for window in asked]
    return sum(_held(first, _last(ended_ns, width_ns, ends), same) for width_ns in widths_ns)


def _last(ended_ns: IntArray, width_ns: int, ends: range) -> IntArray:
    """Return the number of the last end whose window holds each conversation, counted from 0; -1 and less: none."""
    return np.minimum(_steps_up_to(ended_ns + width_ns, ends) - 1, len(ends) - 1)


def _steps_up_to(times_ns: IntArray, ends: range) -> IntArray:
    """Return the number of the first end that is not before each time, counted from 0."""
    return -((ends.start - times_ns) // ends.step)


def _held(first: IntArray, last: IntArray, same: npt.NDArray[np.bool_]) -> int:
    """Return how many ends are in some of the spans from first to last, spans of one group in order and each end once."""
    begun = first.copy()
    begun[1:] = np.where(same[1:], np.maximum(first[1:], last[:-1] + 1), first[1:])
    return int(np.maximum(last - begun + 1, 0).sum())


_TOKENS_A_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEstimate:
    """What scoring would ask of the judge: different questions, those whose verdict is remembered, calls to be made.

    One call a question: retries, votes and canaries come on top. `tokens` and `cost_usd` are None where the judge makes
    no estimate, or no price is set. `over` says which limit of the budget that would break, None where none.
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
        """Questions without a remembered verdict."""
        return self.questions - self.cached


class Gatherer:
    """A judge that answers nothing and remembers what it was asked."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.asked: dict[Question, None] = {}

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Raise: it stands for a judge while questions are gathered, and is no plug-in."""
        raise NotImplementedError

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a failure a question."""
        self.asked |= dict.fromkeys(questions)
        return [JudgeFailure(reason="judge_error", message="not asked: this is a dry run") for _ in questions]


def judge_estimate(engine: Engine, parts: Iterable[Sequence[MatchedConversation]]) -> JudgeEstimate:
    """Return what scoring some conversations would ask of the judge. Nothing is asked.

    What an answer would lead to, where a verdict raises another question, is not counted.
    """
    judge = engine.evaluating.judge
    if isinstance(judge, ExactJudge):
        return JudgeEstimate(judge=judge.name, asks_a_model=False)
    gatherer = Gatherer(judge)
    settings = engine.settings.scoring
    score = scorer_of(settings)
    for matched in parts:
        score(matched, judge=gatherer, settings=settings)
    return _estimate(engine, judge, list(gatherer.asked))


def _estimate(engine: Engine, judge: Judge, asked: Sequence[Question]) -> JudgeEstimate:
    asking = AskingJudge(judge)
    keys = {asking.key(question): question for question in asked}
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
    """Return what tokens cost at most: at the dearer of the two prices."""
    prices = [price for price in (settings.input_price_usd, settings.output_price_usd) if price is not None]
    return None if tokens is None or not prices else tokens * max(prices) / _TOKENS_A_PRICE


def _over(engine: Engine, calls: int, tokens: int) -> str | None:
    budget = engine.evaluating.budget
    return None if budget.allows(calls=calls, tokens=tokens) else budget.used_up


#: Conversations matched at once.
_PORTION: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """What a backfill would do.

    `conversations` are in the windows of the plan; `to_score` of them have no score, or one that the judge left open,
    and `left_out` of these are not in the sample. `points` are pairs of an agent and a window that holds a conversation,
    windows of case tags not counted; `rows` come of them. `spans` are in the store.
    """

    plan: Plan
    spans: int
    conversations: int
    to_score: int
    left_out: int
    points: int
    rows: int
    judge: JudgeEstimate


def estimated(engine: Engine, asked: Asked, *, truth: Truth, live: bool, progress: Progress) -> Estimated | None:
    """Return what a backfill would do, None where no conversation is closed.

    Args:
        engine: the opened store.
        asked: what to do, checked.
        truth: the cases and labels that would be in force.
        live: in a running collector.
        progress: told how far it is.

    Raises:
        UsageError: the range holds no window end, or too many.
    """
    with engine.store.read() as con:
        held, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
    if held is None:
        return None
    plan = plan_of(asked, held, engine.clock(), removed_until_ns)
    chosen = selection_of(plan)
    with engine.store.read() as con:
        group, ended_ns = ended_by_group(con, chosen.since_ns, plan.last_ns + 1)
        ((spans,),) = con.execute("SELECT count(*) FROM spans").fetchall()
    wanted = wanted_of(engine.evaluating, truth, plan, live=live).keys
    with engine.store.read() as con:
        sample = sample_of(con, engine.settings.sampling, truth.evaluation.evaluation_id, wanted)
    taken, left = sample.parted(wanted)
    points = count_points(group, ended_ns, asked.windows, plan.ends)
    return Estimated(
        plan=plan,
        spans=int(spans),
        conversations=len(ended_ns),
        to_score=len(wanted),
        left_out=len(left),
        points=points,
        rows=points * len(asked.k) * len(stored_estimator_names(engine.settings)),
        judge=judge_estimate(engine, _matched(engine, truth, taken, progress)),
    )


def _matched(
    engine: Engine, truth: Truth, keys: Sequence[Key], progress: Progress
) -> Iterator[Sequence[MatchedConversation]]:
    for start in range(0, len(keys), _PORTION):
        yield engine.evaluating.match(truth, keys[start : start + _PORTION])
        progress("matching", min(start + _PORTION, len(keys)), len(keys))


class _TakenBack(Exception):  # noqa: N818 — no error: it ends a transaction that is not to be kept
    """Carries what a transaction saw out of it."""

    def __init__(self, cases: Sequence[Case], labels: Mapping[str, Label]) -> None:
        super().__init__()
        self.cases = cases
        self.labels = labels


def truth_with(engine: Engine, cases: Sequence[TruthFile], labels: Sequence[TruthFile]) -> Truth:
    """Return the ground truth that would be in force with some more files, and leave the store as it is.

    Raises:
        CaseError: a file has problems; lists them all.
    """
    if not cases and not labels:
        return engine.evaluating.truth()
    redacting, threshold = engine.store.redacting, engine.settings.scoring.reward_threshold
    read_cases = [(file.name, cases_of(file, redacting)) for file in cases]
    read_labels = [(file.name, labels_of(file, redacting, threshold)) for file in labels]

    def write(con: Connection) -> None:
        for name, given in read_labels:
            save_labels(con, given, name, engine.clock())
        for name, found in read_cases:
            save_cases(con, found, name, engine.clock())
        raise _TakenBack(load_cases(con), load_labels(con))

    try:
        engine.store.write(write)
    except _TakenBack as seen:
        return engine.evaluating.truth_of(seen.cases, seen.labels)
    raise AssertionError  # it was taken back


Json = dict[str, Any]


def done_json(done: Backfilled, asked: Asked) -> Json:
    """Return what a backfill did."""
    newest, scoring = done.newest, done.scoring
    return {
        "dry_run": False,
        "run_id": newest.run_id if newest else None,
        "finished": newest is not None and newest.finished and not done.stopped,
        "stopped": done.stopped,
        "again": done.again,
        "resumed_after": moment(done.resumed_ns) if done.resumed_ns is not None else None,
        "notes": list(done.plan.notes) if done.plan else [],
        "scoring": {
            "to_score": scoring.wanted,
            "scored": scoring.scored,
            "unchanged": scoring.unchanged,
            "outcomes": dict(scoring.outcomes),
            "reasons": dict(scoring.reasons),
            "warnings": sorted(scoring.warnings),
            "judge": dict(done.judge) if done.judge is not None else None,
        },
        "windows": {
            **_windows(done.plan, asked),
            "rows_changed": newest.rows_changed if newest else 0,
            "pass": newest.number if newest else 0,
            "done_up_to": moment(newest.position_ns) if newest and newest.position_ns is not None else None,
        },
        "emit": {
            "to": asked.emit,
            "points": newest.points_sent if newest else 0,
            "events": done.events.sent,
            "events_lost": done.events.lost,
            "events_problem": done.events.problem,
        },
    }


def estimate_json(found: Estimated | None, asked: Asked) -> Json:
    """Return what a backfill would do."""
    plan = found.plan if found else None
    return {
        "dry_run": True,
        "notes": list(plan.notes) if plan else [],
        "spans": found.spans if found else 0,
        "conversations": {
            "in_windows": found.conversations if found else 0,
            "to_score": found.to_score if found else 0,
            "left_out_by_sampling": found.left_out if found else 0,
        },
        "windows": {
            **_windows(plan, asked),
            "points": found.points if found else 0,
            "rows": found.rows if found else 0,
        },
        "judge": {**asdict(found.judge), "calls": found.judge.calls} if found else None,
        "emit": {"to": asked.emit},
    }


def _windows(plan: Plan | None, asked: Asked) -> Json:
    return {
        "windows": list(asked.windows),
        "step": duration(asked.step_ns),
        "k": list(asked.k),
        "ends": len(plan.ends) if plan else 0,
        "first_end": moment(plan.first_ns) if plan else None,
        "last_end": moment(plan.last_ns) if plan else None,
    }
