"""A store with the evaluated conversations of the demo's recordings, read without the processes of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.in_process import SpanReader
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.commands.registry import Commands
from otel_agentic.config import ReceiveSettings
from otel_agentic.demo.processes import AGENTS
from otel_agentic.demo.recordings import Replay
from otel_agentic.demo.run import CASES
from otel_agentic.engine.engine import Engine
from otel_agentic.spans import Limits
from tests.stores import settings_for

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class _Store:
    """An exporter into a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._reader = engine, SpanReader(Limits.from_settings(ReceiveSettings()))

    def export(self, spans: list[ReadableSpan]) -> Any:
        """Store spans."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 — the result of an exporter

        self._engine.store.accept(self._reader.read(spans))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


@contextmanager
def evaluated_demo(db: Path) -> Iterator[Engine]:
    """Create the store and open it."""
    with Engine(settings_for(db), create=True) as engine:
        for agent, version in AGENTS:
            replay = Replay(agent, version, "", lambda _: _Store(engine))  # type: ignore[arg-type, return-value]  # all that a replay calls
            replay.sent()
            replay.finish()
        rebuild_pending(engine, lambda *_: None)
        Commands(engine).run("evaluate", {"cases": [(str(CASES), CASES.read_text())]})
        yield engine
