"""Anthropic's client alone under OpenTelemetry's GenAI instrumentation: tool results are messages of the user.

The client emits its own span inside that span, of the same model call.
"""
# needs: anthropic==2.12.0 opentelemetry-instrumentation-genai-anthropic==1.3b0
#        opentelemetry-exporter-otlp-proto-http==1.45.2
# The client is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from importlib.metadata import version

from anthropic import Anthropic
from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import named, tool_schema
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import INSTRUCTIONS, STORY, TOOLS, expected, interleaved
from tools.capture_generators.variants import each_alone

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
#: Name of the capture -> where the content goes, whether it streams, the span around a turn.
_CAPTURES = {
    "native-genai-anthropic-span-bare": ("SPAN_ONLY", False, None),
    "native-genai-anthropic-event-stream-job": ("EVENT_ONLY", True, "answer mail"),
}


def _schema(tool):
    schema = tool_schema(tool)
    return {"name": schema["name"], "description": schema["description"], "input_schema": schema["parameters"]}


def _ask(client, messages, *, streamed):
    request = {
        "model": MODEL,
        "max_tokens": 500,
        "system": INSTRUCTIONS,
        "messages": messages,
        "tools": [_schema(tool) for tool in TOOLS],
    }
    if not streamed:
        return client.messages.create(**request).content
    with client.messages.stream(**request) as stream:
        return stream.get_final_message().content


def _result(part, tools):
    known = {"type": "tool_result", "tool_use_id": part.id}
    try:
        return {**known, "content": json.dumps(tools[part.name](**part.input), ensure_ascii=False)}
    except ValueError as error:
        return {**known, "content": str(error), "is_error": True}


def _answered(client, messages, *, streamed):
    tools = named(TOOLS)
    while True:
        content = _ask(client, messages, streamed=streamed)
        messages.append({"role": "assistant", "content": [part.model_dump(exclude_none=True) for part in content]})
        calls = [part for part in content if part.type == "tool_use"]
        if not calls:
            return content[0].text
        messages.append({"role": "user", "content": [_result(part, tools) for part in calls]})


def _play(server, tracer, *, streamed, job):
    client = Anthropic(base_url=server.root, api_key="none")
    histories = [[] for _ in STORY]
    for c, t, turn in interleaved(STORY):
        server.now(c, t)
        histories[c].append({"role": "user", "content": turn.query})
        with tracer.start_as_current_span(job) if job else nullcontext():
            assert turn.answer == _answered(client, histories[c], streamed=streamed)


def _record(name):
    mode, streamed, job = _CAPTURES[name]
    with ModelServer() as server, recording(name, service="travel-desk", logs="EVENT" in mode) as capture:
        os.environ[_CONTENT] = mode
        spans, records = capture.providers()
        AnthropicInstrumentor().instrument(tracer_provider=spans, logger_provider=records)
        _play(server, spans.get_tracer("desk"), streamed=streamed, job=job)
        capture.truth = expected(
            STORY,
            framework=f"anthropic {version('anthropic')}, opentelemetry-instrumentation-genai-anthropic, {mode}",
            id_in_telemetry=False,
            content_in_telemetry=True,
            # `is_error` of a tool result is not among what the instrumentation writes.
            not_in_data=["error"],
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
