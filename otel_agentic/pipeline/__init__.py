"""Joins all rooms: spans in at one end, scores, windows and telemetry out at the other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.commands.ingest import IngestResult, ingest_files
    from otel_agentic.engine.engine import Engine
    from otel_agentic.live.collector import LiveCollector

__all__ = [
    "Engine",
    "IngestResult",
    "LiveCollector",
    "ingest_files",
]

_HOMES = {
    "Engine": "engine",
    "IngestResult": "ingest",
    "LiveCollector": "live",
    "ingest_files": "ingest",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
