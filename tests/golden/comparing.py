"""Compares captures with their truth by the shared comparison, which here reads them in this process, not by a command."""

from __future__ import annotations

import importlib.util
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from otel_agentic import plugins
from otel_agentic.config import Settings
from otel_agentic.reports.conversations import conversation_json
from tests.conversations.rebuilding import conversations
from tests.shared import SHARED

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch


def compared(folder: Path) -> dict[str, Any]:
    """Return `turns`, `right`, `extra` and `notes` for a capture."""
    result: dict[str, Any] = _comparison().compare([], folder, 5)
    return result


@lru_cache(maxsize=2)  # a test reads its capture for several facts
def batches(folder: Path) -> list[SpanBatch]:
    """Return the traces and logs of a capture, compressed or not."""
    reader = plugins.get("collectors", "files").load().from_settings(Settings())
    paths = sorted(path for signal in ("traces", "logs") for path in folder.glob(f"{signal}.jsonl*"))
    chunks = list(reader.read(paths))
    assert [] == [chunk.problem for chunk in chunks if chunk.problem]
    return [chunk.batch for chunk in chunks]


@lru_cache(maxsize=2)
def exported(folder: Path) -> list[dict[str, Any]]:
    """Return the conversations of a capture as the command line exports them."""
    return [conversation_json(item) for item in conversations(*batches(folder))]


@cache
def _comparison() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_captures", SHARED / "tools" / "compare_captures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__["run"] = lambda _, folder: exported(folder)
    return module
