"""Cases in the flat layout of CSV and Parquet: a row a turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from otel_agentic.errors import UsageError
from otel_agentic.truth.formats.base import record_of
from otel_agentic.truth.formats.columns import CASE_COLUMNS, TURN, TURN_COLUMNS, is_empty, listed_texts
from otel_agentic.truth.formats.csv_text import write_csv
from otel_agentic.truth.formats.native import Native

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.truth.formats.columns import Kind
    from otel_agentic.truth.model import Case

_BLANK: Final = "a cell cannot hold a NUL character, nor a text without a visible one"


class Csv(Native):
    """Cases as CSV."""

    name = "csv"
    reasons: ClassVar[Mapping[str, str]] = {"": _BLANK}

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as CSV."""
        return write_csv(flat_rows(cases))


def flat_rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the rows of cases: texts, numbers and truth values by column; lists and objects as JSON text.

    What is said of the case as a whole stands on its first row. A case whose name no cell can hold has none.
    """
    return [row for case in cases if _holds(case.case_id) and _holds(case.dataset) for row in _rows(record_of(case))]


def _rows(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    said = {column: _cell_of_kind(kind, record[column]) for column, kind in CASE_COLUMNS.items() if column in record}
    identity = {"case_id": record["case_id"], "dataset": record["dataset"]}
    for place, turn in enumerate(record.get("turns") or [None]):
        own: dict[str, Any] = {}
        if turn is not None:
            own = {
                column: _cell_of_kind(kind, turn[name]) for column, (name, kind) in TURN_COLUMNS.items() if name in turn
            } | {TURN: place + 1}
        yield {**(identity if place else said), **own}


def _holds(text: str) -> bool:
    """Return whether a cell can hold a text: one of blanks says nothing, and NUL ends the text to many readers."""
    return not is_empty(text) and "\x00" not in text


def _cell_of_kind(kind: Kind, value: Any) -> Any:
    if kind == "answers" and isinstance(value, str) and listed_texts(value):
        value = [value]  # a text that would be read as a list
    if kind in {"text", "answers"} and isinstance(value, str):
        return value if _holds(value) else None
    if value is None or kind in {"number", "flag", "verdict"}:
        return value
    return json.dumps(value, ensure_ascii=False)


class Parquet(Csv):
    """Cases as Parquet: the same rows, typed; the store writes the file."""

    name = "parquet"

    def document(self, cases: Sequence[Case]) -> str:  # noqa: ARG002 — the signature of a format
        """Raise: Parquet is no text.

        Raises:
            UsageError: always.
        """
        raise UsageError("Parquet is no text; write its rows")
