"""Spans of a small agent for the other examples, as OTLP/JSON, the format of OpenTelemetry exporters and Collectors.

A weather agent receives the same query several times. Each attempt is one conversation: an `invoke_agent` span that
contains the query and the answer, and an `execute_tool` span below it (GenAI semantic conventions).
"""

from __future__ import annotations

import json
import time
from typing import Any

QUERY = "How warm is it in Oslo?"

#: The ground truth, one case per line: the expected answer and the expected call.
CASES = json.dumps(
    {
        "case_id": "oslo",
        "turns": [
            {
                "query": QUERY,
                "answer": "4 degrees",
                "tools": {"calls": [{"tool_name": "get_weather", "parameters": {"city": "Oslo"}}]},
            }
        ],
    }
)


#: The number of attempts at the case, and how many of the first ones are wrong.
ATTEMPTS, FAILED = 8, 3


def requests() -> list[dict[str, Any]]:
    """Return the attempts, each as one OTLP `ExportTraceServiceRequest`."""
    return [_attempt(number, right=number > FAILED) for number in range(1, ATTEMPTS + 1)]


def _attempt(number: int, *, right: bool) -> dict[str, Any]:
    """Return one attempt; a wrong one asks for another city."""
    city, answer = ("Oslo", "It is 4 degrees.") if right else ("Rome", "It is 19 degrees.")
    run = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "weather",
        "gen_ai.agent.version": "1.0.0",
        "gen_ai.conversation.id": f"chat-{number}",
        "gen_ai.input.messages": _message("user", QUERY),
        "gen_ai.output.messages": _message("assistant", answer),
    }
    call = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": json.dumps({"city": city}),
        "gen_ai.tool.call.result": json.dumps({"degrees": 4 if right else 19}),
    }
    ids = {"trace": f"{number:032x}", "run": f"{2 * number:016x}", "call": f"{2 * number + 1:016x}"}
    spans = [
        _span("invoke_agent weather", ids["trace"], ids["run"], "", run),
        _span("execute_tool get_weather", ids["trace"], ids["call"], ids["run"], call),
    ]
    resource = {"attributes": _attributes({"service.name": "weather", "deployment.environment.name": "staging"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "example"}, "spans": spans}]}]}


def _span(name: str, trace_id: str, span_id: str, parent_id: str, attributes: dict[str, str]) -> dict[str, Any]:
    now_ns = time.time_ns()
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(now_ns - 1_000_000),
        "endTimeUnixNano": str(now_ns),
        "attributes": _attributes(attributes),
    }


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
