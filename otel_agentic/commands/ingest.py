"""Files -> store -> conversations: ingestion of a batch of files."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic import plugins
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.reports.conversations import by_framework, of_view
from otel_agentic.results.store import Coverage, Ingested, SpanCounts
from otel_agentic.spans.model import Receipt
from otel_agentic.store.queries.conversations import coverage, open_rows
from otel_agentic.store.table import Selection

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine, Progress
    from otel_agentic.engine.rebuild import Rebuilder, RebuildResult

#: The largest number of problems that are listed; further problems are counted.
MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The result of an ingestion."""

    receipt: Receipt
    rebuilt: RebuildResult
    problems: tuple[str, ...]
    coverage: tuple[Coverage, ...] = ()

    @property
    def summary(self) -> Ingested:
        """The counts of this result."""
        receipt, saved_conversations = self.receipt, self.rebuilt.saved
        return Ingested(
            spans=SpanCounts(
                stored=receipt.accepted,
                duplicate=receipt.duplicate,
                rejected=receipt.rejected,
                ignored=receipt.ignored,
            ),
            reasons=dict(receipt.reasons),
            altered=dict(receipt.altered),
            conversations=len(saved_conversations),
            revised=sum(conversation.revision > 1 for conversation in saved_conversations),
            turns=sum(conversation.turn_count for conversation in saved_conversations),
            tool_calls=sum(conversation.call_count for conversation in saved_conversations),
            coverage=list(self.coverage),
            problems=list(self.problems),
        )


def ingest_files(
    engine: Engine, paths: Sequence[str], progress: Progress, rebuilder: Rebuilder | None = None
) -> IngestResult:
    """Read files into the store, and rebuild and close the affected conversations, since this is the end of the input.

    A part that cannot be read is listed in `problems` and counted as rejected; everything else is stored. Stored traces that
    cannot be rebuilt are also listed. None as `rebuilder` means that of the engine.

    Raises:
        BadInputError: a path does not exist or is not a file.
        StoreError: the store cannot be written.
    """
    reader = plugins.get("collectors", "files").load().from_settings(engine.settings)
    receipt = Receipt()
    problems: list[str] = []
    for chunk in reader.read(paths):
        receipt += engine.store.accept(chunk.batch)
        if chunk.problem is not None:
            problems.append(chunk.problem)
        progress("reading", chunk.bytes_read, chunk.total_bytes)
    rebuilt = rebuild_pending(engine, progress, rebuilder)
    with engine.store.read() as con:
        framework_coverage = tuple(by_framework(of_view(coverage(con))))
    return IngestResult(
        receipt=receipt, rebuilt=rebuilt, problems=_limited([*problems, *rebuilt.left_out]), coverage=framework_coverage
    )


def rebuild_pending(
    engine: Engine, progress: Progress, rebuilder: Rebuilder | None = None, *, traces: Container[str] | None = None
) -> RebuildResult:
    """Rebuild and close everything that has not been read yet, or that a killed process had read but not rebuilt.

    With `traces`, other traces that have not been read yet stay so.
    """
    rebuilder = rebuilder or engine.rebuilder
    unbuilt = rebuilder.unbuilt()
    pending = [trace_id for trace_id in rebuilder.pending() if traces is None or trace_id in traces]
    step = _counter(progress, "linking", len(pending))
    affected = unbuilt | rebuilder.read(pending, step)
    step = _counter(progress, "rebuilding", len(affected.keys) + len(affected.loose_traces))
    return rebuilder.rebuild(affected, lambda _: "end_of_input", step)


def close_open(engine: Engine, progress: Progress) -> RebuildResult:
    """Rebuild everything that arrived, and close all open conversations, which only a running collector would do."""
    rebuilt = rebuild_pending(engine, progress)
    with engine.store.read() as con:
        keys = frozenset(open_rows(con, Selection()))
    return rebuilt + engine.rebuilder.rebuild(
        AffectedItems(keys=keys, loose_traces=frozenset()), lambda _: "end_of_input"
    )


def _counter(progress: Progress, stage: str, total: int) -> Callable[[int], None]:
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return step


def _limited(problems: Iterable[str]) -> tuple[str, ...]:
    problem_list = list(problems)
    if len(problem_list) <= MAX_PROBLEMS:
        return tuple(problem_list)
    return (*problem_list[:MAX_PROBLEMS], f"… and {len(problem_list) - MAX_PROBLEMS} more")
