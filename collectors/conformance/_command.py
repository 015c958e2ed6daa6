"""The command line: `python -m collectors.conformance URL`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from collectors.conformance._check import SEVERITIES
from collectors.conformance._receiver import Receiver
from collectors.conformance._report import Format, listing, report
from collectors.conformance._run import run, select
from collectors.conformance._target import Target
from collectors.conformance.checks import CHECKS
from otel_agentic.errors import OtelAgenticError, UsageError, codes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from collectors.conformance._run import Outcome

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
