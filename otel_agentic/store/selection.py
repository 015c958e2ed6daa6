"""Which conversations and scores a query is about, and its rows as records and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.truth.match import Match

#: The evaluation that commands show by default, and the only one that windows, monitors and events follow.
DEFAULT: Final = "default"
#: Whether a row of scores, `s`, belongs to the evaluation that a connection shows: `s.{IN_EVALUATION}`, as in the views.
IN_EVALUATION: Final = f"evaluation = coalesce(getvariable('evaluation'), '{DEFAULT}')"
_SHOW: Final = "SET VARIABLE evaluation = $name"
_NAMES: Final = "SELECT DISTINCT evaluation FROM evaluations ORDER BY evaluation"


def show(con: DuckDBPyConnection, name: str) -> None:
    """Make the queries and views of a connection show the scores of one evaluation."""
    con.execute(_SHOW, {"name": name})


def evaluation_names(con: DuckDBPyConnection) -> list[str]:
    """Return the names of the evaluations in the store."""
    return [str(name) for (name,) in con.execute(_NAMES).fetchall()]


def require_evaluation(con: DuckDBPyConnection, name: str) -> None:
    """Check that the store has an evaluation with this name; `default` always exists.

    Raises:
        UsageError: it does not exist; lists those that do.
    """
    known = {DEFAULT, *evaluation_names(con)}
    if name not in known:
        raise UsageError(
            f"unknown evaluation {name!r}; this store has {', '.join(sorted(known))} "
            f"(`otel-agentic evaluate --evaluation {name}` adds it)"
        )


_INT_END: Final = 2**63


def to_json_value(value: Any) -> Any:  # noqa: PLR0911 — one return a type
    """Return a value from the database as a JSON value: times as ISO 8601 text, decimals as numbers."""
    match value:
        case bool() | None | str() | float():
            return value
        case int():  # an integer that JSON readers cannot represent becomes its digits
            return value if -_INT_END <= value < _INT_END else str(value)
        case Mapping():
            return {str(key): to_json_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


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


def parse_json(text: str | None) -> Any:
    """Return the value of a JSON text from the database, None for null."""
    return None if text is None else orjson.loads(text)
