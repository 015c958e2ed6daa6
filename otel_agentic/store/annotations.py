"""Annotations in the store: an append-only table, from which labels, verdicts of people and their effect follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from otel_agentic.store.conversations import conversations_named
from otel_agentic.store.table import BOUNDS, Key, RowMap, Selection, Table, bounds, rows_with
from otel_agentic.truth.annotations import CASE, Annotation, AnnotationTarget, ResolvedVerdict, resolve
from otel_agentic.truth.load import Label

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ANNOTATION_ROW: Final = RowMap("annotations", Annotation)
_CURRENT: Final = """
SELECT {columns} FROM annotations a
JOIN v_annotations v USING (annotation_id)
WHERE ($name IS NULL OR a.name = $name) AND ($decides IS NULL OR a.decides = $decides)
    AND a.environment IS NOT NULL
ORDER BY v.entry
"""
_OF_CONVERSATION: Final = """
SELECT {columns} FROM annotations a
SEMI JOIN requested USING (environment, conversation_id)
WHERE a.retracts IS NULL
    AND a.annotation_id NOT IN (SELECT retracts FROM annotations WHERE retracts IS NOT NULL)
ORDER BY a.annotated_at, a.rowid
"""
_OF_FILE: Final = _OF_CONVERSATION.replace(
    "SEMI JOIN requested USING (environment, conversation_id)\nWHERE",
    "WHERE a.source = 'file' AND a.decides AND a.annotator = $annotator AND",
)
_TURNS: Final = """
SELECT t.environment, t.conversation_id, t.turn_index
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND (t.trace_id = $trace_id OR t.response_id = $response_id)
ORDER BY ALL
"""
_CALLS: Final = """
SELECT count(*) FROM tool_calls
SEMI JOIN requested USING (environment, conversation_id, revision, turn_index)
"""
_LABELS: Final = "SELECT conversation_id, case_id, verdict, source FROM labels ORDER BY conversation_id"
_RANDOM_SAMPLES: Final = """
SELECT DISTINCT environment, conversation_id FROM annotations
WHERE random_sample AND name = 'correct' AND turn_index IS NULL AND retracts IS NULL
    AND annotation_id NOT IN (SELECT retracts FROM annotations WHERE retracts IS NOT NULL)
"""
#: Closed conversations whose newest score under an evaluation is older than an annotation that may set its outcome.
_ANNOTATED_SINCE: Final = f"""
SELECT c.environment, c.conversation_id
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND NOT s.superseded AND s.evaluation_id = $id AND {BOUNDS}
    AND EXISTS (
        SELECT 1 FROM annotations a
        WHERE a.environment = c.environment AND a.conversation_id = c.conversation_id AND a.decides
            AND a.annotated_at > s.scored_at
    )
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own


def new_annotation_id() -> str:
    """Return an unused id."""
    return uuid4().hex[:16]


def add_annotations(con: DuckDBPyConnection, annotations: Sequence[Annotation]) -> None:
    """Append annotations."""
    Table(con, "annotations").insert(con, ANNOTATION_ROW.columns(con, annotations))


def retract(con: DuckDBPyConnection, annotations: Sequence[Annotation], now_ns: int) -> None:
    """Withdraw annotations: append a row for each of them."""
    add_annotations(
        con,
        [
            replace(
                annotation, annotation_id=new_annotation_id(), annotated_ns=now_ns, retracts=annotation.annotation_id
            )
            for annotation in annotations
        ],
    )


def current_annotations(
    con: DuckDBPyConnection, *, name: str | None = None, decides: bool | None = None
) -> list[Annotation]:
    """Return the newest annotation of each annotator on each stored target, in the order in which they were recorded.

    Args:
        con: a connection.
        name: only annotations with this name, such as that of a metric; None for all.
        decides: only annotations that may set an outcome, or only others; None for both.
    """
    sql = _CURRENT.format(columns=ANNOTATION_ROW.select(con, "a"))
    rows = con.execute(sql, {"name": name, "decides": decides}).fetchall()
    return [ANNOTATION_ROW.build(row) for row in rows]


def annotations_on(con: DuckDBPyConnection, target: AnnotationTarget) -> list[Annotation]:
    """Return all annotations on a target that were not withdrawn, the oldest first."""
    requested = {"environment": [target.environment or ""], "conversation_id": [target.conversation_id]}
    rows = rows_with(con, requested, _OF_CONVERSATION.format(columns=ANNOTATION_ROW.select(con, "a")))
    return [annotation for annotation in map(ANNOTATION_ROW.build, rows) if annotation.target == target]


def turns_of(con: DuckDBPyConnection, *, trace_id: str | None, response_id: str | None) -> list[tuple[str, str, int]]:
    """Return environment, conversation id and index of the turns of a trace, or with a response id."""
    rows = con.execute(_TURNS, {"trace_id": trace_id, "response_id": response_id}).fetchall()
    return [(environment, conversation_id, turn_index) for environment, conversation_id, turn_index in rows]


def calls_in_turn(con: DuckDBPyConnection, key: Key, revision: int, turn_index: int) -> int:
    """Return the number of tool calls in a turn."""
    requested: dict[str, list[str] | list[int]] = {
        "environment": [key[0]],
        "conversation_id": [key[1]],
        "revision": [revision],
        "turn_index": [turn_index],
    }
    ((count,),) = rows_with(con, requested, _CALLS)
    return int(count)


def load_verdicts(con: DuckDBPyConnection) -> dict[Key, ResolvedVerdict]:
    """Return the verdicts of people that may set the outcome of a conversation, by conversation."""
    resolved = resolve(current_annotations(con, decides=True))
    return {(target.environment or "", target.conversation_id): verdict for target, verdict in resolved.items()}


def load_mappings(con: DuckDBPyConnection) -> dict[Key, str]:
    """Return the case of each conversation that people mapped to one, as `dataset/case_id`; their newest choice counts."""
    return {
        (annotation.environment or "", annotation.conversation_id): annotation.case_id
        for annotation in current_annotations(con, name=CASE)
        if annotation.case_id is not None
    }


def annotated_since(con: DuckDBPyConnection, evaluation_id: str, selection: Selection) -> list[Key]:
    """Return the conversations annotated after their newest score under an evaluation, oldest first."""
    rows = con.execute(_ANNOTATED_SINCE, {"id": evaluation_id, **bounds(selection)}).fetchall()
    return [(environment, conversation_id) for environment, conversation_id in rows]


def save_labels(
    con: DuckDBPyConnection, labels: Mapping[str, Label], source: str, now_ns: int, *, random_sample: bool = False
) -> None:
    """Make the labels of one file current: they replace older ones, and those no longer in the file are withdrawn.

    `random_sample` declares that the conversations were drawn at random; importing the file again without it takes
    nothing back.

    A label by another name of a conversation (`conversations_named`) is stored under its own name.
    """
    named = conversations_named(con, labels)
    own_names = {name: {own_name for _, own_name in named.get(name, ())} for name in labels}
    labels = {
        own_name: replace(label, conversation_id=own_name)
        for name, label in labels.items()
        for own_name in (own_names[name] if len(own_names[name]) == 1 else {name})
    }
    stored = {row[0]: row for row in con.execute(_LABELS).fetchall()}
    declared = random_samples(con)
    changed = [
        label
        for label in labels.values()
        if stored.get(label.conversation_id) != _label_row(label, source)
        or (random_sample and (None, label.conversation_id) not in declared)
    ]
    sql = _OF_FILE.format(columns=ANNOTATION_ROW.select(con, "a"))
    of_file = [ANNOTATION_ROW.build(row) for row in con.execute(sql, {"annotator": source}).fetchall()]
    retract(con, [annotation for annotation in of_file if annotation.conversation_id not in labels], now_ns)
    add_annotations(con, list(_annotations(changed, source, now_ns, random_sample=random_sample)))


def _label_row(label: Label, source: str) -> tuple[str, str | None, bool | None, str]:
    return (label.conversation_id, label.case_id, label.verdict, f"{source}:{label.line}")


def _annotations(labels: Iterable[Label], source: str, now_ns: int, *, random_sample: bool) -> Iterable[Annotation]:
    for label in labels:
        yield Annotation(
            annotation_id=new_annotation_id(),
            annotator=source,
            source="file",
            conversation_id=label.conversation_id,
            annotated_ns=now_ns,
            verdict=None if label.verdict is None else "pass" if label.verdict else "fail",
            case_id=label.case_id,
            decides=True,
            random_sample=random_sample,
            origin=f"{source}:{label.line}",
        )


def has_labels(con: DuckDBPyConnection) -> bool:
    """Return whether a person, a file or an event ever labelled anything."""
    sql = "SELECT EXISTS (FROM annotations) OR EXISTS (FROM calibration_verdicts)"
    return bool(con.execute(sql).fetchall()[0][0])


def load_labels(con: DuckDBPyConnection) -> dict[str, Label]:
    """Return the labels of labels files by conversation id."""
    return {
        conversation_id: Label(conversation_id=conversation_id, case_id=case_id, verdict=verdict, line=0)
        for conversation_id, case_id, verdict, _ in con.execute(_LABELS).fetchall()
    }


def random_samples(con: DuckDBPyConnection) -> set[tuple[str | None, str]]:
    """Return the conversations whose verdict was declared to be part of a random sample, by environment and id.

    The environment is None for labels of files, which name conversations by their id alone.
    """
    return {(environment, conversation_id) for environment, conversation_id in con.execute(_RANDOM_SAMPLES).fetchall()}
