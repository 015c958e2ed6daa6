# mypy: ignore-errors
# The instrumentation is not installed where the types are checked.
# needs: traceloop-sdk==0.62.4 opentelemetry-instrumentation-openai==0.62.4 openai==3.54.0
# needs: opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp-proto-http==1.45.1 httpx
"""The OpenAI client under OpenLLMetry: decorated tools in one trace a conversation, a stream, and no decorator at all."""

from __future__ import annotations

from tools.capture_generators.oi_openai import chat, responses
from tools.capture_generators.oi_play import Plan, record
from tools.capture_generators.story import AGENT, TOOLS
from tools.capture_generators.tl_play import associated, traceloop

_NOTES = {"framework": "openai", "not_in_data": ["error"]}


def main() -> None:
    """Record the captures. Without tool spans, a result is only text, without a status."""
    sdk = traceloop("OPENAI")
    record(
        Plan(
            "openllmetry-decorators-onetrace",
            sdk,
            decorated,
            around=lambda tracer, _: tracer.start_as_current_span("websocket /desk"),
        ),
        framework="openai",
        id_in_telemetry=False,
    )
    record(Plan("openllmetry-decorators-stream", sdk, associated(streamed, "thread_id")), framework="openai")
    record(Plan("openllmetry-openai-bare", sdk, chat), id_in_telemetry=False, **_NOTES)
    record(Plan("openllmetry-openai-responses-session", sdk, associated(responses)), **_NOTES)


def decorated(url, *, stream=False):
    """Return a speaker with an agent span around each turn and a tool span around each call."""
    from traceloop.sdk.decorators import agent, tool  # noqa: PLC0415 - once the SDK has started

    tools = [tool(name=function.__name__)(function) for function in TOOLS]
    say = chat(url, stream=stream, tools=tools)

    def say_again(conversation, query):
        @agent(name=AGENT)
        def answer(question):
            return say(conversation, question)

        return answer(query)

    return say_again


def streamed(url):
    """Return the same speaker with streamed replies."""
    return decorated(url, stream=True)


if __name__ == "__main__":
    main()
