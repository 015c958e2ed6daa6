"""Human verdicts from a CSV of `conversation_id[,turn][,verdict|reward][,environment]`.

A row with a turn is about the answer of that turn, one without about the conversation as a whole. Turns count from 1 in
a column `turn`, as in all output for people, and from 0 in a column `turn_index`, as in the store and in
`conversations export`. A row without a verdict has not been labelled yet. Columns that help the labelling person (query,
expected, answer, agent, notes) and the case id of a labels file of `evaluate` are allowed and not read.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError
from otel_agentic.truth.labels import DEFAULT_REWARD_THRESHOLD, read_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_READ: Final = ("conversation_id", "turn", "turn_index", "verdict", "reward", "environment")
_IGNORED: Final = ("case_id", "query", "expected", "answer", "agent", "notes")
_ALLOWED: Final = "conversation_id[,turn][,verdict|reward][,environment]"


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabel:
    """A person's verdict, True for a pass, on a turn (`turn_index`, 0-based) or on the conversation (None).

    `environment`: None if the file does not state it. `source` is file and line.
    """

    conversation_id: str
    environment: str | None
    turn_index: int | None
    verdict: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabelFile:
    """The verdicts of one file, the number of rows without a verdict, and the problems of the other lines."""

    labels: tuple[HumanLabel, ...]
    blank: int
    problems: tuple[str, ...]

    def require(self) -> HumanLabelFile:
        """Return the file.

        Raises:
            CaseError: there are problems; the message lists them, one per line.
        """
        if self.problems:
            raise CaseError("\n".join(self.problems))
        return self


def parse_human_labels(name: str, text: str, *, reward_threshold: float = DEFAULT_REWARD_THRESHOLD) -> HumanLabelFile:
    """Return the content of a CSV of human verdicts; `name` identifies the file in messages."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), restkey="", restval="", strict=True)
    labels: dict[tuple[str, str | None, int | None], HumanLabel] = {}
    problems, blank = [], 0
    try:
        header = reader.fieldnames = [cell.strip().lower() for cell in reader.fieldnames or ()]
        problems += [f"{name}:1: {problem}" for problem in _header_problems(header)]
        for row in () if problems else reader:
            where = f"{name}:{reader.line_num}"
            try:
                label = _read_row(row, where, reward_threshold)
                blank += label is None
                if label is not None:
                    _add(label, labels)
            except ValueError as error:
                problems.append(f"{where}: {error}")
    except csv.Error as error:
        problems.append(
            f"{name}:{reader.line_num + 1}: not readable as CSV: {error}; quote cells according to RFC 4180"
        )
    return HumanLabelFile(labels=tuple(labels.values()), blank=blank, problems=tuple(problems))


def _header_problems(header: list[str]) -> Iterator[str]:
    if "conversation_id" not in header:
        yield f"conversation_id: column missing, found {','.join(header) or 'no columns'}; allowed: {_ALLOWED}"
        return
    for column in sorted({column for column in header if column not in {*_READ, *_IGNORED}}):
        yield f"{column or 'a column without a name'}: unknown column; allowed: {_ALLOWED}, and for information: {', '.join(_IGNORED)}"
    for column in sorted({column for column in header if header.count(column) > 1}):
        yield f"{column}: duplicate column; keep one"
    for first, second in (("verdict", "reward"), ("turn", "turn_index")):
        if {first, second} <= set(header):
            yield f"{first}, {second}: both columns are present; keep one"
    if not {"verdict", "reward"} & set(header):
        yield f"verdict: column missing; a person's verdict belongs in verdict or reward; allowed: {_ALLOWED}"


def _read_row(row: Mapping[str, str], where: str, reward_threshold: float) -> HumanLabel | None:
    """Return the label of a row, or None for a row without a verdict.

    Raises:
        ValueError: a cell has an invalid value; names the column.
    """
    if row.get(""):
        raise ValueError("more cells than columns in the header; quote a cell that contains a comma")
    cells = {column: cell.strip() for column, cell in row.items() if column}
    verdict = read_verdict(cells.get("verdict", ""), cells.get("reward", ""), reward_threshold)
    if verdict is None:
        return None
    if not cells["conversation_id"]:
        raise ValueError("conversation_id: empty; every row needs a conversation")
    return HumanLabel(
        conversation_id=cells["conversation_id"],
        environment=cells.get("environment") or None,
        turn_index=_turn_index(cells),
        verdict=verdict,
        source=where,
    )


def _turn_index(cells: Mapping[str, str]) -> int | None:
    for column, first, other in (("turn", 1, "turn_index counts from 0"), ("turn_index", 0, "turn counts from 1")):
        text = cells.get(column, "")
        if text:
            if not (text.isascii() and text.isdecimal() and int(text) >= first):
                raise ValueError(
                    f"{column}: found {text!r}; allowed: a whole number from {first} (a column {other}), or empty"
                )
            return int(text) - first
    return None


def _add(label: HumanLabel, labels: dict[tuple[str, str | None, int | None], HumanLabel]) -> None:
    """Add a label.

    Raises:
        ValueError: the same turn or conversation already has the other verdict; names its line.
    """
    first = labels.setdefault((label.conversation_id, label.environment, label.turn_index), label)
    if first.verdict != label.verdict:
        target = "conversation" if label.turn_index is None else f"turn {label.turn_index + 1} of conversation"
        raise ValueError(
            f"{target} {label.conversation_id!r} has the other verdict at {first.source}; keep one of them"
        )
