"""Files -> store -> conversations: ingestion of a batch of files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_agentic import plugins
from otel_agentic.reports.conversations import by_framework, of_view
from otel_agentic.spans.ports import Receipt
from otel_agentic.store.queries.conversations import coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_agentic.engine.engine import Engine, Progress
    from otel_agentic.engine.rebuild import RebuildResult

#: Maximum number of problems listed; further ones are counted.
MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The result of an ingestion."""

    receipt: Receipt
    rebuilt: RebuildResult
    problems: tuple[str, ...]
    coverage: tuple[dict[str, Any], ...] = field(default=())


def ingest_files(engine: Engine, paths: Sequence[str], progress: Progress) -> IngestResult:
    """Read files into the store and rebuild the affected conversations; they close, because this is the end of the input.

    A part that cannot be read is listed in `problems` and counted as rejected; everything else is stored. Stored traces that
    cannot be rebuilt are listed, too.

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
    rebuilt = rebuild_pending(engine, progress)
    with engine.store.read() as con:
        framework_coverage = tuple(by_framework(of_view(coverage(con))))
    return IngestResult(
        receipt=receipt, rebuilt=rebuilt, problems=_limited([*problems, *rebuilt.left_out]), coverage=framework_coverage
    )


def rebuild_pending(engine: Engine, progress: Progress) -> RebuildResult:
    """Rebuild and close everything that was not read yet, or that a killed process had read but not rebuilt."""
    unbuilt = engine.rebuilder.unbuilt()
    pending = engine.rebuilder.pending()
    step = _counter(progress, "linking", len(pending))
    touched = unbuilt | engine.rebuilder.read(pending, step)
    step = _counter(progress, "rebuilding", len(touched.keys) + len(touched.loose_traces))
    return engine.rebuilder.rebuild(touched, lambda _: "end_of_input", step)


def _counter(progress: Progress, stage: str, total: int) -> Callable[[int], None]:
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return step


def _limited(problems: Iterable[str]) -> tuple[str, ...]:
    listed = list(problems)
    if len(listed) <= MAX_PROBLEMS:
        return tuple(listed)
    return (*listed[:MAX_PROBLEMS], f"… and {len(listed) - MAX_PROBLEMS} more")
