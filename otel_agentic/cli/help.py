"""Help pages with groups of options and examples, and suggestions for misspelt commands and misplaced options.

`help.toml` declares the groups and the examples. click-option-group and cloup declare groups in the decorators of each
command; here an option that several commands share is in the same group everywhere.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

_FILE: Final = Path(__file__).with_name("help.toml")
#: The options that are accepted before every command, by parameter.
SHARED_OPTIONS: Final = {"db": "--db", "server": "--server", "config_file": "--config"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpPages:
    """The content of `help.toml`.

    Attributes:
        commands: names of top-level commands by group.
        options: parameter names of options by group.
        examples: command lines, without the name of the program, by command.
    """

    commands: dict[str, list[str]]
    options: dict[str, list[str]]
    examples: dict[str, list[str]]


@cache
def help_pages() -> HelpPages:
    """Return the declared groups and examples."""
    return HelpPages(**tomllib.loads(_FILE.read_text(encoding="utf-8")))


class SharedOption(click.Option):
    """An option of a command that is also accepted before it; only the page of the program describes it."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return the value of the command line, else the one before the command."""
        value, source = super().consume_value(ctx, opts)
        shared = ctx.find_root().params.get(self.name or "") if ctx.parent is not None else None
        if source is ParameterSource.COMMANDLINE or shared is None:
            return value, source
        return str(shared), ParameterSource.COMMANDLINE


class HelpfulCommand(click.Command):
    """A command whose help page has groups of options, and examples."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the command.

        Raises:
            click.UsageError: an option before the command does not apply to it.
        """
        own = {parameter.name for parameter in self.get_params(ctx)}
        for name in SHARED_OPTIONS.keys() - own:
            if ctx.find_root() is not ctx and ctx.find_root().params.get(name) is not None:
                ctx.fail(f"{SHARED_OPTIONS[name]} does not apply to `{ctx.command_path}`")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options first, then the shared ones by group."""
        declared = help_pages().options
        group_of = {name: group for group, names in declared.items() for name in names}
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in ("Options", *declared)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections[group_of.get(parameter.name or "", "Options")].append(record)
        for group, records in sections.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)
        shared = [parameter.opts[-1] for parameter in self.get_params(ctx) if isinstance(parameter, SharedOption)]
        if shared:
            formatter.write_paragraph()
            formatter.write_text(f"Also {', '.join(shared)}: see `{ctx.find_root().command_path} --help`.")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, unwrapped, so that a line can be pasted."""
        super().format_epilog(ctx, formatter)
        program, _, path = ctx.command_path.partition(" ")
        examples = help_pages().examples.get(path, ())
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':{formatter.current_indent}}{program} {line}\n" for line in examples))


class HelpfulGroup(click.Group):
    """A group that suggests a command for a misspelt one; its commands have helpful pages."""

    command_class = HelpfulCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments.

        Raises:
            click.UsageError: the command is unknown; the message suggests similar ones.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}{_suggestion(ctx, name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the group.

        Raises:
            click.UsageError: an option of a command is written before the command.
        """
        original = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            command = next((argument for argument in original if argument in self.list_commands(ctx)), None)
            if command is None or original.index(command) < _position(original, error.option_name):
                raise
            ctx.fail(
                f"{error.option_name} belongs after the command: {ctx.command_path} {command} {error.option_name} …"
            )


def _position(arguments: Sequence[str], option: str) -> int:
    return next((index for index, argument in enumerate(arguments) if argument.partition("=")[0] == option), 0)


def _suggestion(ctx: click.Context, name: str, commands: Sequence[str]) -> str:
    """Return the similar commands as the end of a message; empty without any."""
    if name == "version":
        return f" (did you mean `{ctx.command_path} --version`?)"
    similar = get_close_matches(name, commands, n=2, cutoff=0.7) or [
        command for command in commands if command.startswith(name)
    ]
    return (
        f" (did you mean {' or '.join(f'`{ctx.command_path} {command}`' for command in similar)}?)" if similar else ""
    )
