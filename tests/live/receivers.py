"""Loopback receivers of notifications: a webhook whose answers are scripted, and a mail server."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

Answer = tuple[int, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Post:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Webhook(ThreadingHTTPServer):
    """Keeps what it receives; answers with the scripted answers first, then 200. While `held` is clear, it does not answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: Queue[Post] = Queue()
        self.answers: list[Answer] = []
        self.held = threading.Event()
        self.held.set()

    @property
    def url(self) -> str:
        """Its URL, with a part that must not be printed."""
        return f"http://127.0.0.1:{self.server_address[1]}/hook/T0-secret-path"

    def posts(self) -> list[Post]:
        """Return the requests since the last call."""
        return [self.received.get() for _ in range(self.received.qsize())]


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.put(Post(path=self.path, headers=headers, body=body))
        self.server.held.wait(60)
        status, more = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.send_response(status)
        for name, value in {"content-length": "0", **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclass
class Mailbox:
    """What a mail server received: the commands, and the messages."""

    port: int
    commands: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Run a webhook."""
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.held.set()
            server.shutdown()
            thread.join()


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """Run a mail server without encryption (RFC 5321) that accepts every message."""

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.answer("220 ready")
            while line := self.rfile.readline().decode().strip():
                mailbox.commands.append(line)
                match line.split(" ")[0].upper():
                    case "DATA":
                        self.answer("354 continue")
                        lines = iter(self.rfile.readline, b".\r\n")
                        mailbox.messages.append(b"".join(lines))
                        self.answer("250 accepted")
                    case "QUIT":
                        self.answer("221 bye")
                        return
                    case _:
                        self.answer("250 ok")

        def answer(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        mailbox = Mailbox(port=server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield mailbox
        finally:
            server.shutdown()
            thread.join()
