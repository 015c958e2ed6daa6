"""Queries of the console: one page of a list of conversations, and the spans of a conversation without their attributes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.table import BOUNDS, Key, Row, Selection, bounds, parse_json, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The order of a list: the newest first, or one that depends on nothing but the ids, so that its beginning is a random
#: sample.
ConversationOrder = Literal["newest", "random"]

_ORDERS: Final[dict[ConversationOrder, str]] = {
    "newest": "epoch_ns(c.window_time)",
    "random": "(hash('sample', c.environment, c.conversation_id) // 2)::BIGINT",
}
_PAGE: Final = f"""
WITH faults AS (
    SELECT t.environment, t.conversation_id, t.tool_name, t.fault, t.parameter
    FROM tool_faults t
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded
), verdicts AS (
    SELECT environment, conversation_id, annotator
    FROM v_annotations WHERE turn_index IS NULL AND verdict IS NOT NULL AND source <> 'event'
), ranked AS (
    SELECT v.*, {{rank}} AS rank
    FROM v_conversations v
    JOIN conversations c USING (environment, conversation_id)
    WHERE NOT c.superseded AND {BOUNDS} AND {{conditions}}
)
FROM ranked
WHERE {{position}}
ORDER BY rank DESC, environment DESC, conversation_id DESC
LIMIT $limit
"""  # noqa: S608 — constants of our own
_IN: Final = "(c.environment, c.conversation_id) IN (SELECT (environment, conversation_id) FROM "
_IN_REVISION: Final = (
    "(c.environment, c.conversation_id, c.revision) IN (SELECT (environment, conversation_id, revision) FROM "
)
#: The condition of each field of a filter; a field without a value adds none.
_CONDITIONS: Final = {
    "outcome": "v.outcome = $outcome",
    "reason": "v.reason = $reason",
    "case_id": "v.case_id = $case_id",
    "tool": f"({_IN_REVISION} tool_calls WHERE name = $tool) OR {_IN} faults WHERE tool_name = $tool))",
    "fault": f"{_IN} faults WHERE fault = $fault AND (tool_name = $tool OR $tool IS NULL))",
    "parameter": f"{_IN} faults WHERE parameter = $parameter AND (tool_name = $tool OR $tool IS NULL))",
    "in_slice": "list_contains(c.slices, $in_slice)",
    "text": f"(contains(lower(c.conversation_id), lower($text)) OR {_IN_REVISION} turns "
    "WHERE contains(lower(query), lower($text)) OR contains(lower(answer), lower($text))))",
    "labelled": f"$labelled = {_IN} verdicts)",
    "not_labelled_by": f"c.closed_by IS NOT NULL AND NOT {_IN} verdicts WHERE annotator = $not_labelled_by)",
    "reviewers": f"NOT {_IN} verdicts GROUP BY ALL HAVING count(DISTINCT annotator) >= $reviewers)",
    "disagreements": f"{_IN} v_annotator_disagreements WHERE turn_index IS NULL)",
}
_AFTER: Final = "(rank, environment, conversation_id) < ($rank, $after_environment, $after_id)"
_SPANS: Final = """
SELECT
    trace_id, span_id, parent_span_id, name, coalesce(operation, '') AS operation, coalesce(tool_name, model, '') AS subject,
    epoch_ns(start_time) AS start_ns, epoch_ns(end_time) AS end_ns, status, status_message
FROM spans
SEMI JOIN (
    FROM trace_links WHERE environment = $environment AND conversation_id = $id
) USING (trace_id)
ORDER BY start_time, trace_id, span_id
LIMIT $limit OFFSET $offset
"""
_SPAN: Final = """
SELECT
    trace_id, span_id, name, service, environment, scope, dialect, status, status_message, epoch_ns(start_time) AS start_ns,
    epoch_ns(end_time) AS end_ns, attributes, resource, events
FROM spans WHERE trace_id = $trace_id AND span_id = $span_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFilter:
    """Conditions on conversations; None means any.

    `text` is part of an id, a query or an answer, `in_slice` a slice as `name=value`. `fault` and `parameter` are those of a tool fault. `labelled` is whether
    a person gave a verdict on the conversation; `not_labelled_by` is an annotator without a verdict on it (closed ones
    only). `reviewers`: only conversations with verdicts of fewer annotators. `disagreements`: only conversations on which annotators differ.
    """

    outcome: Literal["pass", "fail", "not_evaluated"] | None = None
    reason: str | None = None
    case_id: str | None = None
    tool: str | None = None
    fault: str | None = None
    parameter: str | None = None
    text: str | None = None
    in_slice: str | None = None
    labelled: bool | None = None
    not_labelled_by: str | None = None
    reviewers: Annotated[int, Field(ge=1, le=100)] | None = None
    disagreements: Literal[True] | None = None


def conversation_page(
    con: DuckDBPyConnection,
    selection: Selection,
    only: ConversationFilter,
    *,
    order: ConversationOrder,
    after: tuple[int, str, str] | None,
    limit: int,
) -> list[Row]:
    """Return conversations in their newest revision, each with its `rank` in the order.

    Args:
        con: a connection.
        selection: the conversations to consider.
        only: further conditions.
        order: the order of the list.
        after: rank, environment and id of the conversation that ends the previous page.
        limit: the largest number of rows.
    """
    values = {name: value for name, value in asdict(only).items() if value is not None}
    conditions = [_CONDITIONS[name] for name in values]
    if after is not None:
        values |= dict(zip(("rank", "after_environment", "after_id"), after, strict=True))
    sql = _PAGE.format(
        rank=_ORDERS[order],
        conditions=" AND ".join(conditions) or "TRUE",
        position="TRUE" if after is None else _AFTER,
    )
    parameters = {**bounds(selection), **values, "tool": only.tool, "limit": limit}
    return rows(con, sql, {name: value for name, value in parameters.items() if f"${name}" in sql})


def spans_of(con: DuckDBPyConnection, key: Key, *, offset: int, limit: int) -> list[Row]:
    """Return spans of a conversation's traces after the first `offset`, in the order of their start, without attributes."""
    return rows(con, _SPANS, {"environment": key[0], "id": key[1], "offset": offset, "limit": limit})


def span_of(con: DuckDBPyConnection, trace_id: str, span_id: str) -> Row | None:
    """Return a span with its attributes, its resource and its events; None if it is not stored."""
    spans = rows(con, _SPAN, {"trace_id": trace_id, "span_id": span_id})
    if not spans:
        return None
    return spans[0] | {name: parse_json(spans[0][name]) for name in ("attributes", "resource", "events")}
