"""Closed conversations with their newest scores, one by one or counted by kind, as reports and windows read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.score_rows import ANSWER, CONVERSATION, HAS_ANSWER_SCORE, TOOLS
from otel_agentic.store.table import BOUNDS, Row, Selection, bounds, rows, split_by_kind
from otel_agentic.windows.model import ScoredConversation

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection

#: The names of the tools with faults, for each score.
_FAULTY: Final = """
SELECT evaluation_id, environment, conversation_id, revision, list(DISTINCT tool_name ORDER BY tool_name) AS tools
FROM tool_faults {only}
GROUP BY ALL
"""
#: For each score, the means of the tool dimensions; for each case, the names of the expected tools; and the newest scores and
#: matches. `{scores}` are the rows of `scores`, and `{only}` restricts the conversations of the other tables.
_PARTS_OF_SCORES: Final = f"""
parts AS (
    SELECT evaluation_id, environment, conversation_id, revision, {", ".join(f"avg({name}) AS {name}" for name in DIMENSIONS)}
    FROM {{scores}}
    WHERE name = '{TOOLS}'
    GROUP BY ALL
), expected AS (
    SELECT dataset, case_id, version, list(DISTINCT tool_name ORDER BY tool_name) AS tools
    FROM expected_calls
    GROUP BY ALL
), faulty AS ({_FAULTY}), newest_scores AS (
    SELECT * REPLACE (coalesce(reason, fail_reason) AS reason), label AS outcome
    FROM {{scores}}
    WHERE name = '{CONVERSATION}' AND {IN_EVALUATION} AND NOT superseded
), matched AS (
    FROM matches {{only}}
)
"""  # noqa: S608 — constants of our own
#: What a report reads of a closed conversation, besides its identity and time.
_CONTENT: Final[dict[str, str]] = {
    "agent": "c.agent",
    "agent_version": "c.agent_version",
    "service": "c.service",
    "dataset": "s.dataset",
    "case_id": "s.case_id",
    "tags": "coalesce(k.tags, [])",
    "slices": "list_filter(c.slices, lambda slice: list_contains($slices::VARCHAR[], split_part(slice, '=', 1)))",
    "outcome": "coalesce(s.outcome, 'not_evaluated')",
    "reason": "coalesce(s.reason, CASE WHEN s.outcome IS NULL THEN 'not_scored' END)",
    **{name: f"t.{name}" for name in DIMENSIONS},
    "tools": "CASE WHEN f.tools IS NULL THEN coalesce(e.tools, []) "
    "ELSE list_sort(list_distinct(list_concat(e.tools, f.tools))) END",
    "weight": "1.0 / coalesce(s.sample_ratio, 1.0)",
    "clock_ahead": "c.window_time < c.ended_at",
    "known_failure": "s.known_failure",
    "pass_probability": "s.pass_probability",
}
#: Conversations with their newest scores; one without a score is not evaluated, with reason `not_scored`.
_SCORED: Final = """
FROM {conversations} c
LEFT JOIN newest_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.current
LEFT JOIN parts t ON t.evaluation_id = s.evaluation_id AND t.environment = s.environment
    AND t.conversation_id = s.conversation_id AND t.revision = s.revision
LEFT JOIN matched m ON m.evaluation_id = s.evaluation_id AND m.environment = s.environment
    AND m.conversation_id = s.conversation_id AND m.revision = s.revision
LEFT JOIN expected e ON e.dataset = m.dataset AND e.case_id = m.case_id AND e.version = m.case_version
LEFT JOIN faulty f ON f.evaluation_id = s.evaluation_id AND f.environment = s.environment
    AND f.conversation_id = s.conversation_id AND f.revision = s.revision
"""
_SCORED_CONVERSATIONS: Final = f"""
WITH {_PARTS_OF_SCORES.format(scores="scores", only="")}
SELECT
    c.environment, c.conversation_id, c.revision, epoch_ns(c.window_time) AS ended_ns,
    {", ".join(f"{sql} AS {name}" for name, sql in _CONTENT.items())}
{_SCORED.format(conversations="conversations")}
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""
#: The end of the newest closed conversation whose sender's clock was right, or else of the newest.
_NEWEST_END: Final = f"""
SELECT epoch_ns(coalesce(max(c.window_time) FILTER (c.window_time >= c.ended_at), max(c.window_time)))
FROM conversations c
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
#: Closed conversations with their kind: a hash of their content, of their score and its parts, of the scores named `$names`,
#: and of whether the conversation ended before `$from`. The scores are read once, and without the tables of cases, whose
#: content follows from the id and the version of the case: joining these takes long, and memory. A sum of hashes does not
#: depend on the order of scores, and takes less memory than a list.
_KINDS_OF_CONVERSATIONS: Final = f"""
CREATE OR REPLACE TEMP TABLE kinds AS
WITH scored AS (
    SELECT
        environment, conversation_id, revision, bool_or({HAS_ANSWER_SCORE}) AS has_judged_answer,
        any_value(evaluation_id) FILTER (name = '{CONVERSATION}') AS evaluation_id,
        sum(hash(
            name, dataset, case_id, case_version, label, reason, fail_reason, computed_outcome, partial, sample_ratio,
            known_failure, pass_probability, {", ".join(DIMENSIONS)}
        )) FILTER (name IN ('{CONVERSATION}', '{TOOLS}')) AS core_scores,
        sum(hash(name, value, label, reason, turn_index, position, tool_name, parameter))
            FILTER (list_contains($names::VARCHAR[], name) AND NOT (name = '{ANSWER}' AND target = 'turn')) AS named_scores
    FROM scores
    WHERE {IN_EVALUATION} AND NOT superseded
        AND (name = '{CONVERSATION}' OR name = '{TOOLS}' OR (name = '{ANSWER}' AND target = 'turn')
            OR list_contains($names::VARCHAR[], name))
    GROUP BY environment, conversation_id, revision
)
SELECT
    c.environment, c.conversation_id, c.revision, epoch_ns(c.window_time) AS ended_ns,
    (epoch_ns(c.ended_at) - epoch_ns(c.started_at)) / 1e9 AS seconds, s.has_judged_answer, (hash(
        c.environment, c.agent, c.agent_version, c.service, {_CONTENT["slices"]}, {_CONTENT["clock_ahead"]},
        s.has_judged_answer, s.evaluation_id, s.core_scores, s.named_scores, f.tools,
        coalesce(epoch_ns(c.window_time) < $from, false)
    ) >> 1)::BIGINT AS kind
FROM conversations c
LEFT JOIN scored s USING (environment, conversation_id, revision)
LEFT JOIN ({_FAULTY.format(only="")}) f USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — constants of our own
#: One conversation of each kind, which represents all conversations of the kind.
_REPRESENTATIVES: Final = """
CREATE OR REPLACE TEMP TABLE representatives AS
SELECT
    kind, count(*) AS count, any_value(environment) AS environment, min(conversation_id) AS conversation_id,
    arg_min(revision, conversation_id) AS revision, min(ended_ns) AS first_ns,
    any_value(has_judged_answer) AS has_judged_answer
FROM kinds
GROUP BY kind
"""
_OF_REPRESENTATIVES: Final = "WHERE conversation_id IN (SELECT conversation_id FROM representatives)"
#: Their scores, read once for all queries, because each would read the whole table; by row id, so that only their rows are
#: decompressed.
_REPRESENTATIVE_SCORES: Final = f"""
CREATE OR REPLACE TEMP TABLE representative_scores AS
SELECT
    evaluation_id, environment, conversation_id, revision, evaluation, superseded, name, label, reason, fail_reason, dataset,
    case_id, sample_ratio, known_failure, pass_probability, partial, computed_outcome, {", ".join(DIMENSIONS)}
FROM scores
WHERE rowid IN (SELECT rowid FROM scores {_OF_REPRESENTATIVES} AND name IN ('{CONVERSATION}', '{TOOLS}'))
"""  # noqa: S608 — constants of our own
_CONVERSATION_KINDS: Final = f"""
WITH {_PARTS_OF_SCORES.format(scores="representative_scores", only=_OF_REPRESENTATIVES)}
SELECT
    c.kind, c.count, c.environment, c.conversation_id, c.revision, c.first_ns AS ended_ns,
    {", ".join(f"{sql} AS {name}" for name, sql in _CONTENT.items())}
{_SCORED.format(conversations="(FROM representatives JOIN conversations USING (environment, conversation_id, revision))")}
ORDER BY c.first_ns, c.environment, c.conversation_id
"""
_KIND_TIMES: Final = "SELECT kind, ended_ns FROM kinds ORDER BY kind, ended_ns"


def scored_conversations(
    con: DuckDBPyConnection, selection: Selection, slices: Sequence[str] = ()
) -> list[ScoredConversation]:
    """Return the closed conversations of a selection with their newest scores and the slices of some names, by end time."""
    parameters = {**bounds(selection), "slices": list(slices)}
    return [_scored(row) for row in rows(con, _SCORED_CONVERSATIONS, parameters)]


def newest_trusted_end(con: DuckDBPyConnection, selection: Selection) -> int | None:
    """Return the end of the newest closed conversation whose sender's clock was right, ns, or else of the newest."""
    ((end_ns,),) = con.execute(_NEWEST_END, bounds(selection)).fetchall()
    return None if end_ns is None else int(end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """A way to count closed conversations by kind: the conversations of a kind differ only in id and time.

    Attributes:
        selection: the conversations.
        from_ns: conversations that ended before this time are of other kinds than those that ended later.
        names: full names of metrics; conversations with different scores of them are of different kinds.
        slices: names of slices; conversations in different ones are of different kinds.
    """

    selection: Selection
    from_ns: int | None = None
    names: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()


class KindTable:
    """The kind of each closed conversation, in the temporary table `kinds` of a connection.

    Its columns are kind, environment, conversation_id, revision, ended_ns (the window time), seconds and has_judged_answer.
    One conversation of each kind is in `representatives`, and its scores are in `representative_scores`, after
    `conversations` was read.
    """

    def __init__(self, con: DuckDBPyConnection, kinds: Kinds) -> None:
        """Read the kinds; the table exists until the connection is closed."""
        self.con = con
        self._slices = list(kinds.slices)
        content = {"from": kinds.from_ns, "names": list(kinds.names), "slices": self._slices}
        con.execute(_KINDS_OF_CONVERSATIONS, {**bounds(kinds.selection), **content})

    @cached_property
    def conversations(self) -> list[ScoredConversation]:
        """The conversations with their newest scores, one for each kind, by end time."""
        self.con.execute(_REPRESENTATIVES)
        self.con.execute(_REPRESENTATIVE_SCORES)
        return [_scored(row) for row in rows(self.con, _CONVERSATION_KINDS, {"slices": self._slices})]

    def times(self) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]]:
        """Return when each conversation of a kind ended, ns, ascending."""
        return split_by_kind(self.con, _KIND_TIMES)

    @property
    def period(self) -> tuple[int, int] | None:
        """The ends of the first and the last conversation, ns; None without conversations."""
        ((first_ns, last_ns),) = self.con.execute("SELECT min(ended_ns), max(ended_ns) FROM kinds").fetchall()
        return None if first_ns is None else (int(first_ns), int(last_ns))


def _scored(row: Row) -> ScoredConversation:
    dimensions = {name: row.pop(name) for name in DIMENSIONS}
    row["dimensions"] = {name: value for name, value in dimensions.items() if value is not None}
    for name in ("tags", "slices", "tools"):
        row[name] = tuple(row[name] or ())
    return ScoredConversation(**row)
