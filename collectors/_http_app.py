"""The ASGI app behind OTLP/HTTP: one request from its head to its answer, never a 500."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from collectors._answers import RETRY_AFTER_S, deliver, new_status, rejection_message, status_of
from collectors._http_wire import FALLBACK_WIRE, WIRES
from collectors._inflate import ENCODINGS, inflate, too_large
from collectors._memory import LARGEST_AT_ONCE, Holding, MemoryBudget
from otel_agentic.errors import OverloadedError, TooLargeError, codes_of
from otel_agentic.net import is_authorized
from otel_agentic.spans import Limits

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed

    from collectors._http_wire import Signal, Wire
    from collectors._inflate import Encoding
    from otel_agentic.config import ReceiveSettings
    from otel_agentic.spans import Sink

_HTTP_UNAVAILABLE: Final = 503
_GRPC_CODES: Final = {401: "UNAUTHENTICATED", 404: "UNIMPLEMENTED", 405: "UNIMPLEMENTED", 408: "DEADLINE_EXCEEDED"}
#: For each request being handled one more may wait, its body already read.
_WAITING_RATIO: Final = 2


def build_app(sink: Sink, settings: ReceiveSettings, executor: Executor) -> Starlette:
    """Return the app; requests are decoded and delivered on the executor's threads."""
    receiver = _Receiver(sink, settings, executor)
    return Starlette(
        routes=[
            Route("/v1/traces", receiver.traces, methods=["POST"]),
            Route("/v1/logs", receiver.logs, methods=["POST"]),
            Route("/healthz", _health, methods=["GET"]),
            Route("/", _health, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _refuse_route},
    )


class _Receiver:
    """Reads, decodes, delivers and answers export requests."""

    def __init__(self, sink: Sink, settings: ReceiveSettings, executor: Executor) -> None:
        self._sink = sink
        self._settings = settings
        self._limits = Limits.from_settings(settings)
        self._executor = executor
        self._memory = MemoryBudget(LARGEST_AT_ONCE * settings.max_request_bytes)
        self._under_way = 0

    async def traces(self, request: Request) -> Response:
        """Answer `POST /v1/traces`."""
        return await self._answer(request, "traces")

    async def logs(self, request: Request) -> Response:
        """Answer `POST /v1/logs`."""
        return await self._answer(request, "logs")

    async def _answer(self, request: Request, signal: Signal) -> Response:
        wire = WIRES.get(_content_type(request), FALLBACK_WIRE)
        try:
            return await self._export(request, signal)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except HTTPException as refused:
            return _refusal(refused, wire)
        except asyncio.CancelledError:
            # Stopping, and the grace is over. uvicorn would say 500, at which exporters drop the batch.
            return _failure(OverloadedError("the collector is stopping: try again"), wire)
        except Exception as error:  # noqa: BLE001 — a 500 makes exporters drop the batch, so every error is mapped
            return _failure(error, wire)

    async def _export(self, request: Request, signal: Signal) -> Response:
        if not is_authorized(request.headers.get("authorization"), self._settings.token):
            raise HTTPException(
                401,
                "a bearer token is required: send the header `Authorization: Bearer …`",
                {"www-authenticate": "Bearer"},
            )
        wire, encoding = _wire(request), _encoding(request)
        with Holding(self._memory) as holding:
            raw = await self._read(request, holding)
            if self._under_way >= _WAITING_RATIO * self._settings.max_concurrent_requests:
                raise OverloadedError(f"{self._under_way} requests are under way: try again")
            self._under_way += 1
            try:
                work = partial(self._handle, raw, encoding, wire, signal, holding)
                body = await asyncio.get_running_loop().run_in_executor(self._executor, work)
            finally:
                self._under_way -= 1
        return Response(body, media_type=wire.content_type)

    async def _read(self, request: Request, holding: Holding) -> bytes:
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                return await _read_body(request, self._limits.max_request_bytes, holding)
        except TimeoutError as error:
            limit_s = self._settings.body_timeout_s
            raise HTTPException(
                408, f"the body did not arrive within {limit_s:g} s", {"connection": "close"}
            ) from error

    def _handle(self, raw: bytes, encoding: Encoding, wire: Wire, signal: Signal, holding: Holding) -> bytes:
        data = inflate(raw, encoding, self._limits.max_request_bytes, holding.add)
        batch = wire.decode(signal, data, self._limits)
        receipt = deliver(self._sink, batch)
        return wire.success(signal, receipt.rejected, rejection_message(receipt, batch))


async def _read_body(request: Request, max_bytes: int, holding: Holding) -> bytes:
    """Return the body as sent (still compressed), bounded whatever its length claims to be."""
    body = bytearray()
    surplus = 0
    async for chunk in request.stream():
        if surplus or len(body) + len(chunk) > max_bytes:
            # Read on for a while, unkept: a client that is cut off while sending never sees the answer.
            surplus += len(chunk)
            body.clear()
            if surplus > max_bytes:
                break
            continue
        holding.add(len(chunk))
        body += chunk
    if surplus:
        raise too_large(max_bytes)
    return bytes(body)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _wire(request: Request) -> Wire:
    sent = _content_type(request)
    if sent not in WIRES:
        raise HTTPException(415, f"content type {sent or 'unset'!r} is not read here: send {' or '.join(WIRES)}")
    return WIRES[sent]


def _encoding(request: Request) -> Encoding:
    sent = request.headers.get("content-encoding", "").strip().lower() or "identity"
    for encoding in ENCODINGS:
        if sent == encoding:
            return encoding
    allowed = ", ".join(ENCODINGS)
    raise HTTPException(
        415, f"content encoding {sent!r} is not read here: send {allowed}", {"accept-encoding": allowed}
    )


def _failure(error: Exception, wire: Wire) -> Response:
    http = codes_of(error).http
    headers = {}
    if http >= _HTTP_UNAVAILABLE:
        headers["retry-after"] = str(RETRY_AFTER_S)
    if isinstance(error, TooLargeError):
        headers["connection"] = "close"  # part of the body may be unread
    return _status_response(http, status_of(error), wire, headers)


def _refusal(refused: HTTPException, wire: Wire) -> Response:
    status = new_status(_GRPC_CODES.get(refused.status_code, "INVALID_ARGUMENT"), refused.detail)
    return _status_response(refused.status_code, status, wire, dict(refused.headers or {}))


def _status_response(http: int, status: Status, wire: Wire, headers: dict[str, str]) -> Response:
    return Response(wire.failure(status), status_code=http, headers=headers, media_type=wire.content_type)


async def _refuse_route(request: Request, error: Exception) -> Response:
    # Starlette calls this for unknown paths and methods; its own texts name neither.
    refused = error if isinstance(error, HTTPException) else HTTPException(404)
    told = f"{request.method} {request.url.path}: send spans by POST to /v1/traces and log records to /v1/logs"
    named = HTTPException(refused.status_code, told, dict(refused.headers or {}))
    return _refusal(named, WIRES.get(_content_type(request), FALLBACK_WIRE))


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "receives": ["/v1/traces", "/v1/logs"], "content_types": list(WIRES)})
