"""`otel-agentic run`: run the program of an agent against a collector of its own, and report how reliable it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import (
    Target,
    cases_option,
    config_option,
    db_option,
    judge_option,
    labels_option,
    present,
    refuse_live,
    settings_of,
    truth_of,
)
from otel_agentic.errors import BadInputError
from otel_agentic.render.summary import MOST_FAILURES, print_summary
from otel_agentic.render.terminal import console, say
from otel_agentic.render.text import plural, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import Settings
    from otel_agentic.live.attempts import Attempt, AttemptResult, AttemptRunner, Protocol
    from otel_agentic.results.failures import FailureReport
    from otel_agentic.results.reports import Report
    from otel_agentic.scoring import ConversationScore

#: Maximum length of the explanation of an outcome.
_MAX_EXPLANATION: Final = 160


@click.command(cls=HelpfulCommand, context_settings={"ignore_unknown_options": True})
@click.option("--k", "k", type=click.IntRange(min=1), metavar="N", help="Run the command N times per case.")
@cases_option
@labels_option
@db_option
@judge_option
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a run after this time.",
)
@click.option(
    "--protocol",
    type=click.Choice(["http/protobuf", "grpc"]),
    default="http/protobuf",
    show_default=True,
    help="The OTLP protocol of the program's exporter.",
)
@config_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    k: int | None,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    db: Path | None,
    judge: str | None,
    timeout_s: float | None,
    protocol: Protocol,
    config_file: Path | None,
    command: tuple[str, ...],
) -> int:
    """Run the program of an agent against a collector of its own, and report how reliable it is.

    The program gets the address of the collector and records content, by environment variables. Its conversations end
    when it exits. Give the program after --.

    With --k, the program runs N times per case: {query} in the command is replaced by the query of the case, and the
    variable OTEL_AGENTIC_CASE contains the case as JSON. An exit code other than 0, a time-out, or an exit without spans
    is a failed attempt.
    """
    settings = settings_of(config_file, db, scoring=present(judge=judge))
    refuse_live(settings, " with OTEL_EXPORTER_OTLP_ENDPOINT instead of `run`")
    truth = truth_of(settings, cases, labels)
    exit_code, report, failures = _run(settings, truth, command, k=k, timeout_s=timeout_s, protocol=protocol)
    print_summary(
        report, failures, "this run", Target(db=settings.store.db, server=None, config_file=config_file).options
    )
    return exit_code


def _run(
    settings: Settings,
    truth: dict[str, list[tuple[str, str]]],
    command: Sequence[str],
    *,
    k: int | None,
    timeout_s: float | None,
    protocol: Protocol,
) -> tuple[int, Report, FailureReport]:
    """Run all attempts and return the exit code, and the report and the failures of their conversations."""
    from otel_agentic.commands.registry import Commands  # noqa: PLC0415 — not needed for --help
    from otel_agentic.live.attempts import attempts_of, running_attempts  # noqa: PLC0415 — same

    with running_attempts(settings, command, protocol=protocol, timeout_s=timeout_s) as (engine, runner):
        commands = Commands(engine)
        if any(truth.values()):
            commands.run("truth_import", truth)
        since_ns = engine.clock()
        attempts = attempts_of(tuple(engine.runner.truth().index), k)
        exit_code = _follow(runner, attempts)
        report = commands.run("report", {"since_ns": since_ns, "by": ["version"], "metrics": []})
        failures = commands.run("failures", {"since_ns": since_ns, "limit": MOST_FAILURES})
        return exit_code, report, failures


def _follow(runner: AttemptRunner, attempts: Sequence[Attempt]) -> int:
    """Run attempts, print a line for each, and return the exit code: that of the program if it ran once.

    Raises:
        BadInputError: no spans arrived.
    """
    out = console()
    exit_code = spans = 0
    for result in runner.run(attempts):
        spans += result.spans
        if result.attempt.case is None:
            exit_code = 1 if result.exit_code is None else result.exit_code
        say(out, _line(result))
    if not spans:
        raise BadInputError(
            f"no spans arrived at {runner.endpoint}: the program has to export spans over OTLP to the address in "
            "OTEL_EXPORTER_OTLP_ENDPOINT, which `run` sets, and to flush them before it exits (provider.shutdown()); for an "
            "exporter that uses gRPC, add --protocol grpc"
        )
    return exit_code


def _line(result: AttemptResult) -> str:
    """Return one line about an attempt: the outcome of its conversations, or how many there are if it has no case."""
    attempt = result.attempt
    if attempt.case is None:
        counts = f"{plural(result.spans, 'span')}, {plural(len(result.scored), 'conversation')}"
        return f"{result.error}; {counts}" if result.error else counts
    outcomes = [_outcome(scored.score) for scored in result.scored]
    return f"{attempt.case.case_id} {attempt.number}/{attempt.count}: {'; '.join(outcomes)}"


def _outcome(score: ConversationScore) -> str:
    if score.outcome == "pass":
        return "pass"
    return f"{score.outcome} ({score.reason}): {short(score.explanation, _MAX_EXPLANATION)}"
