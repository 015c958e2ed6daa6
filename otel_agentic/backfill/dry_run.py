"""The dry run of a backfill, which counts conversations, windows and judge questions in advance; results as JSON.

A dry run stores no scores or windows, sends nothing and asks no judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.backfill.plan import BackfillRequest, Plan, duration, moment, plan_of
from otel_agentic.backfill.run import Backfilled, selection_of, unscored_in
from otel_agentic.engine.engine import Engine, Progress, stored_estimator_names
from otel_agentic.evaluation.conversation import scorer_of
from otel_agentic.evaluation.forecast import judge_questions
from otel_agentic.evaluation.scope import Truth, TruthFile, cases_of, labels_of, sample_of
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.dialogue import Answer, run_dialogues
from otel_agentic.judges.forecast import forecast
from otel_agentic.results import from_json
from otel_agentic.results.evaluation import (
    BackfillDryRun,
    BackfillResult,
    BackfillScoring,
    ComputedWindows,
    ConversationsToScore,
    CountedWindows,
    EmitTarget,
    Emitted,
    JudgeQuestions,
    JudgeUse,
)
from otel_agentic.store.annotations import load_labels, load_verdicts, save_labels
from otel_agentic.store.backfills import conversation_range, ended_by_group
from otel_agentic.store.conversations import retention_state
from otel_agentic.store.judges import known_verdicts
from otel_agentic.store.truth import load_cases, save_cases
from otel_agentic.windows.model import parse_windows, widest_ns

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.judges import Question
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case, Label
    from otel_agentic.truth.annotations import ResolvedVerdict

    IntArray = npt.NDArray[np.int64]


def count_points(group: IntArray, ended_ns: IntArray, windows: Sequence[str], ends: range) -> int:
    """Return the number of (group, window, end) combinations whose window contains a conversation of the group.

    Args:
        group: (conversations,) integer id of the group.
        ended_ns: (conversations,) end of each conversation, ns.
        windows: names of windows, such as "24h" or "n200".
        ends: window ends, ns.

    >>> hours = 3_600 * 10**9
    >>> count_points(np.array([0, 0, 1]), np.array([1, 5, 5]) * hours, ["2h"], range(0, 9 * hours, hours))
    6
    """
    order = np.lexsort((ended_ns, group))
    group, ended_ns = group[order], ended_ns[order]
    same_group = np.concatenate(([False], group[1:] == group[:-1])) if len(group) else np.zeros(0, dtype=bool)
    first = np.maximum(_first_ends(ended_ns, ends), 0)
    parsed_windows = parse_windows(windows)
    # A count window has points for as long as the widest time window.
    widths_ns = [widest_ns(parsed_windows) if window.width_ns is None else window.width_ns for window in parsed_windows]
    return sum(_count_covered(first, _last_ends(ended_ns, width_ns, ends), same_group) for width_ns in widths_ns)


def _last_ends(ended_ns: IntArray, width_ns: int, ends: range) -> IntArray:
    """Return for each conversation the index of the last end whose window contains it; negative without such an end."""
    return np.minimum(_first_ends(ended_ns + width_ns, ends) - 1, len(ends) - 1)


def _first_ends(times_ns: IntArray, ends: range) -> IntArray:
    """Return for each time the index of the first end at or after it."""
    return -((ends.start - times_ns) // ends.step)


def _count_covered(first: IntArray, last: IntArray, same_group: npt.NDArray[np.bool_]) -> int:
    """Return the number of ends in the ranges from first to last; ranges are sorted by group, whose ends count once."""
    uncovered_first = first.copy()
    uncovered_first[1:] = np.where(same_group[1:], np.maximum(first[1:], last[:-1] + 1), first[1:])
    return int(np.maximum(last - uncovered_first + 1, 0).sum())


def judge_estimate(engine: Engine, parts: Iterable[Sequence[MatchedConversation]]) -> JudgeQuestions:
    """Return the judge questions that scoring conversations would need, without sending any.

    Every question without a cached verdict counts as one call. Retries, votes and canaries are not included, nor are
    questions that depend on the verdict of another question.
    """
    judge = engine.runner.judge
    if isinstance(judge, ExactJudge):
        return JudgeQuestions(judge=judge.name, asks_a_model=False)
    settings = engine.settings.scoring
    score = scorer_of(settings)
    questions: dict[Question, None] = {}

    def record(batch: Sequence[Question]) -> Iterable[tuple[int, Answer]]:
        questions.update(dict.fromkeys(batch))
        return ()

    for matched in parts:
        list(run_dialogues((score(item, judge, settings) for item in matched), record))
    expected = forecast(list(questions), judge, partial(_cached, engine))
    return judge_questions(engine.runner, engine.settings, expected)


def _cached(engine: Engine, keys: Sequence[str]) -> Collection[str]:
    if not engine.settings.judge.cache:
        return ()
    with engine.store.read() as con:
        return known_verdicts(con, keys)


#: Number of conversations that are matched in one batch.
_PORTION: Final = 500


def estimate_backfill(
    engine: Engine, request: BackfillRequest, *, truth: Truth, live: bool, progress: Progress
) -> BackfillDryRun:
    """Return the amount of work of a backfill, all 0 if no conversation is closed.

    The windows of agents that contain a conversation are counted, with their rows; windows of case tags are not.

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
        stored_range, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
    if stored_range is None:
        return _empty_dry_run(request, None)
    plan = plan_of(request, stored_range, engine.clock(), removed_until_ns)
    selection = selection_of(plan)
    with engine.store.read() as con:
        group, ended_ns = ended_by_group(con, selection.since_ns, plan.last_ns + 1)
        ((spans,),) = con.execute("SELECT count(*) FROM spans").fetchall()
    unscored = unscored_in(engine.runner, truth, plan, live=live).keys
    with engine.store.read() as con:
        sample = sample_of(con, engine.settings.sampling, truth.evaluation.evaluation_id, unscored)
    sampled, not_sampled = sample.parted(unscored)
    points = count_points(group, ended_ns, request.windows, plan.ends)
    return replace(
        _empty_dry_run(request, plan),
        spans=int(spans),
        conversations=ConversationsToScore(
            in_windows=len(ended_ns), to_score=len(unscored), left_out_by_sampling=len(not_sampled)
        ),
        windows=CountedWindows(
            **_ends(plan, request),
            points=points,
            rows=points * len(request.k) * len(stored_estimator_names(engine.settings)),
        ),
        judge=judge_estimate(engine, _matched(engine, truth, sampled, progress)),
    )


def _empty_dry_run(request: BackfillRequest, plan: Plan | None) -> BackfillDryRun:
    """Return a dry run with all counts 0."""
    return BackfillDryRun(
        notes=list(plan.notes) if plan else [],
        spans=0,
        conversations=ConversationsToScore(in_windows=0, to_score=0, left_out_by_sampling=0),
        windows=CountedWindows(**_ends(plan, request), points=0, rows=0),
        judge=None,
        emit=EmitTarget(to=request.emit),
    )


def _matched(
    engine: Engine, truth: Truth, keys: Sequence[Key], progress: Progress
) -> Iterator[Sequence[MatchedConversation]]:
    for start in range(0, len(keys), _PORTION):
        yield engine.runner.match(truth, keys[start : start + _PORTION])
        progress("matching", min(start + _PORTION, len(keys)), len(keys))


class _Rollback(Exception):  # noqa: N818 — not an error, it rolls back a transaction
    """Carries the result of a transaction that is rolled back."""

    def __init__(
        self, cases: Sequence[Case], labels: Mapping[str, Label], verdicts: Mapping[Key, ResolvedVerdict]
    ) -> None:
        super().__init__()
        self.cases = cases
        self.labels = labels
        self.verdicts = verdicts


def truth_with(engine: Engine, cases: Sequence[TruthFile], labels: Sequence[TruthFile]) -> Truth:
    """Return the ground truth as it would be with further files, without changing the store.

    Raises:
        CaseError: a file is malformed; the message lists all problems.
    """
    if not cases and not labels:
        return engine.runner.truth()
    redacting, threshold = engine.store.redacting, engine.settings.scoring.reward_threshold
    read_cases = [(file.name, cases_of(file, redacting)) for file in cases]
    read_labels = [(file.name, labels_of(file, redacting, threshold)) for file in labels]

    def write(con: Connection) -> None:
        for name, file_labels in read_labels:
            save_labels(con, file_labels, name, engine.clock())
        for name, file_cases in read_cases:
            save_cases(con, file_cases, name, engine.clock())
        raise _Rollback(load_cases(con), load_labels(con), load_verdicts(con))

    try:
        engine.store.write(write)
    except _Rollback as result:
        mappings = engine.runner.truth().mappings  # files do not change them
        return replace(engine.runner.truth_of(result.cases, result.labels), verdicts=result.verdicts, mappings=mappings)
    raise AssertionError  # `write` always raises


def backfill_result(done: Backfilled, request: BackfillRequest, problems: Sequence[str]) -> BackfillResult:
    """Return the result of a backfill; `problems` are those of its worker processes."""
    newest, scoring = done.newest, done.scoring
    ends = _ends(done.plan, request)
    return BackfillResult(
        run_id=newest.run_id if newest else None,
        finished=newest is not None and newest.finished and not done.stopped,
        stopped=done.stopped,
        again=done.repeated,
        resumed_after=moment(done.resumed_ns) if done.resumed_ns is not None else None,
        notes=list(done.plan.notes) if done.plan else [],
        scoring=BackfillScoring(
            to_score=done.to_score,
            scored=scoring.scored,
            unchanged=scoring.unchanged,
            outcomes=dict(scoring.outcomes),
            reasons=dict(scoring.reasons),
            warnings=sorted(scoring.warnings),
            judge=from_json(JudgeUse, done.judge) if done.judge is not None else None,
        ),
        windows=ComputedWindows(
            **ends,
            rows_changed=newest.rows_changed if newest else 0,
            number=newest.number if newest else 0,
            done_up_to=moment(newest.position_ns) if newest and newest.position_ns is not None else None,
        ),
        emit=Emitted(
            to=request.emit,
            points=newest.points_sent if newest else 0,
            events=done.events.sent,
            events_lost=done.events.lost,
            events_problem=done.events.problem,
        ),
        problems=list(problems),
    )


def _ends(plan: Plan | None, request: BackfillRequest) -> dict[str, Any]:
    return {
        "windows": list(request.windows),
        "step": duration(request.step_ns),
        "k": list(request.k),
        "ends": len(plan.ends) if plan else 0,
        "first_end": moment(plan.first_ns) if plan else None,
        "last_end": moment(plan.last_ns) if plan else None,
    }
