"""The command line: one file a command, each loaded when it is called."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import Any, Final

import click

from otel_agentic.cli.errors import told, was_interrupted
from otel_agentic.cli.render.text import printable
from otel_agentic.errors import codes_of

__all__ = ["cli", "main"]

#: Each command with its short help: its module and its function have its name. With these `--help` imports no command.
_COMMANDS: Final = {
    "serve": "Receive spans, rebuild and score, emit metrics.",
    "ingest": "Read files of spans into the store.",
    "evaluate": "Match conversations to cases and score them.",
    "backfill": "Compute windows of the past, and emit them.",
    "report": "Tell how reliable each agent is.",
    "gate": "Fail a CI run unless agents are good enough.",
    "suite": "Ask about suites of cases.",
    "tools": "Ask which tools fail, and how.",
    "failures": "List what goes wrong, grouped by cause.",
    "query": "Run SQL on the store, read-only.",
    "conversations": "List, show and export what was rebuilt.",
    "truth": "Import, export, list and check cases and labels.",
    "judge": "Hold a judge against people; look into its memory.",
    "prompts": "Show what a judge's model is told.",
    "alerts": "Print Prometheus rules, a Grafana dashboard.",
    "store": "Look after the store: size, age, export, import, backup, upgrade.",
    "doctor": "Show how spans are read; check a collector or the installation.",
    "plugins": "List what is installed, and whether it loads.",
    "config": "Show the settings in force.",
    "demo": "Watch it work: agents, spans, scores, in a minute.",
}
_INTERRUPTED: Final = 130


class _LazyGroup(click.Group):
    """A group that imports a command when it is called: `--help` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — click's signature
        """Return the commands in the order of a first day's work."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 — click's signature
        """Return a command, None when there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"otel_agentic.cli.{cmd_name}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 — click's signature
        """List the commands without importing them, which click itself would do."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Where the reader of its output went away (`| head`), that is its end, and a good one.

        click itself would end with 1, which to us says that a gate failed.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The last flush of the process goes nowhere, without a complaint.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="otel-agentic")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; may stand anywhere.")
def cli(*, debug: bool) -> None:
    """Tell how reliable production AI agents are: pass@K and pass^K from OpenTelemetry spans."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 gate failed, 2 usage, 3 bad input, 4 store busy, 5 backend unreachable."""
    given, debug = _without_debug(sys.argv[1:] if arguments is None else arguments)
    try:
        result: Any = cli.main(args=given, prog_name="otel-agentic", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 — whatever it is, it is told in a readable line
        sys.exit(_failed(error, debug=debug))
    sys.exit(result if isinstance(result, int) else 0)


def _without_debug(given: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without `--debug`, and whether it was there; what follows a lone `--` is not an option."""
    end = given.index("--") if "--" in given else len(given)
    kept = [word for word in given[:end] if word != "--debug"]
    return [*kept, *given[end:]], len(kept) < end


def _failed(error: Exception, *, debug: bool) -> int:
    """Tell an error on standard error; return the exit code."""
    if was_interrupted(error):
        return _INTERRUPTED
    if debug:
        click.echo(printable("".join(traceback.format_exception(error))), nl=False, err=True)
    else:
        for line in told(error):
            click.echo(f"otel-agentic: {line}", err=True)
    return error.exit_code if isinstance(error, click.ClickException) else codes_of(error).exit
