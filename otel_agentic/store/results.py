"""The table `results`: one row per scored conversation, for windows, monitors and backfills."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.result_columns import load_results, results_for
from otel_agentic.store.table import json_text, key_columns, rows_with
from otel_agentic.windows.scored import mean_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import ClosedBy
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Column, Key

__all__ = [
    "drop_results",
    "drop_superseded_results",
    "load_results",
    "note_changes",
    "results_for",
    "save_results",
    "watermark",
]

_FORGET: Final = """
DELETE FROM results r USING requested w
WHERE r.environment = w.environment AND r.conversation_id = w.conversation_id
RETURNING epoch_ns(r.window_time), r.closed_by
"""
#: Results of conversation revisions that are no longer the newest: the newest one gets a result when it is scored.
_FORGET_SUPERSEDED: Final = """
DELETE FROM results r USING conversations c
WHERE r.environment = c.environment AND r.conversation_id = c.conversation_id AND r.revision = c.revision AND c.superseded
    {only}
RETURNING epoch_ns(r.window_time), r.closed_by
"""
_CHANGED: Final = """
SELECT DISTINCT epoch_ns(window_time), closed_by FROM results SEMI JOIN requested USING (environment, conversation_id)
"""
_NOTE: Final = """
INSERT INTO window_changes
SELECT (SELECT coalesce(max(serial), 0) FROM window_changes) + 1, make_timestamp_ns(time_ns), live FROM requested
"""
#: Changes that waited already; the new ones stay, because no reader has seen their serial.
_FORGET_NOTED: Final = """
DELETE FROM window_changes x USING requested w
WHERE x.window_time = make_timestamp_ns(w.time_ns) AND x.live = w.live
    AND x.serial < (SELECT max(serial) FROM window_changes)
"""
#: How many subjects and cases have no number yet.
_NEW: Final = """
SELECT
    (
        SELECT count(*) FROM requested w
        ANTI JOIN subjects s ON s.agent IS NOT DISTINCT FROM w.agent
            AND s.agent_version IS NOT DISTINCT FROM w.agent_version
            AND s.environment = w.environment AND s.service IS NOT DISTINCT FROM w.service
    ),
    (
        SELECT count(*)
        FROM (SELECT coalesce(CAST(dataset AS VARCHAR), '') AS dataset, case_id FROM requested WHERE case_id IS NOT NULL)
        ANTI JOIN result_cases USING (dataset, case_id)
    )
"""
_NEW_SUBJECTS: Final = """
INSERT INTO subjects
SELECT
    (SELECT coalesce(max(subject), 0) FROM subjects)
        + row_number() OVER (ORDER BY agent, agent_version, environment, service),
    agent, agent_version, environment, service
FROM (SELECT DISTINCT agent, agent_version, environment, service FROM requested) n
ANTI JOIN subjects s ON s.agent IS NOT DISTINCT FROM n.agent AND s.agent_version IS NOT DISTINCT FROM n.agent_version
    AND s.environment = n.environment AND s.service IS NOT DISTINCT FROM n.service
"""
_NEW_CASES: Final = """
INSERT INTO result_cases
SELECT (SELECT coalesce(max(case_no), 0) FROM result_cases) + row_number() OVER (ORDER BY dataset, case_id), *
FROM (
    SELECT DISTINCT coalesce(CAST(dataset AS VARCHAR), '') AS dataset, CAST(case_id AS VARCHAR) AS case_id
    FROM requested WHERE case_id IS NOT NULL
) n
ANTI JOIN result_cases USING (dataset, case_id)
"""
#: A revision that was superseded while it was being scored has no result.
_INSERT: Final = """
INSERT INTO results
SELECT
    c.environment, c.conversation_id, c.revision, w.evaluation_id, s.subject, c.agent, c.agent_version, c.service,
    c.ended_at, c.window_time, c.closed_by, k.case_no, w.dataset, w.case_id, from_json(w.tags, '["VARCHAR"]'), w.outcome, w.reason,
    nullif(w.selection, 'nan'::DOUBLE), nullif(w.parameters, 'nan'::DOUBLE), nullif(w.sequence, 'nan'::DOUBLE),
    nullif(w.utilization, 'nan'::DOUBLE), w.sample_ratio, c.user_hash, c.session_hash,
    nullif(w.pass_probability, 'nan'::DOUBLE)
FROM requested w
JOIN conversations c USING (environment, conversation_id, revision)
JOIN subjects s ON s.agent IS NOT DISTINCT FROM c.agent AND s.agent_version IS NOT DISTINCT FROM c.agent_version
    AND s.environment = c.environment AND s.service IS NOT DISTINCT FROM c.service
LEFT JOIN result_cases k ON k.dataset = coalesce(CAST(w.dataset AS VARCHAR), '') AND k.case_id = w.case_id
WHERE NOT c.superseded
ORDER BY c.window_time, c.environment, c.conversation_id
RETURNING epoch_ns(window_time), closed_by
"""
#: Scores of dissolved conversations: all their revisions are superseded.
_RETIRE: Final = """
UPDATE conversation_scores s SET superseded = true FROM requested w
WHERE s.environment = w.environment AND s.conversation_id = w.conversation_id AND NOT s.superseded
    AND EXISTS (
        SELECT 1 FROM conversations c
        WHERE c.environment = s.environment AND c.conversation_id = s.conversation_id
    )
    AND NOT EXISTS (
        SELECT 1 FROM conversations c
        WHERE c.environment = s.environment AND c.conversation_id = s.conversation_id AND NOT c.superseded
    )
"""
_RETIRE_NAMED: Final = _RETIRE.replace("conversation_scores", "scores")
#: Monitors must wait for open conversations, and for those closed live whose newest revision is not scored yet, from the time
#: at which an earlier revision was counted. Conversations ingested from files wait for `evaluate`, possibly for ever.
_WAITING: Final = """
SELECT epoch_ns(min(least(c.window_time, coalesce(o.window_time, c.window_time))))
FROM conversations c
ANTI JOIN results USING (environment, conversation_id, revision)
LEFT JOIN (
    SELECT environment, conversation_id, min(window_time) AS window_time FROM conversations WHERE superseded GROUP BY ALL
) o USING (environment, conversation_id)
WHERE NOT c.superseded AND (c.closed_by IS NULL OR c.closed_by IN ('idle', 'end_mark'))
"""

#: From this many changes on, equal waiting ones are replaced, so that a file that no collector opens does not grow by them.
_MANY: Final = 16
#: Attributes of a subject, which has a number.
_OF_SUBJECT: Final = ("agent", "agent_version", "service")
_NAMED: Final = ("environment", *_OF_SUBJECT, "dataset", "case_id")


def save_results(con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored]) -> None:
    """Replace the results of conversations by those that were just computed.

    Args:
        con: a connection in the transaction that saves the scores.
        evaluation_id: the evaluation.
        scored: the new scores; a revision that was superseded in the meantime gets no result.
    """
    if not scored:
        return
    keys = key_columns((item.score.environment, item.score.conversation_id) for item in scored)
    columns = _columns(evaluation_id, scored)
    named = {name: columns[name] for name in _NAMED}
    before = rows_with(con, keys, _FORGET)
    ((subjects, cases),) = rows_with(con, named, _NEW)
    for statement, needed in ((_NEW_SUBJECTS, subjects), (_NEW_CASES, cases)):
        if needed:
            rows_with(con, named, statement, fetch=False)
    after = rows_with(con, {name: values for name, values in columns.items() if name not in _OF_SUBJECT}, _INSERT)
    if len(after) < len(scored):
        _retire(con, keys)
    _note(con, [*before, *after])


def drop_results(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Delete the results of conversations that dissolved into others, and supersede their scores."""
    requested = key_columns(keys)
    _note(con, rows_with(con, requested, _FORGET))
    _retire(con, requested)


def drop_superseded_results(con: DuckDBPyConnection, keys: Iterable[Key] | None = None) -> None:
    """Delete the results of superseded revisions, of some conversations or of all; their windows will be computed again."""
    if keys is None:
        _note(con, con.execute(_FORGET_SUPERSEDED.format(only="")).fetchall())
        return
    only = "AND (r.environment, r.conversation_id) IN (SELECT (environment, conversation_id) FROM requested)"
    _note(con, rows_with(con, key_columns(keys), _FORGET_SUPERSEDED.format(only=only)))


def _retire(con: DuckDBPyConnection, requested: Mapping[str, Column]) -> None:
    for statement in (_RETIRE, _RETIRE_NAMED):
        rows_with(con, requested, statement, fetch=False)


def note_changes(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Mark the windows that contain the results of some conversations to be computed again; `save_results` does so itself."""
    _note(con, rows_with(con, key_columns(keys), _CHANGED))


def _note(con: DuckDBPyConnection, changed: Iterable[tuple[int, ClosedBy]]) -> None:
    """Mark the windows that contain a window time to be computed again: (ns, how that conversation was closed)."""
    times = sorted({(time_ns, closed_by != "end_of_input") for time_ns, closed_by in changed})
    requested: dict[str, Column] = {"time_ns": [time_ns for time_ns, _ in times], "live": [live for _, live in times]}
    rows_with(con, requested, _NOTE, fetch=False)
    if len(times) > _MANY:
        rows_with(con, requested, _FORGET_NOTED, fetch=False)


def watermark(con: DuckDBPyConnection, now_ns: int, lateness_ns: int) -> int:
    """Return the time up to which results are final, inclusive, ns: monitors read nothing later.

    It is `now - lateness`, but before the window time of everything that is open, or closed live and not scored yet.
    """
    final_ns = now_ns - lateness_ns
    ((waiting_ns,),) = con.execute(_WAITING).fetchall()
    return final_ns if waiting_ns is None else min(final_ns, waiting_ns - 1)


def _columns(evaluation_id: str, scored: Sequence[Scored]) -> dict[str, Column]:
    scores, conversations = [item.score for item in scored], [item.conversation for item in scored]
    tags = [() if item.match.case is None else item.match.case.tags for item in scored]
    dimensions = [mean_dimensions(score.tools) for score in scores]
    text: dict[str, Column] = {
        name: [getattr(score, name) for score in scores]
        for name in ("environment", "conversation_id", "revision", "dataset", "case_id", "outcome", "reason")
    }
    return {
        **text,
        "evaluation_id": [evaluation_id] * len(scored),
        "agent": [item.agent_name for item in conversations],
        "agent_version": [item.agent_version for item in conversations],
        "service": [item.service for item in conversations],
        "tags": [json_text(names) for names in tags],
        **{name: _numbers(values.get(name) for values in dimensions) for name in DIMENSIONS},
        "sample_ratio": [item.sample_ratio for item in scored],
        "pass_probability": _numbers(score.pass_probability for score in scores),
    }


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Return numbers for a query, with NaN, which the query reads as null, for None."""
    return [nan if value is None else value for value in values]
