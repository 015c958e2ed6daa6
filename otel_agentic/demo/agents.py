"""One agent service of the demo, as a process of its own: `python -m otel_agentic.demo.agents AGENT VERSION --endpoint URL`.

LangChain's `create_agent` with a scripted model, instrumented and exported as in production. The trip planner uses the
OpenInference instrumentation and OTLP/HTTP, the refund desk the OpenTelemetry GenAI instrumentation and OTLP/gRPC: both
end in the same tables. When done it prints one JSON line; with a span kept back it then waits for a line of input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final, get_args

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from otel_agentic.demo.model import ScriptedModel
from otel_agentic.demo.outbox import Outbox
from otel_agentic.demo.scenario import AgentName, ScriptedConversation, conversations
from otel_agentic.demo.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

ENVIRONMENT: Final = "demo"
_PROMPT: Final = {
    "trip-planner": "You plan train trips. Use the tools; answer in one sentence.",
    "refund-desk": "You refund broken orders. Look an order up before you pay.",
}
#: The SDK's default of five seconds would make the demo wait for nothing.
_EXPORT_DELAY_MILLIS: Final = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one agent through its conversations, and say on standard output how many spans that made."""
    parser = argparse.ArgumentParser(prog="python -m otel_agentic.demo.agents", description=__doc__)
    parser.add_argument("agent", choices=get_args(AgentName))
    parser.add_argument("version")
    parser.add_argument(
        "--endpoint", required=True, help="http://host:port of OTLP/HTTP, or grpc://host:port of OTLP/gRPC"
    )
    chosen = parser.parse_args(arguments)
    script = conversations(chosen.agent, chosen.version)
    outbox = Outbox(
        BatchSpanProcessor(_exporter(chosen.endpoint), schedule_delay_millis=_EXPORT_DELAY_MILLIS), _lateness(script)
    )
    provider = TracerProvider(resource=_resource(chosen.agent, chosen.version))
    provider.add_span_processor(outbox)
    _instrument(chosen.agent, provider)
    _converse(chosen.agent, script)
    outbox.force_flush()
    told = {"conversations": len(script), "spans": outbox.passed, "held_back": outbox.held}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    if outbox.held:
        sys.stdin.readline()
        outbox.release()
    provider.shutdown()


def _exporter(endpoint: str) -> SpanExporter:
    scheme, _, address = endpoint.partition("://")
    if scheme == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter  # noqa: PLC0415 — gRPC is loaded where it is used

        return GrpcExporter(endpoint=address, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter  # noqa: PLC0415 — same

    return HttpExporter(endpoint=f"{endpoint}/v1/traces")


def _resource(agent: str, version: str) -> Resource:
    return Resource.create(
        {"service.name": agent, "service.version": version, "deployment.environment.name": ENVIRONMENT}
    )


def _instrument(agent: AgentName, provider: TracerProvider) -> None:
    if agent == "trip-planner":
        from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference  # noqa: PLC0415 — only one of the two patches LangChain

        OpenInference().instrument(tracer_provider=provider)
        return
    # Read while the instrumentation is imported: without them it records no content.
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as GenAI  # noqa: PLC0415 — same

    GenAI().instrument(tracer_provider=provider)  # type: ignore[no-untyped-call]  # its constructor has no annotations


def _converse(agent: AgentName, script: Sequence[ScriptedConversation]) -> None:
    model = ScriptedModel()
    graph: Runnable[Any, Any] = create_agent(
        model,
        TOOLS[agent],
        system_prompt=_PROMPT[agent],
        name=agent,
        middleware=[wrap_tool_call(_tell_errors)],
        checkpointer=InMemorySaver(),
    )
    for conversation in script:
        for turn in conversation.turns:
            model.load(turn.responses)
            # The instrumentations take the thread id for the conversation id.
            thread: RunnableConfig = {"configurable": {"thread_id": conversation.conversation_id}}
            graph.invoke({"messages": [("user", turn.query)]}, thread)


def _tell_errors(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
) -> ToolMessage | Command[Any]:
    """Answer a failed call with its error, so that the model can try again."""
    try:
        return handler(request)
    except TimeoutError as error:
        return ToolMessage(content=f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


def _lateness(script: Sequence[ScriptedConversation]) -> Callable[[ReadableSpan], bool]:
    """Return which spans are to be kept back: the tool spans that the script names."""
    late = {conversation.conversation_id: conversation.late_tool for conversation in script if conversation.late_tool}

    def is_late(span: ReadableSpan) -> bool:
        attributes = span.attributes or {}
        tool = late.get(str(attributes.get("session.id")))
        return tool is not None and attributes.get("tool.name") == tool

    return is_late


if __name__ == "__main__":
    main()
