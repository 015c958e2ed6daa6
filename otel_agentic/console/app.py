"""The routes of the console: sessions, pages with their JSON and CSV twins, and verdicts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

import orjson
from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from otel_agentic.console.cases import case, cases, save_case
from otel_agentic.console.matches import map_conversations, match, matches
from otel_agentic.console.monitors import acknowledge, monitors
from otel_agentic.console.pages import PAGES, Page, PageFunction
from otel_agentic.console.reports import CommandClient, ReportPendingError, Reports, Run
from otel_agentic.console.requests import PageRequest, page_url
from otel_agentic.console.review import Claims, record, review
from otel_agentic.console.sessions import Session, Sessions
from otel_agentic.console.tail import EVENTS, TAIL, Tail, TailRow, TailStream, tail_page, watch
from otel_agentic.errors import OtelAgenticError, TooLargeError, codes_of
from otel_agentic.net.tickets import Tickets
from otel_agentic.render.html.page import environment as report_templates
from otel_agentic.render.text import csv_parts
from otel_agentic.results import to_json

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.requests import Request

    from otel_agentic.commands.client import Client
    from otel_agentic.net import Credentials, Hosts
    from otel_agentic.server import CommandPool

_log = logging.getLogger(__name__)
#: Nothing is loaded from elsewhere, no script or style is inline, and no other site may show the console in a frame.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    # `no-referrer` makes browsers send `Origin: null` with forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "style.css": "text/css",
    "tail.js": "text/javascript",
}
_MAX_FORM_BYTES: Final = 256 * 1024
_MAX_NAME: Final = 100
#: Number of characters of a time to the second; see `moment`.
_TO_THE_SECOND: Final = 19
#: Pages in the navigation: path and name.
_NAVIGATION: Final = (
    ("/", "Reliability"),
    ("/tools", "Tools"),
    ("/conversations", "Conversations"),
    ("/review", "Review"),
    ("/cases", "Cases"),
    ("/matches", "Matches"),
    ("/monitors", "Monitors"),
    ("/sql", "SQL"),
    ("/collector", "Collector"),
)
_PAGES: Final[Mapping[str, PageFunction]] = {
    **PAGES,
    "/cases": cases,
    "/case": case,
    "/matches": matches,
    "/match": match,
    "/monitors": monitors,
}
#: The paths of all pages except `/`, which shows `/reliability`.
PATHS: Final = (*_PAGES, "/review")
#: A function that records what a form contains: it returns the link to continue with, or a page with a problem.
FormFunction = Callable[["Client", PageRequest], Page | str]
_FORMS: Final[Mapping[str, FormFunction]] = {
    "/label": record,
    "/case": save_case,
    "/match": map_conversations,
    "/acknowledge": acknowledge,
}
#: The pages whose reports are computed after each log-in, if the store is so large that each takes seconds.
_PREPARED: Final = ("/reliability", "/tools", "/collector", "/cases", "/matches")
_LARGE_BYTES: Final = 64 * 1024 * 1024
#: A page whose reports take longer than this, seconds, states it and reloads itself after the second time. Its JSON and its CSV wait.
_PATIENCE_S: Final = 2.0
_RELOAD_S: Final = 3


class Console:
    """The console of one store."""

    def __init__(
        self,
        run: Run,
        *,
        changes: Callable[[], int],
        size: Callable[[], int],
        load: Callable[[], object],
        pool: CommandPool,
        credentials: Credentials,
        hosts: Hosts,
        secret: bytes,
        tail: Tail | None = None,
    ) -> None:
        """Store the resources.

        Args:
            run: runs commands.
            changes: returns how often the store has changed; the next window of unchanged results does not count.
            size: returns the size of the store, bytes.
            load: reads what makes look-ups in a large store fast.
            pool: the threads of commands.
            credentials: the configured tokens; without any, only a ticket opens a session.
            hosts: the names under which the console answers.
            secret: the key that signs tickets.
            tail: the live tail of the collector; None if this process receives no spans.
        """
        self._run = run
        self._reports = Reports(changes)
        self._size = size
        self._load = load
        self._pool = pool
        self._credentials = credentials
        self._hosts = hosts
        self._tickets = Tickets(secret)
        self._sessions = Sessions()
        self._tail = tail

    def routes(self) -> list[Route]:
        """Return the routes; all but the log-in need a session."""
        all_pages: Mapping[str, PageFunction] = {
            **_PAGES,
            "/review": partial(review, Claims()),
            TAIL: partial(tail_page, self._tail),
        }
        pages = [route for path, function in all_pages.items() for route in self._twins(path, function)]
        return [
            Route("/", self._page(_PAGES["/reliability"], "/")),
            *pages,
            *(Route(path, self._form(path, function), methods=["POST"]) for path, function in _FORMS.items()),
            Route(EVENTS, self._guarded(self._follow), methods=["GET"]),
            Route("/login", self._guarded(self._login, is_open=True), methods=["GET", "POST"]),
            Route("/logout", self._guarded(self._logout), methods=["POST"]),
            Route("/static/{name}", _static, methods=["GET"]),
        ]

    def not_found(self, request: Request) -> Response | None:
        """Return the page about an unknown path for a person with a session; None for others, such as programs."""
        is_person = "text/html" in request.headers.get("accept", "")
        if not is_person or not self._hosts.allows(request.headers.get("host", "")):
            return None
        session = self._session(request)
        if session is None:
            return None
        text = f"There is no page {request.url.path[:_MAX_NAME]}: choose one above."
        response = _error_page(PageRequest(request.url.path, {}, session), "Not found", text, 404)
        response.headers.update(_HEADERS)
        return response

    def _twins(self, path: str, function: PageFunction) -> list[Route]:
        return [
            Route(path, self._page(function, path)),
            Route(f"{path}.json", self._page(function, path, _json)),
            Route(f"{path}.csv", self._page(function, path, _csv)),
        ]

    def _page(
        self, function: PageFunction, path: str, respond: Callable[[Page], Response] | None = None
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request, session: Session) -> Response:
            page_request = PageRequest(path, dict(request.query_params), session)
            with self._pool.slot():
                client = CommandClient(self._run, self._reports, _PATIENCE_S if respond is None else None)
                try:
                    page = await self._pool.call(function, client, page_request)
                except ReportPendingError as pending:
                    return _pending(page_request, pending)
                if respond is not None:
                    response = respond(page)
                    if client.as_of is not None:
                        response.headers["last-modified"] = format_datetime(client.as_of, usegmt=True)
                    return response
                return await self._pool.call(_html, page, page_request, client.as_of)

        return self._guarded(answer)

    def _client(self) -> CommandClient:
        return CommandClient(self._run, self._reports)

    def _guarded(
        self, answer: Callable[[Request, Session], Awaitable[Response]], *, is_open: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that checks the host, the origin of requests that change something, and the session."""

        async def handle(request: Request) -> Response:
            host = request.headers.get("host", "")
            if not self._hosts.allows(host):
                response: Response = PlainTextResponse(
                    f"no requests to the host {host[:100]!r} here: see admin.allowed_hosts\n", status_code=403
                )
            elif request.method not in {"GET", "HEAD"} and not self._is_own(request, host):
                response = PlainTextResponse("forms of other sites are not accepted\n", status_code=403)
            else:
                session = self._session(request)
                if session is None and not is_open:
                    response = self._no_session(request)
                else:
                    response = await _explained(answer, request, session or _NO_SESSION)
            response.headers.update(_HEADERS)
            return response

        return handle

    def _is_own(self, request: Request, host: str) -> bool:
        """Return whether a form was sent by a page of the console."""
        site = request.headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = request.headers.get("origin")
        return origin is not None and not self._hosts.is_foreign(origin, host)

    @property
    def _has_tokens(self) -> bool:
        return self._credentials.guards("query", "review", "admin")

    def _session(self, request: Request, *, keeps_open: bool = True) -> Session | None:
        cookie = request.cookies.get(_cookie_name(request), "")
        session = self._sessions.find(cookie) if keeps_open else self._sessions.peek(cookie)
        if session is None or session.authorization is None:
            return session
        # A token that was removed from its file ends its sessions.
        return session if self._credentials.role_of([session.authorization]) == session.role else None

    def _no_session(self, request: Request) -> Response:
        if _is_page(request):
            return _message("Log in", self._how_to_log_in(), status=401, form=self._has_tokens)
        return _error(request, f"no session. {self._how_to_log_in()}", 401)

    def _how_to_log_in(self) -> str:
        link = (
            "Run `otel-agentic console --db FILE` on the machine of the collector: it opens a link that is valid once."
        )
        return f"{link} Or send a token." if self._has_tokens else link

    async def _login(self, request: Request, _: Session) -> Response:
        """Show the page that spends a ticket, or open a session by a ticket or a token."""
        if request.method == "GET":
            # The ticket is spent by a form, so that a program that only follows links cannot use it up.
            return _message("otel-agentic", None, ticket=request.query_params.get("ticket"), form=self._has_tokens)
        values = await _form(request)
        annotator = self._tickets.spend(values.get("ticket", ""))
        if annotator is not None:
            return self._opened(request, self._sessions.open(annotator, "admin"))
        authorization = f"Bearer {values.get('token', '').strip()}"
        role = self._credentials.role_of([authorization]) if self._has_tokens else None
        if role in {"query", "review", "admin"}:
            name = values.get("name", "").strip()[:_MAX_NAME] or role
            return self._opened(request, self._sessions.open(name, role, authorization))
        reason = (
            "This token is not one for the console."
            if "token" in values
            else "This link was used before, or is too old."
        )
        return _message("Log in", f"{reason} {self._how_to_log_in()}", status=401, form=self._has_tokens)

    def _opened(self, request: Request, cookie: str) -> Response:
        """Return the answer to a log-in, after which the reports of a large store are prepared."""
        response = _with_cookie(request, cookie)
        if self._size() > _LARGE_BYTES:
            response.background = BackgroundTask(self._prepare)
        return response

    async def _prepare(self) -> None:
        """Compute the reports of the first pages, so that no page waits for them later, and log what fails."""
        await self._pool.call(self._load)
        for path in _PREPARED:
            try:
                await self._pool.call(_PAGES[path], self._client(), PageRequest(path, {}, _NO_SESSION))
            except OtelAgenticError as error:
                _log.info("the reports of %s are not prepared: %s", path, error)

    async def _logout(self, request: Request, _: Session) -> Response:
        self._sessions.close(request.cookies.get(_cookie_name(request), ""))
        response = _message("Logged out", self._how_to_log_in(), form=self._has_tokens)
        response.delete_cookie(_cookie_name(request), path="/")
        return response

    async def _follow(self, request: Request, session: Session) -> Response:
        """Send the rows of the live tail. A browser that reconnects names the last event that it received."""
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("pages of other sites may not follow the live tail\n", status_code=403)
        if request.method == "HEAD":
            return Response(headers={"content-type": "text/event-stream"})
        last_event = request.headers.get("last-event-id")
        values = dict(request.query_params) | ({} if last_event is None else {"after": last_event})
        viewer = watch(self._tail, PageRequest(EVENTS, values, session))
        return TailStream(viewer, _tail_row, lambda: self._session(request, keeps_open=False) is not None)

    def _form(self, path: str, function: FormFunction) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request, session: Session) -> Response:
            if not session.may_write:
                text = "This session may only read: log in with a token of admin.review_token or admin.token."
                return _error_page(PageRequest(path, {}, session), "Not allowed", text, 403)
            page_request = PageRequest(path, await _form(request), session)
            with self._pool.slot():
                client = self._client()
                result = await self._pool.call(function, client, page_request)
                if isinstance(result, str):
                    return RedirectResponse(result, status_code=303)
                return await self._pool.call(_html, result, page_request, client.as_of)

        return self._guarded(answer)


_NO_SESSION: Final = Session(annotator="", role="query", began_s=0.0)


async def _explained(
    answer: Callable[[Request, Session], Awaitable[Response]], request: Request, session: Session
) -> Response:
    """Return the answer, or a page with the error."""
    try:
        return await answer(request, session)
    except OtelAgenticError as error:
        status, text = codes_of(error).http, str(error)
    except Exception as error:  # noqa: BLE001 — every failure is a page
        _log.error("%s failed", request.url.path, exc_info=error)
        status, text = 500, "This page failed; the log of the collector contains the reason."
    if not _is_page(request):
        return _error(request, text, status)
    if session is _NO_SESSION:
        return _message("Not available", text, status=status)
    page_request = PageRequest(request.url.path, dict(request.query_params), session)
    return _error_page(page_request, "Not available", text, status)


def _is_page(request: Request) -> bool:
    return request.url.path != EVENTS and not request.url.path.endswith(".json")


def _error(request: Request, text: str, status: int) -> Response:
    """Return an error for a program: JSON for the twin of a page, text for the script of the live tail, which displays it."""
    if request.url.path == EVENTS:
        return PlainTextResponse(text, status_code=status)
    return _json_response({"error": text}, status)


def _html(page: Page, request: PageRequest, as_of: datetime | None) -> Response:
    """Return a page as HTML; `as_of` is the time of its reports if newer ones are being computed."""
    template = _templates().get_template(f"{page.template}.html.j2")
    text = template.render(
        **page.values,
        request=request,
        url=page_url,
        navigation=_NAVIGATION,
        has_csv=page.rows is not None,
        as_of=as_of,
        version=_version(),
    )
    return Response(text, media_type="text/html", status_code=page.status)


def _error_page(request: PageRequest, title: str, text: str, status: int) -> Response:
    """Return a page that states why the requested one is not there, with the navigation to the others."""
    return _html(Page(template="error", values={"title": title, "text": text}, status=status), request, None)


def _pending(request: PageRequest, pending: ReportPendingError) -> Response:
    """Return a page that states that its report is being computed, and reloads itself, also without JavaScript."""
    page = Page(template="pending", values={"for_s": int(pending.for_s), "reload_s": _RELOAD_S}, status=202)
    response = _html(page, request, None)
    response.headers.update({"retry-after": str(_RELOAD_S), "refresh": str(_RELOAD_S)})
    return response


#: Rows of the live tail as HTML, shared by all viewers, as long as the rows exist. Used on one event loop only.
_TAIL_ROWS: Final[WeakKeyDictionary[TailRow, str]] = WeakKeyDictionary()


def _tail_row(row: TailRow) -> str:
    html = _TAIL_ROWS.get(row)
    if html is None:
        rows: Any = _templates().get_template("rows.html.j2").module
        html = _TAIL_ROWS[row] = str(rows.conversation_row(row, row.href, _TO_THE_SECOND, row.so_far))
    return html


def _message(
    title: str, text: str | None, *, status: int = 200, ticket: str | None = None, form: bool = False
) -> Response:
    template = _templates().get_template("message.html.j2")
    html = template.render(title=title, text=text, ticket=ticket, form=form, version=_version())
    return Response(html, media_type="text/html", status_code=status)


def _json(page: Page) -> Response:
    return _json_response(to_json(page.payload), page.status)


def _json_response(value: Any, status: int) -> Response:
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2)
    return Response(body, media_type="application/json", status_code=status)


def _csv(page: Page) -> Response:
    if page.rows is None:
        return PlainTextResponse("this page has no CSV form; use .json\n", status_code=404)
    headers = {"content-disposition": f'attachment; filename="{page.template}.csv"'}
    rows = list(page.rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = "".join(csv_parts(names, ([row.get(name) for name in names] for row in rows)))
    return Response(text, media_type="text/csv", headers=headers, status_code=page.status)


async def _form(request: Request) -> dict[str, str]:
    """Return the values of a form.

    Raises:
        TooLargeError: it is too large.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM_BYTES:
            raise TooLargeError(f"the form is larger than {_MAX_FORM_BYTES} bytes")
    return dict(parse_qsl(bytes(body).decode("utf-8", "replace"), keep_blank_values=True))


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie: browsers send cookies to all ports of a host, so it contains the port."""
    prefix = "__Host-" if request.url.scheme == "https" else ""
    return f"{prefix}otel-agentic-{request.url.port or 0}"


def _with_cookie(request: Request, cookie: str) -> Response:
    response = RedirectResponse("/", status_code=303)
    # `lax` lets links from alerts keep the session.
    response.set_cookie(
        _cookie_name(request), cookie, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return response


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return PlainTextResponse("not found\n", status_code=404)
    headers = {"cache-control": "max-age=300", "x-content-type-options": "nosniff"}
    return Response(_static_text(name), media_type=_STATIC[name], headers=headers)


@cache
def _version() -> str:
    """Return the version of this package: to read it takes longer than to render most pages."""
    return version("otel-agentic")


@cache
def _static_text(name: str) -> str:
    if name == "style.css":
        return report_templates().get_template(name).render()
    return Path(__file__).with_name("static").joinpath(name).read_text("utf-8")


@cache
def _templates() -> Environment:
    """Return the templates of the console, which use the macros of the report's page."""
    shared = report_templates()
    loaders = [PackageLoader("otel_agentic.console"), PackageLoader("otel_agentic.render.html")]
    return shared.overlay(loader=ChoiceLoader(loaders))
