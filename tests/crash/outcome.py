"""What a store holds at the end, and what it should hold."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.engine import Engine
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.spans import merge_batches
from otel_agentic.store.links import open_conversations
from tests.builders import CASE, rows
from tests.pipeline.conftest import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from otel_agentic.spans.model import SpanBatch

#: How many requests are stored at once where none is to be killed: each commit waits for the disk.
_AT_ONCE: Final = 200
STORED_ONCE = """
SELECT trace_id FROM spans GROUP BY trace_id HAVING count(*) = 4 AND count(DISTINCT span_id) = 4
"""


def lost_or_doubled(db: Path, sent: Iterable[str]) -> list[str]:
    """Return the traces that were acknowledged and are not stored whole and once, and those stored in any other way."""
    with Engine(settings_for(db)) as engine:
        whole = {trace_id for (trace_id,) in rows(engine, STORED_ONCE)}
        odd = {trace_id for (trace_id,) in rows(engine, "SELECT DISTINCT trace_id FROM spans")} - whole
    return sorted((set(sent) - whole) | odd)


def conversations_of(db: Path) -> list[dict[str, Any]]:
    """Return all conversations as the command line exports them, without what tells how they came about."""
    with Engine(settings_for(db)) as engine:
        found = list(Commands(engine).conversations_export())
    kept = [{name: value for name, value in one.items() if name not in {"revision", "closed_by"}} for one in found]
    return sorted(kept, key=lambda one: str(one["conversation_id"]))


def finish(db: Path) -> None:
    """Rebuild and score what a killed collector left."""
    with Engine(settings_for(db)) as engine:
        rebuild_pending(engine, lambda *_: None)
        with engine.store.read() as con:  # those that had been read, and waited to be closed
            waiting = frozenset(found.key for found in open_conversations(con, engine.clock()))
        engine.rebuilder.rebuild(AffectedItems(keys=waiting, loose_traces=frozenset()), lambda _: "end_of_input")
        _score(engine)


def never_killed(db: Path, batches: Iterable[SpanBatch]) -> None:
    """Make the store of a collector that was never killed and got the same spans."""
    with Engine(settings_for(db), create=True) as engine:
        left = iter(batches)
        while portion := list(islice(left, _AT_ONCE)):
            engine.store.accept(merge_batches(portion))
        rebuild_pending(engine, lambda *_: None)
        _score(engine)


def _score(engine: Engine) -> None:
    commands = Commands(engine)
    commands.truth_import(cases=[("cases.jsonl", CASE)], labels=[])
    commands.evaluate()
