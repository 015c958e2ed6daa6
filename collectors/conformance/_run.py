"""Runs checks from the command line and reports the outcome: `python -m collectors.conformance URL`."""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, get_args
from xml.etree import ElementTree as ET

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from collectors.conformance._check import SEVERITIES, Check, Fault, Skip, Verdict
from collectors.conformance._receiver import Receiver, Target
from collectors.conformance.checks import CHECKS
from otel_agentic.errors import OtelAgenticError, UsageError, codes_of

Result = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a check: the reason if it was skipped or failed, and its duration."""

    check: Check
    verdict: Verdict
    duration_s: float

    @property
    def result(self) -> Result:
        """Pass, fail or skip."""
        if self.verdict is None:
            return "pass"
        return "skip" if isinstance(self.verdict, Skip) else "fail"

    @property
    def reason(self) -> str:
        """The reason why it was skipped or failed; empty if it passed."""
        if self.verdict is None:
            return ""
        return self.verdict.reason if isinstance(self.verdict, Skip) else str(self.verdict)


def select(checks: Iterable[Check], *, only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks whose id matches one glob of `only` (all if it is empty) and none of `skip`.

    Raises:
        UsageError: a glob matches no check.
    """
    available = tuple(checks)
    for glob in (*only, *skip):
        if not any(fnmatchcase(check.id, glob) for check in available):
            raise UsageError(f"no check is called {glob!r}; --list shows them all")
    selected_checks = [check for check in available if not only or any(fnmatchcase(check.id, glob) for glob in only)]
    return tuple(check for check in selected_checks if not any(fnmatchcase(check.id, glob) for glob in skip))


def run(
    receiver: Receiver, checks: Sequence[Check], progress: Callable[[Outcome], None] = lambda _outcome: None
) -> list[Outcome]:
    """Return the outcome of each check, in their order; `progress` is called with each outcome.

    Checks that wait for a timeout of the receiver run in parallel with the others. The others run one after another,
    since a check that sends a hundred requests would affect them.
    """

    def run_one(check: Check) -> Outcome:
        outcome = run_check(receiver, check)
        progress(outcome)
        return outcome

    timeout_checks = [check for check in checks if check.waits]
    with ThreadPoolExecutor(max(len(timeout_checks), 1)) as pool:
        begun = {check.id: pool.submit(run_one, check) for check in timeout_checks}
        outcomes_by_check = {check.id: run_one(check) for check in checks if not check.waits}
        return [
            outcomes_by_check[check.id] if check.id in outcomes_by_check else begun[check.id].result()
            for check in checks
        ]


def run_check(receiver: Receiver, check: Check) -> Outcome:
    """Return the outcome of one check; a failed connection is a fault."""
    begun = time.monotonic()
    address = receiver.target.url if check.transport == "http" else receiver.target.grpc
    verdict: Verdict
    if address is None:
        verdict = Skip(reason="no URL was given" if check.transport == "http" else "no gRPC address was given (--grpc)")
    else:
        try:
            verdict = check.run(receiver)
        except Exception as error:  # noqa: BLE001 — an unforeseen response must not stop the other checks
            verdict = Fault(
                sent="the check's request", actual=f"{type(error).__name__}: {error}", expected="a response"
            )
    return Outcome(check=check, verdict=verdict, duration_s=time.monotonic() - begun)


Format = Literal["table", "json", "junit"]

#: The width of the output without a terminal, enough for most sentences.
_FILE_WIDTH: Final = 140
_STYLES: Final = {"pass": "green", "fail": "bold red", "skip": "yellow"}
#: The names of a fault's attributes in reports.
_FAULT_FIELDS: Final = {"sent": "sent", "got": "actual", "expected": "expected"}


def listing(checks: Sequence[Check], form: Format) -> str:
    """Return the list of checks; for junit, which has only results, as a table."""
    if form == "json":
        return _json([_check_fields(check) for check in checks])
    table = _columns("check", "severity", "what must hold", "where it is written")
    for check in checks:
        table.add_row(*map(Text, (check.id, check.severity, check.holds, check.spec)))
    return _render(table)


def report(outcomes: Sequence[Outcome], form: Format) -> str:
    """Return the results of a run."""
    if form == "json":
        return _json({"summary": summary(outcomes), "checks": [_outcome_fields(outcome) for outcome in outcomes]})
    return _junit(outcomes) if form == "junit" else _table(outcomes)


def summary(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how many checks passed, failed and were skipped."""
    counts = Counter(outcome.result for outcome in outcomes)
    return {"passed": counts["pass"], "failed": counts["fail"], "skipped": counts["skip"]}


def summary_line(outcomes: Sequence[Outcome]) -> str:
    """Return the counts in one line, with the severities of failed checks."""
    counts = summary(outcomes)
    failed = Counter(outcome.check.severity for outcome in outcomes if outcome.result == "fail")
    severities = f" ({', '.join(f'{count} {severity}' for severity, count in failed.items())})" if failed else ""
    return f"{counts['passed']} passed, {counts['failed']} failed{severities}, {counts['skipped']} skipped"


def _table(outcomes: Sequence[Outcome]) -> str:
    table = _columns("check", "severity", "result", "what must hold")
    for outcome in outcomes:
        result = Text(outcome.result, style=_STYLES[outcome.result])
        text = outcome.reason if outcome.result == "skip" else outcome.check.holds
        table.add_row(Text(outcome.check.id), Text(outcome.check.severity), result, Text(text))
    failed = [_explanation(outcome) for outcome in outcomes if outcome.result == "fail"]
    return _render(table) + "\n" + "".join(failed) + summary_line(outcomes) + "\n"


def _explanation(outcome: Outcome) -> str:
    check, verdict = outcome.check, outcome.verdict
    lines = [f"{check.severity} {check.id}: {check.holds}"]
    lines += [f"  {name:9} {getattr(verdict, attribute)}" for name, attribute in _FAULT_FIELDS.items()]
    lines += [f"  {'to do':9} {check.fix}", f"  {'see':9} {check.spec}"]
    return "\n".join(lines) + "\n\n"


def _columns(first: str, *more: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in more:
        table.add_column(name, overflow="fold")
    return table


def _render(table: Table) -> str:
    # In colour if the terminal supports it: rich checks the environment and standard output.
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _check_fields(check: Check) -> dict[str, Any]:
    return {"id": check.id, "severity": check.severity, "holds": check.holds, "spec": check.spec, "fix": check.fix}


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    fault = {name: getattr(outcome.verdict, attribute, None) for name, attribute in _FAULT_FIELDS.items()}
    result = {"result": outcome.result, "reason": outcome.reason or None, **fault}
    return {**_check_fields(outcome.check), **result, "duration_s": round(outcome.duration_s, 3)}


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
    buffer = io.BytesIO()
    ET.ElementTree(suite).write(buffer, encoding="utf-8", xml_declaration=True)
    return buffer.getvalue().decode() + "\n"


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("url", required=False)
@click.option("--grpc", metavar="HOST:PORT", help="gRPC address; without it the gRPC checks are skipped.")
@click.option("--token", envvar="OTLP_TOKEN", help="Bearer token for the receiver; or OTLP_TOKEN.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent with each request; repeatable.")
@click.option("--ca", type=_FILE, help="PEM file of the authority that signed the receiver's certificate.")
@click.option("--cert", type=_FILE, help="PEM file of a client certificate, for mutual TLS.")
@click.option("--key", type=_FILE, help="PEM file of the client certificate's key.")
@click.option("--timeout", type=click.FloatRange(0.1), default=45.0, help="Longest wait for a response, seconds.")
@click.option(
    "--max-bytes", type=click.IntRange(0), default=64 * 1024 * 1024,
    help="Largest request that the receiver accepts, after decompression; 0: unknown, size is not checked.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="GLOB", help="Run only checks with a matching name; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Skip checks with a matching name; repeatable.")
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES, case_sensitive=False), default="GUARD",
    help="Exit with 1 if a check of this severity or a higher one fails.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(get_args(Format)), default="table", help="Output format.")
@click.option("--list", "listed", is_flag=True, help="List the checks without running them.")
def command(**options: Any) -> None:
    """Check an OTLP receiver at URL, such as http://127.0.0.1:4318, and report violations of the specification.

    It sends spans and log records of the service `otlp-conformance`, some of them malicious: use a receiver whose data may be
    lost. Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage, 5 the receiver does not respond.
    """
    try:
        checks = select(CHECKS, only=options["only"], skip=options["skip"])
        if options["listed"]:
            click.echo(listing(checks, options["form"]), nl=False)
            return
        outcomes = _run(_target(options), checks)
    except OtelAgenticError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(codes_of(error).exit)
    click.echo(report(outcomes, options["form"]), nl=False)
    sys.exit(_exit_code(outcomes, options["fail_on"]))


def _target(options: dict[str, Any]) -> Target:
    return Target(
        url=options["url"],
        grpc=options["grpc"],
        token=options["token"],
        headers=dict(_header(text) for text in options["headers"]),
        ca_file=options["ca"],
        cert_file=options["cert"],
        key_file=options["key"],
        timeout_s=options["timeout"],
        max_bytes=options["max_bytes"],
    )


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise UsageError(f"--header {text.partition('=')[0]!r}: expected NAME=VALUE")
    return name.strip(), value.strip()


def _run(target: Target, checks: Sequence[Any]) -> list[Outcome]:
    with Receiver(target) as receiver:
        receiver.require()
        return run(receiver, checks, _progress(len(checks)))


def _progress(total: int) -> Callable[[Outcome], None]:
    """Return a function that prints the progress on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return lambda _outcome: None
    finished_checks: list[str] = []

    def report_progress(outcome: Outcome) -> None:
        finished_checks.append(outcome.check.id)
        click.echo(
            f"\r\x1b[K{len(finished_checks)}/{total} {outcome.check.id}", nl=len(finished_checks) == total, err=True
        )

    return report_progress


def _exit_code(outcomes: Sequence[Outcome], fail_on: str) -> int:
    grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(outcome.result == "fail" and outcome.check.severity in grave for outcome in outcomes))
