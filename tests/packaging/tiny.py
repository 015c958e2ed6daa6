"""The smallest files worth scoring: one conversation of one turn, and the case that it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_BEGAN_NS: Final = 1_760_000_000_000_000_000
_QUERY: Final = "What is the capital of France?"


def write_spans(path: Path) -> Path:
    """Write an agent run with its model call as OTLP/JSON."""
    run = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "guide",
        "gen_ai.conversation.id": "c-1",
        "agentic.case.id": "capital",
    }
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": _message("user", _QUERY),
        "gen_ai.output.messages": _message("assistant", "Paris"),
    }
    spans = [_span("1", "", "invoke_agent guide", 0, run), _span("2", "1", "chat m", 1, chat)]
    scope = {"scope": {"name": "made.by.hand"}, "spans": spans}
    document = {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
    return path


def write_cases(path: Path) -> Path:
    """Write the case that the conversation of `write_spans` answers."""
    case = {"case_id": "capital", "turns": [{"query": _QUERY, "answer": "Paris"}]}
    path.write_text(json.dumps(case) + "\n", encoding="utf-8")
    return path


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _span(number: str, parent: str, name: str, after_s: int, attributes: dict[str, str]) -> dict[str, Any]:
    start_ns = _BEGAN_NS + after_s * 1_000_000_000
    return {
        "traceId": "1".zfill(32),
        "spanId": number.zfill(16),
        "parentSpanId": parent.zfill(16) if parent else "",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 500_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
