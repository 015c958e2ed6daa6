"""The table `results`, one row per scored conversation, for windows, backfills and monitors.

Also the sample ratios of scores, and the state of monitors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats.sequential import e_value
from otel_agentic.store.table import (
    BOUNDS,
    LAST_NS,
    Column,
    Key,
    Scored,
    Selection,
    Table,
    bounds,
    fields_of,
    from_row,
    json_text,
    key_columns,
    rows_with,
)
from otel_agentic.windows.columns import Results
from otel_agentic.windows.model import GroupKey, Window, mean_dimensions, most_newest, widest_ns
from otel_agentic.windows.objectives import NO_CASE, Finals, Monitor

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import ClosedBy

#: The columns that identify a subject, and the condition that a row of `subjects` is that of another row.
SUBJECT_COLUMNS: Final = ("agent", "agent_version", "environment", "service", "criterion", "criteria")
OF_SUBJECT: Final = ", ".join(SUBJECT_COLUMNS)
SAME_AGENT: Final = (
    "s.agent IS NOT DISTINCT FROM {0}.agent AND s.agent_version IS NOT DISTINCT FROM {0}.agent_version "
    "AND s.environment = {0}.environment AND s.service IS NOT DISTINCT FROM {0}.service"
)
SAME_SUBJECT: Final = SAME_AGENT + " AND s.criterion = {0}.criterion AND s.criteria = {0}.criteria"
#: Each result once, under its subject.
MEMBERS: Final = "SELECT *, CAST(NULL AS VARCHAR) AS tag FROM results"
_TAGS: Final = (
    "list_filter(list_distinct(tags), lambda tag: len(list_filter($tags, lambda pattern: tag GLOB pattern)) > 0)"
)
_SLICES: Final = """
    list_filter(
        slices, lambda slice: len(list_filter($tags, lambda pattern: contains(pattern, '=') AND slice GLOB pattern)) > 0
    )
"""


def tagged(table: str, groups: str) -> str:
    """Return SQL of each row of a table under its subject, and once more for each of its groups, a list of texts."""
    return f"""
    SELECT *, CAST(NULL AS VARCHAR) AS tag FROM {table}
    UNION ALL
    SELECT *, unnest({groups}) AS tag FROM {table}
"""  # noqa: S608 — names of our own schema


#: Each result under its subject, and once more for each of its tags and slices that forms a group.
TAGGED: Final = tagged("results", f"list_distinct(list_concat({_TAGS}, {_SLICES}))")
#: The same of removed results, which have no slices.
REMOVED_TAGGED: Final = tagged("removed_attempts", _TAGS)
_SELECTED: Final = """
SELECT
    subject, tag, case_no, epoch_ns(window_time) AS ended_ns,
    CASE outcome WHEN 'pass' THEN 1 WHEN 'fail' THEN 0 ELSE -1 END AS outcome,
    CASE WHEN outcome = 'not_evaluated' THEN list_position($reasons, coalesce(reason, 'no_data')) - 1 ELSE -1 END
        AS reason,
    selection, parameters, sequence, utilization, 1.0 / sample_ratio AS weight
"""
_PERIOD: Final = """
WHERE window_time <= make_timestamp_ns($last) AND ($first IS NULL OR window_time >= make_timestamp_ns($first))
"""
_NEWEST: Final = """
WHERE window_time < make_timestamp_ns($first)
QUALIFY row_number() OVER (
    PARTITION BY subject, tag ORDER BY window_time DESC, environment DESC, conversation_id DESC
) <= $newest
"""
_ORDER: Final = "ORDER BY window_time, environment, conversation_id"


def _query(members: str, condition: str) -> str:
    return f"WITH members AS ({members}) {_SELECTED} FROM members {condition} {_ORDER}"


_IN_PERIOD: Final = {tagged: _query(TAGGED if tagged else MEMBERS, _PERIOD) for tagged in (False, True)}
_BEFORE: Final = {tagged: _query(TAGGED if tagged else MEMBERS, _NEWEST) for tagged in (False, True)}
_REASONS: Final = (
    "SELECT DISTINCT coalesce(reason, 'no_data') AS r FROM results WHERE outcome = 'not_evaluated' ORDER BY r"
)

Columns = dict[str, np.ndarray[Any, Any]]


def load_results(
    con: DuckDBPyConnection, *, first_ns: int | None, last_ns: int, tags: Sequence[str] = (), newest: int = 0
) -> Results:
    """Return the results of conversations that ended in a period, in event order, groups sorted by key.

    Args:
        con: a connection.
        first_ns: earliest end, inclusive; None means from the beginning.
        last_ns: latest end, inclusive.
        tags: case tags, names or globs, that form separate groups in addition to the total.
        newest: how many of the newest results of each group from before the period to add, for count windows.
    """
    reasons = [str(reason) for (reason,) in con.execute(_REASONS).fetchall()]
    parameters = {"last": last_ns, "first": first_ns, "reasons": reasons, **({"tags": list(tags)} if tags else {})}
    parts = [fetch_columns(con, _IN_PERIOD[bool(tags)], parameters)]
    if newest and first_ns is not None:
        before = {name: value for name, value in parameters.items() if name != "last"}
        parts.insert(0, fetch_columns(con, _BEFORE[bool(tags)], {**before, "newest": newest}))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    groups, group = groups_of(result_groups(con), columns["subject"], columns["tag"])
    return Results(
        groups=groups,
        group=group,
        case=columns["case_no"].astype(np.int64),
        ended_ns=columns["ended_ns"],
        outcome=columns["outcome"].astype(np.int64),
        reasons=reasons,
        reason=columns["reason"].astype(np.int64),
        dimensions=np.stack([columns[name] for name in DIMENSIONS], axis=1),
        weight=columns["weight"],
    )


def results_for(
    con: DuckDBPyConnection, windows: Sequence[Window], ends: Sequence[int], tags: Sequence[str] = ()
) -> Results:
    """Return the results in some windows at some ends, at least one of each: the input of `roll`.

    Args:
        con: a connection.
        windows: the windows.
        ends: their ends, ns.
        tags: case tags, names or globs, that form separate groups in addition to the total.
    """
    first_ns = min(ends) - widest_ns(windows) + 1
    return load_results(con, first_ns=first_ns, last_ns=max(ends), tags=tags, newest=most_newest(windows))


def groups_of(
    subjects: Mapping[int, GroupKey], subject: np.ndarray[Any, Any], tag: np.ndarray[Any, Any] | None
) -> tuple[list[GroupKey], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the groups of rows, sorted by key, and the index of the group of each row.

    Args:
        subjects: the subjects of the rows by number, as in `result_groups`.
        subject: (rows,) number of the subject.
        tag: (rows,) tag, None for the total; None if all rows belong to the total.
    """
    row_tags = [] if tag is None else tag.tolist()
    tags = sorted({name for name in row_tags if name is not None})
    tag_numbers = {name: number for number, name in enumerate([None, *tags])}
    code = np.array([tag_numbers[name] for name in row_tags], dtype=np.int64) if tags else 0
    pairs, inverse = np.unique(subject.astype(np.int64) * len(tag_numbers) + code, return_inverse=True)
    keys = [
        replace(subjects[pair // len(tag_numbers)], tag=[None, *tags][pair % len(tag_numbers)])
        for pair in pairs.tolist()
    ]
    order = sorted(range(len(keys)), key=lambda number: keys[number].sort_key())
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return [keys[number] for number in order], rank[inverse]


def fetch_columns(con: DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]) -> Columns:
    """Return the rows of a query as one array per column; null becomes None in texts, NaN in floats, -1 in integers."""
    columns = con.execute(sql, dict(parameters)).fetchnumpy()
    return {name: _plain(values) for name, values in columns.items()}


def _plain(values: Any) -> np.ndarray[Any, Any]:
    """Return an array without a mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind in "iuf":
        return np.asarray(values.filled(np.nan if values.dtype.kind == "f" else -1))
    objects = values.data.astype(object)
    objects[np.ma.getmaskarray(values)] = None
    return np.asarray(objects)


_FORGET: Final = """
DELETE FROM results r USING requested w
WHERE r.environment = w.environment AND r.conversation_id = w.conversation_id
RETURNING epoch_ns(r.window_time), r.closed_by
"""
#: Deletes the results of superseded revisions of conversations: the newest revision gets a result when it is scored.
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
#: Deletes equal changes that were recorded before; the new ones are kept, because no reader has seen their serial.
_FORGET_NOTED: Final = """
DELETE FROM window_changes x USING requested w
WHERE x.window_time = make_timestamp_ns(w.time_ns) AND x.live = w.live
    AND x.serial < (SELECT max(serial) FROM window_changes)
"""
#: Counts the subjects and the cases that have no number yet.
_NEW: Final = f"""
SELECT
    (
        SELECT count(*) FROM requested w
        ANTI JOIN subjects s ON {SAME_SUBJECT.format("w")}
    ),
    (
        SELECT count(*)
        FROM (SELECT coalesce(CAST(dataset AS VARCHAR), '') AS dataset, case_id FROM requested WHERE case_id IS NOT NULL)
        ANTI JOIN result_cases USING (dataset, case_id)
    )
"""  # noqa: S608 — our own fragments
NEW_SUBJECTS: Final = f"""
INSERT INTO subjects
SELECT (SELECT coalesce(max(subject), 0) FROM subjects) + row_number() OVER (ORDER BY {OF_SUBJECT}), *
FROM (SELECT DISTINCT {OF_SUBJECT} FROM requested) n
ANTI JOIN subjects s ON {SAME_SUBJECT.format("n")}
"""  # noqa: S608 — the same
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
_INSERT: Final = f"""
INSERT INTO results
SELECT
    c.environment, c.conversation_id, c.revision, w.evaluation_id, s.subject, c.agent, c.agent_version, c.service,
    '{CORRECT}', $criteria, c.ended_at, c.window_time, c.closed_by, k.case_no, w.dataset, w.case_id, from_json(w.tags, '["VARCHAR"]'), w.outcome, w.reason,
    nullif(w.selection, 'nan'::DOUBLE), nullif(w.parameters, 'nan'::DOUBLE), nullif(w.sequence, 'nan'::DOUBLE),
    nullif(w.utilization, 'nan'::DOUBLE), w.sample_ratio, c.user_hash, c.session_hash,
    nullif(w.pass_probability, 'nan'::DOUBLE), list_filter(c.slices, lambda slice: NOT starts_with(slice, 'user='))
FROM requested w
JOIN conversations c USING (environment, conversation_id, revision)
JOIN subjects s ON {SAME_AGENT.format("c")} AND s.criterion = '{CORRECT}' AND s.criteria = $criteria
LEFT JOIN result_cases k ON k.dataset = coalesce(CAST(w.dataset AS VARCHAR), '') AND k.case_id = w.case_id
WHERE NOT c.superseded AND c.ended_at >= make_timestamp_ns($first)
ORDER BY c.window_time, c.environment, c.conversation_id
RETURNING epoch_ns(window_time), closed_by
"""  # noqa: S608 — the same
#: Supersedes the scores of dissolved conversations, whose revisions are all superseded.
_RETIRE: Final = """
UPDATE scores s SET superseded = true FROM requested w
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
#: Monitors must wait for open conversations, and for those closed live whose newest revision is not scored yet, from
#: the time at which an earlier revision was counted. They do not wait for conversations from files, because `evaluate`
#: may never score these.
_WAITING: Final = """
SELECT epoch_ns(min(least(c.window_time, coalesce(o.window_time, c.window_time))))
FROM conversations c
ANTI JOIN results USING (environment, conversation_id, revision)
LEFT JOIN (
    SELECT environment, conversation_id, min(window_time) AS window_time FROM conversations WHERE superseded GROUP BY ALL
) o USING (environment, conversation_id)
WHERE NOT c.superseded AND (c.closed_by IS NULL OR c.closed_by <> 'end_of_input')
"""

#: If more changes than this are recorded at once, equal earlier ones are deleted, so that they do not accumulate in a
#: file that no collector opens.
_MAX_DUPLICATES: Final = 16
#: Columns of new scores that identify a subject; results contain its number instead.
_NOT_INSERTED: Final = ("agent", "agent_version", "service", "criterion", "criteria")
_NAMED: Final = ("environment", *_NOT_INSERTED, "dataset", "case_id")


def save_results(
    con: DuckDBPyConnection, columns: Mapping[str, Column], criteria: str, *, are_first: bool = False
) -> None:
    """Replace the results of conversations, by all criteria, by those that were just computed.

    Args:
        con: a connection in the transaction that saves the scores.
        columns: see `result_columns`; a revision that was superseded in the meantime gets no result.
        criteria: the deciding criteria, as in `scoring.criteria.fingerprint`.
        are_first: whether none of the conversations has a result.
    """
    size = len(columns["conversation_id"])
    keys = key_columns(zip(columns["environment"], columns["conversation_id"], strict=True))
    columns = {**columns, "criterion": [CORRECT] * size, "criteria": [criteria] * size}
    named = {name: columns[name] for name in _NAMED}
    before = [] if are_first else rows_with(con, keys, _FORGET)
    ((subjects, cases),) = rows_with(con, named, _NEW)
    for statement, needed in ((NEW_SUBJECTS, subjects), (_NEW_CASES, cases)):
        if needed:
            rows_with(con, named, statement, fetch=False)
    requested = {name: values for name, values in columns.items() if name not in _NOT_INSERTED}
    after = rows_with(con, requested, _INSERT, {"criteria": criteria, "first": min(columns["ended_ns"])})
    if len(after) < size:
        _retire(con, keys)
    note(con, [*before, *after])


def drop_results(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Delete the results of conversations that dissolved into others, and supersede their scores."""
    requested = key_columns(keys)
    note(con, rows_with(con, requested, _FORGET))
    _retire(con, requested)


def drop_superseded_results(con: DuckDBPyConnection, keys: Iterable[Key] | None = None) -> None:
    """Delete results of superseded revisions of `keys`, None for all conversations; their windows are recomputed."""
    if keys is None:
        note(con, con.execute(_FORGET_SUPERSEDED.format(only="")).fetchall())
        return
    condition = "AND (r.environment, r.conversation_id) IN (SELECT (environment, conversation_id) FROM requested)"
    note(con, rows_with(con, key_columns(keys), _FORGET_SUPERSEDED.format(only=condition)))


def _retire(con: DuckDBPyConnection, requested: Mapping[str, Column]) -> None:
    """Supersede the scores of those conversations that dissolved."""
    rows_with(con, requested, _RETIRE, fetch=False)


def note_changes(con: DuckDBPyConnection, keys: Iterable[Key]) -> None:
    """Mark the windows that contain results of the conversations for recomputation; `save_results` does this itself."""
    note(con, rows_with(con, key_columns(keys), _CHANGED))


def note(con: DuckDBPyConnection, changed: Iterable[tuple[int, ClosedBy]]) -> None:
    """Mark windows for recomputation; `changed` has the window time, ns, and `closed_by` of each conversation."""
    times = sorted({(time_ns, closed_by != "end_of_input") for time_ns, closed_by in changed})
    requested: dict[str, Column] = {"time_ns": [time_ns for time_ns, _ in times], "live": [live for _, live in times]}
    rows_with(con, requested, _NOTE, fetch=False)
    if len(times) > _MAX_DUPLICATES:
        rows_with(con, requested, _FORGET_NOTED, fetch=False)


def watermark(con: DuckDBPyConnection, now_ns: int, lateness_ns: int) -> int:
    """Return the time up to which results are final, inclusive, ns: monitors read nothing later.

    It is `now - lateness`, but earlier than the window time of every conversation that is open, or closed live and not
    scored yet.
    """
    final_ns = now_ns - lateness_ns
    ((waiting_ns,),) = con.execute(_WAITING).fetchall()
    return final_ns if waiting_ns is None else min(final_ns, waiting_ns - 1)


def result_columns(evaluation_id: str, scored: Sequence[Scored]) -> dict[str, Column]:
    """Return the new results of conversations under an evaluation, for `save_results`."""
    scores, conversations = [item.score for item in scored], [item.conversation for item in scored]
    tags = [() if item.match.case is None else item.match.case.tags for item in scored]
    dimensions = [mean_dimensions(score.tools) for score in scores]
    return {
        **fields_of(scores, "environment", "conversation_id", "revision", "dataset", "case_id", "outcome", "reason"),
        **fields_of(conversations, "agent_version", "service"),
        "ended_ns": [min(conversation.ended_ns, LAST_NS) for conversation in conversations],
        "evaluation_id": [evaluation_id] * len(scored),
        "agent": [conversation.agent_name for conversation in conversations],
        "tags": [json_text(names) for names in tags],
        **{name: _numbers(values.get(name) for values in dimensions) for name in DIMENSIONS},
        "sample_ratio": [item.sample_ratio for item in scored],
        "pass_probability": _numbers(score.pass_probability for score in scores),
    }


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Return the values with NaN, which queries read as null, instead of None."""
    return [nan if value is None else value for value in values]


_RECORDED: Final = """
WITH known AS (
    SELECT environment, conversation_id, max(coalesce(sample_ratio, 1.0)) AS ratio, max(revision) AS revision
    FROM conversation_scores
    SEMI JOIN requested USING (environment, conversation_id)
    WHERE evaluation_id = $id
    GROUP BY ALL
)
SELECT c.environment, c.conversation_id, c.agent, k.ratio, k.revision IS NOT DISTINCT FROM c.revision
FROM conversations c
SEMI JOIN requested USING (environment, conversation_id)
LEFT JOIN known k USING (environment, conversation_id)
WHERE NOT c.superseded
"""
#: The agents with a current score whose ratio is below 1.
_SAMPLED: Final = f"""
SELECT DISTINCT c.agent
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT s.superseded AND s.evaluation_id = $id AND s.sample_ratio < 1.0 AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
_RAISED: Final = f"""
SELECT c.environment, c.conversation_id, w.ratio
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN requested w ON w.agent IS NOT DISTINCT FROM c.agent
WHERE NOT s.superseded AND s.evaluation_id = $id AND s.sample_ratio < w.ratio AND {BOUNDS}
"""  # noqa: S608 — a constant of our own
_RAISE: Final = """
UPDATE scores s SET sample_ratio = w.ratio FROM requested w
WHERE s.name = 'agentic.conversation' AND s.environment = w.environment AND s.conversation_id = w.conversation_id AND s.evaluation_id = $id
    AND NOT s.superseded
"""
_RAISE_RESULTS: Final = """
UPDATE results r SET sample_ratio = w.ratio FROM requested w
WHERE r.environment = w.environment AND r.conversation_id = w.conversation_id AND r.evaluation_id = $id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The recorded state of a conversation before it is decided whether to evaluate it.

    `ratio`: the highest ratio recorded under the evaluation, None without a score. `scored`: the newest revision has a
    score.
    """

    agent: str | None
    ratio: float | None
    scored: bool


def recorded_ratios(con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key]) -> dict[Key, Recorded]:
    """Return the recorded ratios of some conversations under an evaluation.

    The ratio of a score is the probability with which its conversation is evaluated under its evaluation.
    """
    rows = rows_with(con, key_columns(keys), _RECORDED, {"id": evaluation_id})
    return {(row[0], row[1]): from_row(Recorded, row[2:]) for row in rows}


def raise_ratios(
    con: DuckDBPyConnection, evaluation_id: str, selection: Selection, ratio_of: Callable[[str | None], float]
) -> list[Key]:
    """Raise the recorded ratios of an evaluation to the current ones if these are higher; return the conversations.

    Once a ratio is raised and the additional conversations have been evaluated, the higher ratio applies to all of
    them, including the earlier ones.

    Args:
        con: a connection in a transaction.
        evaluation_id: the evaluation.
        selection: the conversations to consider.
        ratio_of: returns the current ratio of an agent.
    """
    parameters = {"id": evaluation_id, **bounds(selection)}
    agents = [row[0] for row in con.execute(_SAMPLED, parameters).fetchall()]
    requested = {"agent": agents, "ratio": [ratio_of(agent) for agent in agents]}
    raised = rows_with(con, requested, _RAISED, parameters)
    columns = {
        "environment": [row[0] for row in raised],
        "conversation_id": [row[1] for row in raised],
        "ratio": [row[2] for row in raised],
    }
    for statement in (_RAISE, _RAISE_RESULTS):
        rows_with(con, columns, statement, {"id": evaluation_id}, fetch=False)
    keys = [(row[0], row[1]) for row in raised]
    note_changes(con, keys)
    return keys


_GROUPS: Final = f"SELECT subject, {OF_SUBJECT} FROM subjects"  # noqa: S608 — our own fragment
#: Evaluated results with a hash per row, `mark`: any change of a result that matters to a monitor changes the hash.
_RESULT_MARKS: Final = """
WITH seen AS (
    SELECT *, hash(window_time, environment, conversation_id, outcome, case_no, user_hash, session_hash) AS mark FROM results
    WHERE outcome IN ('pass', 'fail') AND window_time <= make_timestamp_ns($until)
        AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
        AND subject IN (SELECT unnest($subjects))
)
"""
_FINALS: Final = (
    _RESULT_MARKS
    + """
SELECT subject, epoch_ns(window_time) AS ended_ns, outcome = 'pass' AS correct, coalesce(case_no, $no_case) AS case_no, mark,
    coalesce(user_hash, 0) AS user_hash, coalesce(session_hash, 0) AS session_hash
FROM seen
ORDER BY subject, window_time, environment, conversation_id
"""
)
_DIGESTS: Final = (
    _RESULT_MARKS
    + """
SELECT subject, bit_xor(mark) FROM seen GROUP BY subject
"""
)
_PENDING: Final = """
SELECT subject, count(*) FROM results
WHERE outcome IN ('pass', 'fail') AND window_time > make_timestamp_ns($until)
    AND ($since IS NULL OR window_time >= make_timestamp_ns($since))
GROUP BY subject
"""
_ALARMS: Final = f"""
SELECT
    {OF_SUBJECT}, objective, p0, alpha, block,
    CASE WHEN $since IS NULL OR alarmed_at >= make_timestamp_ns($since) THEN epoch_ns(alarmed_at) END, epoch_ns(changed_at)
FROM monitors
"""  # noqa: S608 — the same
#: The identity of a monitor: its group, and the objective's label, promised rate, alpha and blocks. Objectives with the
#: same label and different rates have different monitors.
MonitorKey = tuple[GroupKey, str, float, float, str]
#: When each alarm of a monitor was raised, ns: of the e-process and of the change detector.
Alarms = tuple[int | None, int | None]


def result_groups(con: DuckDBPyConnection) -> dict[int, GroupKey]:
    """Return every group that ever had a result, by its number in results."""
    return {subject: _group_key(*values) for subject, *values in con.execute(_GROUPS).fetchall()}


def _group_key(*values: str | None) -> GroupKey:
    return GroupKey(**dict(zip(SUBJECT_COLUMNS, values, strict=True)))


def final_results(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, Finals]:
    """Return the evaluated results of some groups, by the group's number; groups without results are omitted.

    Args:
        con: a connection.
        subjects: numbers of the groups.
        since_ns: only conversations that ended at or after this time; None means from the first.
        until_ns: only conversations that ended at or before this time, the watermark.
    """
    if not subjects:
        return {}
    parameters = {"no_case": NO_CASE, "subjects": list(subjects), "since": since_ns, "until": until_ns}
    columns = con.execute(_FINALS, parameters).fetchnumpy()
    subject = np.asarray(columns["subject"])
    ends: list[int] = np.append(np.flatnonzero(np.diff(subject)) + 1, subject.size).tolist() if subject.size else []
    finals, start = {}, 0
    for end in ends:
        finals[int(subject[start])] = Finals(
            ended_ns=np.asarray(columns["ended_ns"][start:end], dtype=np.int64),
            correct=np.asarray(columns["correct"][start:end], dtype=np.bool_),
            case=np.asarray(columns["case_no"][start:end], dtype=np.int64),
            user=np.asarray(columns["user_hash"][start:end], dtype=np.uint64),
            session=np.asarray(columns["session_hash"][start:end], dtype=np.uint64),
            digest=int(np.bitwise_xor.reduce(np.asarray(columns["mark"][start:end], dtype=np.uint64))),
        )
        start = end
    return finals


def result_digests(
    con: DuckDBPyConnection, subjects: Sequence[int], *, since_ns: int | None, until_ns: int
) -> dict[int, int]:
    """Return the digests of `final_results` without the results; the digest of a union is the exclusive or."""
    if not subjects:
        return {}
    parameters = {"subjects": list(subjects), "since": since_ns, "until": until_ns}
    return {int(subject): int(digest) for subject, digest in con.execute(_DIGESTS, parameters).fetchall()}


def pending_results(con: DuckDBPyConnection, watermark_ns: int, since_ns: int | None) -> dict[int, int]:
    """Return how many evaluated results since a time are not final yet, by the number of their group."""
    rows = con.execute(_PENDING, {"until": watermark_ns, "since": since_ns}).fetchall()
    return {int(subject): int(count) for subject, count in rows}


def stored_alarms(con: DuckDBPyConnection, since_ns: int | None) -> dict[MonitorKey, Alarms]:
    """Return when each stored monitor raised its alarms, omitting alarms of the e-process from before `since_ns`."""
    rows = con.execute(_ALARMS, {"since": since_ns}).fetchall()
    return {(_group_key(*row[:6]), *row[6:10]): (row[10], row[11]) for row in rows}


def monitor_key(monitor: Monitor) -> MonitorKey:
    """Return the identity of a monitor; with other settings, it has another identity."""
    return (monitor.key, monitor.objective.label, monitor.p0, monitor.objective.alpha, monitor.block)


def save_monitors(con: DuckDBPyConnection, monitors: Sequence[Monitor], watermark_ns: int, now_ns: int) -> None:
    """Write the state of all monitors, replacing the stored one.

    Args:
        con: a connection in a transaction.
        monitors: all monitors.
        watermark_ns: results up to this time were processed.
        now_ns: the current time, ns since the epoch.
    """
    con.execute("DELETE FROM monitors")
    objectives = [monitor.objective for monitor in monitors]
    Table(con, "monitors").insert(
        con,
        {
            **fields_of([monitor.key for monitor in monitors], *SUBJECT_COLUMNS),
            **fields_of(objectives, "k", "target", "alpha", "method", "target_run_length"),
            **fields_of(monitors, "p0", "block", "blocks", "n", "c", "e_value", "changes"),
            "environment": [monitor.key.environment or "" for monitor in monitors],
            "objective": [objective.label for objective in objectives],
            "log_e": [monitor.evidence.log_e for monitor in monitors],
            "largest": [e_value(monitor.evidence.log_largest) for monitor in monitors],
            "detector": [monitor.change_value for monitor in monitors],
            "alarmed_at": [monitor.alarmed_ns for monitor in monitors],
            "changed_at": [monitor.changed_ns for monitor in monitors],
            "watermark": [watermark_ns] * len(monitors),
            "computed_at": [now_ns] * len(monitors),
        },
    )
