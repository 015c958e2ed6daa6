"""Queries of the console: one page of a list of conversations, and the spans of a conversation without their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from otel_agentic.store.connection import DEFAULT, IN_EVALUATION
from otel_agentic.store.score_rows import SCORED_BETWEEN, probably_scored, scored_since
from otel_agentic.store.spans import BUCKETS
from otel_agentic.store.table import (
    BOUNDS,
    LAST_NS,
    Key,
    Row,
    Selection,
    bounds,
    key_columns,
    parse_json,
    rows,
    rows_with,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The order of a list: the newest first, or one that depends on nothing but the ids, so that its beginning is a random
#: sample.
ConversationOrder = Literal["newest", "random"]

#: Bits of the random rank below the bucket, which is a hash of the ids, too.
_BUCKET_BITS: Final = 48
_RANDOM: Final = (
    f"(c.bucket::BIGINT << {_BUCKET_BITS}) "
    f"+ (hash('sample', c.environment, c.conversation_id) >> {64 - _BUCKET_BITS})::BIGINT"
)
#: For each order, what a list is ordered by, and its rank as an integer, which increases with it.
_ORDERS: Final[dict[ConversationOrder, tuple[str, str]]] = {
    "newest": ("c.window_time", "epoch_ns(c.window_time)"),
    "random": (_RANDOM, _RANDOM),
}
#: The conversations of a page. Most columns are read of these only, by row id. Without a condition on scores, no scores are read here:
#: most conversations are on no page.
_PAGE: Final = f"""
WITH faults AS (
    SELECT t.environment, t.conversation_id, t.tool_name, t.fault, t.parameter
    FROM tool_faults t
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND {SCORED_BETWEEN}
        AND ($scored_since IS NULL OR t.scored_at >= make_timestamp_ns($scored_since))
), verdicts AS (
    SELECT environment, conversation_id, annotator
    FROM v_annotations WHERE turn_index IS NULL AND verdict IS NOT NULL AND source <> 'event'
)
SELECT
    c.conversation_id, c.environment, c.revision, c.agent, c.agent_version, c.service,
    make_timestamptz(epoch_ns(c.started_at) // 1000) AS started_at,
    make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at,
    make_timestamptz(epoch_ns(c.window_time) // 1000) AS window_time,
    c.closed_by, c.turn_count, c.call_count, c.content_captured,
    coalesce(getvariable('evaluation'), '{DEFAULT}') AS evaluation, {{rank}} AS rank, epoch_ns(c.window_time) AS window_ns
FROM conversations c
WHERE c.rowid IN (
    SELECT c.rowid FROM conversations c
    WHERE NOT c.superseded AND {BOUNDS} AND {{conditions}} AND {{position}}
        AND ($bucket_from IS NULL OR c.bucket BETWEEN $bucket_from AND $bucket_until)
    ORDER BY {{order}} DESC, c.environment DESC, c.conversation_id DESC
    LIMIT $limit
)
ORDER BY {{order}} DESC, c.environment DESC, c.conversation_id DESC
"""  # noqa: S608 — constants of our own
#: The newest scores of some conversations.
_SCORES: Final = f"""
SELECT s.environment, s.conversation_id, s.revision, s.case_id, s.outcome, s.reason, s.explanation
FROM conversation_scores s
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND {SCORED_BETWEEN}
"""  # noqa: S608 — constants of our own
_RESULTS: Final = "SELECT 1 FROM results SEMI JOIN requested USING (environment, conversation_id, revision) LIMIT 1"
_IN: Final = "(c.environment, c.conversation_id) IN (SELECT (environment, conversation_id) FROM "
_IN_REVISION: Final = (
    "(c.environment, c.conversation_id, c.revision) IN (SELECT (environment, conversation_id, revision) FROM "
)
_IN_SCORED: Final = (
    f"{_IN_REVISION} conversation_scores s WHERE s.{IN_EVALUATION} AND NOT s.superseded AND {SCORED_BETWEEN}"
)
#: The condition of each field of a filter; a field without a value adds none.
_CONDITIONS: Final = {
    "outcome": f"{_IN_SCORED} AND s.outcome = $outcome)",
    "reason": f"{_IN} v_conversations WHERE reason = $reason)",
    "case_id": f"{_IN_SCORED} AND s.case_id = $case_id)",
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
_AFTER: Final = "({rank}, c.environment, c.conversation_id) < ($rank, $after_environment, $after_id)"
#: The window time of the conversation at a position of a list, newest first, without its filter.
_WINDOW_TIME: Final = f"""
SELECT epoch_ns(c.window_time) FROM conversations c
WHERE NOT c.superseded AND {BOUNDS} AND {{position}}
ORDER BY c.window_time DESC LIMIT 1 OFFSET $offset
"""  # noqa: S608 — constants of our own
#: Fields of a filter that scores meet. These are first read of so many conversations only, the newest ones: usually, enough meet it.
_SCORED: Final = frozenset({"outcome", "case_id", "tool", "fault", "parameter"})
#: Fields whose conditions read the scores or turns of all conversations.
_READS_PARTS: Final = _SCORED | {"reason", "text"}
_LAST_RANK: Final = (BUCKETS << _BUCKET_BITS) - 1
_NEWEST: Final = (2_000, 20_000)
#: A random sample is first read from so many buckets only, those with the highest ranks, unless its conditions read all scores or turns.
_BUCKETS_AT_FIRST: Final = (8, 128)
_SPANS: Final = """
SELECT
    trace_id, span_id, parent_span_id, name, coalesce(operation, '') AS operation, coalesce(tool_name, model, '') AS subject,
    epoch_ns(start_time) AS start_ns, epoch_ns(end_time) AS end_ns, status, status_message
FROM spans
WHERE trace_id IN (SELECT unnest($traces::VARCHAR[]))
    AND received_at >= make_timestamp_ns($first) AND received_at <= make_timestamp_ns($last)
ORDER BY start_time, trace_id, span_id
LIMIT $limit OFFSET $offset
"""
#: The traces of a conversation between two times, and when the first and the last of their spans that were read were received. Links
#: and spans are stored nearly in the order of these times, so that most others are not read.
_TRACES: Final = """
SELECT list(DISTINCT trace_id), epoch_ns(min(received_from)), epoch_ns(max(received_until))
FROM trace_links
WHERE environment = $environment AND conversation_id = $id
    AND started_at >= make_timestamp_ns($first) AND ended_at <= make_timestamp_ns($last)
"""
#: A trace in which another instrumentation reports the same turns may begin before the conversation, and end after it.
_MARGIN_NS: Final = 24 * 3_600_000_000_000
_TIMES: Final = """
SELECT epoch_ns(started_at), epoch_ns(ended_at) FROM conversations
WHERE environment = $environment AND conversation_id = $id AND NOT superseded
    AND built_at >= make_timestamp_ns($since) AND built_at <= make_timestamp_ns($until)
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
) -> tuple[list[Row], bool]:
    """Return conversations in their newest revision, each with its `rank` in the order, and whether more follow.

    Args:
        con: a connection.
        selection: the conversations to consider.
        only: further conditions.
        order: the order of the list.
        after: rank, environment and id of the conversation that ends the previous page.
        limit: the largest number of rows.
    """
    values = {name: value for name, value in asdict(only).items() if value is not None}
    implied = {"tool"} if values.keys() & {"fault", "parameter"} else set()
    conditions = [_CONDITIONS[name] for name in values if name not in implied]
    if after is not None:
        values |= dict(zip(("rank", "after_environment", "after_id"), after, strict=True))
    expression, rank = _ORDERS[order]
    position = "TRUE" if after is None else _AFTER.format(rank=rank)
    sql = _PAGE.format(rank=rank, order=expression, conditions=" AND ".join(conditions) or "TRUE", position=position)
    parameters = {**bounds(selection), **values, "tool": only.tool, "limit": limit + 1}
    no_bounds = dict.fromkeys(("scored_since", "scored_until", "bucket_from", "bucket_until"))
    for step in _steps(con, order, values.keys(), position, parameters):
        where = {**parameters, **no_bounds, **step}
        page = rows(con, sql, {name: value for name, value in where.items() if f"${name}" in sql})
        if len(page) > limit:
            break
    has_more, page = len(page) > limit, page[:limit]
    scores = _scores(con, page)
    return [row | scores.get(_revision_of(row), _not_scored(row)) for row in page], has_more


def _steps(
    con: DuckDBPyConnection, order: ConversationOrder, conditions: AbstractSet[str], position: str, parameters: Row
) -> Iterator[dict[str, int | None]]:
    """Yield parameters that restrict a list to its beginning, to more of it, and to nothing, if that takes less time."""
    if order == "newest" and conditions & _SCORED:
        yield from _newest_first(con, position, parameters)
    elif order == "random" and not conditions & _READS_PARTS:
        last = parameters.get("rank", _LAST_RANK) >> _BUCKET_BITS
        yield from ({"bucket_from": last - count + 1, "bucket_until": last} for count in _BUCKETS_AT_FIRST)
    yield {}


def _newest_first(con: DuckDBPyConnection, position: str, parameters: Row) -> Iterator[dict[str, int | None]]:
    """Yield parameters that restrict a list to its newest conversations, and to more of them."""
    sql = _WINDOW_TIME.format(position=position)
    where = {name: value for name, value in parameters.items() if f"${name}" in sql}
    for count in _NEWEST:
        times = con.execute(sql, {**where, "offset": count}).fetchall()
        if not times:
            break
        ((window_ns,),) = times
        yield {"since": window_ns, "scored_since": scored_since([window_ns])}


def _scores(con: DuckDBPyConnection, page: Sequence[Row]) -> dict[tuple[str, str, int], Row]:
    """Return case, outcome, reason and explanation of the newest scores of some conversations, by revision."""
    keys = key_columns([(row["environment"], row["conversation_id"]) for row in page])
    scores: dict[tuple[str, str, int], Row] = {}
    missing = [row for row in page if row["closed_by"] is not None]
    for times in probably_scored([row.pop("window_ns") for row in page]):
        if times["scored_since"] is None and not _have_results(con, missing):
            break  # they wait to be scored: all scores would be read in vain
        for *revision, case_id, outcome, reason, explanation in rows_with(con, keys, _SCORES, times):
            scores[tuple(revision)] = {
                "case_id": case_id,
                "outcome": outcome,
                "reason": reason,
                "explanation": explanation,
            }
        missing = [row for row in missing if _revision_of(row) not in scores]
        if not missing:
            break
    return scores


def _have_results(con: DuckDBPyConnection, page: Sequence[Row]) -> bool:
    """Return whether some of these conversations may have a score: those of the default evaluation have results, too."""
    if any(row["evaluation"] != DEFAULT for row in page):
        return True
    revisions = {name: [row[name] for row in page] for name in ("environment", "conversation_id", "revision")}
    return bool(rows_with(con, revisions, _RESULTS))


def _revision_of(row: Row) -> tuple[str, str, int]:
    return row["environment"], row["conversation_id"], row["revision"]


def _not_scored(row: Row) -> Row:
    reason = None if row["closed_by"] is None else "not_scored"
    return {"case_id": None, "outcome": None, "reason": reason, "explanation": None}


def spans_of(
    con: DuckDBPyConnection, key: Key, periods: Iterable[tuple[int, int]], *, offset: int, limit: int
) -> list[Row]:
    """Return spans of a conversation's traces after the first `offset`, in the order of their start, without attributes.

    `periods` as in `newest_revision`.
    """
    where = {"environment": key[0], "id": key[1]}
    for since_ns, until_ns in periods:
        for started_ns, ended_ns in con.execute(_TIMES, {**where, "since": since_ns, "until": until_ns}).fetchall():
            times = {"first": max(0, started_ns - _MARGIN_NS), "last": min(LAST_NS, ended_ns + _MARGIN_NS)}
            ((traces, first, last),) = con.execute(_TRACES, {**where, **times}).fetchall()
            page = {"traces": traces or [], "first": first, "last": last, "offset": offset, "limit": limit}
            return rows(con, _SPANS, page)
    return []


def span_of(con: DuckDBPyConnection, trace_id: str, span_id: str) -> Row | None:
    """Return a span with its attributes, its resource and its events; None if it is not stored."""
    spans = rows(con, _SPAN, {"trace_id": trace_id, "span_id": span_id})
    if not spans:
        return None
    return spans[0] | {name: parse_json(spans[0][name]) for name in ("attributes", "resource", "events")}
