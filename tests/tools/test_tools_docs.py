"""The checks of the documentation: broken links and invalid commands are reported, others are not."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from inline_snapshot import snapshot

from tests.snapshots import passage
from tools.check_docs import broken_links
from tools.cli_reference import commands, reference
from tools.shown_commands import click_problem, problem_of, shown_commands


@click.group()
def tree() -> None:
    """Keep a store."""


@tree.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--db", required=True, type=click.Path(exists=True))
@click.option("--format", "output", type=click.Choice(["table", "json"]), default="table")
@click.option("-k", "ks", type=int, multiple=True)
def ingest(**_: object) -> None:
    """Store the spans of files."""
    raise AssertionError("a check of the documentation must not run a command")


@tree.group()
def tools() -> None:
    """Look at tools."""


@tools.command()
def failing() -> None:
    """List what fails."""


@tools.command(hidden=True)
def secret() -> None:
    """Not for readers."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "absent.jsonl", "--db", "absent.duckdb"],
        ["ingest", "--db", "t.duckdb", "a", "b", "--format", "json", "-k", "1", "-k", "3"],
        ["tools", "failing"],
        ["--help"],
        ["ingest", "--help"],
    ],
)
def test_a_valid_command_is_no_problem(arguments: list[str]) -> None:
    assert None is click_problem(tree, arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["swallow"], "No such command 'swallow'"),
        (["ingest", "a", "--db", "t.duckdb", "--colour"], "No such option"),
        (["ingest", "a"], "Missing option '--db'"),
        (["ingest", "--db", "t.duckdb"], "Missing argument"),
        (["ingest", "a", "--db", "t.duckdb", "--format", "xml"], "'xml' is not one of"),
        (["ingest", "a", "--db", "t.duckdb", "-k", "one"], "'one' is not a valid integer"),
        (["tools", "failing", "now"], "unexpected now"),
        (["tools"], "needs a command"),
    ],
)
def test_an_invalid_command_is_named_with_the_reason(arguments: list[str], reason: str) -> None:
    assert reason in (click_problem(tree, arguments) or "")


def test_only_the_first_command_of_a_pipe_and_only_our_own_are_checked() -> None:
    assert None is problem_of("cat spans.jsonl | less")
    assert None is problem_of("make test-slow PYTHON=python3.12 | tail")


def test_a_missing_make_target_is_named() -> None:
    assert problem_of("CI=true make breakfast") == snapshot("the Makefile has no target breakfast")


def test_commands_outside_console_blocks_are_not_checked() -> None:
    assert [] == list(shown_commands("```text\n$ otel-agentic swallow\n```\n\n$ otel-agentic swallow\n"))


def test_broken_links_are_named_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "store.md").write_text("# Tables\n\n## `turn_scores`\n", encoding="utf-8")
    page = tmp_path / "index.md"
    page.write_text(
        "# Index\n[a](store.md) [b](store.md#turn_scores) [c](#index) [d](mailto:someone) [e](gone.md)\n"
        "[f](store.md#gone) [g](<store.md>)\n```text\n[h](gone.md)\n```\n",
        encoding="utf-8",
    )

    assert list(broken_links(page)) == snapshot(
        ["link to gone.md: no such file", "link to store.md#gone: no such heading"]
    )


def test_the_reference_has_each_command_once_and_no_hidden_one() -> None:
    assert [context.command_path for context in commands(tree)] == snapshot(
        [
            "otel-agentic",
            "otel-agentic ingest",
            "otel-agentic tools",
            "otel-agentic tools failing",
        ]
    )
    assert passage(reference(tree)) == snapshot(
        "### otel-agentic ingest\n\n```text\nUsage: otel-agentic ingest [OPTIONS] PATHS...\n"
    )
