"""Help pages: groups of commands and options, examples that parse, and suggestions."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click
import pytest

from otel_agentic.cli import cli
from otel_agentic.cli.help import help_pages
from tests.cli.running import COMMAND, environment, run
from tools.cli_reference import commands

_PAGES = {context.command_path.partition(" ")[2]: context for context in commands(cli)}
_EXAMPLES = [(path, line) for path, lines in help_pages().examples.items() for line in lines]


@pytest.mark.parametrize(("path", "line"), _EXAMPLES, ids=[line for _, line in _EXAMPLES])
def test_an_example_parses_with_its_command(path: str, line: str) -> None:
    line = line.partition(" > ")[0].partition(" < ")[0]
    arguments = shlex.split(line)[len(path.split()) :]
    assert line.startswith(path)
    command = _PAGES[path].command
    with command.make_context(path, arguments, resilient_parsing=False) as context:
        assert context.command is command


def test_every_declared_command_and_option_exists() -> None:
    parameters = {parameter.name for context in _PAGES.values() for parameter in context.command.get_params(context)}
    assert {name for names in help_pages().options.values() for name in names} <= parameters
    assert {name for names in help_pages().commands.values() for name in names} <= _PAGES.keys()


def test_each_command_that_does_something_has_an_example() -> None:
    leaves = {path for path, context in _PAGES.items() if not isinstance(context.command, click.Group)}
    assert leaves <= help_pages().examples.keys()


def test_the_first_page_fits_one_screen() -> None:
    lines = run("--help").out.splitlines()
    assert len(lines) <= 42
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", sorted(_PAGES))
def test_no_line_of_a_page_is_wider_than_a_terminal(path: str) -> None:
    lines = run(*path.split(), "--help").out.splitlines()
    assert [] == [line for line in lines if len(line) > 80]


def test_common_options_are_the_last_groups() -> None:
    page = _PAGES["tools failing"].get_help()
    titles = [line.rstrip(":") for line in page.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", "Selection", "Output", "Examples"]
    assert "Also --db, --server, --config: see `otel-agentic --help`." in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evalute", "did you mean `otel-agentic evaluate`?"),
        ("tool", "did you mean `otel-agentic tools`?"),
        ("version", "did you mean `otel-agentic --version`?"),
        ("store vaccum", "did you mean `otel-agentic store vacuum`?"),
        ("--agent x report", "--agent belongs after the command: otel-agentic report --agent …"),
        ("--agent=x report", "--agent belongs after the command: otel-agentic report --agent …"),
        ("--server http://x serve", "--server does not apply to `otel-agentic serve`"),
    ],
)
def test_a_usage_error_names_what_to_write(arguments: str, message: str) -> None:
    ran = run(*arguments.split())
    assert message in ran.err
    assert ran.code == 2


@pytest.mark.parametrize("command", ["report", "gate", "backfill"])
def test_the_earlier_name_of_output_is_accepted_with_a_warning(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page"
    with _PAGES[command].command.make_context(command, ["--out", str(page)]) as context:
        assert context.params["file"] == page
    assert capsys.readouterr().err == "otel-agentic: --out is deprecated; use -o or --output\n"
    assert "--out " not in _PAGES[command].get_help()


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("otel-agentic re", ["report"]),
        ("otel-agentic store v", ["vacuum"]),
        ("otel-agentic report --cri", ["--criterion"]),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, completions: list[str]) -> None:
    position = str(len(words.split()) - 1)
    variables = {"COMP_WORDS": words, "COMP_CWORD": position, "_OTEL_AGENTIC_COMPLETE": "bash_complete"}
    ran = subprocess.run(COMMAND, capture_output=True, check=True, env={**environment(), **variables}, text=True)
    assert [line.partition(",")[2] for line in ran.stdout.splitlines()] == completions
