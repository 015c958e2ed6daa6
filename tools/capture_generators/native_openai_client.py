"""The OpenAI client alone, instrumented by OpenTelemetry: the application calls the tools and keeps the history.

A failed call reaches the model as the text `Error: ...` and is recorded nowhere else. Every model call is a trace of its own where no span of the application is around it.
"""
# needs: openai==2.54.0 opentelemetry-instrumentation-openai-v2==2.4b0 opentelemetry-util-genai==0.4b0
#        opentelemetry-exporter-otlp-proto-http==1.45.2
# or:    openai==3.54.0 opentelemetry-instrumentation-genai-openai==1.3b0 opentelemetry-exporter-otlp-proto-http==1.45.2
# The instrumentation is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from openai import OpenAI

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, ask, ask_streaming, named, opening, tool_schema
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import STORY, TOOLS, expected, interleaved
from tools.capture_generators.variants import each_alone

_LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def _instrumentor():
    try:
        version("opentelemetry-instrumentation-genai-openai")
    except PackageNotFoundError:
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor  # noqa: PLC0415
    else:
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor  # noqa: PLC0415
    return OpenAIInstrumentor


def _ask_responses(client, messages):
    """Return the model's message by the Responses interface, in which calls and results are items of their own."""
    items = [item for message in messages for item in _items(message)]
    tools = [{"type": "function", "strict": False, **tool_schema(tool)} for tool in TOOLS]
    response = client.responses.create(model=MODEL, input=items, tools=tools, store=False)
    calls = [
        {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}
        for item in response.output
        if item.type == "function_call"
    ]
    return (
        {"role": "assistant", "tool_calls": calls} if calls else {"role": "assistant", "content": response.output_text}
    )


def _items(message):
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        return [{"type": "function_call_output", **output}]
    if message.get("tool_calls"):
        return [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in message["tool_calls"]]
    return [{"role": message["role"], "content": message["content"]}]


def _play(server, tracer, *, ask_model, job):
    client = OpenAI(base_url=server.url, api_key="none")
    histories = [opening() for _ in STORY]
    for c, t, turn in interleaved(STORY):
        server.now(c, t)
        histories[c].append({"role": "user", "content": turn.query})
        with tracer.start_as_current_span(job) if job else nullcontext():
            assert turn.answer == answered(histories[c], partial(ask_model, client), named(TOOLS))


def _captures():
    """Return name of the capture -> environment, whether log records are kept, the function that calls the model, the span around a turn."""
    if "openai_v2" in _instrumentor().__module__:
        return {
            "native-openai-v2-latest-span-bare": ({**_LATEST, _CONTENT: "span_only"}, False, ask, None),
            "native-openai-v2-latest-event-stream": ({**_LATEST, _CONTENT: "event_only"}, True, ask_streaming, None),
            "native-openai-v2-legacy-logs-bare": ({_CONTENT: "true"}, True, ask, None),
            "native-openai-v2-legacy-logs-job": ({_CONTENT: "true"}, True, ask, "answer mail"),
        }
    return {
        "native-genai-openai-span-job": ({_CONTENT: "SPAN_ONLY"}, False, ask_streaming, "answer mail"),
        "native-genai-openai-event-bare": ({_CONTENT: "EVENT_ONLY"}, True, ask, None),
        "native-genai-openai-responses-bare": ({_CONTENT: "SPAN_ONLY"}, False, _ask_responses, None),
    }


def _record(name):
    environment, logs, ask_model, job = _captures()[name]
    with ModelServer() as server, recording(name, service="travel-desk", logs=logs) as capture:
        os.environ.update(environment)
        spans, records = capture.providers()
        _instrumentor()().instrument(tracer_provider=spans, logger_provider=records)
        _play(server, spans.get_tracer("desk"), ask_model=ask_model, job=job)
        capture.truth = expected(
            STORY,
            framework=f"{_instrumentor().__module__}, openai {version('openai')}, {environment}",
            id_in_telemetry=False,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures of the installed instrumentation."""
    each_alone(__spec__.name, _captures(), _record)


if __name__ == "__main__":
    main()
