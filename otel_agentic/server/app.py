"""The admin address as an ASGI app: commands on the live store, health, `/metrics`.

It knows nothing of the store: what it can do is handed in as a `Backend`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from otel_agentic.errors import OtelAgenticError, TooLargeError, UsageError, codes_of
from otel_agentic.net import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from starlette.requests import Request

    from otel_agentic.net import Credentials, Role

_log = logging.getLogger(__name__)
#: A command with all its case files; far more than any sensible one.
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_UNAUTHORIZED: Final = 401
_JSON: Final = "application/json"
_PORT: Final = re.compile(r":\d+$")
_JSON_LINES: Final = "application/x-ndjson"
_MAY: Final = {"ingest": "send spans", "query": "read, not change", "admin": "do everything"}


class Backend(Protocol):
    """What the admin address serves."""

    def run(self, name: str, arguments: Mapping[str, Any], gone: Callable[[], bool]) -> Any:
        """Return a command's result, or an iterator of objects for one that streams. Blocks.

        `gone` says whether who asked went away; what only answers a question may then end.
        """
        ...

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """Return content type and body of `/metrics`; `accept` is the request's header of that name."""
        ...

    def health(self) -> dict[str, Any]:
        """Return the state of the collector; `ready` says whether it takes spans."""
        ...


def build_app(
    backend: Backend, *, credentials: Credentials, reading: AbstractSet[str] = frozenset(), any_host: bool = False
) -> Starlette:
    """Return the app.

    Where a token is set, everything but `/healthz` and `/readyz` asks for one: that of the role query will do for
    `/metrics` and the commands of `reading`. Where none is, only requests that name a loopback host are answered, unless
    `any_host` is set.
    """

    async def command(request: Request) -> Response:
        name = request.path_params["name"]
        needed: Role = "query" if name in reading else "admin"
        if (refused := _refusal(request, credentials, needed, any_host=any_host)) is not None:
            return refused
        try:
            arguments = await _arguments(request)
            async with _presence(request) as gone:
                result = await run_in_threadpool(backend.run, name, arguments, gone)
            if isinstance(result, Iterator):
                return StreamingResponse(_lines(result), media_type=_JSON_LINES)
            return _json(result)
        except Exception as error:  # noqa: BLE001 — every failure is answered in the same shape
            return _failure(error)

    async def metrics(request: Request) -> Response:
        if (refused := _refusal(request, credentials, "query", any_host=any_host)) is not None:
            return refused
        kind, body = await run_in_threadpool(backend.metrics, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})

    async def healthz(_: Request) -> Response:
        return _json({"ready": await _is_ready(backend)})

    async def readyz(_: Request) -> Response:
        ready = await _is_ready(backend)
        return _json({"ready": ready}, status=200 if ready else 503)

    return Starlette(
        exception_handlers={Exception: _unforeseen, HTTPException: _unserved},
        routes=[
            Route("/v1/commands/{name}", command, methods=["POST"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ],
    )


async def _unforeseen(_: Request, error: Exception) -> Response:
    return _failure(error)


async def _unserved(request: Request, error: Exception) -> Response:
    """Answer a path or method that is none of ours in the shape of every failure."""
    assert isinstance(error, HTTPException)  # noqa: S101 — it is registered for these alone
    told = f"{request.method} {request.url.path}: {error.detail}; commands are sent by POST to /v1/commands/NAME"
    answer = _refused(error.status_code, "NotServed", told)
    answer.headers.update(error.headers or {})
    return answer


async def _is_ready(backend: Backend) -> bool:
    """Return whether spans are taken. Whoever asks is a stranger, and learns no more."""
    state = await run_in_threadpool(backend.health)
    return bool(state.get("ready"))


def _refusal(request: Request, credentials: Credentials, needed: Role, *, any_host: bool) -> Response | None:
    """Return the answer to a request that is not let in, None for one that is.

    A web page that a person has open may send requests to this machine: it can set neither our content type nor, by a
    name of its own for our address, the host.
    """
    if credentials.guards("query", "admin"):
        role = credentials.role_of(request.headers.getlist("authorization"))
        if role is None:
            return _refused(401, "Unauthorized", "send the admin token as one header `Authorization: Bearer …`")
        if role not in {needed, "admin"}:
            return _refused(403, "Forbidden", f"this token lets its holder {_MAY[role]}: send the one of admin.token")
    elif not any_host and not _is_local(request.headers.get("host", "")):
        return _refused(403, "Forbidden", "ask by a loopback address, or set admin.token")
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


def _is_local(host: str) -> bool:
    try:
        return parse_address(host if _PORT.search(host) else f"{host}:0").is_loopback
    except UsageError:
        return False


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
    return _json(_told(error), status=codes_of(error).http)


def _told(error: Exception) -> dict[str, Any]:
    if not isinstance(error, OtelAgenticError):
        _log.error("a command failed", exc_info=error)
    return {"error": type(error).__name__, "message": str(error), "exit_code": codes_of(error).exit}


async def _lines(found: Iterator[Any]) -> AsyncIterator[bytes]:
    """Yield objects as lines of JSON. The status went out before the first: a failure on the way is the last line."""
    try:
        async for item in iterate_in_threadpool(found):
            yield _bytes(item) + b"\n"
    except Exception as error:  # noqa: BLE001 — told to the caller, as every failure is
        yield _bytes(_told(error)) + b"\n"


def _json(value: Any, status: int = 200) -> Response:
    return Response(_bytes(value), status_code=status, media_type=_JSON)


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
