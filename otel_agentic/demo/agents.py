"""One agent service of the demo, as a separate process: `python -m otel_agentic.demo.agents AGENT VERSION --endpoint URL`.

LangChain's `create_agent` with a scripted model, instrumented and exported as in production. The trip planner uses the
OpenInference instrumentation and OTLP/HTTP, the refund desk the OpenTelemetry GenAI instrumentation and OTLP/gRPC: both
end up in the same tables. At the end the process prints one line of JSON; if it has delayed a span, it then waits for a
line of input before it sends the span. The tools are real functions over small fixed tables, so that a wrong argument
has consequences.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, get_args

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic import PrivateAttr

from otel_agentic.demo.recordings import exporter_to
from otel_agentic.demo.scenario import REFUNDS, AgentName, Response, ScriptedConversation, conversations

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
    from opentelemetry.context import Context


class ScriptedModel(BaseChatModel):
    """Returns the loaded responses, one per request; requests failed tool calls again."""

    model_name: str = "scripted-1"
    _script: deque[Response] = PrivateAttr(default_factory=deque)
    _calls: tuple[tuple[str, dict[str, Any]], ...] = PrivateAttr(default=())
    _call_ids: count[int] = PrivateAttr(default_factory=lambda: count(1))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def load(self, responses: Sequence[Response]) -> None:
        """Set the responses of the next turn."""
        self._script = deque(responses)

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with its tools in every request, like a real model."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 — LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 — same signature
        **kwargs: Any,  # noqa: ARG002 — same signature
    ) -> ChatResult:
        text = ""
        if not _failed(messages[-1]):
            response = self._script.popleft()
            text, self._calls = response.text, tuple((call.name, dict(call.arguments)) for call in response.calls)
        calls = [ToolCall(name=name, args=args, id=f"call_{next(self._call_ids)}") for name, args in self._calls]
        reason = {"finish_reason": "tool_calls" if calls else "stop", "model_name": self.model_name}
        message = AIMessage(content=text, tool_calls=calls, response_metadata=reason)
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=reason)])


def _failed(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage) and message.status == "error"


_TRAINS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("Zurich", "Milan"): {"train": "EC 317", "departs": "11:33", "arrives": "14:50"},
    ("Berlin", "Hamburg"): {"train": "ICE 706", "departs": "08:38", "arrives": "10:25"},
    ("Paris", "Lyon"): {"train": "TGV 6607", "departs": "09:58", "arrives": "11:56"},
    ("Vienna", "Rome"): {"train": "NJ 295", "departs": "19:18", "arrives": "09:05"},
}
_SEAT_EUR: Final = {"EC 317": {"second": 48, "first": 81}, "TGV 6607": {"second": 35, "first": 62}}
_BICYCLE_EUR: Final = {"NJ 295": 15}
_WEATHER: Final = {"Hamburg": {"sky": "sunny", "temp_c": 21}}
#: Routes whose timetable is slow on the first request of a process: that call fails, and the agent retries it.
_COLD: Final = {("Berlin", "Hamburg")}


@tool
def search_trains(origin: str, destination: str, date: str) -> dict[str, Any]:
    """Find the best train between two cities on a day (YYYY-MM-DD)."""
    route = (origin, destination)
    if route in _COLD:
        _COLD.discard(route)
        raise TimeoutError(f"the timetable of {origin} to {destination} took longer than 5 s")
    return {**_TRAINS[route], "date": date}


@tool
def get_weather(city: str, date: str) -> dict[str, Any]:
    """Return the forecast of a city for a day (YYYY-MM-DD)."""
    return {**_WEATHER[city], "city": city, "date": date}


@tool
def book_seat(train: str, date: str, seat_class: str, passengers: int) -> dict[str, Any]:
    """Book seats on a train; `seat_class` is first or second."""
    total = _SEAT_EUR[train][seat_class] * passengers
    return {"booked": True, "train": train, "date": date, "total_eur": total}


@tool
def check_bicycle(train: str) -> dict[str, Any]:
    """Return whether a train takes bicycles, and for how much."""
    return {"train": train, "bicycles": train in _BICYCLE_EUR, "fee_eur": _BICYCLE_EUR.get(train)}


@tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Return an order."""
    return {"order_id": order_id, "amount_eur": REFUNDS[order_id], "delivered": True}


@tool
def issue_refund(order_id: str, amount_eur: float) -> dict[str, Any]:
    """Refund the amount of an order."""
    return {"refund_id": f"R-{order_id}", "amount_eur": amount_eur}


TOOLS: Final[dict[str, list[BaseTool]]] = {
    "trip-planner": [search_trains, get_weather, book_seat, check_bicycle],
    "refund-desk": [lookup_order, issue_refund],
}


_FLUSH_MILLIS: Final = 10_000


class Outbox(SpanProcessor):
    """Passes finished spans on; spans selected by `is_late` wait for `release`.

    This simulates a worker in production that has no network connection for a while.
    """

    def __init__(self, onward: SpanProcessor, is_late: Callable[[ReadableSpan], bool]) -> None:
        self._onward = onward
        self._is_late = is_late
        self._held: list[ReadableSpan] = []
        self.passed = 0

    @property
    def held(self) -> int:
        """The number of waiting spans."""
        return len(self._held)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Call the next processor."""
        self._onward.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass the span on, or keep it."""
        if self._is_late(span):
            self._held.append(span)
            return
        self.passed += 1
        self._onward.on_end(span)

    def release(self) -> None:
        """Send the waiting spans."""
        for span in self._held:
            self._onward.on_end(span)
        self._held.clear()
        self.force_flush()

    def force_flush(self, timeout_millis: int = _FLUSH_MILLIS) -> bool:
        """Send the spans that were passed on; return whether it succeeded."""
        return self._onward.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Shut down the next processor."""
        self._onward.shutdown()


ENVIRONMENT: Final = "demo"
_PROMPT: Final = {
    "trip-planner": "You plan train trips. Use the tools; answer in one sentence.",
    "refund-desk": "You refund broken orders. Look an order up before you pay.",
}
#: The SDK's default of five seconds would delay the demo.
_EXPORT_DELAY_MILLIS: Final = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one agent through its conversations, and print the numbers of conversations and spans."""
    parser = argparse.ArgumentParser(
        prog="python -m otel_agentic.demo.agents", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("agent", choices=get_args(AgentName))
    parser.add_argument("version")
    parser.add_argument(
        "--endpoint", required=True, help="http://host:port of OTLP/HTTP, or grpc://host:port of OTLP/gRPC"
    )
    options = parser.parse_args(arguments)
    script = conversations(options.agent, options.version)
    outbox = Outbox(
        BatchSpanProcessor(exporter_to(options.endpoint), schedule_delay_millis=_EXPORT_DELAY_MILLIS), _lateness(script)
    )
    provider = TracerProvider(resource=_resource(options.agent, options.version))
    provider.add_span_processor(outbox)
    _instrument(options.agent, provider)
    _converse(options.agent, script)
    outbox.force_flush()
    summary = {"conversations": len(script), "spans": outbox.passed, "held_back": outbox.held}
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()
    if outbox.held:
        sys.stdin.readline()
        outbox.release()
    provider.shutdown()


def _resource(agent: str, version: str) -> Resource:
    return Resource.create(
        {"service.name": agent, "service.version": version, "deployment.environment.name": ENVIRONMENT}
    )


def _instrument(agent: AgentName, provider: TracerProvider) -> None:
    if agent == "trip-planner":
        from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference  # noqa: PLC0415 — only one of the two patches LangChain

        OpenInference().instrument(tracer_provider=provider)
        return
    # The instrumentation reads these on import; without them it records no content.
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
        middleware=[wrap_tool_call(_return_errors)],
        checkpointer=InMemorySaver(),
    )
    for conversation in script:
        for turn in conversation.turns:
            model.load(turn.responses)
            # The instrumentations use the thread id as conversation id.
            thread: RunnableConfig = {"configurable": {"thread_id": conversation.conversation_id}}
            graph.invoke({"messages": [("user", turn.query)]}, thread)


def _return_errors(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
) -> ToolMessage | Command[Any]:
    """Return the error of a failed call as its result, so that the model can retry it."""
    try:
        return handler(request)
    except TimeoutError as error:
        return ToolMessage(content=f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


def _lateness(script: Sequence[ScriptedConversation]) -> Callable[[ReadableSpan], bool]:
    """Return a function that selects the spans to delay: the late tool spans of the script."""
    late_tools = {
        conversation.conversation_id: conversation.late_tool for conversation in script if conversation.late_tool
    }

    def is_late(span: ReadableSpan) -> bool:
        attributes = span.attributes or {}
        tool = late_tools.get(str(attributes.get("session.id")))
        return tool is not None and attributes.get("tool.name") == tool

    return is_late


if __name__ == "__main__":
    main()
