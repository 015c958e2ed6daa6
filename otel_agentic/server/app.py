"""The admin address: its ASGI app (commands on the live store, health, `/metrics`) and the thread that serves it.

It is independent of the store: its functions come from a `Backend`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

import orjson
import uvicorn
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from otel_agentic.errors import OtelAgenticError, OverloadedError, TooLargeError, UsageError, codes_of
from otel_agentic.net import (
    Address,
    Bounds,
    Connections,
    Credentials,
    Hosts,
    Role,
    ServerTls,
    affordable,
    guarded_protocol,
    listen_bounded,
    parse_address,
    permits,
    require_allowed,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


T = TypeVar("T")
_log = logging.getLogger(__name__)
#: The largest request body, bytes; a command with all its case files is far smaller.
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_JSON: Final = "application/json"
_UNAVAILABLE: Final = 503
#: Retry delay for rejected clients, seconds.
_RETRY_AFTER_S: Final = "5"
#: The largest number of concurrent scrapes of `/metrics`, which wait for each other in any case.
_SCRAPES: Final = 4
_END: Final[Any] = object()
_JSON_LINES: Final = "application/x-ndjson"
_MAY: Final = {
    "ingest": "send spans",
    "feedback": "send feedback",
    "query": "read",
    "review": "read and record verdicts",
    "admin": "do everything",
}


class Backend(Protocol):
    """The functions behind the admin address."""

    def run(self, name: str, arguments: Mapping[str, Any], disconnected: Callable[[], bool]) -> Any:
        """Return a command's result: an object, an iterator of objects if the command streams, or `JsonPieces`. Blocks.

        `disconnected` returns True once the client has disconnected; a command that only reads may then end early.
        """
        ...

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """Return content type and body of `/metrics`; `accept` is the request's `Accept` header. Blocks."""
        ...

    @property
    def ready(self) -> bool:
        """Whether spans are accepted. Does not block, because it is read on the event loop."""
        ...


@runtime_checkable
class JsonPieces(Protocol):
    """A result whose JSON text is too large for memory."""

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the text. Blocks."""
        ...


class CommandPool:
    """A limited number of threads for commands; health checks and `/metrics` do not use them. Used on one event loop."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._limiter: CapacityLimiter | None = None
        #: The number of commands that are running, or whose response is still being sent.
        self.running = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a command while the block runs.

        Raises:
            OverloadedError: the limit is reached.
        """
        if self.running >= self._slots:
            raise OverloadedError(
                f"{self.running} commands are running already (admin.command_slots); try again when one is done"
            )
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a blocking function; call it within a `slot`."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._slots)
        return await run_sync(function, *arguments, limiter=self._limiter)

    async def iterate(self, items: Iterator[T]) -> AsyncIterator[T]:
        """Yield the items of a blocking iterator."""
        while (element := await self.call(next, items, _END)) is not _END:
            yield element


def build_app(
    backend: Backend,
    *,
    credentials: Credentials,
    hosts: Hosts,
    pool: CommandPool,
    roles: Mapping[str, Role] = MappingProxyType({}),
    pages: Sequence[Route] = (),
    not_found: Callable[[Request], Response | None] | None = None,
) -> Starlette:
    """Return the app.

    Commands and `/metrics` are answered only under the names of `hosts`, and not for web pages of other sites. If a token is
    set, they require it: `roles` has the roles of the commands that do not need `admin`; `/metrics` needs `query`. `pages` are the routes of the
    console, which checks its own sessions, and `not_found` returns its page about an unknown path, or None for programs.
    """
    scraping = CommandPool(_SCRAPES)

    async def metrics(request: Request) -> Response:
        if (refused := _refusal(request, credentials, "query", hosts)) is not None:
            return refused
        try:
            with scraping.slot():
                kind, body = await scraping.call(backend.metrics, request.headers.get("accept", ""))
        except OverloadedError:
            return _error_response(
                OverloadedError(f"{_SCRAPES} scrapes of /metrics are running already; scrape less often")
            )
        return Response(body, headers={"content-type": kind})

    async def healthz(_: Request) -> Response:
        return _json({"ready": backend.ready})

    async def readyz(_: Request) -> Response:
        ready = backend.ready
        return _json({"ready": ready}, status=200 if ready else 503)

    async def not_served(request: Request, error: Exception) -> Response:
        """Answer an unknown path or method, in the format of all errors, or as a page."""
        assert isinstance(error, HTTPException)  # noqa: S101 — registered for these only
        if error.status_code == _NOT_FOUND and not_found is not None and (page := not_found(request)) is not None:
            return page
        message = f"{request.method} {request.url.path}: {error.detail}; commands are sent by POST to /v1/commands/NAME"
        answer = _rejection(error.status_code, "NotServed", message)
        answer.headers.update(error.headers or {})
        return answer

    commands = _Commands(backend, pool, lambda request, needed: _refusal(request, credentials, needed, hosts), roles)
    return Starlette(
        exception_handlers={Exception: _server_error, HTTPException: not_served},
        routes=[
            Route("/v1/commands/{name}", commands, methods=["POST"]),
            Route("/v1/feedback", commands, methods=["POST"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            *pages,
        ],
    )


class _Commands:
    """Runs commands. It is an ASGI app, because a command keeps its slot until its answer is sent."""

    def __init__(
        self,
        backend: Backend,
        pool: CommandPool,
        refusal: Callable[[Request, Role], Response | None],
        roles: Mapping[str, Role],
    ) -> None:
        self._backend = backend
        self._pool = pool
        self._refusal = refusal
        self._roles = roles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.path_params.get("name", "feedback")
        if (answer := self._refusal(request, self._roles.get(name, "admin"))) is not None:
            await answer(scope, receive, send)
            return
        with ExitStack() as slot:
            try:
                arguments = await _arguments(request)
                slot.enter_context(self._pool.slot())
                async with _disconnect_watch(request) as disconnected:
                    result = await self._pool.call(self._backend.run, name, arguments, disconnected)
                answer = self._answer(result)
            except Exception as error:  # noqa: BLE001 — every failure is answered in the same shape
                answer = _error_response(error)
            await answer(scope, receive, send)

    def _answer(self, result: Any) -> Response:
        if isinstance(result, JsonPieces):
            return StreamingResponse(self._pool.iterate(result.json_pieces()), media_type=_JSON)
        if isinstance(result, Iterator):
            return StreamingResponse(_lines(self._pool.iterate(result)), media_type=_JSON_LINES)
        return _json(result)


async def _server_error(_: Request, error: Exception) -> Response:
    return _error_response(error)


def _refusal(request: Request, credentials: Credentials, needed: Role, hosts: Hosts) -> Response | None:
    """Return the answer to a request that is not authorized, or None if it is.

    A web page open in a browser on this machine may send requests here. It cannot set our content type, nor the `Host`
    header of a rebound name, and its browser sends the `Origin`.
    """
    host = request.headers.get("host", "")
    if not hosts.allows(host):
        return _rejection(403, "Forbidden", f"no requests to the host {host[:100]!r} here: see admin.allowed_hosts")
    if any(hosts.is_foreign(origin, host) for origin in request.headers.getlist("origin")):
        return _rejection(403, "Forbidden", "web pages of other sites may not send requests here")
    if credentials.guards("feedback", "query", "review", "admin"):
        role = credentials.role_of(request.headers.getlist("authorization"))
        if role is None:
            return _rejection(401, "Unauthorized", "send the admin token as one header `Authorization: Bearer …`")
        if not permits(role, needed):
            return _rejection(
                403, "Forbidden", f"this token only allows its holder to {_MAY[role]}; send the token of admin.token"
            )
    if request.method == "POST" and request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
        return _rejection(415, "UnsupportedMediaType", f"send arguments as {_JSON}")
    return None


def _rejection(status: int, error: str, message: str) -> Response:
    answer = _json({"error": error, "message": message, "exit_code": 2}, status=status)
    if status == _UNAUTHORIZED:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def refusal(status: int, message: str, content_type: str) -> tuple[str, bytes]:  # noqa: ARG001 — every answer is JSON here
    """Return content type and body of the answer to a request that was rejected before it reached the app."""
    return _JSON, _bytes({"error": "Refused", "message": message, "exit_code": 2})


@asynccontextmanager
async def _disconnect_watch(request: Request) -> AsyncIterator[Callable[[], bool]]:
    """Provide a function that returns whether the client has disconnected; the request's body must have been read."""
    disconnected = threading.Event()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    listener = asyncio.ensure_future(listen())
    try:
        yield disconnected.is_set
    finally:
        listener.cancel()


async def _arguments(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            raise TooLargeError(f"the request is larger than {_MAX_BODY_BYTES} bytes; send fewer files at once")
    if not body:
        return {}
    try:
        arguments = orjson.loads(bytes(body))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise UsageError("the request must be a JSON object of arguments")
    return arguments


def _error_response(error: Exception) -> Response:
    answer = _json(_error_json(error), status=codes_of(error).http)
    if answer.status_code == _UNAVAILABLE:
        answer.headers["retry-after"] = _RETRY_AFTER_S
    return answer


def _error_json(error: Exception) -> dict[str, Any]:
    if not isinstance(error, OtelAgenticError):
        _log.error("a command failed", exc_info=error)
    return {"error": type(error).__name__, "message": str(error), "exit_code": codes_of(error).exit}


async def _lines(items: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yield objects as lines of JSON. The status is sent first, so a later error becomes the last line."""
    try:
        async for element in items:
            yield _bytes(element) + b"\n"
    except Exception as error:  # noqa: BLE001 — reported to the client, as every error is
        yield _bytes(_error_json(error)) + b"\n"


def _json(value: Any, status: int = 200) -> Response:
    return Response(_bytes(value), status_code=status, media_type=_JSON)


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


_START_LIMIT_S: Final = 10.0
_START_POLL_S: Final = 0.005
_GRACE_S: Final = 2
#: The limits of connections: people and scrapers connect, not fleets of senders, and a command may upload files.
_BOUNDS: Final = Bounds(max_connections=256, head_timeout_s=10.0, body_timeout_s=120.0, min_body_rate=1024)


class AdminServer:
    """The admin address, from `start` to `stop`."""

    def __init__(
        self, app: Starlette, address: str, *, guarded: bool, insecure: bool, tls: ServerTls | None = None
    ) -> None:
        """Bind the address.

        Args:
            app: the app to serve.
            address: host:port; port 0 takes a free one.
            guarded: whether the app requires a token. Without a token, only loopback addresses are allowed, unless
                `insecure` is set or clients must present a certificate.
            insecure: whether any address is allowed without a token.
            tls: the TLS configuration; None for clear text.

        Raises:
            UsageError: the address is invalid, is taken, or is public without a token.
        """
        bind_address = parse_address(address)
        mutual = tls is not None and tls.is_mutual
        require_allowed(
            bind_address, token=guarded, mutual_tls=mutual, tls=tls is not None, insecure=insecure, section="admin"
        )
        self._scheme = "http" if tls is None else "https"
        bounds = replace(_BOUNDS, max_connections=affordable(_BOUNDS.max_connections))
        self._listener = listen_bounded(bind_address, bounds.max_connections)
        self._address = Address(host=bind_address.host, port=self._listener.getsockname()[1])
        self._guard = Connections(bounds, refusal, lambda: _GRACE_S)
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=guarded_protocol(H11Protocol, self._guard, tls),
            ws="none",
            lifespan="off",
            log_config=None,  # the process that runs the server configures logging
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        # uvicorn installs signal handlers on the main thread only.
        self._thread = threading.Thread(target=self._run, name="otel-agentic-admin", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, with the real port."""
        return f"{self._scheme}://{self._address}"

    def start(self) -> None:
        """Start serving; returns once requests are answered.

        Raises:
            UsageError: it does not start in time.
        """
        self._thread.start()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise UsageError(f"the admin server on {self._address} did not start; see the log")
            time.sleep(_START_POLL_S)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            await self._guard.close()

    def stop(self) -> None:
        """Finish running requests and release the address."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()
