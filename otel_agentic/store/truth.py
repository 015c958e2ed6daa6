"""Ground truth in the store: cases, dataset versions, matches of conversations, and baselines of gates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from otel_agentic.store.connection import IN_EVALUATION
from otel_agentic.store.table import (
    ASKS,
    BOUNDS,
    Key,
    Raw,
    Row,
    Selection,
    Table,
    bounds,
    fields_of,
    key_columns,
    parse_json,
    rows,
    rows_with,
)
from otel_agentic.truth.model import Case, ToolExpectation

if TYPE_CHECKING:
    from datetime import datetime

    from duckdb import DuckDBPyConnection


_CURRENT_MEMBERS: Final = "SELECT dataset, case_id, version FROM cases WHERE current ORDER BY dataset, case_id"
_NEWEST: Final = "SELECT dataset, last(version ORDER BY rowid) FROM dataset_versions GROUP BY dataset"
_KNOWN: Final = "SELECT DISTINCT dataset, version FROM dataset_members"
_HISTORY: Final = """
SELECT
    dataset, version, cases, source, imported_at, row_number() OVER (PARTITION BY dataset ORDER BY rowid DESC) = 1 AS current
FROM dataset_versions
WHERE $dataset IS NULL OR dataset = $dataset
ORDER BY dataset, rowid DESC
"""


def dataset_version(cases: Iterable[tuple[str, str]]) -> str:
    """Return the content hash of a dataset: of the ids and versions of its cases, independent of their order.

    >>> dataset_version([("a", "1"), ("b", "2")]) == dataset_version([("b", "2"), ("a", "1")])
    True
    """
    content = hashlib.sha256()
    for case_id, version in sorted(cases):
        content.update(f"{len(case_id)}:{case_id}={version};".encode())
    return content.hexdigest()[:16]


def current_datasets(con: DuckDBPyConnection) -> dict[str, str]:
    """Return the version of each dataset that has current cases."""
    return {dataset: dataset_version(cases) for dataset, cases in _current_members(con).items()}


def record_datasets(con: DuckDBPyConnection, source: str, now_ns: int) -> None:
    """Record the current content of the datasets if it differs from the newest recorded version."""
    members = _current_members(con)
    newest = dict(con.execute(_NEWEST).fetchall())
    current = {name: dataset_version(members.get(name, ())) for name in members.keys() | newest.keys()}
    changed = sorted(name for name, version in current.items() if newest.get(name) != version)
    Table(con, "dataset_versions").insert(
        con,
        {
            "dataset": changed,
            "version": [current[name] for name in changed],
            "cases": [len(members.get(name, ())) for name in changed],
            "source": [source] * len(changed),
            "imported_at": [now_ns] * len(changed),
        },
    )
    recorded = {(name, version) for name, version in con.execute(_KNOWN).fetchall()}
    new_members = [
        (name, *case) for name in changed if (name, current[name]) not in recorded for case in members.get(name, ())
    ]
    Table(con, "dataset_members").insert(
        con,
        {
            "dataset": [name for name, _, _ in new_members],
            "version": [current[name] for name, _, _ in new_members],
            "case_id": [case_id for _, case_id, _ in new_members],
            "case_version": [version for _, _, version in new_members],
        },
    )


def list_datasets(con: DuckDBPyConnection, dataset: str | None = None) -> list[Row]:
    """Return the versions of datasets, newest first; `current` marks the current one."""
    return rows(con, _HISTORY, {"dataset": dataset})


def _current_members(con: DuckDBPyConnection) -> dict[str, list[tuple[str, str]]]:
    members = con.execute(_CURRENT_MEMBERS).fetchall()
    return {
        dataset: [(case_id, version) for _, case_id, version in cases]
        for dataset, cases in groupby(members, key=itemgetter(0))
    }


#: The columns that identify a version of a case.
_CASE: Final = ("dataset", "case_id", "version")
_VERSIONS: Final = "SELECT dataset, case_id, version FROM cases"
_RETIRE: Final = """
UPDATE cases c SET current = false FROM requested w
WHERE c.dataset = w.dataset AND c.case_id = w.case_id AND c.current AND c.version <> w.version
"""
#: Retires the cases of a file that the file no longer contains.
_DROP: Final = """
UPDATE cases SET current = false
WHERE source = $source AND current AND NOT EXISTS (
    SELECT 1 FROM requested w WHERE w.dataset = cases.dataset AND w.case_id = cases.case_id
)
"""
_REVIVE: Final = """
UPDATE cases c SET current = true, source = $source FROM requested w
WHERE c.dataset = w.dataset AND c.case_id = w.case_id AND c.version = w.version
"""
#: Cases of a file of which a person has saved a newer version than the file contains.
_CORRECTED: Final = """
SELECT c.dataset, c.case_id FROM cases c SEMI JOIN requested w USING (dataset, case_id)
WHERE c.current AND c.author IS NOT NULL AND EXISTS (
    SELECT 1 FROM cases k JOIN requested r USING (dataset, case_id, version)
    WHERE k.dataset = c.dataset AND k.case_id = c.case_id AND k.version <> c.version
)
"""
_SAVE_AS: Final = """
UPDATE cases SET current = version = $version, author = CASE WHEN version = $version THEN $author ELSE author END
WHERE dataset = $dataset AND case_id = $case_id
"""
_CASE_VERSIONS: Final = f"""
SELECT
    k.version, k.current, k.definition, k.source, k.author, k.imported_at,
    count(s.outcome) AS attempts, count(*) FILTER (s.outcome IN ('pass', 'fail')) AS n, count(*) FILTER (s.outcome = 'pass') AS c
FROM cases k
LEFT JOIN (
    -- The newest score by each version, which a score by a later version may have superseded.
    SELECT s.* FROM conversation_scores s
    SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND s.dataset = $dataset AND s.case_id = $case_id
    QUALIFY row_number() OVER (PARTITION BY environment, conversation_id, s.case_version ORDER BY s.scored_at DESC) = 1
) s ON s.case_version = k.version
WHERE k.dataset = $dataset AND k.case_id = $case_id
GROUP BY ALL
ORDER BY k.current DESC, k.imported_at DESC, k.version
"""  # noqa: S608 — a constant of our own
_ATTEMPTS: Final = f"""
SELECT c.environment, c.conversation_id
FROM conversations c JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND s.{IN_EVALUATION} AND NOT s.superseded
    AND s.dataset = $dataset AND s.case_id = $case_id
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_OUTCOMES: Final = f"""
SELECT c.environment, c.conversation_id, c.agent, c.agent_version, s.outcome
FROM conversations c SEMI JOIN requested USING (environment, conversation_id)
LEFT JOIN conversation_scores s ON s.environment = c.environment AND s.conversation_id = c.conversation_id
    AND s.revision = c.revision AND s.{IN_EVALUATION} AND NOT s.superseded
WHERE NOT c.superseded
"""  # noqa: S608 — the same
_DATASETS_OF: Final = "SELECT DISTINCT dataset FROM cases WHERE case_id = $case_id ORDER BY dataset"
_CURRENT_CASES: Final = "SELECT definition FROM cases WHERE current ORDER BY dataset, case_id"


def save_cases(con: DuckDBPyConnection, cases: Sequence[Case], source: str, now_ns: int) -> int:
    """Make the cases of one file current; return how many versions are new. Older versions are kept as retired.

    A case that a person corrected stays corrected until the file contains a version of it that is new. The resulting
    content of each dataset is recorded as a dataset version.
    """
    rows_with(con, fields_of(cases, *_CASE), _DROP, {"source": source}, fetch=False)
    corrected = corrected_cases(con, cases)
    identity = fields_of([case for case in cases if case.key not in corrected], *_CASE)
    stored_versions = {tuple(row) for row in con.execute(_VERSIONS).fetchall()}
    new_cases = [case for case in cases if (case.dataset, case.case_id, case.version) not in stored_versions]
    rows_with(con, identity, _RETIRE, fetch=False)
    rows_with(con, identity, _REVIVE, {"source": source}, fetch=False)
    _insert(con, new_cases, source, now_ns)
    record_datasets(con, source, now_ns)
    return len(new_cases)


def corrected_cases(con: DuckDBPyConnection, cases: Sequence[Case]) -> set[tuple[str, str]]:
    """Return the identities of the cases of which a person has saved another version than this one, which is stored."""
    return {(dataset, case_id) for dataset, case_id in rows_with(con, fields_of(cases, *_CASE), _CORRECTED)}


def save_case(con: DuckDBPyConnection, case: Case, author: str, now_ns: int) -> None:
    """Make a version of one case current that a person wrote. The case remains one of its file, if it has one."""
    versions = {row.version: row for row in case_versions(con, case.dataset, case.case_id)}
    current = next((row for row in versions.values() if row.current), None)
    source = author if current is None else current.source
    if case.version not in versions:
        _insert(con, [case], source, now_ns)
    con.execute(_SAVE_AS, {"dataset": case.dataset, "case_id": case.case_id, "version": case.version, "author": author})
    record_datasets(con, source, now_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """A version of a case, with the newest scores by it of its attempts: `n` of them evaluated, `c` correct.

    `definition` is JSON text. `author` is the person who saved it, None for a version from the file `source`.
    """

    version: str
    current: bool
    definition: str
    source: str
    author: str | None
    imported_at: datetime
    attempts: int
    n: int
    c: int


def case_versions(con: DuckDBPyConnection, dataset: str, case_id: str) -> list[StoredVersion]:
    """Return the versions of a case, the current one first, then by time, newest first."""
    return [StoredVersion(**row) for row in rows(con, _CASE_VERSIONS, {"dataset": dataset, "case_id": case_id})]


def attempts_of(con: DuckDBPyConnection, dataset: str, case_id: str) -> list[Key]:
    """Return the closed conversations that were last scored by a case, oldest first."""
    return con.execute(_ATTEMPTS, {"dataset": dataset, "case_id": case_id}).fetchall()


class AttemptOutcome(NamedTuple):
    """The current outcome of a conversation, None before it was evaluated."""

    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    outcome: str | None


def outcomes_of_attempts(con: DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, AttemptOutcome]:
    """Return the current outcomes of some conversations."""
    return {(row[0], row[1]): AttemptOutcome(*row) for row in rows_with(con, key_columns(keys), _OUTCOMES)}


def datasets_of(con: DuckDBPyConnection, case_id: str) -> list[str]:
    """Return the datasets that have, or had, a case with an id."""
    return [dataset for (dataset,) in con.execute(_DATASETS_OF, {"case_id": case_id}).fetchall()]


def load_cases(con: DuckDBPyConnection) -> list[Case]:
    """Return the current cases, by dataset and case id."""
    return [Case.model_validate_json(text) for (text,) in con.execute(_CURRENT_CASES).fetchall()]


def _insert(con: DuckDBPyConnection, cases: Sequence[Case], source: str, now_ns: int) -> None:
    _insert_cases(con, cases, source, now_ns)
    _insert_turns(con, cases)
    _insert_calls(con, cases)


def _insert_cases(con: DuckDBPyConnection, cases: Sequence[Case], source: str, now_ns: int) -> None:
    Table(con, "cases").insert(
        con,
        {
            **fields_of(cases, *_CASE, "reviewed", "agent"),
            "current": [True] * len(cases),
            "tags": [list(case.tags) for case in cases],
            "definition": [Raw(case.model_dump_json(exclude_defaults=True)) for case in cases],
            "source": [source] * len(cases),
            "imported_at": [now_ns] * len(cases),
        },
    )


def _insert_turns(con: DuckDBPyConnection, cases: Sequence[Case]) -> None:
    rows = [(case, index, turn) for case in cases for index, turn in enumerate(case.turns)]
    Table(con, "case_turns").insert(
        con,
        {
            **fields_of([case for case, _, _ in rows], *_CASE),
            "turn_index": [index for _, index, _ in rows],
            "query": [turn.query for _, _, turn in rows],
            "answer": [turn.first_answer for _, _, turn in rows],
            "also_accepted": [list(turn.accepted_answers[1:]) for _, _, turn in rows],
        },
    )


def _insert_calls(con: DuckDBPyConnection, cases: Sequence[Case]) -> None:
    rows = [
        (case, turn_index, call_index, call)
        for case in cases
        for turn_index, tools in _expectations(case)
        for call_index, call in enumerate(tools.calls)
    ]
    Table(con, "expected_calls").insert(
        con,
        {
            **fields_of([case for case, _, _, _ in rows], *_CASE),
            **fields_of([call for _, _, _, call in rows], "tool_name", "parameters", "step", "required"),
            "turn_index": [turn_index for _, turn_index, _, _ in rows],
            "call_index": [call_index for _, _, call_index, _ in rows],
        },
    )


def _expectations(case: Case) -> list[tuple[int | None, ToolExpectation]]:
    expectations: list[tuple[int | None, ToolExpectation]] = [
        (index, turn.tools) for index, turn in enumerate(case.turns) if turn.tools is not None
    ]
    return [(None, case.tools), *expectations] if case.tools is not None else expectations


#: Kinds of matches that a person may have to check.
MatchKind = Literal["unmatched", "ambiguous", "warning", "suggested", "text"]

_TRUTH: Final = f"""
SELECT
    k.dataset, k.case_id, k.version, k.agent, k.tags, k.source, coalesce(k.reviewed, true) AS reviewed,
    (SELECT count(*) FROM case_turns t WHERE t.dataset = k.dataset AND t.case_id = k.case_id AND t.version = k.version)
        AS turns,
    (SELECT count(*) FROM expected_calls e
     WHERE e.dataset = k.dataset AND e.case_id = k.case_id AND e.version = k.version) AS expected_calls,
    coalesce(a.attempts, 0) AS attempts
FROM cases k
LEFT JOIN (
    SELECT s.dataset, s.case_id, count(*) AS attempts
    FROM conversation_scores s
    SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.case_id IS NOT NULL
    GROUP BY s.dataset, s.case_id
) a ON a.dataset = k.dataset AND a.case_id = k.case_id
WHERE k.current
ORDER BY k.dataset, k.case_id
"""  # noqa: S608 — a constant of our own
_MATCHED: Final = f"""
SELECT
    epoch_ns(c.window_time) AS rank, c.revision, c.closed_by, make_timestamptz(epoch_ns(c.ended_at) // 1000) AS ended_at,
    c.environment, c.conversation_id, c.agent, m.dataset, m.case_id, m.method, m.confidence,
    coalesce(m.reason, CASE WHEN m.evaluation_id IS NULL THEN 'not evaluated yet' END) AS reason,
    m.candidates, m.warning, m.suggested_dataset, m.suggested_case_id, m.suggested_confidence, m.suggested_margin
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN matches m ON m.evaluation_id = s.evaluation_id AND m.environment = c.environment
    AND m.conversation_id = c.conversation_id AND m.revision = c.revision
WHERE NOT c.superseded AND {BOUNDS} AND ($only IS NULL OR m.reason = $only
    OR ($only = 'warning' AND m.warning IS NOT NULL) OR ($only = 'suggested' AND m.suggested_case_id IS NOT NULL)
    OR ($only = 'text' AND m.method = 'text'))
"""  # noqa: S608 — a constant of our own
_MATCHES: Final = f"""
SELECT * EXCLUDE (rank, revision, closed_by, ended_at) FROM ({_MATCHED}) ORDER BY rank DESC, environment, conversation_id
"""  # noqa: S608 — the same
_COUNT_MATCHES: Final = f"SELECT count(*) FROM ({_MATCHED} AND {ASKS})"  # noqa: S608 — the same
_AFTER: Final = "(rank, environment, conversation_id) < ($rank, $after_environment, $after_id)"
_MATCH_PAGE: Final = f"""
FROM ({_MATCHED} AND {ASKS})
WHERE {{position}}
ORDER BY rank DESC, environment DESC, conversation_id DESC
LIMIT $limit
"""
#: The first query of conversations.
_FIRST_QUERIES: Final = """
SELECT environment, conversation_id, revision, arg_min(query, turn_index)
FROM turns SEMI JOIN requested USING (environment, conversation_id, revision)
WHERE trim(query) <> ''
GROUP BY environment, conversation_id, revision
"""
_BY_TEXT: Final = f"""
SELECT count(*) FILTER (m.method = 'text'), count(*) FILTER (m.suggested_case_id IS NOT NULL)
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
    AND (m.method = 'text' OR m.suggested_case_id IS NOT NULL)
"""  # noqa: S608 — same


def list_cases(con: DuckDBPyConnection) -> list[Row]:
    """Return the current cases with their number of turns, expected calls and attempts."""
    return rows(con, _TRUTH, {})


def list_matches(con: DuckDBPyConnection, selection: Selection, *, only: str | None) -> list[Row]:
    """Return the case that each conversation was matched to.

    `only` keeps the conversations that are unmatched or ambiguous, have a warning or a suggested case, or were matched
    by text; None keeps all.
    """
    return rows(con, _MATCHES, {**bounds(selection), "only": only})


def match_page(
    con: DuckDBPyConnection,
    selection: Selection,
    *,
    only: str | None,
    text: str | None,
    after: tuple[int, str, str] | None,
    limit: int,
) -> tuple[list[Row], int]:
    """Return matches, the newest conversations first, each with its `rank` in this order, and their total number.

    Args:
        con: a connection.
        selection: the conversations to consider.
        only: see `list_matches`.
        text: only conversations with a query that contains it.
        after: rank, environment and id of the conversation that ends the previous page.
        limit: the largest number of rows.
    """
    where = {**bounds(selection), "only": only, "text": text}
    position = {} if after is None else dict(zip(("rank", "after_environment", "after_id"), after, strict=True))
    sql = _MATCH_PAGE.format(position=_AFTER if position else "TRUE")
    ((total,),) = con.execute(_COUNT_MATCHES, where).fetchall()
    if not total:
        return [], 0
    page = rows(con, sql, {**where, **position, "limit": limit})
    revisions = {name: [row[name] for row in page] for name in ("environment", "conversation_id", "revision")}
    queries = {tuple(key): query for *key, query in rows_with(con, revisions, _FIRST_QUERIES)}
    for row in page:
        row["query"] = queries.get((row["environment"], row["conversation_id"], row["revision"]))
    return page, int(total)


def matched_by_text(con: DuckDBPyConnection, selection: Selection) -> tuple[int, int]:
    """Return how many conversations of a selection were matched by text, and how many have a suggested case."""
    row = con.execute(_BY_TEXT, bounds(selection)).fetchone()
    return (0, 0) if row is None else (row[0], row[1])


_FORGET: Final = "DELETE FROM gate_baselines WHERE name = $name"
_READ: Final = "SELECT definition FROM gate_baselines WHERE name = $name"
_LIST: Final = """
SELECT name, epoch_ns(saved_at) AS saved_ns, conversations, evaluations FROM gate_baselines ORDER BY saved_at DESC, name
"""
_EVALUATIONS: Final = f"""
SELECT DISTINCT s.evaluation_id
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
ORDER BY s.evaluation_id
"""  # noqa: S608 — a constant of our own
#: The mean over the turns or calls of each conversation.
_CONVERSATION_MEANS: Final = f"""
SELECT c.environment, c.conversation_id, s.name, avg(s.value)
FROM conversations c
JOIN scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core' AND isfinite(s.value)
    AND {BOUNDS}
GROUP BY ALL
ORDER BY ALL
"""  # noqa: S608 — the same


def save_baseline(
    con: DuckDBPyConnection,
    name: str,
    definition: str,
    *,
    conversations: int,
    evaluations: Sequence[str],
    now_ns: int,
) -> None:
    """Write a baseline, `definition` as JSON text, replacing one with the same name."""
    con.execute(_FORGET, {"name": name})
    Table(con, "gate_baselines").insert(
        con,
        {
            "name": [name],
            "saved_at": [now_ns],
            "conversations": [conversations],
            "evaluations": [list(evaluations)],
            "definition": [Raw(definition)],
        },
    )


def load_baseline(con: DuckDBPyConnection, name: str) -> Any | None:
    """Return the definition of a baseline, parsed from JSON, or None if it does not exist."""
    definitions = con.execute(_READ, {"name": name}).fetchall()
    return parse_json(definitions[0][0]) if definitions else None


def list_baselines(con: DuckDBPyConnection) -> list[Row]:
    """Return name, time (ns), conversations and evaluations of each baseline, newest first."""
    return rows(con, _LIST, {})


def evaluations_of(con: DuckDBPyConnection, selection: Selection) -> tuple[str, ...]:
    """Return the evaluations that the newest scores of a selection belong to."""
    return tuple(str(row[0]) for row in con.execute(_EVALUATIONS, bounds(selection)).fetchall())


def metric_means(con: DuckDBPyConnection, selection: Selection) -> list[tuple[str, str, str, float]]:
    """Return environment, conversation id, metric and mean value of each conversation that has values of a metric."""
    return [
        (row[0], row[1], row[2], float(row[3]))
        for row in con.execute(_CONVERSATION_MEANS, bounds(selection)).fetchall()
    ]
