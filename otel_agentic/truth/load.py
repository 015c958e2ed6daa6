"""Ground truth from files: cases in any text format, labels from CSV, and redaction of both.

Labels are read from a CSV file with the columns `conversation_id[,case_id][,verdict|reward]`. A verdict is pass, fail,
true, false, 1 or 0 (case ignored); a reward is a number that passes at or above a threshold. An empty cell means no
value. A file may map conversations to cases, contain verdicts, or both.

Ground truth is redacted with the same key as spans, before it is stored or compared with redacted conversations. Equal
values have equal marks, so nearly all comparisons still work. If a field is redacted completely, its shape is lost:
rules about the shape (a regular expression, a schema, a part, a tolerance) then accept any value.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from otel_agentic.errors import CaseError, TooLargeError
from otel_agentic.redaction.fields import MARK, MARK_START
from otel_agentic.regular_files import read_regular
from otel_agentic.truth.formats.base import Document, Native
from otel_agentic.truth.formats.located import column_problems, parse_lines
from otel_agentic.truth.model import Case

#: Files of ground truth are written by people: a larger file is probably something else.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024


def read_cases(path: Path, format_name: str | None = None) -> Document:
    """Return the content of a file of cases: JSON lines, JSON, YAML or CSV, in any text format.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
        TooLargeError: it is larger than `MAX_FILE_BYTES`.
    """
    from otel_agentic.truth.formats.files import read_document  # noqa: PLC0415 — loads the formats of other tools

    return read_document(path.name, read_text(path, "cases"), format_name)


def read_text(path: Path, what: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Raises:
        CaseError: the file cannot be read, or is not UTF-8.
        TooLargeError: it is larger than `MAX_FILE_BYTES`.
    """
    try:
        content = read_regular(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CaseError(f"{what} file {path}: {error.strerror}; give a readable file") from error
    return decoded(content, str(path), what)


def decoded(content: bytes, name: str, what: str) -> str:
    """Return the text of a file's bytes, without a byte order mark.

    Raises:
        CaseError: the bytes are not UTF-8.
        TooLargeError: there are more than `MAX_FILE_BYTES`.
    """
    if len(content) > MAX_FILE_BYTES:
        raise TooLargeError(
            f"{what} file {name}: larger than {MAX_FILE_BYTES // 2**20} MiB; split it into several files"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaseError(f"{what} file {name}: byte {error.start} is not UTF-8; save it as UTF-8") from error


def parse_cases(name: str, text: str) -> Document:
    """Return the cases in native JSON lines; `name` identifies the file in messages.

    A case without a `dataset` belongs to the dataset named after the file, without folder and extension.
    """
    return Native().read(parse_lines(text.removeprefix("\ufeff")), name)


DEFAULT_REWARD_THRESHOLD: Final = 1.0 - 1e-6
_COLUMNS: Final = ("conversation_id", "case_id", "verdict", "reward")
_VERDICTS: Final = {"pass": True, "true": True, "1": True, "fail": False, "false": False, "0": False}


#: The source of the verdict of a label: a labels file, an adjudication, or annotators who agree.
LabelSource = Literal["labels", "adjudication", "annotators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of one conversation; `verdict` True is a pass, `line` is 1-based (0 without a file).

    `case_method` is how the conversation was mapped to `case_id`: by a labels file, or by a person.
    """

    conversation_id: str
    case_id: str | None
    verdict: bool | None
    line: int
    source: LabelSource = "labels"
    case_method: Literal["labels_file", "person"] = "labels_file"


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
    yield from column_problems(header, _COLUMNS, allowed)
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
    existing = labels.setdefault(label.conversation_id, label)
    if replace(existing, line=label.line) != label:
        raise ValueError(
            f"conversation_id: {label.conversation_id!r} is labelled differently on line {existing.line}; keep one of them"
        )


def read_verdict(verdict: str, reward: str, reward_threshold: float) -> bool | None:
    """Return the verdict in the cells `verdict` and `reward` of a row, True for a pass, or None if both are empty.

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


#: Modes that compare the shape of a value.
_SHAPES: Final = frozenset({"regex", "json_schema", "contains"})
#: A regular expression without special characters, except escapes.
_LITERAL: Final = re.compile(r"(?:\\[^A-Za-z0-9]|[^\\.^$*+?()\[\]{}|])*")
_ESCAPE: Final = re.compile(r"\\([^A-Za-z0-9])")
_TEXTS: Final = (
    *("case_id", "dataset", "tags", "agent", "outputs", "goal", "expected_state", "plan", "promoted_from", "notes"),
    "metadata",
    *("query", "answer", "not_answer", "reference_topics"),
    *("tool_name", "forbidden"),
)


class Redacts(Protocol):
    """A redactor of secrets."""

    def value(self, value: Any) -> Any:
        """Return a plain value with all secrets redacted, or the same object if it contains no secret."""
        ...

    def redacts_field(self, name: str) -> bool:
        """Return whether a field is redacted by its name, for any value."""
        ...


def redacted_case(case: Case, redacts: Redacts) -> Case:
    """Return a case with all secrets redacted, or the same object if it contains no secret. Idempotent."""
    record = case.model_dump(mode="json", exclude_defaults=True)
    changed = _redacted(record, redacts)
    return case if changed == record else Case.model_validate(changed)


def redacted_label(label: Label, redacts: Redacts) -> Label:
    """Return a label with the ids of conversation and case redacted, or the same object if they contain no secret."""
    conversation_id, case_id = redacts.value(label.conversation_id), redacts.value(label.case_id)
    if conversation_id is label.conversation_id and case_id is label.case_id:
        return label
    return replace(label, conversation_id=conversation_id, case_id=case_id)


def redacted_labels(labels: Mapping[str, Label], redacts: Redacts) -> dict[str, Label]:
    """Return labels by the redacted ids of conversations."""
    clean = (redacted_label(label, redacts) for label in labels.values())
    return {label.conversation_id: label for label in clean}


def _redacted(record: dict[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return the redacted record of a case, turn, expectation or call."""
    clean = {key: redacts.value(value) if key in _TEXTS else value for key, value in record.items()}
    if "effects" in record:
        clean["effects"] = {redacts.value(name): effect for name, effect in record["effects"].items()}
    if "tools" in record:
        clean["tools"] = _redacted(record["tools"], redacts)
    for part in ("turns", "calls", "alternatives"):
        if part in record:
            clean[part] = [_redacted(part_record, redacts) for part_record in record[part]]
    return {**clean, **_parameters(record, redacts)} if "parameters" in record or "match" in record else clean


def _parameters(call: Mapping[str, Any], redacts: Redacts) -> dict[str, Any]:
    """Return the redacted parameters and rules of a call, if present."""
    expected: dict[str, Any] = call.get("parameters", {})
    parameters: dict[str, Any] = redacts.value(expected)
    rules = {redacts.value(name): rule for name, rule in call.get("match", {}).items()}
    for (old_name, old), (name, new) in zip(expected.items(), parameters.items(), strict=True):
        mode = rules[name]["mode"] if isinstance(rules.get(name), dict) else rules.get(name)
        if mode in _SHAPES and redacts.redacts_field(old_name):
            rules[name] = "any"
        elif mode == "number" and isinstance(new, str):
            rules[name] = "exact"
        elif mode == "regex":
            pattern = _pattern(old, new, redacts)
            rules[name] = rules[name] if pattern is not None else "any"
            parameters = {**parameters, name: redacts.value(_unescaped(old)) if pattern is None else pattern}
    redacted = {"parameters": parameters, "match": rules}
    return {key: value for key, value in redacted.items() if key in call}


def _pattern(old: str, new: str, redacts: Redacts) -> str | None:
    """Return a regular expression that matches marks instead of secrets, or None if that is impossible.

    Args:
        old: the expression.
        new: the expression, redacted as a text.
        redacts: the redactor.
    """
    if new != old:
        return MARK.sub(lambda mark: re.escape(mark[0]), new)
    plain = _unescaped(old)
    clean = redacts.value(plain)
    if clean == plain or MARK_START in old.replace("\\", ""):
        return old
    return re.escape(clean) if _LITERAL.fullmatch(old) else None


def _unescaped(pattern: str) -> str:
    return _ESCAPE.sub(r"\1", pattern)
