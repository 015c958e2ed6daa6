"""`otel-agentic demo`: recorded or live agents against a live collector on this machine."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.console import FREE_PORT, serve_console
from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import settings_of
from otel_agentic.render.summary import print_summary
from otel_agentic.render.terminal import console, say
from otel_agentic.render.text import argument

if TYPE_CHECKING:
    from otel_agentic.demo.run import DemoResult


@click.command(cls=HelpfulCommand)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the DuckDB file in this folder.")
@click.option(
    "--live", is_flag=True, help="Run the LangChain agents instead of their recordings; needs the extra demo."
)
@click.option("--exit", "ends", is_flag=True, help="End after the report, without serving the console.")
def demo(keep: Path | None, *, live: bool, ends: bool) -> None:
    """Replay recordings of real agents against a live collector on this machine, and print its report.

    On a terminal, it then serves the console until Ctrl-C.
    """
    from otel_agentic.demo.run import run_demo  # noqa: PLC0415 — not needed for --help

    out = console()
    result = run_demo(_new_folder(keep), lambda line: say(out, line, style="dim"), live=live)
    serves = not ends and sys.stdout.isatty()
    _print(result, serves=serves)
    if serves:
        click.echo()
        serve_console(settings_of(None, result.db, admin={"address": FREE_PORT}), browser=False)


def _print(result: DemoResult, *, serves: bool) -> None:
    out, telemetry, sent = console(), result.telemetry, result.sent
    say(out, f"{sent.conversations} conversations, {sent.spans} spans, and {sent.held_back} late span")
    click.echo()
    print_summary(result.report, result.failures, "all time", options=None)
    for name, revision, outcome in result.revised:
        say(out, f"A late span of {name} arrived after it had closed: revision {revision} replaced it ({outcome}).")
    say(
        out,
        f"A telemetry backend received {telemetry.points:,} points of {telemetry.metrics} metrics and {telemetry.events:,} "
        f"events over OTLP; {telemetry.gauge_text}.",
    )
    click.echo()
    program, db = _program(), shlex.quote(str(result.db))
    say(out, "The collector is stopped; its store is one open file. Now you:", style="bold")
    for command in (
        f"report --by version --details --db {db}" if serves else f"console --db {db}",
        f"conversations show {argument(result.failures.groups[0].example.conversation_id)} --db {db}",
        f"tools failing --db {db}",
    ):
        click.echo(f"{program} {command}")


def _new_folder(keep: Path | None) -> Path:
    """Return the folder of the store without the files of an earlier demo; one in the user's cache unless given.

    Raises:
        UsageError: the given folder contains the file of an earlier demo.
    """
    from otel_agentic.config import cache_folder  # noqa: PLC0415 — not needed for --help
    from otel_agentic.demo.run import DB_NAME  # noqa: PLC0415 — same
    from otel_agentic.errors import UsageError  # noqa: PLC0415 — same

    folder = cache_folder() / "demo" if keep is None else keep.resolve()
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif (folder / DB_NAME).exists():
        raise UsageError(f"{folder / DB_NAME} exists already, from an earlier demo; use another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _program() -> str:
    """Return the command that starts this command line from the same shell."""
    program_path = Path(sys.argv[0])
    if program_path.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "otel_agentic.cli"])
    executable = shutil.which(program_path.name)
    return (
        program_path.name
        if executable is not None and Path(executable).samefile(program_path)
        else shlex.quote(sys.argv[0])
    )
