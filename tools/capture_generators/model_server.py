"""An OpenAI-compatible server on the loopback interface whose model is the story.

`/v1/chat/completions`, `/v1/responses` and Anthropic's `/v1/messages` (also streamed), `/v1/models`, `/v1/conversations`. For processes in other
languages: `GET /story` is the story as JSON, `POST /now` {"conversation", "turn", "count"} sets the turn that is played,
`POST /tools/<name>` runs a tool of the story with the body as its arguments.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any, ClassVar, Self

from tools.capture_generators import wire_chat, wire_messages, wire_responses
from tools.capture_generators.script import MODEL, Message, Reply, Script
from tools.capture_generators.shapes import Call, Conversation
from tools.capture_generators.story import STORY
from tools.capture_generators.tools import REFUND_TOOLS, TOOLS

_TOOLS = {tool.__name__: tool for tool in (*TOOLS, *REFUND_TOOLS)}


class ModelServer:
    """The server, running inside `with`.

    `url` ends in /v1: what clients call their base URL. `answer_tool` names the tool by which the answer is given where
    a framework wants that. A tool that is offered as `desk-multiply` or `multiply_tool` is called by that name.
    """

    def __init__(self, conversations: Iterable[Conversation] = STORY, *, answer_tool: str | None = None) -> None:
        self.conversations = tuple(conversations)
        self.script = Script(self.conversations)
        self.now = self.script.now
        self._answer_tool = answer_tool
        self._numbers = itertools.count(1)
        handler = type("BoundHandler", (_Handler,), {"model": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def url(self) -> str:
        """The base URL of the OpenAI interface."""
        return f"{self.root}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def number(self) -> int:
        """Return the next number for an id: 1, 2, 3."""
        return next(self._numbers)

    def renamed(self, reply: Reply, offered: list[str]) -> Reply:
        """Return the reply with the names of the tools that the request offers."""
        if reply.text is not None and self._answer_tool in offered:
            call = Call(str(self._answer_tool), {"answer": reply.text})
            return Reply(calls=((f"call_answer_{self.number()}", call),))
        calls = ((call_id, replace(call, name=_as_offered(call.name, offered))) for call_id, call in reply.calls)
        return replace(reply, calls=tuple(calls))


def _as_offered(name: str, offered: list[str]) -> str:
    if name in offered:
        return name
    similar = (other for other in offered if other.endswith(name) or other.startswith(name))
    return next(similar, name)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ClassVar[ModelServer]

    def log_message(self, *_: object) -> None:
        """Log nothing: the requests of the story are known."""

    def do_GET(self) -> None:
        if self.path == "/story":
            self._send([asdict(conversation) for conversation in self.model.conversations])
        else:
            self._send({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "us"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = json.loads(body or b"{}")
        try:
            self._answer(self.path.split("?", 1)[0], request)
        except (LookupError, ValueError, TypeError) as error:
            self._send({"error": {"message": str(error), "type": type(error).__name__}}, status=400)

    def _answer(self, path: str, request: dict[str, Any]) -> None:
        if path.endswith("/chat/completions"):
            self._chat(request)
        elif path.endswith("/responses"):
            self._typed(wire_responses, request)
        elif path.endswith("/messages"):
            self._typed(wire_messages, request)
        elif path.endswith("/conversations"):
            self._send({"id": f"conv_{self.model.number()}", "object": "conversation", "created_at": 0, "metadata": {}})
        elif path == "/now":
            self.model.now(request["conversation"], request["turn"], count=request.get("count", False))
            self._send({})
        elif path.startswith("/tools/"):
            self._send({"result": _TOOLS[path.removeprefix("/tools/")](**request)})
        else:
            self._send({"error": {"message": f"no {path} here"}}, status=404)

    def _chat(self, request: dict[str, Any]) -> None:
        reply, number = self._reply(wire_chat.messages(request), request)
        if request.get("stream"):
            self._stream(f"data: {data}\n\n" for data in wire_chat.events(request, reply, number))
        else:
            self._send(wire_chat.response(request, reply, number))

    def _typed(self, wire: ModuleType, request: dict[str, Any]) -> None:
        reply, number = self._reply(wire.messages(request), request)
        if request.get("stream"):
            events = wire.events(request, reply, number)
            self._stream(f"event: {kind}\ndata: {data}\n\n" for kind, data in events)
        else:
            self._send(wire.response(request, reply, number))

    def _reply(self, messages: list[Message], request: dict[str, Any]) -> tuple[Reply, int]:
        reply = self.model.renamed(self.model.script.reply(messages), wire_chat.offered(request))
        return reply, self.model.number()

    def _send(self, body: object, *, status: int = 200) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, lines: Iterable[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(line.encode())
        self.close_connection = True
