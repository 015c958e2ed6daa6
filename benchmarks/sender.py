"""A load generator of OTLP spans, cheap enough to leave a machine with two cores to the receiver.

Requests are built once, and get new ids and times before each send. Sending follows a schedule: if the receiver delays a request,
the next requests are late, and their delay counts as the receiver's (no coordinated omission).
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: Number of spans in a trace; each trace is a conversation.
SPANS_A_TRACE: Final = 8
_TRACE_MARK: Final = b"\xa5\x5a" * 8
_SPAN_MARK: Final = b"\xc3\x3c" * 4
_PARENT_MARK: Final = b"\x3c\xc3" * 4
_TIME_MARK: Final = 0x7E7E7E7E7E7E7E7E
_TEMPLATES: Final = 4
_TIMEOUT_S: Final = 60.0
_HEX: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load to send: spans per second, duration in seconds, spans per request, and number of connections.

    With `retry`, a refused request is sent again; without it, requests that are still scheduled at the end are dropped.
    `stream` distinguishes senders.
    """

    host: str
    port: int
    rate: float
    seconds: float
    batch: int
    connections: int
    span_bytes: int = 2_000
    compressed: bool = False
    retry: bool = True
    stream: int = 0
    token: str | None = None


@dataclass(slots=True, kw_only=True)
class Sent:
    """The result: acknowledged spans, responses by status, and the delay of each response in ms from its scheduled time."""

    spans_sent: int = 0
    spans_acknowledged: int = 0
    spans_given_up: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    refusals_without_hint: int = 0
    delays_ms: list[float] = field(default_factory=list)

    def add(self, other: Sent) -> None:
        """Add the results of another connection."""
        self.spans_sent += other.spans_sent
        self.spans_acknowledged += other.spans_acknowledged
        self.spans_given_up += other.spans_given_up
        self.statuses = dict(Counter(self.statuses) + Counter(other.statuses))
        self.refusals_without_hint += other.refusals_without_hint
        self.delays_ms += other.delays_ms

    def percentile_ms(self, percent: float) -> float:
        """Return the delay within which the given percentage of the requests was acknowledged."""
        return float(np.percentile(self.delays_ms, percent)) if self.delays_ms else float("nan")


class Template:
    """A request whose ids and times can be overwritten in its buffer."""

    def __init__(self, spans: int, span_bytes: int, seed: int) -> None:
        message = _request(spans, span_bytes, np.random.default_rng(seed))
        self._bytes = np.frombuffer(message, dtype=np.uint8).copy()
        self._traces = _offsets(message, _TRACE_MARK)
        self._names = _offsets(message, _TRACE_MARK.hex().encode())
        self._spans = _offsets(message, _SPAN_MARK)
        self._parents = _offsets(message, _PARENT_MARK)
        self._times = _offsets(message, _TIME_MARK.to_bytes(8, "little"))
        self.size = spans

    def stamped(self, number: int, now_ns: int) -> bytes:
        """Return the request with the ids of request `number` (unique for every number) and times that end now."""
        first = np.uint64(number) * np.uint64(self.size) + np.arange(1, self.size + 1, dtype=np.uint64)
        trace_numbers = (first - np.uint64(1)) // np.uint64(SPANS_A_TRACE) + np.uint64(1)
        high = np.full(self.size, 0x5EED, dtype=">u8").view(np.uint8).reshape(-1, 8)
        traces = np.concatenate([high, _big_endian(_mixed(trace_numbers))], axis=1)
        spans = _big_endian(_mixed(first))
        roots = _big_endian(_mixed((trace_numbers - np.uint64(1)) * np.uint64(SPANS_A_TRACE) + np.uint64(1)))
        data = self._bytes
        _write(data, self._traces, traces)
        _write(data, self._names, _hex(traces))
        _write(data, self._spans, spans)
        children = np.arange(self.size) % SPANS_A_TRACE != 0
        _write(data, self._parents, roots[children][: len(self._parents)])
        starts = np.uint64(now_ns) - np.uint64(2_000_000_000) + np.arange(self.size, dtype=np.uint64) * np.uint64(1_000)
        times = np.stack([starts, starts + np.uint64(500)], axis=1).reshape(-1)
        _write(data, self._times, times.astype("<u8").view(np.uint8).reshape(-1, 8))
        return data.tobytes()


def _mixed(numbers: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return a one-to-one mapping of numbers to values spread over all 64 bits, like real ids."""
    with np.errstate(over="ignore"):
        mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
        return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


def _big_endian(
    numbers: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def _hex(raw: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    digits = np.empty((raw.shape[0], raw.shape[1] * 2), dtype=np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[raw >> 4], _HEX[raw & 15]
    return digits


def _write(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    values: np.ndarray[tuple[int, int], np.dtype[np.uint8]],
) -> None:
    data[offsets[:, None] + np.arange(values.shape[1])] = values


def _offsets(data: bytes, mark: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    offsets = []
    at = data.find(mark)
    while at >= 0:
        offsets.append(at)
        at = data.find(mark, at + len(mark))
    return np.array(offsets, dtype=np.int64)


def _request(spans: int, span_bytes: int, rng: np.random.Generator) -> bytes:
    message = ExportTraceServiceRequest()
    block = message.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "load"
    scope = block.scope_spans.add()
    scope.scope.name = "load"
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, rng.integers(2, 10))) for _ in range(500)]
    for index in range(spans):
        span = scope.spans.add(trace_id=_TRACE_MARK, span_id=_SPAN_MARK, kind=1)
        span.start_time_unix_nano = span.end_time_unix_nano = _TIME_MARK
        if index % SPANS_A_TRACE:
            span.parent_span_id = _PARENT_MARK
        for key, value in _attributes(index % SPANS_A_TRACE, _text(words, span_bytes, rng)).items():
            span.attributes.add(key=key).value.string_value = value
        span.name = span.attributes[0].value.string_value
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = int(rng.integers(1, 1000))
    return message.SerializeToString()


def _attributes(index: int, text: str) -> dict[str, str]:
    """Return the attributes of a run (place 0), or alternately of a model call and a tool call."""
    own = {"gen_ai.conversation.id": _TRACE_MARK.hex(), "gen_ai.agent.name": "loaded"}
    message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text[: len(text) // 2]}]}])
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text[len(text) // 2 :]}]}])
    if index and index % 2 == 0:
        tool = {"gen_ai.tool.name": "find", "gen_ai.tool.call.id": f"call-{index}"}
        call = {"gen_ai.tool.call.arguments": json.dumps({"about": text[:200]}), "gen_ai.tool.call.result": text[200:]}
        return {"gen_ai.operation.name": "execute_tool", **own, **tool, **call}
    operation = "chat" if index else "invoke_agent"
    return {
        "gen_ai.operation.name": operation,
        **own,
        "gen_ai.request.model": "scripted",
        "gen_ai.input.messages": message,
        "gen_ai.output.messages": answer,
    }


def _text(words: list[str], span_bytes: int, rng: np.random.Generator) -> str:
    overhead = 520  # size of ids, times, keys and the JSON around the messages
    characters = max(span_bytes - overhead, 50)
    return " ".join(words[index] for index in rng.integers(0, len(words), characters // 4))[:characters]


class _Connection:
    """One kept-alive HTTP/1.1 connection."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._socket: socket.socket | None = None

    def post(self, body: bytes) -> tuple[int, bool]:
        """Return the status of the response, and whether the response contains a retry delay.

        Raises:
            OSError: the connection failed; the state of the request is unknown.
        """
        if self._socket is None:
            self._socket = socket.create_connection((self._load.host, self._load.port), timeout=_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.sendall(self._head(len(body)) + body)
            head = self._answer(self._socket)
        except OSError:
            self.close()
            raise
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ", 2)[1]), b"retry-after:" in head

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _head(self, size: int) -> bytes:
        coding = "content-encoding: gzip\r\n" if self._load.compressed else ""
        credentials = f"authorization: Bearer {self._load.token}\r\n" if self._load.token else ""
        return (
            f"POST /v1/traces HTTP/1.1\r\nhost: {self._load.host}:{self._load.port}\r\n{coding}{credentials}"
            f"content-type: application/x-protobuf\r\ncontent-length: {size}\r\n\r\n"
        ).encode()

    def _answer(self, sock: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more(sock)
        head, _, rest = data.partition(b"\r\n\r\n")
        head = head.lower()
        left = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]) - len(rest)
        while left > 0:
            left -= len(self._more(sock))
        return head

    def _more(self, sock: socket.socket) -> bytes:
        data = sock.recv(65536)
        if not data:
            raise ConnectionResetError("the receiver closed the connection")
        return data


class _Stream(threading.Thread):
    """Sends every n-th request of the schedule over one connection."""

    def __init__(self, load: Load, index: int, begins: float, templates: list[Template]) -> None:
        super().__init__(daemon=True)
        self._load = load
        self._index = index
        self._begins = begins
        self._templates = templates
        self._connection = _Connection(load)
        self.sent = Sent()

    def run(self) -> None:
        for number, due_s in self._schedule():
            if not self._load.retry and time.monotonic() > self._begins + self._load.seconds:
                break  # the receiver accepted less than was scheduled: drop the surplus
            body = self._body(number)
            time.sleep(max(0.0, due_s - time.monotonic()))
            self.sent.spans_sent += self._load.batch
            if self._deliver(body):
                self.sent.spans_acknowledged += self._load.batch
                self.sent.delays_ms.append((time.monotonic() - due_s) * 1e3)
            else:
                self.sent.spans_given_up += self._load.batch
        self._connection.close()

    def _schedule(self) -> Iterator[tuple[int, float]]:
        load = self._load
        every_s = load.batch / load.rate
        for number in range(self._index, int(load.seconds / every_s), load.connections):
            yield number, self._begins + number * every_s

    def _body(self, number: int) -> bytes:
        unique = (self._load.stream << 32) + number
        body = self._templates[number % _TEMPLATES].stamped(unique, time.time_ns())
        return gzip.compress(body, 1) if self._load.compressed else body

    def _deliver(self, body: bytes) -> bool:
        """Return whether the request was acknowledged; retry refused requests until a deadline, as exporters do."""
        give_up = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                status, hinted = self._connection.post(body)
                outcome = str(status)
            except OSError as error:
                outcome, hinted = type(error).__name__, True
            self.sent.statuses[outcome] = self.sent.statuses.get(outcome, 0) + 1
            if outcome == "200":
                return True
            self.sent.refusals_without_hint += not hinted
            if not self._load.retry or time.monotonic() > give_up:
                return False
            time.sleep(0.5)


def send(load: Load) -> Sent:
    """Send the load; return the result."""
    templates = [Template(load.batch, load.span_bytes, seed) for seed in range(_TEMPLATES)]
    begins = time.monotonic() + 0.5
    streams = [_Stream(load, index, begins, deepcopy(templates)) for index in range(load.connections)]
    for stream in streams:
        stream.start()
    total = Sent()
    for stream in streams:
        stream.join()
        total.add(stream.sent)
    return total


def main() -> None:
    """Read a `Load` as JSON from the first argument, send it, and print a `Sent` as JSON."""
    sys.setswitchinterval(0.0005)
    print(json.dumps(asdict(send(Load(**json.loads(sys.argv[1]))))))


if __name__ == "__main__":
    main()
