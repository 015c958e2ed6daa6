"""Which syntax a text has, and which format its records have; then all of it read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import UsageError
from otel_agentic.truth.formats.adk import Adk
from otel_agentic.truth.formats.base import Document, Format, said
from otel_agentic.truth.formats.csv_text import parse_csv
from otel_agentic.truth.formats.fair_forge import FairForge
from otel_agentic.truth.formats.flat import Csv, Parquet
from otel_agentic.truth.formats.items import Parsed, Trouble, line_starts
from otel_agentic.truth.formats.json_text import LINES, parse_json
from otel_agentic.truth.formats.native import Native, Yaml
from otel_agentic.truth.formats.outcome import Outcome
from otel_agentic.truth.formats.ragas import Ragas
from otel_agentic.truth.formats.table import flat_records, row_records
from otel_agentic.truth.formats.tau_bench import TauBench

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    from otel_agentic.truth.formats.yaml_text import parse_yaml  # noqa: PLC0415 — only YAML files need PyYAML

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
