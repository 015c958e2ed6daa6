"""A collector: OTLP/JSON over TCP."""

import socketserver
import threading

from otel_agentic.config import Settings
from otel_agentic.errors import OtelAgenticError
from otel_agentic.spans import Limits, Sink, decode_document


class LineCollector:
    """OTLP/JSON over TCP: one document a line, one answer a line."""

    name = "lines"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._server: socketserver.ThreadingTCPServer | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "LineCollector":
        return cls(Limits.from_settings(settings.receive))

    def start(self, sink: Sink) -> None:
        limits = self._limits

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    try:
                        receipt = sink.accept(decode_document(line, limits))
                        self.wfile.write(f"stored {receipt.accepted}\n".encode())
                    except OtelAgenticError as error:
                        self.wfile.write(f"refused: {error}\n".encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self, grace_s: float) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def endpoint(self) -> str:
        return "tcp://{}:{}".format(*self._server.server_address) if self._server else "not started"
