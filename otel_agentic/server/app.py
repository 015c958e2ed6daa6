"""The admin address as an ASGI app: commands on the live store, health, `/metrics`.

It knows nothing of the store: what it can do is handed in as a `Backend`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

import orjson
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from otel_agentic.errors import OtelAgenticError, OverloadedError, TooLargeError, UsageError, codes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from starlette.types import Receive, Scope, Send

    from otel_agentic.net import Credentials, Hosts, Role

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: A command with all its case files; far more than any sensible one.
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_UNAUTHORIZED: Final = 401
_JSON: Final = "application/json"
_UNAVAILABLE: Final = 503
#: When somebody who was asked to try again may do so, seconds.
_RETRY_AFTER_S: Final = "5"
#: Scrapes of `/metrics` at once: they wait for each other anyway.
_SCRAPES: Final = 4
_END: Final[Any] = object()
_JSON_LINES: Final = "application/x-ndjson"
_MAY: Final = {"ingest": "send spans", "query": "read, not change", "admin": "do everything"}


class Backend(Protocol):
    """What the admin address serves."""

    def run(self, name: str, arguments: Mapping[str, Any], gone: Callable[[], bool]) -> Any:
        """Return a command's result, an iterator of objects for one that streams, or `JsonPieces`. Blocks.

        `gone` says whether who asked went away; what only answers a question may then end.
        """
        ...

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """Return content type and body of `/metrics`; `accept` is the request's header of that name. Blocks."""
        ...

    @property
    def ready(self) -> bool:
        """Whether spans are taken. Does not block: it is asked on the event loop."""
        ...


@runtime_checkable
class JsonPieces(Protocol):
    """A result whose JSON text is too large to be held in memory."""

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the text. Blocks."""
        ...


class CommandPool:
    """The threads of commands: a number of them, which health checks and `/metrics` do not need. Used on one event loop."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._limiter: CapacityLimiter | None = None
        #: Commands that run now, or whose answer is still being sent.
        self.running = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a command while the block runs.

        Raises:
            OverloadedError: there are as many as may be.
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
        """Return what a function returns that blocks; to be called within a `slot`."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._slots)
        return await run_sync(function, *arguments, limiter=self._limiter)

    async def each(self, items: Iterator[T]) -> AsyncIterator[T]:
        """Yield what an iterator yields that blocks."""
        while (item := await self.call(next, items, _END)) is not _END:
            yield item


def build_app(
    backend: Backend,
    *,
    credentials: Credentials,
    hosts: Hosts,
    pool: CommandPool,
    reading: AbstractSet[str] = frozenset(),
) -> Starlette:
    """Return the app.

    Commands and `/metrics` are answered only under the names of `hosts`, and to no web page of another site. Where a token
    is set, they also ask for one: that of the role query will do for `/metrics` and the commands of `reading`.
    """
    scraping = CommandPool(_SCRAPES)

    async def metrics(request: Request) -> Response:
        if (refused := _refusal(request, credentials, "query", hosts)) is not None:
            return refused
        try:
            with scraping.slot():
                kind, body = await scraping.call(backend.metrics, request.headers.get("accept", ""))
        except OverloadedError:
            return _failure(OverloadedError(f"{_SCRAPES} scrapes of /metrics are running already; scrape less often"))
        return Response(body, headers={"content-type": kind})

    async def healthz(_: Request) -> Response:
        return _json({"ready": backend.ready})

    async def readyz(_: Request) -> Response:
        ready = backend.ready
        return _json({"ready": ready}, status=200 if ready else 503)

    commands = _Commands(backend, pool, lambda request, needed: _refusal(request, credentials, needed, hosts), reading)
    return Starlette(
        exception_handlers={Exception: _unforeseen, HTTPException: _unserved},
        routes=[
            Route("/v1/commands/{name}", commands, methods=["POST"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ],
    )


class _Commands:
    """Runs commands: an ASGI app, since a command keeps its slot until its answer is sent."""

    def __init__(
        self,
        backend: Backend,
        pool: CommandPool,
        refusal: Callable[[Request, Role], Response | None],
        reading: AbstractSet[str],
    ) -> None:
        self._backend = backend
        self._pool = pool
        self._refusal = refusal
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.path_params["name"]
        if (answer := self._refusal(request, "query" if name in self._reading else "admin")) is not None:
            await answer(scope, receive, send)
            return
        with ExitStack() as slot:
            try:
                arguments = await _arguments(request)
                slot.enter_context(self._pool.slot())
                async with _presence(request) as gone:
                    result = await self._pool.call(self._backend.run, name, arguments, gone)
                answer = self._answer(result)
            except Exception as error:  # noqa: BLE001 — every failure is answered in the same shape
                answer = _failure(error)
            await answer(scope, receive, send)

    def _answer(self, result: Any) -> Response:
        if isinstance(result, JsonPieces):
            return StreamingResponse(self._pool.each(result.json_pieces()), media_type=_JSON)
        if isinstance(result, Iterator):
            return StreamingResponse(_lines(self._pool.each(result)), media_type=_JSON_LINES)
        return _json(result)


async def _unforeseen(_: Request, error: Exception) -> Response:
    return _failure(error)


async def _unserved(request: Request, error: Exception) -> Response:
    """Answer a path or method that is none of ours in the shape of every failure."""
    assert isinstance(error, HTTPException)  # noqa: S101 — it is registered for these alone
    told = f"{request.method} {request.url.path}: {error.detail}; commands are sent by POST to /v1/commands/NAME"
    answer = _refused(error.status_code, "NotServed", told)
    answer.headers.update(error.headers or {})
    return answer


def _refusal(request: Request, credentials: Credentials, needed: Role, hosts: Hosts) -> Response | None:
    """Return the answer to a request that is not let in, None for one that is.

    A web page that a person has open may send requests to this machine. It can set neither our content type nor, by a name
    of its own for our address, the host; and its browser says where it is from.
    """
    host = request.headers.get("host", "")
    if not hosts.allows(host):
        return _refused(403, "Forbidden", f"no requests to the host {host[:100]!r} here: see admin.allowed_hosts")
    if any(hosts.is_foreign(origin, host) for origin in request.headers.getlist("origin")):
        return _refused(403, "Forbidden", "web pages of other sites may not send requests here")
    if credentials.guards("query", "admin"):
        role = credentials.role_of(request.headers.getlist("authorization"))
        if role is None:
            return _refused(401, "Unauthorized", "send the admin token as one header `Authorization: Bearer …`")
        if role not in {needed, "admin"}:
            return _refused(403, "Forbidden", f"this token lets its holder {_MAY[role]}: send the one of admin.token")
    if request.method == "POST" and request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
        return _refused(415, "UnsupportedMediaType", f"send arguments as {_JSON}")
    return None


def _refused(status: int, error: str, message: str) -> Response:
    answer = _json({"error": error, "message": message, "exit_code": 2}, status=status)
    if status == _UNAUTHORIZED:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def refusal(status: int, told: str, content_type: str) -> tuple[str, bytes]:  # noqa: ARG001 — every answer is JSON here
    """Return content type and body of the answer to a request that did not come as far as the app."""
    return _JSON, _bytes({"error": "Refused", "message": told, "exit_code": 2})


@asynccontextmanager
async def _presence(request: Request) -> AsyncIterator[Callable[[], bool]]:
    """Lend a function that says whether the client closed its connection; the body of the request was read before."""
    left = threading.Event()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        left.set()

    listening = asyncio.ensure_future(listen())
    try:
        yield left.is_set
    finally:
        listening.cancel()


async def _arguments(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            raise TooLargeError(f"the request is larger than {_MAX_BODY_BYTES} bytes; send fewer files at once")
    if not body:
        return {}
    try:
        found = orjson.loads(bytes(body))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError("the request must be a JSON object of arguments")
    return found


def _failure(error: Exception) -> Response:
    answer = _json(_told(error), status=codes_of(error).http)
    if answer.status_code == _UNAVAILABLE:
        answer.headers["retry-after"] = _RETRY_AFTER_S
    return answer


def _told(error: Exception) -> dict[str, Any]:
    if not isinstance(error, OtelAgenticError):
        _log.error("a command failed", exc_info=error)
    return {"error": type(error).__name__, "message": str(error), "exit_code": codes_of(error).exit}


async def _lines(found: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yield objects as lines of JSON. The status went out before the first: a failure on the way is the last line."""
    try:
        async for item in found:
            yield _bytes(item) + b"\n"
    except Exception as error:  # noqa: BLE001 — told to the caller, as every failure is
        yield _bytes(_told(error)) + b"\n"


def _json(value: Any, status: int = 200) -> Response:
    return Response(_bytes(value), status_code=status, media_type=_JSON)


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
