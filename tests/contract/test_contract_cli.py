"""The command line: every command with its arguments and options, and the exit codes and protocol statuses of errors."""

from __future__ import annotations

import click
from inline_snapshot import external_file

from otel_agentic.cli import cli
from otel_agentic.errors import ERROR_CODES, UNFORESEEN
from tools.cli_reference import commands


def test_the_commands_and_their_options_are_the_golden_ones() -> None:
    lines = []
    for context in commands(cli):
        lines.append(context.command_path)
        lines += sorted(f"  {_parameter(parameter)}" for parameter in context.command.params)
    assert "\n".join([*lines, ""]) == external_file("golden/cli.txt")


def _parameter(parameter: click.Parameter) -> str:
    """Return the names, type and default of a parameter on one line."""
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    kind = parameter.type
    described = {
        "type": "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else str(kind.name),
        "range": f"{kind.min}..{kind.max}" if isinstance(kind, click.IntRange | click.FloatRange) else None,
        "default": None if "UNSET" in str(parameter.default).upper() else parameter.default,
        "required": parameter.required or None,
        "repeatable": parameter.multiple if isinstance(parameter, click.Option) and parameter.multiple else None,
        "flag": parameter.is_flag if isinstance(parameter, click.Option) and parameter.is_flag else None,
        "variadic": parameter.nargs == -1 or None,
        "variable": parameter.envvar,
    }
    return " ".join([names, *(f"{name}={value}" for name, value in described.items() if value is not None)])


def test_the_codes_of_errors_are_the_golden_ones() -> None:
    rows = [*((kind.__name__, codes) for kind, codes in ERROR_CODES), ("any other", UNFORESEEN)]
    lines = [f"{name}: exit code {codes.exit}, HTTP {codes.http}, gRPC {codes.grpc}" for name, codes in rows]
    assert "\n".join([*lines, ""]) == external_file("golden/errors.txt")
