"""Queries for commands, charts and promotion: conversations with their scores, window points, and tool health."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.errors import BadInputError
from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.conversations import conversations_named, load_conversation_rows, shared_id_message
from otel_agentic.store.known_ids import ALWAYS
from otel_agentic.store.score_rows import (
    SCORED_BETWEEN,
    probably_scored,
    scored_since,
)
from otel_agentic.store.table import (
    ASKS,
    BOUNDS,
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

    from otel_agentic.conversations.model import Conversation


_LIST: Final = f"""
SELECT v.* FROM v_conversations v
JOIN conversations c USING (environment, conversation_id)
WHERE NOT c.superseded AND {BOUNDS} AND ($outcome IS NULL OR v.outcome = $outcome)
ORDER BY c.window_time DESC, c.conversation_id
LIMIT $limit
"""  # noqa: S608 — a constant of our own
_OPEN: Final = f"""
SELECT c.environment, c.conversation_id, c.agent, c.agent_version, c.link_method = 'explicit' AS has_id
FROM conversations c
WHERE NOT c.superseded AND c.closed_by IS NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
_TOTALS: Final = """
SELECT
    count(*) AS conversations, (SELECT count(*) FROM spans) AS spans,
    coalesce(list(DISTINCT agent ORDER BY agent) FILTER (agent IS NOT NULL), []) AS agents
FROM conversations WHERE NOT superseded
"""
_WRONG_CLOCKS: Final = """
SELECT service, count(*) AS conversations, max(ended_at) AS latest
FROM conversations WHERE NOT superseded AND window_time < ended_at
GROUP BY service ORDER BY conversations DESC, service
"""
_ID_REUSE: Final = """
SELECT
    count(*) AS shared_ids, coalesce(sum(conversations), 0)::BIGINT AS conversations,
    (SELECT count(*) FROM conversations WHERE NOT superseded AND possible_reuse) AS possible
FROM (
    SELECT count(DISTINCT conversation_id) AS conversations
    FROM trace_links WHERE explicit_id IS NOT NULL AND conversation_id <> '' GROUP BY environment, explicit_id
)
WHERE conversations > 1
"""
_ALL_KEYS: Final = f"""
SELECT c.environment, c.conversation_id FROM conversations c
WHERE NOT c.superseded AND {BOUNDS}
ORDER BY c.started_at, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
#: The parts of one score. What identifies it are values: a join would read the scores of all conversations again.
_PARTS: Final = {
    table: f"""
SELECT t.* EXCLUDE (evaluation_id, environment, conversation_id, revision, scored_at)
FROM {table} t
WHERE t.evaluation_id = $evaluation AND t.environment = $environment AND t.conversation_id = $id AND t.revision = $revision
    AND t.scored_at = make_timestamp_ns($scored_ns)
ORDER BY t.turn_index{order}
"""  # noqa: S608 — our own table names
    for table, order in (
        ("turn_scores", ""),
        ("tool_scores", ""),
        ("tool_faults", ""),
        ("call_pairs", ", t.actual_turn_index, t.actual_position, t.expected_index"),
    )
}
_TURN_OUTCOMES: Final = f"""
SELECT t.environment, t.conversation_id, t.outcome, t.answer_score
FROM turn_scores t
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
SEMI JOIN requested r ON r.environment = t.environment AND r.conversation_id = t.conversation_id
WHERE s.{IN_EVALUATION} AND NOT s.superseded
ORDER BY t.environment, t.conversation_id, t.turn_index
"""  # noqa: S608 — a constant of our own
#: The score of a revision, with its match and the definition of the case that it names.
_CONVERSATION_SCORE: Final = f"""
SELECT
    s.* EXCLUDE (environment, conversation_id), m.confidence AS match_confidence, m.candidates, k.definition,
    epoch_ns(s.scored_at) AS scored_ns
FROM conversation_scores s
LEFT JOIN (FROM matches s WHERE {SCORED_BETWEEN}) m USING (evaluation_id, environment, conversation_id, revision)
LEFT JOIN cases k ON k.dataset = m.dataset AND k.case_id = m.case_id AND k.version = m.case_version
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.environment = $environment AND s.conversation_id = $id
    AND s.revision = $revision AND {SCORED_BETWEEN}
"""  # noqa: S608 — constants of our own
_METRICS: Final = f"""
SELECT
    s.name, s.evaluator, s.evaluator_version, s.target, s.turn_index, s.position, s.tool_name, s.parameter,
    s.value, s.label, s.reason, s.explanation, s.details, s.score_id
FROM scores s
WHERE s.evaluator <> 'core' AND s.{IN_EVALUATION} AND NOT s.superseded
    AND s.environment = $environment AND s.conversation_id = $id AND s.revision = $revision
    AND ($scored_since IS NULL OR s.scored_at >= make_timestamp_ns($scored_since))
    AND ($metrics_at IS NULL OR s.scored_at <= make_timestamp_ns(epoch_ns($metrics_at::TIMESTAMP) + 999))
ORDER BY s.turn_index NULLS FIRST, s.position NULLS FIRST, s.evaluator, s.name, s.parameter NULLS FIRST
"""  # noqa: S608 — a constant of our own


def open_rows(con: DuckDBPyConnection, selection: Selection) -> dict[Key, Row]:
    """Return the open conversations of a selection: agent, its version, and whether the spans contain an id."""
    return {(row["environment"], row["conversation_id"]): row for row in rows(con, _OPEN, bounds(selection))}


def store_totals(con: DuckDBPyConnection) -> Row:
    """Return the numbers of conversations and of spans, and the names of the agents."""
    return rows(con, _TOTALS, {})[0]


def list_conversations(con: DuckDBPyConnection, selection: Selection, *, outcome: str | None, limit: int) -> list[Row]:
    """Return conversations in their newest revision, newest first."""
    return rows(con, _LIST, {**bounds(selection), "outcome": outcome, "limit": limit})


def find_conversation(con: DuckDBPyConnection, name: str, environment: str | None) -> list[tuple[str, str]]:
    """Return the identities of the conversations that a name fits: several in one environment share an id."""
    keys = conversations_named(con, [name]).get(name, [])
    return [key for key in keys if environment is None or key[0] == environment]


def only_conversation(con: DuckDBPyConnection, name: str, environment: str | None, *, exact: bool = False) -> Key:
    """Return the identity of the one conversation that a name fits.

    If `exact` is set, the name and the environment are the identity, as pages link to it: no other name is searched.

    Raises:
        BadInputError: no conversation has this name, or several do; the message lists these.
    """
    if exact:
        return (environment or "", name)
    keys = find_conversation(con, name, environment)
    if not keys:
        raise BadInputError(unknown_conversation(name))
    environments = sorted({key[0] for key in keys})
    if len(environments) > 1:
        names = ", ".join(map(repr, environments))
        raise BadInputError(f"conversation {name!r} exists in environments {names}; give --environment")
    if len(keys) > 1:
        raise BadInputError(shared_id_message(name, keys))
    return keys[0]


def unknown_conversation(name: str) -> str:
    """Return the message that no conversation has a name."""
    return f"no conversation {name!r}; `otel-agentic conversations list` shows them"


def all_conversations(con: DuckDBPyConnection, selection: Selection) -> list[tuple[str, str]]:
    """Return the identities of all conversations of a selection, by start time."""
    return [(row[0], row[1]) for row in con.execute(_ALL_KEYS, bounds(selection)).fetchall()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A conversation in its newest revision, and its window time, ns."""

    conversation: Conversation
    window_ns: int

    @property
    def where(self) -> Row:
        """The parameters that identify the revision."""
        conversation = self.conversation
        return {
            "environment": conversation.environment,
            "id": str(conversation.conversation_id),
            "revision": conversation.revision,
        }


def newest_revision(con: DuckDBPyConnection, key: Key, periods: Iterable[tuple[int, int]] = (ALWAYS,)) -> Newest:
    """Return a conversation in its newest revision.

    Args:
        con: a connection.
        key: its identity.
        periods: periods in which the revision may have been written, ns; see `KnownIds.periods`.

    Raises:
        BadInputError: the store does not contain it.
    """
    for since_ns, until_ns in periods:
        stored = load_conversation_rows(con, [key], since_ns, until_ns)
        for conversation, window_ns in zip(stored.read(), stored.window_times, strict=True):
            return Newest(conversation=conversation, window_ns=window_ns)
    raise BadInputError(unknown_conversation(key[1]))


def score_of(con: DuckDBPyConnection, newest: Newest) -> Row | None:
    """Return the newest score of a conversation with its turns, tools, faults, pairs and case; None without a score."""
    where = newest.where
    for times in probably_scored([newest.window_ns]):
        if scores := rows(con, _CONVERSATION_SCORE, where | times):
            break
    else:
        return None
    (score,) = scores
    where |= {"evaluation": score["evaluation_id"], "scored_ns": score.pop("scored_ns")}
    parts = {table: rows(con, sql, where) for table, sql in _PARTS.items()}
    score["criteria"] = [
        dict(zip(("name", "outcome", "reason"), criterion, strict=True))
        for criterion in parse_json(score["criteria"]) or ()
    ]
    for fault in parts["tool_faults"]:
        fault["expected"], fault["actual"] = (parse_json(fault[name]) for name in ("expected", "actual"))
    for tools in parts["tool_scores"]:
        tools["evidence"] = parse_json(tools["evidence"])
    return {**score, **parts, "case": parse_json(score.pop("definition"))}


def turn_outcomes(con: DuckDBPyConnection, keys: Collection[Key]) -> dict[Key, list[tuple[str, float | None]]]:
    """Return the outcome and the answer score of each scored turn of some conversations, in order."""
    outcomes: dict[Key, list[tuple[str, float | None]]] = {}
    for environment, conversation_id, outcome, score in rows_with(con, key_columns(keys), _TURN_OUTCOMES):
        outcomes.setdefault((environment, conversation_id), []).append((outcome, score))
    return outcomes


def metrics_of(con: DuckDBPyConnection, newest: Newest, score: Row | None) -> list[Row]:
    """Return the scores of evaluators for a conversation, including abstentions; scores without a turn come first.

    Its score contains when they were last stored, to the microsecond: no later ones are read.
    """
    where = {**newest.where, "metrics_at": None if score is None else score["metrics_at"]}
    bounded = rows(con, _METRICS, {**where, "scored_since": scored_since([newest.window_ns])})
    metrics = bounded or rows(con, _METRICS, {**where, "scored_since": None})
    for row in metrics:
        row["details"] = parse_json(row["details"])
    return metrics


def outcomes_of(con: DuckDBPyConnection) -> dict[tuple[str, str], tuple[str | None, str, str | None]]:
    """Return (case id, outcome, reason) of the newest score of each conversation."""
    rows = con.execute(
        f"""
        SELECT environment, conversation_id, case_id, outcome, reason
        FROM conversation_scores
        SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
        WHERE {IN_EVALUATION} AND NOT superseded
        """  # noqa: S608 — a constant of our own
    ).fetchall()
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}


def coverage(con: DuckDBPyConnection) -> list[Row]:
    """Return the coverage of the instrumentation, by service, dialect and instrumentation scope."""
    return rows(con, "SELECT * FROM v_coverage ORDER BY service, dialect, scope", {})


def received(con: DuckDBPyConnection) -> list[Row]:
    """Return the number of spans of each instrumentation scope, and the dialect that reads them; most spans first."""
    sql = """
    SELECT service, scope, dialect, count(*) AS spans, max(received_at) AS last_received
    FROM spans GROUP BY service, scope, dialect ORDER BY spans DESC, service, scope, dialect
    """
    return rows(con, sql, {})


def counts(con: DuckDBPyConnection) -> Row:
    """Return the number of conversations, turns and calls in their newest revisions."""
    sql = """
    SELECT
        count(*) AS conversations, coalesce(sum(turn_count), 0)::BIGINT AS turns,
        coalesce(sum(call_count), 0)::BIGINT AS tool_calls, count(*) FILTER (closed_by IS NULL) AS open,
        count(*) FILTER (ambiguous_link) AS ambiguous_links
    FROM conversations WHERE NOT superseded
    """
    return rows(con, sql, {})[0]


def id_reuse(con: DuckDBPyConnection) -> Row:
    """Return how many ids several conversations share, how many these are, and how many others may be several."""
    return rows(con, _ID_REUSE, {})[0]


def wrong_clocks(con: DuckDBPyConnection) -> list[Row]:
    """Return how many conversations ended later than they were received, by service; largest numbers first."""
    return rows(con, _WRONG_CLOCKS, {})


Kind = Literal["failing", "unmatched", "ambiguous", "warning", "suggested", "text"]

_CHOSEN: Final = f"""
SELECT
    c.environment, c.conversation_id, c.agent, epoch_ns(c.ended_at) AS ended_ns, c.closed_by IS NULL AS open,
    s.outcome, s.reason, s.explanation, s.dataset, s.case_id, m.warning
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN matches m ON m.evaluation_id = s.evaluation_id AND m.environment = c.environment
    AND m.conversation_id = c.conversation_id AND m.revision = c.revision
WHERE NOT c.superseded AND {BOUNDS}
    AND ($id IS NULL OR c.conversation_id = $id) AND {ASKS}
    AND ($kind IS NULL OR ($kind = 'failing' AND s.outcome = 'fail') OR m.reason = $kind
        OR ($kind = 'warning' AND m.warning IS NOT NULL) OR ($kind = 'suggested' AND m.suggested_case_id IS NOT NULL)
        OR ($kind = 'text' AND m.method = 'text'))
ORDER BY c.window_time DESC, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_QUERIES: Final = """
SELECT t.environment, t.conversation_id, list(t.query ORDER BY t.turn_index)
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT c.superseded
GROUP BY t.environment, t.conversation_id
"""
_UNSCORED: Final = f"""
SELECT count(*) FROM conversations c
ANTI JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND {BOUNDS}
"""  # noqa: S608 — same


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The newest revision of a conversation and its newest score; `queries` has an entry per turn, None without one."""

    environment: str
    conversation_id: str
    agent: str | None
    ended_ns: int
    open: bool
    outcome: str | None
    reason: str | None
    explanation: str | None
    dataset: str | None
    case_id: str | None
    warning: str | None
    queries: tuple[str | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The identity: environment and conversation id."""
        return (self.environment, self.conversation_id)


def candidates(
    con: DuckDBPyConnection,
    selection: Selection,
    *,
    kind: Kind | None = None,
    conversation_id: str | None = None,
    text: str | None = None,
) -> list[Candidate]:
    """Return the conversations of a selection, newest first.

    `kind` keeps those of one kind, `text` those with a query that contains it.
    """
    where = {**bounds(selection), "kind": kind, "id": conversation_id, "text": text}
    conversations = rows(con, _CHOSEN, where)
    queries = _queries(con, [(row["environment"], row["conversation_id"]) for row in conversations])
    for row in conversations:
        row["queries"] = queries.get((row["environment"], row["conversation_id"]), ())
    return [Candidate(**row) for row in conversations]


def _queries(con: DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, tuple[str | None, ...]]:
    return {(row[0], row[1]): tuple(row[2]) for row in rows_with(con, key_columns(keys), _QUERIES)}


def unscored(con: DuckDBPyConnection, selection: Selection) -> int:
    """Return how many conversations of a selection have no score in their newest revision."""
    counts = con.execute(_UNSCORED, bounds(selection)).fetchall()
    return int(counts[0][0])


#: For windows, a selection bounds the end: the windows that end after `since`, up to `until`.
_BOUNDS: Final = """
    ($since IS NULL OR "end" > make_timestamp_ns($since))
    AND ($until IS NULL OR "end" <= make_timestamp_ns($until))
    AND ($agent IS NULL OR agent GLOB $agent)
    AND ($agent_version IS NULL OR agent_version = $agent_version)
    AND ($environment IS NULL OR environment = $environment)
"""
_KINDS: Final = f"""
SELECT "window", estimator, k, count(*) AS points
FROM windows
WHERE {_BOUNDS}
GROUP BY ALL
ORDER BY "window", estimator, k
"""  # noqa: S608 — a constant of our own
#: The series with the most conversations come first; equal ones by name.
_POINTS: Final = f"""
WITH chosen AS (
    SELECT *, max(n) OVER (PARTITION BY agent, agent_version, environment, service, tag) AS most
    FROM windows
    WHERE {_BOUNDS} AND "window" = $window AND estimator = $estimator AND k = $k AND (tag IS NULL) != $tags
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY most DESC, agent, agent_version, environment, service, tag) AS place
    FROM chosen
)
SELECT
    agent, agent_version, environment, service, tag,
    epoch_ns("end") AS end_ns, n, c, coverage, level, pass_at_k, pass_at_k_lower, pass_at_k_upper,
    pass_pow_k, pass_pow_k_lower, pass_pow_k_upper, tier, leaning, revision, epoch_ns(computed_at) AS computed_ns,
    (SELECT max(place) FROM ranked) AS series
FROM ranked
WHERE place <= $panels
ORDER BY agent, agent_version, environment, service, tag, "end"
"""  # noqa: S608 — a constant of our own
_TOOLS: Final = f"""
WITH faults AS (
    SELECT v.agent, v.tool, v.dimension, count(*) AS faults
    FROM v_tool_faults v
    JOIN conversations c USING (environment, conversation_id)
    WHERE NOT c.superseded AND {BOUNDS}
    GROUP BY ALL
), health AS (
    SELECT
        c.agent, n.tool_name AS tool,
        count(DISTINCT (c.environment, c.conversation_id)) AS conversations,
        sum(n.paired) AS selection_sum, sum(n.expected + n.unexpected)::BIGINT AS selection_n,
        sum(n.parameters) AS parameters_sum, sum(n.compared)::BIGINT AS parameters_n,
        sum(n.in_order) AS sequence_sum, sum(n.ordered)::BIGINT AS sequence_n,
        sum(n.used) AS utilization_sum, sum(n.known)::BIGINT AS utilization_n
    FROM tool_counts n
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
    GROUP BY ALL
)
SELECT
    h.agent, h.tool, h.conversations,
    h.selection_sum / nullif(h.selection_n, 0) AS selection, h.selection_n,
    h.parameters_sum / nullif(h.parameters_n, 0) AS parameters, h.parameters_n,
    h.sequence_sum / nullif(h.sequence_n, 0) AS sequence, h.sequence_n,
    h.utilization_sum / nullif(h.utilization_n, 0) AS utilization, h.utilization_n,
    coalesce(sum(f.faults) FILTER (f.dimension = 'selection'), 0)::BIGINT AS selection_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'parameters'), 0)::BIGINT AS parameters_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'sequence'), 0)::BIGINT AS sequence_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'utilization'), 0)::BIGINT AS utilization_faults,
    coalesce(sum(f.faults) FILTER (f.dimension IS NULL), 0)::BIGINT AS errored,
    coalesce(sum(f.faults), 0)::BIGINT AS faults
FROM health h
LEFT JOIN faults f ON f.agent IS NOT DISTINCT FROM h.agent AND f.tool = h.tool
GROUP BY ALL
HAVING greatest(h.selection_n, h.parameters_n, h.sequence_n, h.utilization_n, faults) > 0
ORDER BY faults DESC, h.conversations DESC, h.agent, h.tool
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKind:
    """A kind of stored windows: their width, the estimator, and k."""

    window: str
    estimator: str
    k: int


def window_kinds(con: DuckDBPyConnection, selection: Selection) -> dict[WindowKind, int]:
    """Return the number of stored windows of each kind in a selection of ends and agents."""
    return {WindowKind(window=row[0], estimator=row[1], k=row[2]): int(row[3]) for row in _all(con, _KINDS, selection)}


def window_points(
    con: DuckDBPyConnection, selection: Selection, kind: WindowKind, *, panels: int, tags: bool = False
) -> list[Row]:
    """Return the stored windows of one kind, by group and end.

    Each row contains the number of groups as `series`; only the `panels` groups with the most conversations have rows.

    Args:
        con: a connection.
        selection: the agents, and the window ends: after `since_ns`, up to `until_ns`.
        kind: the kind of windows.
        panels: the largest number of groups.
        tags: the windows of case tags instead of those of all cases.
    """
    where = {**bounds(selection), **asdict(kind), "panels": panels, "tags": tags}
    return rows(con, _POINTS, where)


def tool_health(con: DuckDBPyConnection, selection: Selection) -> list[Row]:
    """Return each tool of each agent with its mean score in each dimension, and the number of values in each mean.

    A dimension that never applied is None; a tool without any dimension and without a fault is omitted. The tools with
    the most faults come first.
    """
    return rows(con, _TOOLS, bounds(selection))


def _all(con: DuckDBPyConnection, sql: str, selection: Selection) -> list[tuple[Any, ...]]:
    return con.execute(sql, bounds(selection)).fetchall()
