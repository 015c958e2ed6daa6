"""Files of cases and of evaluation rows: detection of the format, reading, writing, and a list of the fields that were lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import ConversationId
from otel_agentic.errors import CaseError, UsageError
from otel_agentic.truth.formats.adk import Adk
from otel_agentic.truth.formats.base import Document, Format, Loss, Native, Yaml, said, shown
from otel_agentic.truth.formats.fair_forge import FairForge
from otel_agentic.truth.formats.located import LINES, Parsed, Trouble, line_starts, parse_json
from otel_agentic.truth.formats.outcome import Outcome
from otel_agentic.truth.formats.ragas import Ragas
from otel_agentic.truth.formats.table import COLUMNS, Csv, Parquet, flat_records, flat_rows, parse_csv, row_records
from otel_agentic.truth.formats.tau_bench import TauBench

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.formats.located import Path
    from otel_agentic.truth.model import Case

_NATIVE: Final = Native()
#: Formats that are told apart by the shape of their records.
_SHAPES: Final[tuple[Format, ...]] = (_NATIVE, FairForge(), Ragas(), Outcome(), Adk(), TauBench())
#: Every format by name, in the order in which they are offered.
FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_ for format_ in (_NATIVE, Yaml(), Csv(), Parquet(), *_SHAPES[1:])
}
_YAML: Final = (".yaml", ".yml")


def read_document(name: str, text: str, format_name: str | None = None) -> Document:
    """Return what a text of cases holds, in whatever format it is.

    The syntax (JSON lines, JSON, YAML, CSV) follows from the ending of the name, or else from the text; the format from
    the shape of the records. What is wrong stands in `problems`, and loses nothing else.

    Args:
        name: stands in the messages; without folder and ending it is the dataset of cases that name none.
        text: the text, decoded.
        format_name: a name of `FORMATS` where the shape does not tell.

    Raises:
        UsageError: there is no such format for texts.
    """
    forced = _format(format_name)
    if isinstance(forced, Parquet):
        raise UsageError(f"{name}: Parquet is no text; give the file itself, or its rows")
    if "\x00" in text:
        place = line_starts(text).line(text.index("\x00"))
        trouble = Trouble(place=place, text="a NUL character stands here: the file is damaged, or no text")
        return Document(name=name, format=forced.name if forced else "", problems=(said(name, trouble, "line"),))
    parsed = parse_text(name.lower(), text.removeprefix("\ufeff"), forced)
    return _read(parsed, name, forced)


def read_rows(
    name: str, header: Sequence[str], rows: Sequence[tuple[int, Mapping[str, Any]]], format_name: str | None = None
) -> Document:
    """Return what the rows of a table (Parquet) hold; each comes with its number, from 1. See `read_document`."""
    forced = _format(format_name)
    flat = "case_id" in header if forced is None else isinstance(forced, Native)
    parsed = flat_records(header, rows, "row", 0) if flat else row_records(rows, "row")
    return _read(parsed, name, forced)


def _format(name: str | None) -> Format | None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"no case format {name!r}; there are {', '.join(FORMATS)}")
    return None if name is None else FORMATS[name]


def parse_text(name: str, text: str, forced: Format | None) -> Parsed:
    """Return the records of a text in whatever syntax it is.

    Args:
        name: of the file, in small letters.
        text: what stands in it, without a byte order mark.
        forced: the format that they are in, None where that is not known yet.
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
    from otel_agentic.truth.formats.located import parse_yaml  # noqa: PLC0415 — only YAML files need PyYAML

    return parse_yaml(text)


def _read(parsed: Parsed, name: str, forced: Format | None) -> Document:
    chosen = forced or _fitting(parsed, name)
    return chosen.read(parsed, name) if isinstance(chosen, Format) else chosen


def _fitting(parsed: Parsed, name: str) -> Format | Document:
    """Return the format that the records look like, or a document that says why it cannot be told."""
    records = [item.value for item in parsed.items]
    fitting = [shape for shape in _SHAPES if shape.sniff(records)]
    if len(fitting) > 1:
        names = " and ".join(shape.name for shape in fitting)
        trouble = Trouble(place=0, text=f"the records look like {names}; say which it is, with --file-format NAME")
        return Document(name=name, format="", problems=(said(name, trouble, parsed.unit),))
    if not fitting and name.endswith(".csv") and records and not any("case_id" in record for record in records):
        found = ", ".join(dict.fromkeys(str(column) for record in records for column in record))
        told = (
            f"found the columns {found}; a CSV of cases has case_id, and others such as query and answer; one of labels has "
            "conversation_id[,case_id][,verdict|reward]"
        )
        return Document(name=name, format="", problems=(said(name, Trouble(place=1, text=told), parsed.unit),))
    return fitting[0] if fitting else _NATIVE


#: Fields that hold records: a difference in them is one of a field of these.
_HOLDERS: Final = frozenset({"turns", "tools", "calls"})


def losses_of(cases: Sequence[Case], back: Document, reasons: Mapping[str, str]) -> Iterator[Loss]:
    """Yield the fields that differ between cases and what a file of them gives back, in the order of the cases."""
    found = {case.key: case for case in back.cases}
    for case in cases:
        other = found.get(case.key)
        paths = [()] if other is None else differences(case.model_dump(mode="json"), other.model_dump(mode="json"))
        for path in paths:
            yield Loss(
                dataset=case.dataset,
                case_id=case.case_id,
                field=".".join(str(part) for part in path),
                reason=_reason(path, reasons) if path else "the file cannot hold this case",
            )


def differences(one: Mapping[str, Any], other: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the ways to the fields in which two dumped records differ; of lists of other lengths the list itself."""
    for name, value in one.items():
        yield from _differences(name, value, other.get(name), (*path, name))


def _differences(name: str, value: Any, other: Any, path: Path) -> Iterator[Path]:
    if _same(value, other):
        return
    if name in _HOLDERS and isinstance(value, dict) and isinstance(other, dict):
        yield from differences(value, other, path)
    elif name in _HOLDERS and isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        for place, (left, right) in enumerate(zip(value, other, strict=True)):
            yield from differences(left, right, (*path, place))
    elif name == "parameters":
        yield from ((*path, key) for key in value if key not in other or not _same(value[key], other[key]))
        yield from ((*path, key) for key in other if key not in value)
    else:
        yield path


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _reason(path: Path, reasons: Mapping[str, str]) -> str:
    """Return why a field is lost: the reason of the longest way that leads to it."""
    names = [str(part) for part in path if not isinstance(part, int)]
    ways = (".".join(names[:end]) for end in range(len(names), -1, -1))
    return next((reasons[way] for way in ways if way in reasons), "the format has no field for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The text of a file of cases, and the fields that reading it again does not give back."""

    text: str
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The rows of a table of cases, and the fields that reading it again does not give back."""

    rows: tuple[Mapping[str, Any], ...]
    losses: tuple[Loss, ...]


def write_document(cases: Sequence[Case], format_name: str) -> Written:
    """Return cases in a format that is text.

    Raises:
        KeyError: there is no such format.
    """
    chosen = FORMATS[format_name]
    text = chosen.document(cases)
    back = read_document("", text, format_name)
    return Written(text=text, losses=tuple(losses_of(cases, back, chosen.reasons)))


def write_rows(cases: Sequence[Case]) -> WrittenRows:
    """Return cases as rows of the flat layout, for Parquet."""
    rows = tuple(flat_rows(cases))
    back = read_rows("", COLUMNS, list(enumerate(rows, start=1)), "parquet")
    return WrittenRows(rows=rows, losses=tuple(losses_of(cases, back, FORMATS["parquet"].reasons)))


_RAGAS: Final = Ragas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One row: the file that it is in, its line (or row of a table) there, 1-based, and its name, unique in the file.

    `conversation` is None where the row tells nothing of an agent. `left_out` are fields that say something and that
    nothing here looks at.
    """

    file: str
    line: int
    name: str
    case: Case
    conversation: Conversation | None
    left_out: tuple[str, ...] = ()


def read_attempts(name: str, text: str) -> tuple[Attempt, ...]:
    """Return the rows of a RAGAS or NeMo Evaluator dataset: JSON lines, a JSON list, YAML or CSV, in their order.

    Raises:
        CaseError: see `attempts_of`.
    """
    if "\x00" in text:
        raise CaseError(f"{name}: a NUL character stands in it: the file is damaged, or no text")
    return attempts_of(parse_text(name.lower(), text.removeprefix("\ufeff"), _RAGAS), name)


def attempts_of(parsed: Parsed, name: str) -> tuple[Attempt, ...]:
    """Return the rows of a parsed dataset, in their order.

    Rows may repeat: each is an attempt of its own. One that has the `id` of an earlier row must expect the same.

    Raises:
        CaseError: rows cannot be read, or there is none; lists the problems of all, with file, line (or row) and field.
    """
    troubles: list[Trouble] = []
    rows: list[Attempt] = []
    first: dict[str, tuple[int, Case]] = {}
    times: Counter[str] = Counter()
    names: set[str] = set()
    for item, reading, case in _RAGAS.readings(parsed, name, troubles):
        line = item.place_of(())
        untold = _calls_untold(item.value, reading.conversation) and case.tools is not None
        if untold:
            case = case.model_copy(update={"tools": None})  # noqa: PLW2901 — what was called is unknown, not nothing
        known_line, known = first.setdefault(case.case_id, (line, case))
        if known.version != case.version:
            told = (
                f"id: {case.case_id!r} stands on {parsed.unit} {known_line} already, with other queries, or "
                "another reference or dataset; give each row its own"
            )
            troubles.append(Trouble(place=line, text=told))
            continue
        times[case.case_id] += 1
        row_name = _unused(case.case_id, times[case.case_id], names)
        names.add(row_name)
        made = reading.conversation
        if made is not None:
            made = replace(made, conversation_id=ConversationId(row_name), case_id=case.case_id)
        left_out = tuple(
            dict.fromkeys((*reading.left_out, *(("reference_tool_calls without tool_calls",) if untold else ())))
        )
        rows.append(Attempt(file=name, line=line, name=row_name, case=known, conversation=made, left_out=left_out))
    if troubles:
        troubles.sort(key=lambda trouble: trouble.place)
        raise CaseError("\n".join(shown([said(name, trouble, parsed.unit) for trouble in troubles])))
    if not rows:
        raise CaseError(f"{name}: no row; a row is an object with `user_input`, such as one line of JSON lines")
    return tuple(rows)


def _calls_untold(row: Mapping[str, Any], made: Conversation | None) -> bool:
    """Return whether a question with an answer says nothing of calls: messages hold them, a text has them beside it."""
    return made is not None and isinstance(row.get("user_input"), str) and row.get("tool_calls") is None


def _unused(case_id: str, time: int, names: Container[str]) -> str:
    """Return the name of the row that has a case for the so-manieth time: that of the case, numbered from the second on."""
    first = (case_id,) if time == 1 else ()
    # An id may look like the number of another row.
    numbered = (f"{case_id}#{number}" for number in count(max(time, 2)))
    return next(name for name in chain(first, numbered) if name not in names)
