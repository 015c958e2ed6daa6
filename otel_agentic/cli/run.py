"""`otel-agentic run`: run the program of an agent against a collector of its own, and report how reliable it is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.conversations import print_conversations
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
from otel_agentic.render.text import argument, plural, short
from otel_agentic.results import from_json
from otel_agentic.results.conversations import ConversationRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import Settings
    from otel_agentic.live.attempts import Attempt, AttemptResult, AttemptRunner, Protocol
    from otel_agentic.results.failures import FailureReport
    from otel_agentic.results.reports import Report
    from otel_agentic.scoring import ConversationScore

#: Maximum length of the explanation of an outcome.
_MAX_EXPLANATION: Final = 160
_MOST_JOBS: Final = 64
#: Maximum number of conversations that are listed if there is nothing to report about them.
_MOST_CONVERSATIONS: Final = 10


@click.command(cls=HelpfulCommand, context_settings={"ignore_unknown_options": True})
@click.option("--k", "k", type=click.IntRange(min=1), metavar="N", help="Run the command N times per case.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1, max=_MOST_JOBS),
    default=1,
    show_default=True,
    metavar="N",
    help="Run up to N attempts at the same time.",
)
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
    jobs: int,
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
    is a failed attempt. With --jobs, attempts run at the same time: only for a program that shares no files or state
    between its runs. Ctrl-C ends all of them.
    """
    settings = settings_of(config_file, db, scoring=present(judge=judge))
    refuse_live(settings, " with OTEL_EXPORTER_OTLP_ENDPOINT instead of `run`")
    truth = truth_of(settings, cases, labels)
    result = _run(settings, truth, command, k=k, jobs=jobs, timeout_s=timeout_s, protocol=protocol)
    options = Target(db=settings.store.db, server=None, config_file=config_file).options
    if result.conversations:
        print_conversations(result.conversations)
        _print_first_steps(result.conversations, command, options)
    else:
        print_summary(result.report, result.failures, "this run", options)
    return result.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The exit code of a run, the report of its conversations, and these themselves if there is no case to judge them by."""

    exit_code: int
    report: Report
    failures: FailureReport
    conversations: list[ConversationRow]


def _run(
    settings: Settings,
    truth: dict[str, list[tuple[str, str]]],
    command: Sequence[str],
    *,
    k: int | None,
    jobs: int,
    timeout_s: float | None,
    protocol: Protocol,
) -> _Result:
    """Run all attempts and return their results."""
    from otel_agentic.commands.registry import Commands  # noqa: PLC0415 — not needed for --help
    from otel_agentic.live.attempts import attempts_of, running_attempts  # noqa: PLC0415 — same

    with running_attempts(settings, command, protocol=protocol, timeout_s=timeout_s, jobs=jobs) as (engine, runner):
        commands = Commands(engine)
        if any(truth.values()):
            commands.run("truth_import", truth)
        since_ns = engine.clock()
        attempts = attempts_of(tuple(engine.runner.truth().index), k)
        exit_code = _follow(runner, attempts)
        report = commands.run("report", {"since_ns": since_ns, "by": ["version"], "metrics": []})
        failures = commands.run("failures", {"since_ns": since_ns, "limit": MOST_FAILURES, "records": 0})
        has_cases = bool(engine.runner.truth().index)
        newest = {"since_ns": since_ns, "limit": _MOST_CONVERSATIONS}
        return _Result(
            exit_code=exit_code,
            report=report,
            failures=failures,
            conversations=[]
            if has_cases or any(group.n for group in report.groups)
            else from_json(list[ConversationRow], commands.run("conversations_list", newest)),
        )


def _print_first_steps(conversations: Sequence[ConversationRow], command: Sequence[str], options: str) -> None:
    """Print how to look at a conversation without a case, and how to get a rate."""
    out = console()
    click.echo()
    say(out, "no cases are loaded, so no conversation passed or failed; next:")
    for line in (
        f"conversations show {argument(conversations[0].conversation_id)}{options}",
        f"truth promote --output cases.jsonl{options}",
        f"run --k 3 --cases cases.jsonl{options} -- {shlex.join(command)} '{{query}}'",
    ):
        click.echo(f"  otel-agentic {line}")
    say(out, "truth promote drafts cases: correct them, and set `reviewed` to true")


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
