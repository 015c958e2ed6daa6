"""strands: its first conventions without any conversation id, and the latest ones in span attributes only."""
# needs: strands-agents[openai,otel]==1.62.0 opentelemetry-exporter-otlp-proto-http==1.45.1
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import os
from importlib.metadata import version

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    delegation,
    expected,
    interleaved,
)
from tools.capture_generators.variants import each_alone

_OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
_CONVERSATIONS = (*STORY, delegation())
#: Name of the capture -> conventions, whether the application names the conversation.
_CAPTURES = {
    "native-strands-legacy-noid": ("", False),
    "native-strands-attributes": ("gen_ai_latest_experimental,gen_ai_span_attributes_only", True),
    "native-strands-latest-events-noid": ("gen_ai_latest_experimental", False),
}


def _agent(model, attributes):
    # The framework reads its environment when it is imported.
    from strands import Agent, tool  # noqa: PLC0415

    @tool(name=REFUNDS)
    def ask_refunds(request: str) -> str:
        """Ask the refunds desk.

        Args:
            request: The task.
        """
        tools = [tool(function) for function in REFUND_TOOLS]
        agent = Agent(model, name=REFUNDS, system_prompt=REFUND_INSTRUCTIONS, tools=tools, callback_handler=None)
        return str(agent(request)).strip()

    return Agent(
        model,
        name=AGENT,
        system_prompt=INSTRUCTIONS,
        tools=[*(tool(function) for function in TOOLS), ask_refunds],
        callback_handler=None,
        trace_attributes=attributes,
    )


def _play(server, *, named):
    from strands.models.openai import OpenAIModel  # noqa: PLC0415

    model = OpenAIModel(client_args={"base_url": server.url, "api_key": "none"}, model_id=MODEL)
    agents = [_agent(model, {"session.id": c.id} if named else None) for c in _CONVERSATIONS]
    for c, t, turn in interleaved(_CONVERSATIONS):
        server.now(c, t)
        assert str(agents[c](turn.query)).strip() == turn.answer


def _record(name):
    conventions, named = _CAPTURES[name]
    with ModelServer(_CONVERSATIONS) as server, recording(name, service="travel-desk") as capture:
        os.environ[_OPT_IN] = conventions
        capture.providers()
        _play(server, named=named)
        capture.truth = expected(
            _CONVERSATIONS,
            framework=f"strands-agents {version('strands-agents')}, {conventions or 'default conventions'}",
            id_in_telemetry=named,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
