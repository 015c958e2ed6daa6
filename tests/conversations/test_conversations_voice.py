"""A voice session as Pipecat records it: spans of the SDK, sent as OTLP and decoded, turns and services below one root."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits, decode_traces
from tests.conversations.rebuilding import conversations

if TYPE_CHECKING:
    from otel_agentic.conversations import Conversation

#: (query, calls of each step as (id, tool, arguments, result), answer)
SESSION: Final[tuple[tuple[str, list[Any], str], ...]] = (
    ("Weather in Paris?", [[("c1", "weather", {"city": "Paris"}, "21 C")]], "It is 21 C."),
    ("And in Rome?", [[("c2", "weather", {"city": "Rome"}, "25 C")]], "There it is 25 C."),
    ("And in Rome?", [], "Still 25 C."),
)


class Session:
    """Writes a session: `conversation` > `turn` > `stt`, `llm`, `tts`."""

    def __init__(self, **root: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource.create({"service.name": "bot"}))
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.turns, self.services = provider.get_tracer("pipecat.turn"), provider.get_tracer("pipecat")
        self.root = self.turns.start_span("conversation", attributes={"conversation.type": "voice", **root})
        self.history: list[dict[str, Any]] = [{"role": "system", "content": "You speak on the telephone."}]

    def service(self, turn: trace.Span, name: str, **attributes: Any) -> None:
        around = trace.set_span_in_context(turn)
        operation = {"llm": "chat"}.get(name, name)
        message = {"gen_ai.operation.name": operation, "gen_ai.request.model": f"{name}-1", **attributes}
        self.services.start_span(name, context=around, attributes=message).end()

    def play(self, number: int, query: str | None, steps: list[Any], answer: str) -> None:
        around = trace.set_span_in_context(self.root)
        turn = self.turns.start_span("turn", context=around, attributes={"turn.number": number})
        if query is not None:
            self.service(turn, "stt", transcript=query)
            self.history.append({"role": "user", "content": query})
        for step in steps:
            self.service(turn, "llm", input=json.dumps(self.history))
            for call_id, name, arguments, result in step:
                function = {"name": name, "arguments": json.dumps(arguments)}
                request = {"id": call_id, "type": "function", "function": function}
                self.history.append({"role": "assistant", "tool_calls": [request]})
                self.history.append({"role": "tool", "content": json.dumps(result), "tool_call_id": call_id})
        self.service(turn, "llm", input=json.dumps(self.history), output=answer)
        self.history.append({"role": "assistant", "content": answer})
        self.service(turn, "tts", text=answer)
        turn.end()

    def rebuilt(self) -> Conversation:
        self.root.end()
        sent = encode_spans(self.exporter.get_finished_spans()).SerializeToString()
        (conversation,) = conversations(decode_traces(sent, Limits.from_settings(ReceiveSettings())))
        return conversation


@pytest.mark.parametrize("greets", [False, True])
def test_each_users_input_of_a_voice_session_is_a_turn(*, greets: bool) -> None:
    session = Session(**{"conversation.id": "call-7"})
    if greets:
        session.play(1, None, [], "Hello, what can I do for you?")
    for number, (query, steps, answer) in enumerate(SESSION, 2):
        session.play(number, query, steps, answer)

    result = session.rebuilt()

    assert result.conversation_id == "call-7"
    assert [(query, answer) for query, _, answer in SESSION] == [(turn.query, turn.answer) for turn in result.turns]
    assert [[("weather", {"city": "Paris"}, "21 C")], [("weather", {"city": "Rome"}, "25 C")], []] == [
        [(call.name, call.arguments, call.result) for call in turn.calls] for turn in result.turns
    ]
