"""The result of a gate as a table, Markdown, JSON, JUnit XML and GitHub annotations."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import click
import orjson

from otel_agentic.cli.render.notes import advice
from otel_agentic.cli.render.report_tables import difference
from otel_agentic.cli.render.terminal import Column, console, print_table, print_text, say
from otel_agentic.cli.render.text import NOTHING, json_text, markdown, moment, plural, printable, ratio
from otel_agentic.errors import UsageError
from otel_agentic.results import to_json
from otel_agentic.results.gate import GateResult, GateRow
from otel_agentic.results.reports import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_agentic.commands import Client

Row = GateRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """The result of a gate, where its values were saved as a baseline, and where they should have been."""

    result: GateResult
    saved_baseline: str | None
    requested_baseline: str | None


#: Conditions whose values are ratios; so are `pass^k` and `pass@k`.
_RATIOS: Final = ("success", "coverage")
_NAMES: Final = {"n": "evaluated"}
#: Digits of a ratio, and the most that are shown to tell it from its limit.
_DIGITS: Final = range(3, 10)


def condition_of(row: Row) -> str:
    """Return what is looked at.

    >>> from types import SimpleNamespace as Row
    >>> condition_of(Row(condition="severity", kind="severity", label="critical"))
    'failures, critical'
    """
    if row.kind == "severity":
        return f"failures, {row.label}"
    name = str(row.condition).removeprefix("agentic.")
    return f"{name} against baseline" if row.kind == "regression" else _NAMES.get(name, name)


def wanted_of(row: Row) -> str:
    """Return what is wanted of it.

    >>> from types import SimpleNamespace as Row
    >>> wanted_of(Row(condition="pass^3", kind="rate", operator=">=", limit=0.7))
    '>= .700'
    """
    wanted, operator = row.limit, row.operator
    if wanted == "chance":
        return "not worse"
    if isinstance(wanted, str):
        return wanted
    if row.kind == "severity":
        return "0"
    if row.kind == "regression" and is_ratio(row):
        return f"drop <= {ratio(abs(wanted))}"
    if row.kind == "regression":
        return f"change {operator} {_signed(wanted)}"
    return f"{operator} {ratio(wanted) if is_ratio(row) else _plain(wanted)}"


def found_of(row: Row) -> str:
    """Return what was found, with its interval where it has one."""
    value, lower, upper = row.value, row.lower, row.upper
    if row.kind == "tier" and row.label:
        return str(row.label)
    if value is None:
        return NOTHING
    if row.kind == "regression":
        if is_ratio(row):
            return difference(Rate(value=value, lower=lower, upper=upper))
        return (
            _signed(value)
            if lower is None or upper is None
            else f"{_signed(value)} [{_signed(lower)}, {_signed(upper)}]"
        )
    if not is_ratio(row):
        return _plain(value)
    told = [_apart(each, row.limit) for each in (value, lower, upper) if each is not None]
    return f"{told[0]} [{told[1]}, {told[2]}]" if len(told) > 1 else told[0]


def verdict_of(row: Row) -> str:
    """Return pass, fail or no data."""
    if row.verdict != "no_data":
        return str(row.verdict)
    return "no data, allowed" if row.allowed else "no data"


def is_ratio(row: Row) -> bool:
    """Return whether its values are ratios."""
    return row.condition in _RATIOS or str(row.condition).startswith(("pass^", "pass@"))


def sentence_of(row: Row, rows: Sequence[Row]) -> str:
    """Return one row as a line: whose, what, wanted, found, why."""
    whose = f"{row.agent or 'unknown agent'}: " if several(rows) else ""
    found = f"{found_of(row)}, " if row.value is not None or row.label else ""
    found = "" if row.verdict == "no_data" else found
    told = f"{whose}{condition_of(row)} {wanted_of(row)}: {verdict_of(row)}, {found}{row.reason}"
    return printable(" ".join(told.split()))


def several(rows: Sequence[Row]) -> bool:
    """Return whether the rows are of several agents."""
    return len({row.agent for row in rows}) > 1


def headline(found: GateOutcome) -> str:
    """Return the verdict on the whole."""
    rows = found.result.rows
    failed = [row for row in rows if row.stops]
    without = sum(row.verdict == "no_data" for row in failed)
    agents = _whose(found.result.agents)
    if failed:
        want = f", {without:,} for want of data" if without else ""
        return f"gate failed: {len(failed):,} of {plural(len(rows), 'condition')}{agents} {_do(len(failed))} not hold{want}"
    allowed = sum(row.allowed for row in rows)
    rest = f"; {allowed:,} without data, which is allowed" if allowed else ""
    return f"gate passed: {plural(len(rows) - allowed, 'condition')}{agents} {'holds' if len(rows) - allowed == 1 else 'hold'}{rest}"


def notes_of(found: GateOutcome) -> list[str]:
    """Return what is to be known of it, and what to do."""
    told = [*_method(found), *(str(note) for note in found.result.notes)]
    base = found.result.baseline
    if base:
        many = plural(base.conversations, "conversation")
        told.insert(0, f"baseline {base.name}: {many}, saved {moment(base.saved_at)} UTC")
    if any(row.verdict == "no_data" and not row.allowed for row in found.result.rows):
        told += advice(found.result.not_evaluated)
        told.append("a condition without data fails; --allow-no-data NAME lets it pass")
    if found.saved_baseline:
        told.append(f"baseline {found.saved_baseline} saved: {plural(found.result.conversations, 'conversation')}")
    elif found.requested_baseline:
        told.append(f"baseline {found.requested_baseline} not saved: the gate failed")
    return told


def _method(found: GateOutcome) -> Iterator[str]:
    """Yield how rates were estimated, and what their intervals are."""
    names = sorted({row.estimator for row in found.result.rows if row.estimator})
    exact = any(row.interval == "clopper_pearson_effective_n" for row in found.result.rows)
    if names:
        yield f"pass^k and pass@k by {' and '.join(names)}, as in a report"
    if exact:
        yield f"{found.result.level * 100:g} % intervals of Clopper and Pearson; attempts of one case may go alike, and weigh less"


def _whose(agents: Sequence[str | None]) -> str:
    if len(agents) == 1:
        return f" of {' '.join(printable(agents[0] or 'an unknown agent').split())}"
    return f" of {plural(len(agents), 'agent')}" if agents else ""


def _do(count: int) -> str:
    return "does" if count == 1 else "do"


def _plain(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _apart(value: float, limit: Any) -> str:
    """Return a ratio with so many digits that it is seen on which side of its limit it lies."""
    if not isinstance(limit, int | float) or value == limit:
        return ratio(value)
    digits = next((each for each in _DIGITS if round(value, each) != round(limit, each)), _DIGITS[-1])
    return ratio(value) if digits == _DIGITS[0] else f"{value:.{digits}f}".removeprefix("0")


_TITLE: Final = "otel-agentic gate"
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
#: GitHub shows ten annotations of a kind and step; the last one then says how many more there are.
_MOST: Final = 10


def print_github(found: GateOutcome, table: Callable[[GateOutcome], None]) -> None:
    """Print the table for the log, then an annotation for each condition that does not hold, or one that all do.

    Nothing in the table is obeyed: names of agents are strangers' text, and a line of the log may be a command.
    """
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}")
    table(found)
    click.echo(f"::{token}::")
    rows = found.result.rows
    if found.result.passed:
        click.echo(command("notice", _TITLE, headline(found)))
    failed = [row for row in rows if row.stops]
    shown = failed if len(failed) <= _MOST else failed[: _MOST - 1]
    for row in shown:
        click.echo(command("error", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))
    if len(shown) < len(failed):
        click.echo(command("error", _TITLE, f"{headline(found)}; {len(failed) - len(shown):,} more are in the log"))
    for row in [row for row in rows if row.allowed][:_MOST]:
        click.echo(command("warning", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))


def command(kind: str, title: str, message: str) -> str:
    r"""Return a workflow command of one line, whatever the texts hold.

    >>> command("error", "a, b: c", "50 % of x\n::set-env name=y::z")
    '::error title=a%2C b%3A c::50 %25 of x%0A::set-env name=y::z'
    """
    return f"::{kind} title={_data(title).replace(':', '%3A').replace(',', '%2C')}::{_data(message)}"


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the step, where GitHub says that there is one."""
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:  # a summary that cannot be written is no verdict
        print_text(f"{_SUMMARY} {path}: {error.strerror}; the summary is left out\n", err=True)


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_SUITE = "otel-agentic gate"


def junit_of(found: GateOutcome) -> str:
    """Return the XML: failed conditions are failures, so are those without data; where that is allowed they are skipped."""
    rows = found.result.rows
    skipped = sum(row.allowed for row in rows)
    failures = sum(row.verdict != "pass" for row in rows) - skipped
    counts = {"tests": str(len(rows)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    top = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(top, "testsuite", {"name": _SUITE, **counts, "time": "0"})
    for row in rows:
        _add(suite, row, rows)
    ET.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(top, encoding="unicode")}\n'


def _add(suite: ET.Element, row: Row, rows: Sequence[Row]) -> None:
    # `printable` leaves no character that XML does not allow.
    name = printable(f"{condition_of(row)} {wanted_of(row)}")
    agent = " ".join(printable(str(row.agent or "unknown agent")).split())
    case = ET.SubElement(suite, "testcase", {"classname": f"gate.{agent}", "name": name, "time": "0"})
    if row.verdict == "pass":
        ET.SubElement(case, "system-out").text = printable(f"{found_of(row)}: {row.reason}")
        return
    told = sentence_of(row, rows)
    if row.allowed:
        ET.SubElement(case, "skipped", {"message": told})
        return
    ET.SubElement(case, "failure", {"message": told, "type": row.verdict}).text = told


_COLUMNS: Final = (
    Column(name="agent"),
    Column(name="condition"),
    Column(name="wanted", whole=True),
    Column(name="found", whole=True),
    Column(name="n", right=True, spare=1),
    Column(name="verdict"),
    Column(name="why", least=24),
)


def tell(found: GateOutcome, output: str, out: Path | None, besides: Mapping[str, Path | None]) -> None:
    """Print what a gate found in one form, or write it to `out`; write other forms `besides`.

    Raises:
        UsageError: a file cannot be written.
    """
    for form, path in besides.items():
        if path is not None:
            _write(path, _FORMS[form](found))
    if out is not None:
        _write(out, _FORMS[output](found))
        print_text(f"{headline(found)}; written to {out}\n")
    elif output == "table":
        print_gate(found)
    elif output == "github":
        print_github(found, print_gate)
    else:
        print_text(_FORMS[output](found))
    if output == "github":
        append_summary(markdown_of(found))


def print_gate(found: GateOutcome) -> None:
    """Print the table, what is to be known of it, and the verdict."""
    console_out = console()
    columns, rows = _table(found)
    if rows:
        print_table(console_out, columns, rows)
        click.echo()
    for note in notes_of(found):
        say(console_out, note)
    # Last, where the eye falls first in a log.
    say(console_out, headline(found), style="bold green" if found.result.passed else "bold red")


def markdown_of(found: GateOutcome) -> str:
    """Return the table, the verdict and the notes as Markdown."""
    columns, rows = _table(found)
    told = headline(found)
    lines = [f"## {markdown(told[:1].upper() + told[1:])}", ""]
    lines += [f"| {' | '.join(column.name for column in columns)} |"]
    lines += [f"|{'|'.join('---:' if column.right else '---' for column in columns)}|"]
    lines += [f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows]
    notes = [f"- {markdown(note)}" for note in notes_of(found)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def json_of(found: GateOutcome) -> str:
    """Return it as indented JSON."""
    payload = {name: value for name, value in to_json(found.result).items() if name != "measured"}
    payload["saved_baseline"] = found.saved_baseline
    return json_text(payload, orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + "\n"


def write_baseline(client: Client, where: str | None, measured: Any) -> str | None:
    """Keep a baseline in the store, or in a file; return where, None where none is to be kept.

    Raises:
        UsageError: its name is none, or the file cannot be written.
    """
    if where is None:
        return None
    from otel_agentic.reports.baselines import is_file  # noqa: PLC0415 — pydantic models are not needed for --help

    if is_file(where):
        _write(Path(where), json_text(measured, orjson.OPT_INDENT_2) + "\n")
    else:
        client.call("gate_save_baseline", baseline=measured)
    return where


def _table(found: GateOutcome) -> tuple[list[Column], list[list[Any]]]:
    """Return the columns and the rows: what fails comes first."""
    rows = sorted(found.result.rows, key=lambda row: not row.stops)
    cells = [
        [
            row.agent,
            condition_of(row),
            wanted_of(row),
            found_of(row),
            f"{row.n:,}",
            verdict_of(row),
            row.reason,
        ]
        for row in rows
    ]
    first = 0 if several(rows) else 1
    return list(_COLUMNS[first:]), [row[first:] for row in cells]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file that can be written") from error


def _lines_of(found: GateOutcome) -> str:
    """Return the verdict in lines, for a file."""
    columns, rows = _table(found)
    table = "\n".join("\t".join(str(cell) for cell in row) for row in [[column.name for column in columns], *rows])
    return "\n".join([table, "", *notes_of(found), headline(found)]) + "\n"


_FORMS: Final[dict[str, Callable[[GateOutcome], str]]] = {
    "json": json_of,
    "markdown": markdown_of,
    "junit": junit_of,
    "table": _lines_of,
    "github": markdown_of,
}
