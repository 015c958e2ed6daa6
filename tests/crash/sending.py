"""Real exporters on several threads, which send batches again that were not acknowledged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_agentic.testing import NOON_NS, SECOND_NS, batch, speak_genai
from tests.builders import ask_hotel
from tests.live.otlp_export import readable

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span, SpanBatch

Way = Literal["http", "grpc"]
WAYS: tuple[Way, ...] = ("http", "grpc", "http", "grpc")
#: One export lasts no longer, its own tries included, s: the exporter's default of 10 would outlast several kills.
EXPORT_S = 2.0


def conversation(sender: int, number: int) -> SpanBatch:
    """Return the spans of a conversation of its own: four spans, about `padding` characters more of text in one."""
    start_ns = NOON_NS + (sender * 1_000_000 + number) * SECOND_NS
    spans = speak_genai(ask_hotel(f"c-{sender}-{number}"), start_ns=start_ns).spans
    padding = f"{sender}-{number} ".encode().hex() * 200
    return batch(replace(spans[0], attributes={**spans[0].attributes, "padding": padding}), *spans[1:])


class Sender(threading.Thread):
    """Exports one conversation after the other; the next only when the one before was acknowledged."""

    def __init__(self, sender: int, endpoint: str, way: Way) -> None:
        super().__init__(name=f"sender-{sender}", daemon=True)
        self._sender = sender
        self._exporter: Any = (
            GrpcExporter(endpoint=endpoint, insecure=True, timeout=EXPORT_S)
            if way == "grpc"
            else HttpExporter(f"{endpoint}/v1/traces", timeout=EXPORT_S)
        )
        self._ending = threading.Event()
        #: How many conversations were acknowledged: those of the numbers below it.
        self.acknowledged = 0
        #: Exports that did not succeed: the conversation was sent again.
        self.refused = 0

    def run(self) -> None:
        while not self._ending.is_set():
            spans = [readable(span) for span in self.spans(self.acknowledged)]
            if self._exporter.export(spans) == SpanExportResult.SUCCESS:
                self.acknowledged += 1
            else:
                self.refused += 1
                self._ending.wait(0.05)

    def spans(self, number: int) -> tuple[Span, ...]:
        """Return the spans of one of its conversations."""
        return conversation(self._sender, number).spans

    def end(self) -> None:
        """Stop after the current export; a retrying one gives up."""
        self._ending.set()
        self._exporter.shutdown()
        self.join(3 * EXPORT_S)
        assert not self.is_alive()


@contextmanager
def sending(http: str, grpc: str, first: int = 0) -> Iterator[list[Sender]]:
    """Run one sender for each of `WAYS`; `first` is the number of the first of them: no two may share one."""
    quiet = logging.getLogger("opentelemetry")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL)  # exporters complain of every kill
    senders = [Sender(first + number, grpc if way == "grpc" else http, way) for number, way in enumerate(WAYS)]
    try:
        for sender in senders:
            sender.start()
        yield senders
    finally:
        for sender in senders:
            sender.end()
        quiet.setLevel(level)


def acknowledged(senders: list[Sender]) -> list[str]:
    """Return the traces that were acknowledged so far."""
    return [sender.spans(number)[0].trace_id for sender in senders for number in range(sender.acknowledged)]
