"""What a store holds at the end, and what it should hold."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.engine import Engine
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.spans import merge_batches
from otel_agentic.store.links import open_conversations
from tests.builders import CASE, rows
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch

#: How many requests are stored at once where no collector is killed: each commit waits for the disk.
_AT_ONCE: Final = 200
STORED_ONCE = """
SELECT trace_id FROM spans GROUP BY trace_id HAVING count(*) = 4 AND count(DISTINCT span_id) = 4
"""


def lost_or_doubled(db: Path, sent: Iterable[str]) -> list[str]:
    """Return the traces that were acknowledged and are not stored whole and once, and those stored in any other way."""
    with Engine(settings_for(db)) as engine:
        complete = {trace_id for (trace_id,) in rows(engine, STORED_ONCE)}
        odd = {trace_id for (trace_id,) in rows(engine, "SELECT DISTINCT trace_id FROM spans")} - complete
    return sorted((set(sent) - complete) | odd)


def conversations_of(db: Path) -> list[dict[str, Any]]:
    """Return all conversations as the command line exports them, without the fields that depend on how they were built."""
    with Engine(settings_for(db)) as engine:
        exported = list(Commands(engine).conversations_export())
    compared = [
        {name: value for name, value in item.items() if name not in {"revision", "closed_by"}} for item in exported
    ]
    return sorted(compared, key=lambda item: str(item["conversation_id"]))


def finish(db: Path) -> None:
    """Rebuild and score what a killed collector left."""
    with Engine(settings_for(db)) as engine:
        rebuild_pending(engine, lambda *_: None)
        with engine.store.read() as con:  # those that had been read, and waited to be closed
            waiting = frozenset(conversation.key for conversation in open_conversations(con, engine.clock()))
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
