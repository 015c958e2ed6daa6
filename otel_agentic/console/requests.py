"""The parameters of a page, which are its state: every view of the console can be shared as a link."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from otel_agentic.errors import UsageError
from otel_agentic.windows.model import parse_width

if TYPE_CHECKING:
    from otel_agentic.console.sessions import Session
    from otel_agentic.results.failures import FailingTool
    from otel_agentic.results.reports import ReportGroup

#: The periods that forms offer, with their names.
PERIODS: Final = {"": "all time", "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
#: The conditions on conversations that all pages have, apart from the period.
SELECTION: Final = ("agent", "agent_version", "environment")
_MAX_VALUE: Final = 2000
_MINUTE_NS: Final = 60_000_000_000


#: Pages outside the navigation, and the page there that leads to each.
_SECTIONS: Final = {
    "/reliability": "/",
    "/numbers": "/",
    "/conversation": "/conversations",
    "/span": "/conversations",
    "/tail": "/conversations",
    "/case": "/cases",
    "/match": "/matches",
}


class PageRequest:
    """The parameters of a request for a page, and the session that sent it."""

    def __init__(self, path: str, values: Mapping[str, str], session: Session) -> None:
        self.path = path
        #: The environment of the object that a page is about, which may be empty; None if it is not in the link.
        self.environment = values.get("environment")
        self.values = {name: value.strip() for name, value in values.items() if value.strip()}
        self.session = session

    @property
    def section(self) -> str:
        """The path of the page in the navigation that this page belongs to."""
        return _SECTIONS.get(self.path, self.path)

    def text(self, name: str, limit: int = _MAX_VALUE) -> str | None:
        """Return a parameter of at most `limit` characters; None if it is missing or empty.

        Raises:
            UsageError: it is too long.
        """
        value = self.values.get(name)
        if value is not None and len(value) > limit:
            raise UsageError(f"{name}: at most {limit} characters")
        return value

    def required(self, name: str) -> str:
        """Return a parameter.

        Raises:
            UsageError: it is missing.
        """
        value = self.text(name)
        if value is None:
            raise UsageError(f"{self.path} needs the parameter {name}")
        return value

    def number(self, name: str) -> int | None:
        """Return a whole number; None if it is missing.

        Raises:
            UsageError: it is not a number.
        """
        value = self.text(name)
        return None if value is None else _parse_number(name, value)

    def numbers(self, name: str) -> list[int] | None:
        """Return whole numbers that commas separate; None if they are missing.

        Raises:
            UsageError: one of them is not a number.
        """
        value = self.text(name)
        return None if value is None else [_parse_number(name, part.strip()) for part in value.split(",")]

    def texts(self, *names: str) -> dict[str, str | None]:
        """Return several parameters by name."""
        return {name: self.text(name) for name in names}

    def conversation(self) -> dict[str, Any]:
        """Return the conversation that a page is about, as arguments of commands: links of the console contain its identity.

        Raises:
            UsageError: the id is missing.
        """
        environment = self.environment
        return {"conversation_id": self.required("id"), "environment": environment, "exact": environment is not None}

    def selection(self) -> dict[str, Any]:
        """Return the conditions on conversations that all pages have, as arguments of commands."""
        return {"since_ns": self.since_ns(), **self.texts(*SELECTION)}

    def since_ns(self) -> int | None:
        """Return the begin of the period of the parameter `since`, such as 24h; None for all time.

        It is the begin of a minute, so that requests within that minute can reuse a report.

        Raises:
            UsageError: it is not a period.
        """
        value = self.text("since")
        return None if value is None else (time.time_ns() - parse_width(value)) // _MINUTE_NS * _MINUTE_NS

    def back(self) -> PageRequest:
        """Return the page that led to this one, as the parameter `back` names it; the path is empty without one."""
        path, _, query = (self.text("back") or "").partition("?")
        return PageRequest(path, dict(parse_qsl(query)), self.session)

    def url(self, **changes: str | None) -> str:
        """Return the link to this page with changed parameters; None removes one."""
        return page_url(self.path, **(self._parameters | changes))

    def twin(self, suffix: str) -> str:
        """Return the link to this page in another format, such as `.json`."""
        return page_url(("/reliability" if self.path == "/" else self.path) + suffix, **self._parameters)

    @property
    def _parameters(self) -> dict[str, str | None]:
        """The parameters with a value, and an empty environment if it is part of the identity of a conversation."""
        is_identity = self.environment == "" and "id" in self.values
        return {**self.values, **({"environment": ""} if is_identity else {})}


def _parse_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{name}: {text!r} is not a whole number")
    return int(text)


def page_url(path: str, **parameters: str | None) -> str:
    """Return the link to a page with the parameters that are not None.

    >>> page_url("/conversations", tool="book seat", fault=None)
    '/conversations?tool=book+seat'
    """
    present = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(present)}" if present else path


class ConsoleLinks:
    """The links of a report in the console, which lead to its other pages. They keep its period and its environment."""

    def __init__(self, since: str | None = None, environment: str | None = None) -> None:
        self._since = since
        self._environment = environment

    def conversation(self, environment: str, conversation_id: str) -> str:
        """Return the page of a conversation."""
        return page_url("/conversation", id=conversation_id, environment=environment)

    def fault(self, row: FailingTool) -> str:
        """Return the list of the conversations with a kind of tool fault."""
        return page_url(
            "/conversations",
            agent=row.agent,
            agent_version=row.agent_version,
            environment=row.environment or self._environment,
            tool=row.tool,
            fault=row.fault,
            parameter=row.parameter,
            since=self._since,
        )

    def failed(self, group: ReportGroup) -> str | None:
        """Return the list of the failed conversations of a group; None if the list cannot select them."""
        if group.tag or group.tool or group.service:
            return None
        return page_url(
            "/conversations",
            agent=group.agent,
            agent_version=group.agent_version,
            environment=group.environment or self._environment,
            case_id=group.case,
            outcome="fail" if group.n > group.c else None,
            since=self._since,
        )

    def tool(self, name: str) -> str:
        """Return the page of a tool."""
        return page_url("/tools", tool=name, since=self._since, environment=self._environment)
