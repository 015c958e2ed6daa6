"""Values as text for people; control characters in untrusted text never reach the terminal."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.differences import MISSING, around, differences

if TYPE_CHECKING:
    from otel_agentic.results.reports import Rate

#: The placeholder of a missing value.
NOTHING: Final = "—"
#: The criterion of conversations without a case: everything that a case would annotate. It decides nothing.
WITHOUT_CASE: Final = "annotated"
_CSV_ROWS: Final = 1000
#: The characters that Markdown interprets as markup.
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>|#~])")
#: The first characters with which a spreadsheet interprets a cell as a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: The terminal control characters that JSON may contain unescaped: those beyond ASCII, and direction marks.
_OBEYED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text with terminal control characters replaced.

    >>> printable("a\x1b[31mb")
    'a�[31mb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def safe(value: Any) -> str:
    r"""Return a value as text without terminal control characters; truth values and nested values in their JSON form.

    >>> safe("a\x1b[31mb"), safe(None), safe(True), safe({"a": 1})
    ('a�[31mb', '—', 'true', '{"a":1}')
    """
    if value is None:
        return NOTHING
    if isinstance(value, (bool, dict, list)):
        return printable(compact(value))
    return printable(str(value))


def compact(value: Any) -> str:
    """Return a value as one line of JSON without terminal control characters."""
    return json_text(value, orjson.OPT_NON_STR_KEYS)


def json_text(value: Any, option: int) -> str:
    r"""Return a value as JSON in which terminal control characters are escaped.

    >>> json_text("a\x9b31m\u202e", 0)
    '"a\\u009b31m\\u202e"'
    """
    return escaped(orjson.dumps(value, default=str, option=option).decode())


def escaped(document: str) -> str:
    r"""Return a JSON document in which terminal control characters are escaped.

    YAML has the same escapes; they are valid in double quotes only, which `write_yaml` uses for such text.

    >>> escaped('"a\u202e"')
    '"a\\u202e"'
    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def short(value: Any, limit: int = 60) -> str:
    """Return a value as one line of at most `limit` characters.

    >>> short("one  two three", 9)
    'one two …'
    """
    text = " ".join(safe(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def argument(value: str) -> str:
    r"""Return a value quoted as one argument of a command to paste into a shell.

    >>> argument("1#3"), argument("x; $(id)")
    ("'1#3'", "'x; $(id)'")
    """
    return shlex.quote(printable(value))


def difference_text(expected: Any, actual: Any, limit: int = 40) -> str:
    """Return the first difference of an actual from an expected value on one line: path, actual and expected value.

    Each value has at most `limit` characters, cut around the difference. Values of different types have their JSON form.

    >>> difference_text([{"to": "HAT033"}], [{"to": "HAT212"}]), difference_text(3, "3"), difference_text({"a": 1}, {})
    ('[0].to: HAT212 ≠ HAT033', '"3" ≠ 3', '{} ≠ {"a":1}')
    """
    first = next(differences(expected, actual), None)
    if first is None:
        return " ".join(safe(actual).split())
    sides = (first.expected, first.actual)
    documents = [NOTHING if side is MISSING else printable(compact(side)) for side in sides]
    texts = [
        " ".join(safe(side).split()) if isinstance(side, str) else document
        for side, document in zip(sides, documents, strict=True)
    ]
    if texts[0] == texts[1]:
        texts = documents
    expected_text, actual_text = around(texts[0], texts[1], limit)
    path = f"{printable(first.path)}: " if first.path else ""
    return f"{path}{actual_text} ≠ {expected_text}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "case"), plural(2000, "case")
    ('1 case', '2,000 cases')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ratio(value: float | None) -> str:
    """Return a ratio with three digits, a dash for None.

    >>> ratio(0.42), ratio(None), ratio(1.0)
    ('.420', '—', '1.00')
    """
    if value is None:
        return NOTHING
    text = f"{value:.3f}"
    return "1.00" if text == "1.000" else text.removeprefix("0")


def percent(value: float | None) -> str:
    """Return a ratio in percent, a dash for None. Only exactly 1 is shown as 100 %, and only exactly 0 as 0 %.

    >>> percent(0.151), percent(0.999), percent(0.001), percent(1.0), percent(None)
    ('15%', '>99%', '<1%', '100%', '—')
    """
    if value is None:
        return NOTHING
    text = f"{value:.0%}"
    if text == "100%" and value < 1.0:
        return ">99%"
    return "<1%" if text == "0%" and value > 0.0 else text


def interval(rate: Rate) -> str:
    """Return an estimate with its bounds.

    >>> from otel_agentic.results.reports import Rate
    >>> interval(Rate(value=0.42, lower=0.353, upper=0.489))
    '.420 [.353, .489]'
    """
    if rate.value is None:
        return NOTHING
    if rate.lower is None:
        return ratio(rate.value)
    return f"{ratio(rate.value)} [{ratio(rate.lower)}, {ratio(rate.upper)}]"


def moment(text: str | None, digits: int = 16) -> str:
    """Return an ISO 8601 time (UTC) for display, to the minute, or to the second with `digits=19`.

    >>> moment("2026-03-10T08:11:23.950077+00:00")
    '2026-03-10 08:11'
    """
    return NOTHING if text is None else text[:digits].replace("T", " ")


def markdown(value: Any) -> str:
    r"""Return a value as one line of Markdown text that is displayed literally, even in a table.

    >>> markdown("a|b <i>")
    'a\\|b \\<i\\>'
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(safe(value).split()))


def csv_parts(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield rows as CSV in which no cell is a formula, many rows at a time; the first part has the names of the columns."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_field(column) for column in columns])
    for number, row in enumerate(rows, 1):
        writer.writerow([_field(value) for value in row])
        if number % _CSV_ROWS == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _field(value: Any) -> Any:
    """Return a value for a CSV field without carriage returns, at which spreadsheets would begin a new row."""
    cell = csv_cell(value)
    return cell.replace("\r", "\ufffd") if isinstance(cell, str) else cell


def csv_cell(value: Any) -> Any:
    r"""Return a value for a CSV cell that no spreadsheet interprets as a formula, without terminal control characters.

    >>> csv_cell("=1+1"), csv_cell(-1), csv_cell({"a": 1}), csv_cell("a\x1b[31m")
    ("'=1+1", -1, '{"a":1}', 'a\ufffd[31m')
    """
    if isinstance(value, (dict, list)):
        return compact(value)
    if not isinstance(value, str):
        return value
    text = "\r".join(map(printable, value.split("\r")))  # CSV permits \r in quotes
    return "'" + text if text.startswith(_FORMULA) else text
