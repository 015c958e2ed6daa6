"""Runs checks from the command line and reports the outcome: `python -m collectors.conformance URL`."""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from xml.etree import ElementTree as ET

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from collectors.conformance._check import SEVERITIES, Check, Fault, Skip
from collectors.conformance._receiver import Receiver, Target
from collectors.conformance.checks import CHECKS
from otel_agentic.errors import OtelAgenticError, UsageError, codes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from collectors.conformance._check import Verdict

Result = Literal["pass", "fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a check: why it was skipped or failed, and how long it took."""

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
        """Why it was skipped or failed; empty where it passed."""
        if self.verdict is None:
            return ""
        return self.verdict.reason if isinstance(self.verdict, Skip) else str(self.verdict)


def select(checks: Iterable[Check], *, only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks whose id fits one glob of `only` (all where it is empty) and none of `skip`.

    Raises:
        UsageError: a glob fits no check.
    """
    given = tuple(checks)
    for glob in (*only, *skip):
        if not any(fnmatchcase(check.id, glob) for check in given):
            raise UsageError(f"no check is called {glob!r}; --list shows them all")
    chosen = [check for check in given if not only or any(fnmatchcase(check.id, glob) for glob in only)]
    return tuple(check for check in chosen if not any(fnmatchcase(check.id, glob) for glob in skip))


def run(
    receiver: Receiver, checks: Sequence[Check], progress: Callable[[Outcome], None] = lambda _outcome: None
) -> list[Outcome]:
    """Return what came of each check, in their order; `progress` is told of each as it ends.

    Those that wait for a clock of the receiver's run beside the others, which run one after another: a check that sends
    a hundred requests would disturb another's.
    """

    def one(check: Check) -> Outcome:
        outcome = run_check(receiver, check)
        progress(outcome)
        return outcome

    waiting = [check for check in checks if check.waits]
    with ThreadPoolExecutor(max(len(waiting), 1)) as pool:
        begun = {check.id: pool.submit(one, check) for check in waiting}
        done = {check.id: one(check) for check in checks if not check.waits}
        return [done[check.id] if check.id in done else begun[check.id].result() for check in checks]


def run_check(receiver: Receiver, check: Check) -> Outcome:
    """Return what came of one check; where it cannot even connect, that is a fault."""
    begun = time.monotonic()
    address = receiver.target.url if check.transport == "http" else receiver.target.grpc
    verdict: Verdict
    if address is None:
        verdict = Skip(reason="no URL was given" if check.transport == "http" else "no gRPC address was given (--grpc)")
    else:
        try:
            verdict = check.run(receiver)
        except Exception as error:  # noqa: BLE001 — a receiver may do what no check foresaw; the others still run
            verdict = Fault(sent="what the check sends", got=f"{type(error).__name__}: {error}", expected="an answer")
    return Outcome(check=check, verdict=verdict, duration_s=time.monotonic() - begun)


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


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("url", required=False)
@click.option("--grpc", metavar="HOST:PORT", help="gRPC address; without it the gRPC checks are skipped.")
@click.option("--token", envvar="OTLP_TOKEN", help="Bearer token that the receiver wants; or OTLP_TOKEN.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent with each request; repeatable.")
@click.option("--ca", type=_FILE, help="PEM file of the authority that vouches for the receiver.")
@click.option("--cert", type=_FILE, help="PEM file of a client certificate, for mutual TLS.")
@click.option("--key", type=_FILE, help="PEM file of the client certificate's key.")
@click.option("--timeout", type=click.FloatRange(0.1), default=45.0, help="Longest wait for anything, seconds.")
@click.option(
    "--max-bytes", type=click.IntRange(0), default=64 * 1024 * 1024,
    help="What the receiver says it takes in one request, after decompression; 0: unknown, size is not checked.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="GLOB", help="Run only checks of this name; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out checks of this name; repeatable.")
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES, case_sensitive=False), default="GUARD",
    help="Exit with 1 when a check of this severity or a graver one fails.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(get_args(Format)), default="table", help="Form of the output.")
@click.option("--list", "listed", is_flag=True, help="Show the checks, run none.")
def command(**given: Any) -> None:
    """Check an OTLP receiver at URL, such as http://127.0.0.1:4318, and tell what it does otherwise than it should.

    It sends spans and log records of the service `otlp-conformance`, some of them hostile: use a receiver whose data you
    can spare. Exit codes: 0 all is well, 1 a check failed, 2 wrong usage, 5 nobody answers.
    """
    try:
        checks = select(CHECKS, only=given["only"], skip=given["skip"])
        if given["listed"]:
            click.echo(listing(checks, given["form"]), nl=False)
            return
        outcomes = _run(_target(given), checks)
    except OtelAgenticError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(codes_of(error).exit)
    click.echo(report(outcomes, given["form"]), nl=False)
    sys.exit(_exit_code(outcomes, given["fail_on"]))


def _target(given: dict[str, Any]) -> Target:
    return Target(
        url=given["url"],
        grpc=given["grpc"],
        token=given["token"],
        headers=dict(_header(text) for text in given["headers"]),
        ca_file=given["ca"],
        cert_file=given["cert"],
        key_file=given["key"],
        timeout_s=given["timeout"],
        max_bytes=given["max_bytes"],
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
    """Return what counts on standard error, where somebody watches."""
    if not sys.stderr.isatty():
        return lambda _outcome: None
    done: list[str] = []

    def tell(outcome: Outcome) -> None:
        done.append(outcome.check.id)
        click.echo(f"\r\x1b[K{len(done)}/{total} {outcome.check.id}", nl=len(done) == total, err=True)

    return tell


def _exit_code(outcomes: Sequence[Outcome], fail_on: str) -> int:
    grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(outcome.result == "fail" and outcome.check.severity in grave for outcome in outcomes))
