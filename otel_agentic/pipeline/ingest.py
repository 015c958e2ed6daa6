"""Files -> store -> conversations: the batch way in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_agentic import plugins
from otel_agentic.pipeline.coverage import by_framework, of_view
from otel_agentic.spans.ports import Receipt
from otel_agentic.store.browse import coverage

if TYPE_CHECKING:
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.rebuild import Rebuilt

#: Problems of one file are told one by one up to this many, then counted.
MAX_PROBLEMS = 100


#: Told how far a long command is: a stage, what is done of it, and all of it (None when unknown).
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What an ingest did."""

    receipt: Receipt
    rebuilt: Rebuilt
    problems: tuple[str, ...]
    coverage: tuple[dict[str, Any], ...] = field(default=())


def ingest_files(engine: Engine, paths: Sequence[str], progress: Progress) -> Ingested:
    """Read files into the store and rebuild what they touch; conversations close, for this is the end of the input.

    A part that cannot be read is told in `problems` and counted as rejected; everything else is stored. A trace that is
    stored but cannot be rebuilt is told there too.

    Raises:
        BadInputError: a path does not exist or is no file.
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
        covered = tuple(by_framework(of_view(coverage(con))))
    return Ingested(
        receipt=receipt, rebuilt=rebuilt, problems=_limited([*problems, *rebuilt.left_out]), coverage=covered
    )


def rebuild_pending(engine: Engine, progress: Progress) -> Rebuilt:
    """Rebuild everything that arrived and was not read yet, or was read and not built by a process that was killed; close it."""
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
    found = list(problems)
    if len(found) <= MAX_PROBLEMS:
        return tuple(found)
    return (*found[:MAX_PROBLEMS], f"… and {len(found) - MAX_PROBLEMS} more")
