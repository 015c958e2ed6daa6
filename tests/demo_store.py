"""Stores the evaluated conversations of the demo's recordings, read without the processes of the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collectors.in_process import SpanReader
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.commands.registry import Commands
from otel_agentic.config import ReceiveSettings
from otel_agentic.demo.processes import AGENTS
from otel_agentic.demo.recordings import Replay
from otel_agentic.demo.run import CASES
from otel_agentic.spans import Limits

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from otel_agentic.engine.engine import Engine


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


def evaluated_demo(engine: Engine) -> None:
    """Store and evaluate the conversations; see `prepared_store`."""
    for agent, version in AGENTS:
        replay = Replay(agent, version, "", lambda _: _Store(engine))  # type: ignore[arg-type, return-value]  # all that a replay calls
        replay.sent()
        replay.finish()
    rebuild_pending(engine, lambda *_: None)
    Commands(engine).run("evaluate", {"cases": [(str(CASES), CASES.read_text())]})
