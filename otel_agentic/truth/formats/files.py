"""Files of cases and of evaluation rows: detection of the format, reading, and writing with a list of lost fields."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import Conversation, ConversationId
from otel_agentic.errors import CaseError, UsageError
from otel_agentic.truth.formats.adk import Adk
from otel_agentic.truth.formats.base import (
    Document,
    Format,
    Loss,
    Native,
    Yaml,
    content_of,
    first_problems,
    problem_text,
)
from otel_agentic.truth.formats.fair_forge import FairForge
from otel_agentic.truth.formats.located import LINES, Parsed, Path, Problem, line_starts, parse_json
from otel_agentic.truth.formats.outcome import Outcome
from otel_agentic.truth.formats.ragas import Ragas
from otel_agentic.truth.formats.table import COLUMNS, Csv, Parquet, flat_records, flat_rows, parse_csv, row_records
from otel_agentic.truth.formats.tau_bench import TauBench

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case

_NATIVE: Final = Native()
#: Formats that are detected by the shape of their records.
_SHAPES: Final[tuple[Format, ...]] = (_NATIVE, FairForge(), Ragas(), Outcome(), Adk(), TauBench())
#: Every format by name, in display order.
FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_ for format_ in (_NATIVE, Yaml(), Csv(), Parquet(), *_SHAPES[1:])
}
_YAML: Final = (".yaml", ".yml")


def read_document(name: str, text: str, format_name: str | None = None) -> Document:
    """Return the content of a text with cases in any format.

    The extension of the name, otherwise the text, determines the syntax (JSON lines, JSON, YAML, CSV); the shape of the
    records determines the format. Invalid records are reported in `problems` and do not affect others.

    Args:
        name: used in messages; without folder and extension, it is the dataset of cases that do not name one.
        text: the text, decoded.
        format_name: a name of `FORMATS`, if the shape is ambiguous.

    Raises:
        UsageError: the format is unknown, or not a text format.
    """
    forced = _format(format_name)
    if isinstance(forced, Parquet):
        raise UsageError(f"{name}: Parquet is not text; give the file itself, or its rows")
    if "\x00" in text:
        line = line_starts(text).line(text.index("\x00"))
        problem = Problem(line=line, text="a NUL character: the file is damaged, or not text")
        return Document(
            name=name, format=forced.name if forced else "", problems=(problem_text(name, problem, "line"),)
        )
    parsed = parse_text(name.lower(), text.removeprefix("\ufeff"), forced)
    return _read(parsed, name, forced)


def read_rows(
    name: str, header: Sequence[str], rows: Sequence[tuple[int, Mapping[str, Any]]], format_name: str | None = None
) -> Document:
    """Return the content of the rows of a table (Parquet), each with its number, from 1. See `read_document`."""
    forced = _format(format_name)
    flat = "case_id" in header if forced is None else isinstance(forced, Native)
    parsed = flat_records(header, rows, "row", 0) if flat else row_records(rows, "row")
    return _read(parsed, name, forced)


def _format(name: str | None) -> Format | None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"unknown case format {name!r}; allowed: {', '.join(FORMATS)}")
    return None if name is None else FORMATS[name]


def parse_text(name: str, text: str, forced: Format | None) -> Parsed:
    """Return the records of a text in any syntax.

    Args:
        name: name of the file, in lower case.
        text: content of the file, without a byte order mark.
        forced: the format of the records, or None if unknown.
    """
    if isinstance(forced, Yaml) or (name.endswith(_YAML) and not isinstance(forced, Csv)):
        return _parse_yaml(text)
    if isinstance(forced, Csv) or name.endswith(".csv"):
        return parse_csv(text, flat=None if forced is None else isinstance(forced, Native))
    begins = text.lstrip()[:1]
    if name.endswith((*LINES, ".json")) or begins in {"{", "["}:
        return parse_json(name, text)
    first = begins and text.lstrip().split("\n", 1)[0]
    return parse_csv(text) if first and "," in first and "case_id" in first else _parse_yaml(text)


def _parse_yaml(text: str) -> Parsed:
    from otel_agentic.truth.formats.yaml_text import parse_yaml  # noqa: PLC0415 — only YAML files need PyYAML

    return parse_yaml(text)


def _read(parsed: Parsed, name: str, forced: Format | None) -> Document:
    chosen = forced or _detected(parsed, name)
    return chosen.read(parsed, name) if isinstance(chosen, Format) else chosen


def _detected(parsed: Parsed, name: str) -> Format | Document:
    """Return the format of the records, or a document with the problem if it cannot be detected."""
    records = [item.value for item in parsed.items]
    candidates = [shape for shape in _SHAPES if shape.sniff(records)]
    if len(candidates) > 1:
        names = " and ".join(shape.name for shape in candidates)
        problem = Problem(line=0, text=f"the records look like {names}; choose one with --file-format NAME")
        return Document(name=name, format="", problems=(problem_text(name, problem, parsed.unit),))
    if not candidates and name.endswith(".csv") and records and not any("case_id" in record for record in records):
        columns = ", ".join(dict.fromkeys(str(column) for record in records for column in record))
        message = (
            f"found the columns {columns}; a CSV of cases has case_id, and others such as query and answer; one of labels has "
            "conversation_id[,case_id][,verdict|reward]"
        )
        return Document(
            name=name, format="", problems=(problem_text(name, Problem(line=1, text=message), parsed.unit),)
        )
    return candidates[0] if candidates else _NATIVE


#: Fields that contain records, whose differences are reported field by field.
_RECORD_FIELDS: Final = frozenset({"turns", "tools", "calls"})


def losses_of(cases: Sequence[Case], back: Document, format_name: str) -> Iterator[Loss]:
    """Yield the fields of cases that differ after their file is read again, in the order of the cases."""
    reasons = loss_reasons(format_name)
    read_again = {case.key: case for case in back.cases}
    for case in cases:
        reread_case = read_again.get(case.key)
        paths = (
            [()]
            if reread_case is None
            else differences(case.model_dump(mode="json"), reread_case.model_dump(mode="json"))
        )
        for path in paths:
            yield Loss(
                dataset=case.dataset,
                case_id=case.case_id,
                field=".".join(str(part) for part in path),
                reason=_reason(path, reasons) if path else "the file cannot hold this case",
            )


def differences(left: Mapping[str, Any], right: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the fields in which two dumped records differ; lists of different lengths as a whole."""
    for name, value in left.items():
        yield from _differences(name, value, right.get(name), (*path, name))


def _differences(name: str, value: Any, right: Any, path: Path) -> Iterator[Path]:
    if _equal(value, right):
        return
    if name in _RECORD_FIELDS and isinstance(value, dict) and isinstance(right, dict):
        yield from differences(value, right, path)
    elif name in _RECORD_FIELDS and isinstance(value, list) and isinstance(right, list) and len(value) == len(right):
        for index, (left_item, right_item) in enumerate(zip(value, right, strict=True)):
            yield from differences(left_item, right_item, (*path, index))
    elif name == "parameters":
        yield from ((*path, key) for key in value if key not in right or not _equal(value[key], right[key]))
        yield from ((*path, key) for key in right if key not in value)
    else:
        yield path


def _equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; true is not 1, and 1.0 is 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def loss_reasons(format_name: str) -> Mapping[str, str]:
    """Return, by path, the reasons why a format cannot represent a field."""
    tables = tomllib.loads(files(__package__).joinpath("losses.toml").read_text("utf-8"))
    reasons: dict[str, str] = tables.get(format_name, {})
    calls_path = reasons.pop("calls_at", None)
    return (
        reasons
        if calls_path is None
        else {f"{calls_path}.{path}": reason for path, reason in tables["calls"].items()} | reasons
    )


def _reason(path: Path, reasons: Mapping[str, str]) -> str:
    """Return the reason why a field is lost: the reason of the longest matching path."""
    names = [str(part) for part in path if not isinstance(part, int)]
    prefixes = (".".join(names[:end]) for end in range(len(names), -1, -1))
    return next((reasons[prefix] for prefix in prefixes if prefix in reasons), "the format has no field for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The text of a file of cases, and the fields that are lost when it is read again."""

    text: str
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The rows of a table of cases, and the fields that are lost when it is read again."""

    rows: tuple[Mapping[str, Any], ...]
    losses: tuple[Loss, ...]


def write_document(cases: Sequence[Case], format_name: str) -> Written:
    """Return cases in a text format.

    Raises:
        KeyError: the format is unknown.
    """
    text = FORMATS[format_name].document(cases)
    reread = read_document("", text, format_name)
    return Written(text=text, losses=tuple(losses_of(cases, reread, format_name)))


def write_rows(cases: Sequence[Case]) -> WrittenRows:
    """Return cases as rows of the flat layout, for Parquet."""
    rows = tuple(flat_rows(cases))
    reread = read_rows("", COLUMNS, list(enumerate(rows, start=1)), "parquet")
    return WrittenRows(rows=rows, losses=tuple(losses_of(cases, reread, Csv.name)))


_RAGAS: Final = Ragas()
#: The names of the formats whose records contain the agent's output.
_WITH_OUTPUT: Final = (Ragas.name, FairForge.name)
_ROWS: Final = (
    "RAGAS or NeMo Evaluator rows (with `user_input`), or Fair Forge sessions (with `session_id` and `conversation`)"
)
_CASES: Final = "pass it with --cases, or import it with `otel-agentic truth import`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One row: its file, its line (or row of a table), 1-based, and its name, unique in the file.

    `conversation` is None if the row has no agent output. `left_out` are fields with a value that are not used.
    """

    file: str
    line: int
    name: str
    case: Case
    conversation: Conversation | None
    left_out: tuple[str, ...] = ()


def read_attempts(name: str, text: str) -> tuple[Attempt, ...]:
    """Return the rows of a RAGAS or NeMo Evaluator dataset, or sessions of Fair Forge: JSON lines, JSON, YAML or CSV, in order.

    Raises:
        CaseError: see `attempts_of`.
    """
    if "\x00" in text:
        raise CaseError(f"{name}: contains a NUL character: the file is damaged, or not text")
    return attempts_of(parse_text(name.lower(), text.removeprefix("\ufeff"), _RAGAS), name)


def attempts_of(parsed: Parsed, name: str) -> tuple[Attempt, ...]:
    """Return the rows of a parsed dataset, in order.

    Rows may repeat: each is a separate attempt. A row with the `id` of an earlier row must have the same expectations.

    Raises:
        CaseError: rows are invalid, or there are no rows; lists all problems, with file, line (or row) and field.
    """
    records = [item.value for item in parsed.items]
    shapes = [shape for shape in _SHAPES if shape.sniff(records)]
    if shapes and not any(shape.name in _WITH_OUTPUT for shape in shapes):
        raise CaseError(
            f"{name}: contains cases ({shapes[0].name}) without the agent's output; {_CASES}. Rows are {_ROWS}"
        )
    shape = next((shape for shape in shapes if shape.name in _WITH_OUTPUT), _RAGAS)
    problems: list[Problem] = []
    rows: list[Attempt] = []
    cases: dict[object, tuple[int, Case]] = {}
    row_counts: Counter[str] = Counter()
    used_names: set[str] = set()
    for item, reading, case in shape.readings(parsed, name, problems):
        line = item.line_of(())
        calls_missing = _calls_unrecorded(item.value, reading.conversation) and case.tools is not None
        if calls_missing:
            case = case.model_copy(update={"tools": None})  # noqa: PLW2901 — the calls are unknown, not absent
        if shape.name == FairForge.name:  # its tools have no results, and decide nothing there
            case = case.model_copy(update={"criteria": ("answer",)})  # noqa: PLW2901 — see above
        if reading.attempt is not None:
            case = _attempted(case, reading.other_id, cases)  # noqa: PLW2901 — the case of all attempts
        first_line, first_case = cases.setdefault(case.case_id, (line, case))
        if first_case.version != case.version:
            message = (
                f"id: {case.case_id!r} is already used on {parsed.unit} {first_line}, with other queries, or "
                "another reference or dataset; give each row its own"
            )
            problems.append(Problem(line=line, text=message))
            continue
        base_name = reading.attempt or case.case_id
        row_counts[base_name] += 1
        row_name = _unused_name(base_name, row_counts[base_name], used_names)
        used_names.add(row_name)
        conversation = reading.conversation
        if conversation is not None:
            conversation = replace(conversation, conversation_id=ConversationId(row_name), case_id=case.case_id)
        left_out = tuple(
            dict.fromkeys((*reading.left_out, *(("reference_tool_calls without tool_calls",) if calls_missing else ())))
        )
        rows.append(
            Attempt(file=name, line=line, name=row_name, case=first_case, conversation=conversation, left_out=left_out)
        )
    if problems:
        problems.sort(key=lambda problem: problem.line)
        texts = [problem_text(name, problem, parsed.unit) for problem in problems]
        hint = () if shapes or parsed.problems else (f"{name}: rows are {_ROWS}",)
        raise CaseError("\n".join((*first_problems(texts), *hint)))
    if not rows:
        raise CaseError(f"{name}: no rows; rows are {_ROWS}, such as one per line of JSON lines")
    return tuple(rows)


def _attempted(case: Case, other_id: str | None, cases: dict[object, tuple[int, Case]]) -> Case:
    """Return the case that an attempt shares with others of equal content; its id is new if another case uses it."""
    shared = cases.get(content_of(case))
    if shared is not None:
        return shared[1]
    if case.case_id in cases and other_id is not None:
        case = case.model_copy(update={"case_id": other_id})
    cases[content_of(case)] = (0, case)
    return case


def _calls_unrecorded(row: Mapping[str, Any], conversation: Conversation | None) -> bool:
    """Return whether a row has an answer but no calls: messages contain them, a text needs `tool_calls`."""
    return conversation is not None and isinstance(row.get("user_input"), str) and row.get("tool_calls") is None


def _unused_name(case_id: str, row_number: int, used_names: Container[str]) -> str:
    """Return an unused name for the n-th row of a case: the case id, with a number from the second row on."""
    first = (case_id,) if row_number == 1 else ()
    # An id may equal the numbered name of another row.
    numbered = (f"{case_id}#{number}" for number in count(max(row_number, 2)))
    return next(name for name in chain(first, numbered) if name not in used_names)
