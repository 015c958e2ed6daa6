"""The command line. Each command has its own module, which is imported when the command is called."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from otel_agentic.cli.errors import INTERRUPTED, error_lines, was_interrupted
from otel_agentic.cli.help import HelpfulGroup, help_pages
from otel_agentic.errors import codes_of
from otel_agentic.render.text import printable

__all__ = ["cli", "main"]

#: Commands and their short help. A module and a function are named after each command. `--help` reads this table and
#: imports no command.
_COMMANDS: Final = {
    "run": "Run your agent, once or K times per case, and report.",
    "serve": "Receive spans, rebuild and score, emit metrics.",
    "ingest": "Read files of spans into the store.",
    "evaluate": "Match conversations to cases and score them.",
    "backfill": "Compute and emit windows of a past time range.",
    "report": "Report how reliable each agent is.",
    "console": "Open the web console of a store.",
    "gate": "Fail a CI run unless agents are good enough.",
    "suite": "List suites of cases, and show their trends.",
    "tools": "List failing tools, with causes and examples.",
    "failures": "List failures, grouped by root cause.",
    "query": "Run SQL on the store, read-only.",
    "conversations": "List, show and export conversations.",
    "label": "Record a person's verdict on a conversation.",
    "truth": "Import, export, list and check cases and labels.",
    "judge": "Compare a judge with human labels; manage its cache.",
    "prompts": "Show the judge prompts.",
    "alerts": "Print Prometheus rules and a Grafana dashboard.",
    "store": "Show, shrink, copy, move and upgrade the store.",
    "doctor": "Show how spans are read; check a collector.",
    "plugins": "List installed plug-ins, and whether they load.",
    "config": "Show the effective settings.",
    "demo": "Replay recorded agents, and report: ten seconds.",
}


class _LazyGroup(HelpfulGroup):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — click's signature
        """Return the commands in the order in which a new user needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 — click's signature
        """Return a command, or None if the name is unknown."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"otel_agentic.cli.{cmd_name}"), cmd_name)
        command.short_help = _COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 — click's signature
        """List the commands without importing them, which click itself would do."""
        width = max(map(len, _COMMANDS))
        for group, names in _command_groups().items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), _COMMANDS[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command without importing all of them, which click itself would do."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; if the reader of its output closes the pipe (`| head`), end it with exit code 0.

        click would exit with 1, which in this project means that a gate failed.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The flush at exit must not raise BrokenPipeError again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


def _command_groups() -> dict[str, list[str]]:
    """Return the commands by group of the help page; a command in no group is under "Other"."""
    groups = help_pages().commands
    grouped = {name for names in groups.values() for name in names}
    other = [name for name in _COMMANDS if name not in grouped]
    return {**groups, "Other": other} if other else groups


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="otel-agentic")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--config", "config_file", metavar="FILE", help="A TOML settings file.")
@click.option("--server", metavar="URL", help="The admin address of a running collector.")
@click.option("--db", metavar="FILE", help="The DuckDB file. Default: the configured one.")
def cli(**_: object) -> None:
    """Measure how reliable AI agents are: pass@K and pass^K from their spans."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 gate failed, 2 usage, 3 bad input, 4 store busy, 5 backend unreachable."""
    remaining_arguments, debug = _without_debug(sys.argv[1:] if arguments is None else arguments)
    try:
        result: Any = cli.main(args=remaining_arguments, prog_name="otel-agentic", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 — every error is printed as one readable line
        sys.exit(_failed(error, debug=debug))
    sys.exit(result if isinstance(result, int) else 0)


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without `--debug`, and whether it was present; arguments after `--` are not options."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    remaining_arguments = [argument for argument in arguments[:end] if argument != "--debug"]
    return [*remaining_arguments, *arguments[end:]], len(remaining_arguments) < end


def _failed(error: Exception, *, debug: bool) -> int:
    """Print an error to standard error; return the exit code."""
    if was_interrupted(error):
        return INTERRUPTED
    if debug:
        click.echo(printable("".join(traceback.format_exception(error))), nl=False, err=True)
    else:
        from otel_agentic.render.terminal import console, say  # noqa: PLC0415 — not needed without an error

        for line in error_lines(error):
            say(console(stderr=True), f"otel-agentic: {line}")
    return error.exit_code if isinstance(error, click.ClickException) else codes_of(error).exit
