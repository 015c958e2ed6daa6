"""What a run found, for people, for machines, for CI."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.etree import ElementTree as ET

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collectors.conformance._check import Check
    from collectors.conformance._run import Outcome

Format = Literal["table", "json", "junit"]

#: Wide enough for most sentences, where no terminal says how wide it is.
_FILE_WIDTH: Final = 140
_STYLES: Final = {"pass": "green", "fail": "bold red", "skip": "yellow"}


def listing(checks: Sequence[Check], form: Format) -> str:
    """Return what the checks are; junit, which knows results only, lists as the table does."""
    if form == "json":
        return _json([_described(check) for check in checks])
    table = _columns("check", "severity", "what must hold", "where it is written")
    for check in checks:
        table.add_row(*map(Text, (check.id, check.severity, check.holds, check.spec)))
    return _printed(table)


def report(outcomes: Sequence[Outcome], form: Format) -> str:
    """Return the results of a run."""
    if form == "json":
        return _json({"summary": summary(outcomes), "checks": [_told(outcome) for outcome in outcomes]})
    return _junit(outcomes) if form == "junit" else _table(outcomes)


def summary(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how many checks passed, failed and were skipped."""
    counts = Counter(outcome.result for outcome in outcomes)
    return {"passed": counts["pass"], "failed": counts["fail"], "skipped": counts["skip"]}


def summary_line(outcomes: Sequence[Outcome]) -> str:
    """Return the counts in one line, with the severities of what failed."""
    counts = summary(outcomes)
    failed = Counter(outcome.check.severity for outcome in outcomes if outcome.result == "fail")
    of = f" ({', '.join(f'{count} {severity}' for severity, count in failed.items())})" if failed else ""
    return f"{counts['passed']} passed, {counts['failed']} failed{of}, {counts['skipped']} skipped"


def _table(outcomes: Sequence[Outcome]) -> str:
    table = _columns("check", "severity", "result", "what must hold")
    for outcome in outcomes:
        result = Text(outcome.result, style=_STYLES[outcome.result])
        told = outcome.reason if outcome.result == "skip" else outcome.check.holds
        table.add_row(Text(outcome.check.id), Text(outcome.check.severity), result, Text(told))
    failed = [_explained(outcome) for outcome in outcomes if outcome.result == "fail"]
    return _printed(table) + "\n" + "".join(failed) + summary_line(outcomes) + "\n"


def _explained(outcome: Outcome) -> str:
    check, verdict = outcome.check, outcome.verdict
    lines = [f"{check.severity} {check.id}: {check.holds}"]
    lines += [f"  {name:9} {getattr(verdict, name)}" for name in ("sent", "got", "expected")]
    lines += [f"  {'to do':9} {check.fix}", f"  {'see':9} {check.spec}"]
    return "\n".join(lines) + "\n\n"


def _columns(first: str, *more: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in more:
        table.add_column(name, overflow="fold")
    return table


def _printed(table: Table) -> str:
    # In colour where the reader's terminal has it: rich looks at the environment and at standard output.
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _described(check: Check) -> dict[str, Any]:
    return {"id": check.id, "severity": check.severity, "holds": check.holds, "spec": check.spec, "fix": check.fix}


def _told(outcome: Outcome) -> dict[str, Any]:
    verdict = outcome.verdict
    found = {name: getattr(verdict, name, None) for name in ("sent", "got", "expected")}
    told = {"result": outcome.result, "reason": outcome.reason or None, **found}
    return {**_described(outcome.check), **told, "duration_s": round(outcome.duration_s, 3)}


def _json(content: object) -> str:
    return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() + "\n"


def _junit(outcomes: Sequence[Outcome]) -> str:
    counts = summary(outcomes)
    suite = ET.Element("testsuite", name="otlp-conformance", tests=str(len(outcomes)))
    suite.set("failures", str(counts["failed"]))
    suite.set("skipped", str(counts["skipped"]))
    for outcome in outcomes:
        family, _, name = outcome.check.id.rpartition(".")
        case = ET.SubElement(suite, "testcase", classname=family, name=name, time=f"{outcome.duration_s:.3f}")
        if outcome.result == "fail":
            failure = ET.SubElement(case, "failure", message=outcome.check.holds, type=outcome.check.severity)
            failure.text = f"{outcome.reason}; to do: {outcome.check.fix}; see {outcome.check.spec}"
        elif outcome.result == "skip":
            ET.SubElement(case, "skipped", message=outcome.reason)
    written = io.BytesIO()
    ET.ElementTree(suite).write(written, encoding="utf-8", xml_declaration=True)
    return written.getvalue().decode() + "\n"
