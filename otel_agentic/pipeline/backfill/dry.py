"""What a backfill would do, counted: nothing is scored, computed, sent or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.pipeline.backfill.counting import count_points
from otel_agentic.pipeline.backfill.plan import plan_of
from otel_agentic.pipeline.backfill.questions import judge_estimate
from otel_agentic.pipeline.backfill.scoring import selection_of, wanted_of
from otel_agentic.pipeline.estimators import stored_estimator_names
from otel_agentic.pipeline.sampling import sample_of
from otel_agentic.pipeline.truth_in_force import cases_of, labels_of
from otel_agentic.store.backfills import conversation_range, ended_by_group
from otel_agentic.store.kept import retention_state
from otel_agentic.store.truth import load_cases, load_labels, save_cases, save_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.pipeline.backfill.plan import Asked, Plan
    from otel_agentic.pipeline.backfill.questions import JudgeEstimate
    from otel_agentic.pipeline.engine import Engine, Progress
    from otel_agentic.pipeline.evaluate import Truth, TruthFile
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.store.database import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.truth import Case, Label

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
