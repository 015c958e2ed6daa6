"""Short ways to read files of other tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_agentic.truth.formats import Document, read_document
from otel_agentic.truth.formats.base import record_of

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall


def read(*records: Any, name: str = "set.json", format_name: str | None = None) -> Document:
    return read_document(name, json.dumps(list(records)), format_name)


def cases_of(document: Document) -> list[dict[str, Any]]:
    return [{**record_of(case), "dataset": case.dataset} for case in document.require()]


def only_case(document: Document) -> dict[str, Any]:
    (case,) = cases_of(document)
    return case


def lost(document: Document) -> list[str]:
    return [loss.field for loss in document.losses]


def call_fields(call: ToolCall) -> tuple[Any, ...]:
    return (call.name, call.arguments, call.step, call.result if call.result_captured else "not captured")
