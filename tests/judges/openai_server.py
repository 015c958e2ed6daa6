"""A local server with the interface of OpenAI, which misbehaves as scripted."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from langchain_openai import ChatOpenAI

from tests.judges.models import verdict


@dataclass(frozen=True, kw_only=True)
class ServerReply:
    """One answer of the server. `hangs` until the server is closed; `resets` the connection in place of an answer.

    `claims` is a declared length that the body does not have; `endless` sends the body as long as anyone reads.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    resets: bool = False
    claims: int | None = None
    endless: bool = False


def completion(
    content: str | None = None, *, finish_reason: str = "stop", usage: bool = True, **message: Any
) -> dict[str, Any]:
    messages = {"role": "assistant", "content": content, **message}
    result: dict[str, Any] = {
        "id": "reply-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": messages}],
    }
    if usage:
        result["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return result


def completed(content: str | None = None, **message: Any) -> ServerReply:
    return ServerReply(body=json.dumps(completion(content, **message)).encode())


def error(status: int, message: str, **headers: str) -> ServerReply:
    body = json.dumps({"error": {"message": message, "type": "scripted", "code": None}}).encode()
    return ServerReply(
        status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def obliging(request: dict[str, Any], score: object = 1.0) -> ServerReply:
    """Return a verdict in the way that was asked for."""
    text = verdict(score)
    if "response_format" in request:
        return completed(text)
    if "tools" in request:
        call = {"id": "call-1", "type": "function", "function": {"name": "verdict", "arguments": text}}
        return completed(tool_calls=[call], finish_reason="tool_calls")
    return completed(f"Here it is:\n```json\n{text}\n```")


def filled(schema: Mapping[str, Any], *, single: Sequence[str] = ("one",)) -> Any:
    """Return a value of a reply's schema: the best score, the first label, one text; `single` where one text is allowed."""
    if schema["type"] == "object":
        return {name: filled(part, single=single) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return list(single) if schema["maxItems"] == 1 else ["one"]
    return schema["maximum"] if schema["type"] == "number" else schema.get("enum", ["So it is."])[0]


@dataclass
class OpenAIServer:
    """Answers by a script, which gets each request and its number from 0; counts the requests."""

    script: Callable[[dict[str, Any], int], ServerReply]
    requests: list[dict[str, Any]] = field(default_factory=list)
    sent_bytes: int = 0

    def __post_init__(self) -> None:
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.http = _HttpServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def model(self, **options: Any) -> ChatOpenAI:
        return ChatOpenAI(model="scripted", base_url=self.base_url, api_key="none", max_retries=0, **options)

    def answer(self, request: dict[str, Any]) -> ServerReply:
        with self.lock:
            number = len(self.requests)
            self.requests.append(request)
        return self.script(request, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()


@contextmanager
def serving(*script: ServerReply | Callable[[dict[str, Any]], ServerReply]) -> Iterator[OpenAIServer]:
    """Run a server that gives these answers in turn, and the last one for ever."""

    def play(request: dict[str, Any], number: int) -> ServerReply:
        step = script[min(number, len(script) - 1)]
        return step if isinstance(step, ServerReply) else step(request)

    with OpenAIServer(play) as server:
        yield server


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of many connections at once the usual 5 are kept, and others are reset


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = server.answer(request)
            if answer.hangs:
                server.released.wait(30)
                self.close_connection = True
            elif answer.resets:
                linger = struct.pack("ii", 1, 0)  # close with a reset, not with an end
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
            else:
                self._send(answer)

        def _send(self, answer: ServerReply) -> None:
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            if not answer.endless:
                self.send_header("content-length", str(answer.claims or len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = answer.endless or answer.claims is not None
            try:
                while answer.endless:
                    server.sent_bytes += self.wfile.write(answer.body)
            except OSError:
                return  # the client has closed the connection

        def log_message(self, *_: object) -> None:
            pass

    return Handler
