"""Commands of the console: pages of conversations and of their matches, and the spans of one."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final

import orjson
from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.results import from_json
from otel_agentic.results.browsing import ConversationPage, SpanDetails, SpanList
from otel_agentic.results.conversations import MatchPage
from otel_agentic.store.connection import DEFAULT, to_json_value
from otel_agentic.store.queries.browsing import (
    ConversationFilter,
    ConversationOrder,
    conversation_page,
    span_of,
    spans_of,
)
from otel_agentic.store.queries.conversations import only_conversation
from otel_agentic.store.table import Row, Selection
from otel_agentic.store.truth import MatchKind, match_page

_MAX_PAGE: Final = 1000
_MAX_OFFSET: Final = 2**62


@command("conversations_page", role="query")
def conversations_page(
    context: Context,
    *,
    selection: Selection,
    only: ConversationFilter,
    order: ConversationOrder = "newest",
    cursor: str | None = None,
    limit: Annotated[int, Field(ge=1, le=_MAX_PAGE)] = 50,
    evaluation: str = DEFAULT,
) -> ConversationPage:
    """Return a page of the conversations that meet all conditions, and the cursor of the next page.

    Raises:
        UsageError: the cursor is not one that this command returned.
    """
    after = None if cursor is None else _position(cursor)
    with context.showing(evaluation).store.read() as con:
        page_rows, has_more = conversation_page(con, selection, only, order=order, after=after, limit=limit)
    return from_json(
        ConversationPage,
        {"rows": to_json_value(page_rows), "next_cursor": _cursor(page_rows[-1]) if has_more else None},
    )


def _cursor(row: Row) -> str:
    return urlsafe_b64encode(orjson.dumps([row["rank"], row["environment"], row["conversation_id"]])).decode()


def _position(cursor: str) -> tuple[int, str, str]:
    try:
        rank, environment, conversation_id = orjson.loads(urlsafe_b64decode(cursor.encode()))
        return int(rank), str(environment), str(conversation_id)
    except (ValueError, TypeError) as error:
        raise UsageError(f"cursor {cursor[:40]!r} is invalid; start again without one") from error


@command("matches_page", role="query")
def matches_page(
    context: Context,
    *,
    selection: Selection,
    only: MatchKind | None = None,
    text: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Field(ge=1, le=_MAX_PAGE)] = 50,
    evaluation: str = DEFAULT,
) -> MatchPage:
    """Return a page of the matches of conversations with cases, and the cursor of the next page.

    Raises:
        UsageError: the cursor is not one that this command returned.
    """
    after = None if cursor is None else _position(cursor)
    with context.showing(evaluation).store.read() as con:
        found_rows, total = match_page(con, selection, only=only, text=text, after=after, limit=limit + 1)
    page_rows = found_rows[:limit]
    next_cursor = None if len(found_rows) <= limit else _cursor(page_rows[-1])
    matches = [{"evaluation": evaluation, **row} for row in to_json_value(page_rows)]
    return from_json(MatchPage, {"rows": matches, "total": total, "next_cursor": next_cursor})


@command("conversation_spans", role="query")
def conversation_spans(
    context: Context,
    *,
    conversation_id: str,
    environment: str | None = None,
    exact: bool = False,
    offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] = 0,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 500,
) -> SpanList:
    """Return spans of a conversation after the first `offset`, in the order of their start, without attributes.

    For `exact`, see `only_conversation`; a conversation that the store does not contain has no spans then.
    """
    store = context.engine.store
    with store.read() as con:
        key = only_conversation(con, conversation_id, environment, exact=exact)
        spans = spans_of(con, key, store.known_ids.periods(key[1]), offset=offset, limit=limit + 1)
    return from_json(SpanList, {"spans": spans[:limit], "is_complete": len(spans) <= limit})


@command("span", role="query")
def span(context: Context, *, trace_id: str, span_id: str) -> SpanDetails:
    """Return a span with its attributes.

    Raises:
        BadInputError: the store does not contain the span.
    """
    with context.engine.store.read() as con:
        row = span_of(con, trace_id, span_id)
    if row is None:
        raise BadInputError(f"no span {span_id!r} in trace {trace_id!r}: retention may have removed it")
    return from_json(SpanDetails, row)
