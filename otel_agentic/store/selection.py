"""Which conversations a query is about, and rows of a query as records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.truth.match import Match

Row = dict[str, Any]

#: The conditions of a `Selection` on `c`, a row of `conversations`; not of a view, whose times are TIMESTAMPTZ. A time range
#: is compared with the window time of a conversation, not with the times that its sender's clock reported.
BOUNDS: Final = """
    ($since IS NULL OR c.window_time >= make_timestamp_ns($since))
    AND ($until IS NULL OR c.window_time < make_timestamp_ns($until))
    AND ($agent IS NULL OR c.agent GLOB $agent)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The closed conversations that a command is about; None means no bound. Times in ns; `agent` is a glob."""

    since_ns: int | None = None
    until_ns: int | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A conversation with its match and its score; `sample_ratio` is the share of conversations evaluated at that time."""

    conversation: Conversation
    match: Match
    score: ConversationScore
    sample_ratio: float = 1.0


def bounds(selection: Selection) -> dict[str, Any]:
    """Return the parameters of `BOUNDS`."""
    return {"since": selection.since_ns, "until": selection.until_ns, "agent": selection.agent}


def rows(con: DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a query as records."""
    result = con.execute(sql, dict(parameters)) if parameters else con.execute(sql)
    names = [str(column[0]) for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def parsed(text: str | None) -> Any:
    """Return the value of a JSON text from the database, None for null."""
    return None if text is None else orjson.loads(text)
