"""Write docs/cli.md: the help of every command.

Run it as `python -m tools.cli_reference [--check]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from tools.generated import ROOT, run

PAGE: Final = ROOT / "docs" / "cli.md"
PROGRAM: Final = "otel-agentic"
#: Column at which help is wrapped, independent of the terminal.
_WIDTH: Final = 100

_INTRODUCTION: Final = """\
# Command line

Written by `make docs` from the commands themselves. What the commands print, their exit codes and the JSON shapes are a
contract: later releases may add to it, never rename.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a gate failed |
| 2 | wrong usage or setting |
| 3 | bad input |
| 4 | the store is busy or cannot be used |
| 5 | a backend or a server cannot be reached |

A line in the start-up file of the shell completes commands, options and their values:

| shell | line |
|---|---|
| bash | `eval "$(_OTEL_AGENTIC_COMPLETE=bash_source otel-agentic)"` |
| zsh | `eval "$(_OTEL_AGENTIC_COMPLETE=zsh_source otel-agentic)"` |
| fish | `_OTEL_AGENTIC_COMPLETE=fish_source otel-agentic \\| source` |
"""


def commands(root: click.Command) -> Iterator[click.Context]:
    """Yield the context of each command of a click tree, a group before its members; hidden commands are skipped.

    >>> group = click.Group("store", commands=[click.Command("stats"), click.Command("vacuum", hidden=True)])
    >>> [context.command_path for context in commands(group)]
    ['otel-agentic', 'otel-agentic stats']
    """
    top = click.Context(root, info_name=PROGRAM, terminal_width=_WIDTH, max_content_width=_WIDTH, color=False)
    yield from _below(top)


def _below(context: click.Context) -> Iterator[click.Context]:
    yield context
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _below(click.Context(command, parent=context, info_name=name))


def reference(root: click.Command) -> str:
    """Return the page: one section per command with its help."""
    sections = [_section(context) for context in commands(root)]
    return "\n".join([_INTRODUCTION, *sections])


def _section(context: click.Context) -> str:
    depth = context.command_path.count(" ") + 1
    text = context.get_help().rstrip()
    return f"{'#' * (depth + 1)} {context.command_path}\n\n```text\n{text}\n```\n"


def write() -> str:
    """Return the page of our own commands."""
    from otel_agentic.cli import cli  # noqa: PLC0415 — the functions above work with any click tree

    return reference(cli)


if __name__ == "__main__":
    run(PAGE, write)
