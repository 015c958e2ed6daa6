"""Labels from a CSV of `conversation_id[,case_id][,verdict|reward]`.

A verdict is pass, fail, true, false, 1 or 0 (case ignored); a reward is a number that passes at or above a threshold.
An empty cell means no value. A file may map conversations to cases, contain verdicts, or both.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import CaseError
from otel_agentic.truth.load import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEFAULT_REWARD_THRESHOLD: Final = 1.0 - 1e-6
_COLUMNS: Final = ("conversation_id", "case_id", "verdict", "reward")
_VERDICTS: Final = {"pass": True, "true": True, "1": True, "fail": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of one conversation; `verdict` True is a pass, `line` is 1-based."""

    conversation_id: str
    case_id: str | None
    verdict: bool | None
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """The labels of one file by conversation id, and the problems of the invalid lines."""

    name: str
    labels: Mapping[str, Label]
    problems: tuple[str, ...]

    def require(self) -> Mapping[str, Label]:
        """Return the labels.

        Raises:
            CaseError: the file has problems; the message lists them, one per line.
        """
        if self.problems:
            raise CaseError("\n".join(self.problems))
        return self.labels


def read_labels(path: Path, *, reward_threshold: float = DEFAULT_REWARD_THRESHOLD) -> LabelFile:
    """Return the content of a labels CSV.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
    """
    return parse_labels(path.name, read_text(path, "labels"), reward_threshold=reward_threshold)


def parse_labels(name: str, text: str, *, reward_threshold: float = DEFAULT_REWARD_THRESHOLD) -> LabelFile:
    """Return the content of the text of a labels CSV; `name` identifies the file in messages."""
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    labels: dict[str, Label] = {}
    problems: list[str] = []
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        problems += [f"{name}:1:{problem}" for problem in _header_problems(header)]
        for cells in () if problems else rows:
            try:
                if any(cell.strip() for cell in cells):
                    _add(_read_row(_by_column(header, cells), rows.line_num, reward_threshold), labels)
            except ValueError as error:
                problems.append(f"{name}:{rows.line_num}:{error}")
    except csv.Error as error:
        problems.append(f"{name}:{rows.line_num}: not readable as CSV: {error}; quote cells according to RFC 4180")
    return LabelFile(name=name, labels=labels, problems=tuple(problems))


def _by_column(header: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) > len(header):
        raise ValueError(
            f" {len(cells)} cells, but {len(header)} columns in the header; quote a cell that contains a comma"
        )
    return {column: cell.strip() for column, cell in zip(header, cells, strict=False)} | dict.fromkeys(
        header[len(cells) :], ""
    )


def _header_problems(header: list[str]) -> Iterator[str]:
    allowed = "conversation_id[,case_id][,verdict|reward]"
    if "conversation_id" not in header:
        yield f"conversation_id: column missing, found {','.join(header) or 'no columns'}; allowed: {allowed}"
        return
    for column in sorted({column for column in header if column not in _COLUMNS}):
        yield f"{column or 'a column without a name'}: unknown column; allowed: {allowed}"
    for column in sorted({column for column in header if header.count(column) > 1}):
        yield f"{column}: duplicate column; keep one"
    if {"verdict", "reward"} <= set(header):
        yield "verdict, reward: both columns are present; keep one"


def _read_row(cells: Mapping[str, str], line: int, reward_threshold: float) -> Label:
    """Return the label of a row of stripped cells.

    Raises:
        ValueError: a cell has an invalid value; names the column.
    """
    if not cells["conversation_id"]:
        raise ValueError("conversation_id: empty; every row needs a conversation")
    return Label(
        conversation_id=cells["conversation_id"],
        case_id=cells.get("case_id") or None,
        verdict=read_verdict(cells.get("verdict", ""), cells.get("reward", ""), reward_threshold),
        line=line,
    )


def _add(label: Label, labels: dict[str, Label]) -> None:
    """Add a label.

    Raises:
        ValueError: the conversation already has another label; names its line.
    """
    first = labels.setdefault(label.conversation_id, label)
    if replace(first, line=label.line) != label:
        raise ValueError(
            f"conversation_id: {label.conversation_id!r} is labelled differently on line {first.line}; keep one of them"
        )


def read_verdict(verdict: str, reward: str, reward_threshold: float) -> bool | None:
    """Return the verdict in the cells `verdict` and `reward` of a row, True for a pass; or None if both are empty.

    Raises:
        ValueError: a cell has an invalid value; names the column.
    """
    if verdict:
        if verdict.lower() not in _VERDICTS:
            raise ValueError(f"verdict: found {verdict!r}; allowed: {', '.join(_VERDICTS)}, or empty")
        return _VERDICTS[verdict.lower()]
    if not reward:
        return None
    try:
        number = float(reward)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"reward: found {reward!r}; allowed: a number, or empty")
    return number >= reward_threshold
