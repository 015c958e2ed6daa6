"""The attributes of spans and their parents: of generated spans, and of real ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.files import FileReader
from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits, Span
from otel_agentic.testing import AgentRunScript, scripted_call

if TYPE_CHECKING:
    Kind = Callable[[Span], str]

#: Two parallel calls, a failing one and a sub-agent, over two turns.
RUN: Final = (
    AgentRunScript()
    .ask("Wohin?")
    .calls(scripted_call("weather", {"city": "Zürich"}, result="18 °C"), scripted_call("weather", {"city": "Rom"}, result={"celsius": 24}))
    .calls(scripted_call("book", {"hour": 25}, error="ValueError: no such hour"))
    .calls(scripted_call("ask_helper", {"request": "Book"}, result="B-1", agent=(
        AgentRunScript(agent_name="helper").ask("Book").calls(scripted_call("book", {"hour": 20}, result="B-1")).answers("B-1")
    )))
    .answers("Nach Rom.")
    .ask("Danke!")
    .answers("Gern.")
)  # fmt: skip
_NUMBER: Final = re.compile(r"\.\d+")


def recorded(shared_dir: Path, capture: str) -> list[Span]:
    """Return the spans of a capture."""
    reader = FileReader(Limits.from_settings(ReceiveSettings()))
    path = shared_dir / "captures" / capture / "traces.jsonl"
    return [span for chunk in reader.read([path]) for span in chunk.batch.spans]


def keys_by_kind(spans: Iterable[Span], kind: Kind) -> Mapping[str, set[str]]:
    """Return the attributes that spans of each kind have, numbers in them left out."""
    result: dict[str, set[str]] = defaultdict(set)
    for span in spans:
        result[kind(span)] |= {_NUMBER.sub(".N", key) for key in span.attributes}
    return result


def strange_keys(spoken: Iterable[Span], real: Iterable[Span], kind: Kind) -> set[tuple[str, str]]:
    """Return (kind of span, attribute) that only our generators write."""
    known = keys_by_kind(real, kind)
    return {(name, key) for name, keys in keys_by_kind(spoken, kind).items() for key in keys - known.get(name, set())}


def nesting(spans: Iterable[Span], kind: Kind) -> set[tuple[str, str]]:
    """Return (kind of a parent, kind of a child)."""
    by_id = {span.span_id: span for span in spans}
    parents = [(by_id.get(span.parent_span_id or ""), span) for span in by_id.values()]
    return {(kind(parent), kind(child)) for parent, child in parents if parent is not None}


def statuses(spans: Iterable[Span], kind: Kind) -> set[tuple[str, int, tuple[str, ...]]]:
    """Return (kind of span, status, names of its events)."""
    return {(kind(span), span.status, tuple(event.name for event in span.events)) for span in spans}
