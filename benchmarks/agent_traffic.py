"""Agent traffic for end-to-end benchmarks: small chats with cases, recordings with different ids, and long growing histories.

Each workload is a list of OTLP requests as protobuf bytes. The same number gives the same bytes in each run.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.shared import SHARED

_BEGAN_NS: Final = 1_760_000_000_000_000_000
_SECOND_NS: Final = 1_000_000_000
_CASES: Final = 200
_TURNS: Final = 2
#: The numbers of turns of successive chats, by the average number of spans of a chat.
TURNS: Final[Mapping[int, Sequence[int]]] = {8: (_TURNS,), 5: (_TURNS, 1, 1, 1)}
#: Spans of one turn of a small chat.
SPANS_A_TURN: Final = 4
#: Spans in one request, as the batch processor of the SDK sends them.
_REQUEST_SPANS: Final = 512
#: Model calls of one agent run with a growing history, each followed by a tool call.
_LONG_STEPS: Final = 250
#: Keys whose last part ends like this identify a conversation in some convention.
_ID_ENDINGS: Final = ("conversation.id", "conversation_id", "session.id", "session_id", "thread_id", "threadId")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """OTLP requests, their number of spans, and cases (JSON lines) that their conversations are matched with."""

    name: str
    requests: Sequence[bytes]
    spans: int
    cases: str = ""

    def plain_reading(self) -> int:
        """Decode all requests by the protobuf library and parse each JSON attribute; return the number of parsed attributes.

        The lower bound of the work that any receiver of agent spans does in Python.
        """
        parsed = 0
        for body in self.requests:
            for span in _spans(ExportTraceServiceRequest.FromString(body)):
                for attribute in span.attributes:
                    if attribute.value.string_value[:1] in {"[", "{"}:
                        with suppress(orjson.JSONDecodeError):  # text in brackets
                            orjson.loads(attribute.value.string_value)
                            parsed += 1
        return parsed


def _spans(request: ExportTraceServiceRequest) -> Iterator[Any]:
    return (span for block in request.resource_spans for part in block.scope_spans for span in part.spans)


def small_chats(
    conversations: int, began_ns: int = _BEGAN_NS, apart_ns: int = _SECOND_NS, *, turns: Sequence[int] = (_TURNS,)
) -> Workload:
    """Return chats of turns with four spans of about 1.5 KB each; 200 cases annotate their answers and calls.

    Args:
        conversations: the number of chats.
        began_ns: the start of the first one.
        apart_ns: the time between the starts of two.
        turns: the numbers of turns of successive chats, at most two each; their number divides that of the cases.
    """
    texts = _Texts()
    builder = _RequestBuilder()
    for number in range(conversations):
        chat = _turns(texts, number)[: turns[number % len(turns)]]
        _small_chat(builder, chat, number, began_ns + number * apart_ns)
    cases = "\n".join(json.dumps(_case(texts, number, turns[number % len(turns)])) for number in range(_CASES))
    return builder.workload("small chats", cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTurn:
    """A turn of a small chat: the query, the answer, and the arguments and the result of its call of `look_up`."""

    query: str
    answer: str
    arguments: dict[str, Any]
    result: str


class _Texts:
    """Prose of invented words: results of tools, and answers that use one sentence of a result."""

    def __init__(self) -> None:
        rng = random.Random(6)  # noqa: S311 — no secret
        syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvw" for vowel in "aeiou"]
        self._words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(3000)]

    def sentences(self, seed: int, count: int) -> list[str]:
        """Return sentences of about 12 words; some contain a price."""
        rng = random.Random(seed)  # noqa: S311 — the same
        return [
            " ".join(rng.choices(self._words, k=12)) + (f" {rng.randint(1, 99)}.50 EUR." if rng.random() < 0.2 else ".")  # noqa: PLR2004 — a share
            for _ in range(count)
        ]


def case_turns() -> list[list[CaseTurn]]:
    """Return the turns of each case of the small chats."""
    texts = _Texts()
    return [_turns(texts, number) for number in range(_CASES)]


def _turns(texts: _Texts, number: int) -> list[CaseTurn]:
    """Return the turns of a conversation, which are those of its case."""
    case = number % _CASES
    turns = []
    for turn in range(_TURNS):
        result = texts.sentences(case * _TURNS + turn, 16)
        query = f"Please look up item {case} in catalogue {turn} for me."
        answer, arguments = f"Here it is: {result[3]}", {"item": case, "catalogue": turn}
        turns.append(CaseTurn(query=query, answer=answer, arguments=arguments, result=" ".join(result)))
    return turns


def _case(texts: _Texts, number: int, count: int) -> dict[str, Any]:
    turns = [
        {
            "query": turn.query,
            "answer": turn.answer,
            "tools": {"calls": [{"tool_name": "look_up", "parameters": turn.arguments}]},
        }
        for turn in _turns(texts, number)[:count]
    ]
    return {"case_id": f"case-{number}", "turns": turns}


def _small_chat(builder: _RequestBuilder, turns: Sequence[CaseTurn], number: int, began_ns: int) -> None:
    history: list[dict[str, Any]] = []
    for index_of_turn, turn in enumerate(turns):
        trace_id = (number * _TURNS + index_of_turn + 1).to_bytes(16, "big")
        call_id = f"call-{number}-{index_of_turn}"
        call = {"type": "tool_call", "id": call_id, "name": "look_up", "arguments": turn.arguments}
        wish = {"role": "assistant", "parts": [call]}
        response = {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": turn.result}]}
        history.append({"role": "user", "parts": [{"type": "text", "content": turn.query}]})
        reply = {"role": "assistant", "parts": [{"type": "text", "content": turn.answer}]}
        spans: list[tuple[str, dict[str, Any]]] = [
            ("invoke_agent clerk", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk",
                                    "gen_ai.conversation.id": f"chat-{number}"}),
            ("chat m", _model_call(history, wish)),
            ("execute_tool look_up", _tool_call("look_up", call_id, turn.arguments, turn.result)),
            ("chat m", _model_call([*history, wish, response], reply)),
        ]  # fmt: skip
        for index, (name, attributes) in enumerate(spans):
            at_ns = began_ns + (index_of_turn * len(spans) + index) * _SECOND_NS // 100
            builder.add(trace_id, index, name, (at_ns, at_ns + _SECOND_NS // 200), attributes)
        history += [wish, response, reply]


def _model_call(messages: Sequence[Mapping[str, Any]], output: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps([output]),
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 50,
    }


def _tool_call(name: str, call_id: str, arguments: Mapping[str, Any], result: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": result,
    }


def growing_histories(traces: int) -> Workload:
    """Return agent runs of 501 spans; each model call repeats all messages before it, as coding agents do."""
    texts = _Texts()
    builder = _RequestBuilder()
    for number in range(traces):
        trace_id = (number + 1).to_bytes(16, "big")
        began_ns = _BEGAN_NS + number * 1000 * _SECOND_NS
        run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder"}
        builder.add(
            trace_id,
            0,
            "invoke_agent coder",
            (began_ns, began_ns + 900 * _SECOND_NS),
            {**run, "gen_ai.conversation.id": f"run-{number}"},
        )
        messages: list[dict[str, Any]] = [
            {"role": "user", "parts": [{"type": "text", "content": f"Repair module {number}."}]}
        ]
        for step in range(_LONG_STEPS):
            at_ns = began_ns + (2 * step + 1) * _SECOND_NS
            result = " ".join(texts.sentences(number * _LONG_STEPS + step, 1))
            call_id, arguments = f"call-{number}-{step}", {"file": f"part_{step}.py", "line": step}
            call = {"type": "tool_call", "id": call_id, "name": "read", "arguments": arguments}
            is_last = step == _LONG_STEPS - 1
            part = {"type": "text", "content": "It is repaired."} if is_last else call
            output = {"role": "assistant", "parts": [part]}
            builder.add(
                trace_id, 2 * step + 1, "chat m", (at_ns, at_ns + _SECOND_NS // 2), _model_call(messages, output)
            )
            if not is_last:
                times_ns = (at_ns + _SECOND_NS, at_ns + 3 * _SECOND_NS // 2)
                attributes = _tool_call("read", call_id, arguments, result)
                builder.add(trace_id, 2 * step + 2, "execute_tool read", times_ns, attributes)
            response = {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": result}]}
            messages += [output, response]
    return builder.workload("growing histories")


class _RequestBuilder:
    """Collects spans of one service into requests of at most 512 spans."""

    def __init__(self) -> None:
        self._requests: list[ExportTraceServiceRequest] = []
        self._count = 0

    def add(
        self, trace_id: bytes, index: int, name: str, times_ns: tuple[int, int], attributes: Mapping[str, Any]
    ) -> None:
        """Add a span; the span with index 0 is the root of its trace, and all others are its children."""
        if self._count % _REQUEST_SPANS == 0:
            self._requests.append(ExportTraceServiceRequest())
            block = self._requests[-1].resource_spans.add()
            block.resource.attributes.add(key="service.name").value.string_value = "benchmark"
            block.scope_spans.add().scope.name = "benchmark"
        self._count += 1
        span = (
            self._requests[-1]
            .resource_spans[0]
            .scope_spans[0]
            .spans.add(
                trace_id=trace_id,
                span_id=_span_id(trace_id, index),
                parent_span_id=_span_id(trace_id, 0) if index else b"",
                name=name,
                kind=1,
                start_time_unix_nano=times_ns[0],
                end_time_unix_nano=times_ns[1],
            )
        )
        for key, value in attributes.items():
            held = span.attributes.add(key=key).value
            if isinstance(value, str):
                held.string_value = value
            else:
                held.int_value = value

    def workload(self, name: str, cases: str = "") -> Workload:
        """Return the requests."""
        bodies = [request.SerializeToString() for request in self._requests]
        return Workload(name=name, requests=bodies, spans=self._count, cases=cases)


def tau_airline(copies: int) -> Workload:
    """Return recorded airline conversations, each repeated with different ids."""
    return _recordings("tau-airline", [SHARED / "data" / "tau-airline" / "spans.jsonl.gz"], copies)


def captures(copies: int) -> Workload:
    """Return the recorded exports of all frameworks, each repeated with different ids."""
    return _recordings("captures", sorted((SHARED / "captures").glob("*/traces.jsonl")), copies)


def _recordings(name: str, files: Sequence[Path], copies: int) -> Workload:
    requests, spans = [], 0
    for copy in range(copies):
        for number, file in enumerate(files):
            data = file.read_bytes()
            for line in (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines():
                request = ParseDict(orjson.loads(line), ExportTraceServiceRequest(), ignore_unknown_fields=True)
                spans += _renumber(request, line, f"-{number}-{copy}", copy + 1)
                requests.append(request.SerializeToString())
    return Workload(name=name, requests=requests, spans=spans)


def _span_id(trace_id: bytes, index: int) -> bytes:
    """Return an id that no span of another trace has, because Phoenix stores each span id once."""
    return trace_id[-6:] + index.to_bytes(2, "big")


def _renumber(request: ExportTraceServiceRequest, line: bytes, suffix: str, copy: int) -> int:
    """Give the spans of a request other ids; return their number. The hexadecimal ids come from the JSON line itself."""
    recorded = [
        span
        for block in orjson.loads(line).get("resourceSpans", [])
        for part in block.get("scopeSpans", [])
        for span in part.get("spans", [])
    ]
    for span, raw in zip(_spans(request), recorded, strict=True):
        span.trace_id = _changed(raw["traceId"], copy)
        span.span_id = _changed(raw["spanId"], copy)
        span.parent_span_id = _changed(raw.get("parentSpanId", ""), copy)
        for attribute in span.attributes:
            if attribute.key.endswith(_ID_ENDINGS) and attribute.value.string_value:
                attribute.value.string_value += suffix
    return len(recorded)


def _changed(hexadecimal: str, copy: int) -> bytes:
    raw = bytes.fromhex(hexadecimal)
    return bytes([raw[0] ^ (copy % 256), raw[1] ^ (copy // 256), *raw[2:]]) if raw else b""
