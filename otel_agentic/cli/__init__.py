"""The command line: one file a command, each loaded when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

import click

from otel_agentic.errors import OtelAgenticError, codes_of

__all__ = ["cli", "main"]

#: Command -> module and function.
_COMMANDS: Final = {
    "serve": "serve:serve",
    "ingest": "ingest:ingest",
    "evaluate": "evaluate:evaluate",
    "report": "report:report",
    "tools": "tools:tools",
    "query": "query:query",
    "conversations": "conversations:conversations",
    "truth": "truth:truth",
    "doctor": "doctor:doctor",
    "plugins": "plugins:plugins",
    "config": "config:config",
    "demo": "demo:demo",
}


class _LazyGroup(click.Group):
    """A group that imports a command when it is asked for: `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 — click's signature
        """Return the commands in the order of a first day's work."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 — click's signature
        """Return a command, None when there is none of that name."""
        home = _COMMANDS.get(cmd_name)
        if home is None:
            return None
        module, _, name = home.partition(":")
        found: click.Command = getattr(import_module(f"otel_agentic.cli.{module}"), name)
        return found


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="otel-agentic")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, *, debug: bool) -> None:
    """Tell how reliable production AI agents are: pass@K and pass^K from OpenTelemetry spans."""
    ctx.ensure_object(dict)["debug"] = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 gate failed, 2 usage, 3 bad input, 4 store busy, 5 backend unreachable."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        result: Any = cli.main(args=given, prog_name="otel-agentic", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OtelAgenticError as error:
        if "--debug" in given:
            raise
        click.echo(f"otel-agentic: {error}", err=True)
        sys.exit(codes_of(error).exit)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; nothing more to say
        sys.exit(0)
    sys.exit(result if isinstance(result, int) else 0)
