"""Find the commands that a page shows, and check whether our command line accepts them; no command is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from tools.generated import ROOT

_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL: Final = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>"})
_ASSIGNMENT: Final = re.compile(r"^[A-Z_][A-Z0-9_]*=")
_TARGET: Final = re.compile(r"^([a-z-]+):", re.MULTILINE)
_ANSWERED_AT_ONCE: Final = frozenset({"--help", "-h", "--version"})


def shown_commands(text: str) -> Iterator[str]:
    r"""Yield the command lines of the console blocks of a page, continued lines joined.

    >>> list(shown_commands("```console\n$ make demo\nagent  pass^3\n$ otel-agentic query \\\n    'SELECT 1'\n```\n"))
    ['make demo', "otel-agentic query 'SELECT 1'"]
    """
    for block in _CONSOLE.findall(text):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ").strip()


def problem_of(command: str) -> str | None:
    """Return the reason why a command is invalid, or None if it is valid or not one of ours."""
    try:
        words = _words(command)
    except ValueError as error:
        return f"a shell cannot read it: {error}"
    match words:
        case ["make", *targets]:
            return _make_problem(targets)
        case ["otel-agentic", *arguments]:
            from otel_agentic.cli import cli  # noqa: PLC0415 — the rest works with any click tree

            return click_problem(cli, arguments)
        case _:
            return None


def _words(command: str) -> list[str]:
    """Return the words of the first simple command, without leading assignments and trailing redirections."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    for word in lexer:
        if word in _SHELL:
            break
        if words or not _ASSIGNMENT.match(word):
            words.append(word)
    return words


def _make_problem(words: Sequence[str]) -> str | None:
    known = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    targets = [word for word in words if "=" not in word and not word.startswith("-")]
    unknown = [word for word in targets if word not in known]
    return f"the Makefile has no target {', '.join(unknown)}" if unknown else None


def click_problem(root: click.Command, arguments: Sequence[str]) -> str | None:
    """Return the reason why a click tree rejects arguments, or None if it accepts them; no command is run.

    Files need not exist, because pages name files of the reader.
    """
    context = click.Context(root, info_name="otel-agentic")
    try:
        _descend(context, list(arguments))
    except click.UsageError as error:
        return error.format_message()
    return None


def _descend(context: click.Context, arguments: list[str]) -> None:
    """Follow the arguments down the tree.

    Raises:
        click.UsageError: a command, option or value is invalid, or an argument is missing.
    """
    if _ANSWERED_AT_ONCE & set(arguments[:1]):
        return
    command = context.command
    rest = _parse(context, arguments)
    if not isinstance(command, click.Group):
        return
    if not rest:
        raise click.UsageError(f"{context.command_path} needs a command")
    name, child, left = command.resolve_command(context, rest)
    if child is not None:
        _descend(click.Context(child, parent=context, info_name=name), list(left))


def _parse(context: click.Context, arguments: list[str]) -> list[str]:
    command = context.command
    parser = command.make_parser(context)
    parser.allow_interspersed_args = command.allow_interspersed_args
    values, rest, _ = parser.parse_args(args=arguments)
    for parameter in command.get_params(context):
        if parameter.name in {"help", "version"}:
            continue  # their callbacks print and exit
        _, rest = _take(context, parameter, values, rest)
    if rest and not isinstance(command, click.Group):
        raise click.UsageError(f"unexpected {' '.join(rest)}")
    return rest


def _take(
    context: click.Context, parameter: click.Parameter, values: dict[str, object], rest: list[str]
) -> tuple[object, list[str]]:
    try:
        return parameter.handle_parse_result(context, values, rest)
    except click.MissingParameter:
        raise
    except click.BadParameter:
        if isinstance(parameter.type, click.Path | click.File):
            return None, rest
        raise
