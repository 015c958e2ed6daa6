"""LiteLLM with its own OpenTelemetry callback: a client for many vendors, the loop is the application's.

`litellm_request` leaves the calls out of its messages; `raw_gen_ai_request` inside it has all, as Python writes it.
"""
# needs: litellm==1.106.2 mcp opentelemetry-exporter-otlp-proto-http==1.45.2
# The client is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import os
from importlib.metadata import version

# Its price list is looked up on the internet otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.openai_loop import answered, named, opening, tool_schema
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import STORY, TOOLS, expected, interleaved


def _model_call(server):
    tools = [{"type": "function", "function": tool_schema(tool)} for tool in TOOLS]

    def call_model(messages):
        response = litellm.completion(
            f"openai/{MODEL}", messages=messages, tools=tools, api_base=server.url, api_key="none"
        )
        return response.choices[0].message.model_dump(exclude_none=True)

    return call_model


def _play(server):
    call_model, tools = _model_call(server), named(TOOLS)
    histories = [opening() for _ in STORY]
    for c, t, turn in interleaved(STORY):
        server.now(c, t)
        histories[c].append({"role": "user", "content": turn.query})
        assert turn.answer == answered(histories[c], call_model, tools)


def main() -> None:
    """Write the capture."""
    with ModelServer() as server, recording("native-litellm-bare", service="travel-desk") as capture:
        spans, _ = capture.providers()
        litellm.callbacks = [OpenTelemetry(config=OpenTelemetryConfig(), tracer_provider=spans)]
        _play(server)
        capture.truth = expected(
            STORY,
            framework=f"litellm {version('litellm')}",
            id_in_telemetry=False,
            content_in_telemetry=True,
        )


if __name__ == "__main__":
    main()
