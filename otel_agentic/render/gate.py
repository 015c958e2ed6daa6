"""The result of a gate as a table, Markdown, JSON, JUnit XML and GitHub annotations.

Ref: docs.github.com, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import click
import orjson

from otel_agentic.errors import UsageError
from otel_agentic.render.notes import advice
from otel_agentic.render.report_tables import difference
from otel_agentic.render.terminal import Column, console, print_table, print_text, say
from otel_agentic.render.text import NOTHING, json_text, markdown, moment, plural, printable, ratio
from otel_agentic.results import to_json
from otel_agentic.results.gate import GateResult, GateRow, is_file
from otel_agentic.results.reports import Rate

if TYPE_CHECKING:
    from otel_agentic.commands import Client

Row = GateRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """The result of a gate, and the baseline to which a passing gate saves its values."""

    result: GateResult
    saved_baseline: str | None
    requested_baseline: str | None


#: Conditions whose values are ratios; so are `pass^k` and `pass@k`.
_RATIOS: Final = ("success", "coverage")
_NAMES: Final = {"n": "evaluated"}
#: The numbers of digits to try for a ratio, until it differs from its limit.
_DIGITS: Final = range(3, 10)


def condition_of(row: Row) -> str:
    """Return the name of the condition.

    >>> from types import SimpleNamespace as Row
    >>> condition_of(Row(condition="severity", kind="severity", label="critical"))
    'failures, critical'
    """
    if row.kind == "severity":
        return f"failures, {row.label}"
    name = str(row.condition).removeprefix("agentic.")
    return f"{name} against baseline" if row.kind == "regression" else _NAMES.get(name, name)


def limit_of(row: Row) -> str:
    """Return the limit of the condition.

    >>> from types import SimpleNamespace as Row
    >>> limit_of(Row(condition="pass^3", kind="rate", operator=">=", limit=0.7))
    '>= .700'
    """
    limit, operator = row.limit, row.operator
    if limit == "chance":
        return "not worse"
    if isinstance(limit, str):
        return limit
    if row.kind == "severity":
        return "0"
    if row.kind == "regression" and is_ratio(row):
        return f"drop <= {ratio(abs(limit))}"
    if row.kind == "regression":
        return f"change {operator} {_signed(limit)}"
    return f"{operator} {ratio(limit) if is_ratio(row) else _plain(limit)}"


def value_of(row: Row) -> str:
    """Return the measured value, with its interval if it has one."""
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
    texts = [_distinct_ratio(number, row.limit) for number in (value, lower, upper) if number is not None]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]" if len(texts) > 1 else texts[0]


def verdict_of(row: Row) -> str:
    """Return pass, fail or no data."""
    if row.verdict != "no_data":
        return str(row.verdict)
    return "no data, allowed" if row.allowed else "no data"


def is_ratio(row: Row) -> bool:
    """Return whether the values of the condition are ratios."""
    return row.condition in _RATIOS or str(row.condition).startswith(("pass^", "pass@"))


def sentence_of(row: Row, rows: Sequence[Row]) -> str:
    """Return one row as a line: agent, condition, limit, verdict, value and reason."""
    whose = f"{row.agent or 'unknown agent'}: " if several(rows) else ""
    actual = f"{value_of(row)}, " if row.value is not None or row.label else ""
    actual = "" if row.verdict == "no_data" else actual
    sentence = f"{whose}{condition_of(row)} {limit_of(row)}: {verdict_of(row)}, {actual}{row.reason}"
    return printable(" ".join(sentence.split()))


def several(rows: Sequence[Row]) -> bool:
    """Return whether the rows are of several agents."""
    return len({row.agent for row in rows}) > 1


def headline(outcome: GateOutcome) -> str:
    """Return the verdict of the gate."""
    rows = outcome.result.rows
    failed = [row for row in rows if row.stops]
    without = sum(row.verdict == "no_data" for row in failed)
    agents = _agent_names(outcome.result.agents)
    if failed:
        want = f", {without:,} for want of data" if without else ""
        return f"gate failed: {len(failed):,} of {plural(len(rows), 'condition')}{agents} {_do(len(failed))} not hold{want}"
    allowed = sum(row.allowed for row in rows)
    allowed_note = f"; {allowed:,} without data, which is allowed" if allowed else ""
    return f"gate passed: {plural(len(rows) - allowed, 'condition')}{agents} {'holds' if len(rows) - allowed == 1 else 'hold'}{allowed_note}"


def notes_of(outcome: GateOutcome) -> list[str]:
    """Return the notes on the result, with advice."""
    notes = [*_method(outcome), *(str(note) for note in outcome.result.notes)]
    base = outcome.result.baseline
    if base:
        conversations = plural(base.conversations, "conversation")
        notes.insert(0, f"baseline {base.name}: {conversations}, saved {moment(base.saved_at)} UTC")
    if any(row.verdict == "no_data" and not row.allowed for row in outcome.result.rows):
        notes += advice(outcome.result.not_evaluated)
        notes.append("a condition without data fails; --allow-no-data NAME lets it pass")
    if outcome.saved_baseline:
        notes.append(f"baseline {outcome.saved_baseline} saved: {plural(outcome.result.conversations, 'conversation')}")
    elif outcome.requested_baseline:
        notes.append(f"baseline {outcome.requested_baseline} not saved: the gate failed")
    return notes


def _method(outcome: GateOutcome) -> Iterator[str]:
    """Yield the estimators of the rates, and the kind of their intervals."""
    names = sorted({row.estimator for row in outcome.result.rows if row.estimator})
    exact = any(row.interval == "clopper_pearson_effective_n" for row in outcome.result.rows)
    if names:
        yield f"pass^k and pass@k by {' and '.join(names)}, as in a report"
    if exact:
        yield f"{outcome.result.level * 100:g} % intervals of Clopper and Pearson; attempts of one case may be correlated, and weigh less"


def _agent_names(agents: Sequence[str | None]) -> str:
    if len(agents) == 1:
        return f" of {' '.join(printable(agents[0] or 'an unknown agent').split())}"
    return f" of {plural(len(agents), 'agent')}" if agents else ""


def _do(count: int) -> str:
    return "does" if count == 1 else "do"


def _plain(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _distinct_ratio(value: float, limit: Any) -> str:
    """Return a ratio with enough digits to show on which side of its limit it is."""
    if not isinstance(limit, int | float) or value == limit:
        return ratio(value)
    digits = next((count for count in _DIGITS if round(value, count) != round(limit, count)), _DIGITS[-1])
    return ratio(value) if digits == _DIGITS[0] else f"{value:.{digits}f}".removeprefix("0")


_TITLE: Final = "otel-agentic gate"
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
#: GitHub shows ten annotations per kind and step; if there are more, the last one contains the number of the others.
_MOST: Final = 10


def print_github(outcome: GateOutcome, table: Callable[[GateOutcome], None]) -> None:
    """Print the table for the log, then an annotation for each condition that does not hold, or one if all hold.

    Workflow commands are disabled while the table is printed, because agent names are untrusted and could contain one.
    """
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}")
    table(outcome)
    click.echo(f"::{token}::")
    rows = outcome.result.rows
    if outcome.result.passed:
        click.echo(command("notice", _TITLE, headline(outcome)))
    failed = [row for row in rows if row.stops]
    annotated = failed if len(failed) <= _MOST else failed[: _MOST - 1]
    for row in annotated:
        click.echo(command("error", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))
    if len(annotated) < len(failed):
        click.echo(
            command("error", _TITLE, f"{headline(outcome)}; {len(failed) - len(annotated):,} more are in the log")
        )
    for row in [row for row in rows if row.allowed][:_MOST]:
        click.echo(command("warning", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))


def command(kind: str, title: str, message: str) -> str:
    r"""Return a workflow command of one line; its special characters are escaped.

    >>> command("error", "a, b: c", "50 % of x\n::set-env name=y::z")
    '::error title=a%2C b%3A c::50 %25 of x%0A::set-env name=y::z'
    """
    return f"::{kind} title={_data(title).replace(':', '%3A').replace(',', '%2C')}::{_data(message)}"


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the step if GitHub provides one."""
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:  # a summary that cannot be written does not change the verdict
        print_text(f"{_SUMMARY} {path}: {error.strerror}; the summary is left out\n", err=True)


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_SUITE = "otel-agentic gate"


def junit_of(outcome: GateOutcome) -> str:
    """Return JUnit XML: conditions that failed or have no data are failures; if no data is allowed, they are skipped."""
    rows = outcome.result.rows
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
    # `printable` removes every character that XML does not allow.
    name = printable(f"{condition_of(row)} {limit_of(row)}")
    agent = " ".join(printable(str(row.agent or "unknown agent")).split())
    case = ET.SubElement(suite, "testcase", {"classname": f"gate.{agent}", "name": name, "time": "0"})
    if row.verdict == "pass":
        ET.SubElement(case, "system-out").text = printable(f"{value_of(row)}: {row.reason}")
        return
    message = sentence_of(row, rows)
    if row.allowed:
        ET.SubElement(case, "skipped", {"message": message})
        return
    ET.SubElement(case, "failure", {"message": message, "type": row.verdict}).text = message


_COLUMNS: Final = (
    Column(name="agent"),
    Column(name="condition"),
    Column(name="wanted", unfolded=True),
    Column(name="found", unfolded=True),
    Column(name="n", right=True, spare=1),
    Column(name="verdict"),
    Column(name="why", least=24),
)


def write_outcome(outcome: GateOutcome, output: str, out: Path | None, others: Mapping[str, Path | None]) -> None:
    """Print the outcome of a gate in one format, or write it to `out`; write the formats of `others` to their files.

    Raises:
        UsageError: a file cannot be written.
    """
    for form, path in others.items():
        if path is not None:
            _write(path, _FORMS[form](outcome))
    if out is not None:
        _write(out, _FORMS[output](outcome))
        print_text(f"{headline(outcome)}; written to {out}\n")
    elif output == "table":
        print_gate(outcome)
    elif output == "github":
        print_github(outcome, print_gate)
    else:
        print_text(_FORMS[output](outcome))
    if output == "github":
        append_summary(markdown_of(outcome))


def print_gate(outcome: GateOutcome) -> None:
    """Print the table, the notes and the verdict."""
    console_out = console()
    columns, rows = _table(outcome)
    if rows:
        print_table(console_out, columns, rows)
        click.echo()
    for note in notes_of(outcome):
        say(console_out, note)
    # The verdict is last, because readers look at the end of a log first.
    say(console_out, headline(outcome), style="bold green" if outcome.result.passed else "bold red")


def markdown_of(outcome: GateOutcome) -> str:
    """Return the table, the verdict and the notes as Markdown."""
    columns, rows = _table(outcome)
    verdict = headline(outcome)
    lines = [f"## {markdown(verdict[:1].upper() + verdict[1:])}", ""]
    lines += [f"| {' | '.join(column.name for column in columns)} |"]
    lines += [f"|{'|'.join('---:' if column.right else '---' for column in columns)}|"]
    lines += [f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows]
    notes = [f"- {markdown(note)}" for note in notes_of(outcome)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def json_of(outcome: GateOutcome) -> str:
    """Return the outcome as indented JSON."""
    payload = {name: value for name, value in to_json(outcome.result).items() if name != "measured"}
    payload["saved_baseline"] = outcome.saved_baseline
    return json_text(payload, orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + "\n"


def write_baseline(client: Client, where: str | None, measured: Any) -> str | None:
    """Save a baseline in the store or in a file; return its name, None if no baseline was requested.

    Raises:
        UsageError: the name is invalid, or the file cannot be written.
    """
    if where is None:
        return None

    if is_file(where):
        _write(Path(where), json_text(measured, orjson.OPT_INDENT_2) + "\n")
    else:
        client.call("gate_save_baseline", baseline=measured)
    return where


def _table(outcome: GateOutcome) -> tuple[list[Column], list[list[Any]]]:
    """Return the columns and the rows, failures first."""
    rows = sorted(outcome.result.rows, key=lambda row: not row.stops)
    cells = [
        [
            row.agent,
            condition_of(row),
            limit_of(row),
            value_of(row),
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


def _lines_of(outcome: GateOutcome) -> str:
    """Return the outcome as plain text for a file."""
    columns, rows = _table(outcome)
    table = "\n".join("\t".join(str(cell) for cell in row) for row in [[column.name for column in columns], *rows])
    return "\n".join([table, "", *notes_of(outcome), headline(outcome)]) + "\n"


_FORMS: Final[dict[str, Callable[[GateOutcome], str]]] = {
    "json": json_of,
    "markdown": markdown_of,
    "junit": junit_of,
    "table": _lines_of,
    "github": markdown_of,
}
