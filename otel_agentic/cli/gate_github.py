"""A gate in GitHub Actions: annotations by workflow commands, and the summary of the step.

Ref: docs.github.com, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.gate_words import condition_of, headline, sentence_of, stops
from otel_agentic.cli.output import print_text
from otel_agentic.cli.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

_TITLE: Final = "otel-agentic gate"
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
#: GitHub shows ten annotations of a kind and step; the last one then says how many more there are.
_MOST: Final = 10


def print_github(found: dict[str, Any], table: Callable[[dict[str, Any]], None]) -> None:
    """Print the table for the log, then an annotation for each condition that does not hold, or one that all do.

    Nothing in the table is obeyed: names of agents are strangers' text, and a line of the log may be a command.
    """
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}")
    table(found)
    click.echo(f"::{token}::")
    rows = found["rows"]
    if found["passed"]:
        click.echo(command("notice", _TITLE, headline(found)))
    failed = [row for row in rows if stops(row)]
    shown = failed if len(failed) <= _MOST else failed[: _MOST - 1]
    for row in shown:
        click.echo(command("error", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))
    if len(shown) < len(failed):
        click.echo(command("error", _TITLE, f"{headline(found)}; {len(failed) - len(shown):,} more are in the log"))
    for row in [row for row in rows if row["allowed"]][:_MOST]:
        click.echo(command("warning", f"{_TITLE}: {condition_of(row)}", sentence_of(row, rows)))


def command(kind: str, title: str, message: str) -> str:
    r"""Return a workflow command of one line, whatever the texts hold.

    >>> command("error", "a, b: c", "50 % of x\n::set-env name=y::z")
    '::error title=a%2C b%3A c::50 %25 of x%0A::set-env name=y::z'
    """
    return f"::{kind} title={_data(title).replace(':', '%3A').replace(',', '%2C')}::{_data(message)}"


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the step, where GitHub says that there is one."""
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:  # a summary that cannot be written is no verdict
        print_text(f"{_SUMMARY} {path}: {error.strerror}; the summary is left out\n", err=True)


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
