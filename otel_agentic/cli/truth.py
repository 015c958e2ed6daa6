"""`otel-agentic truth`: cases, labels and which conversation belongs to which."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agentic.cli.options import (
    format_option,
    labels_option,
    opened,
    selection_of,
    selection_options,
    target_options,
    texts_of,
)
from otel_agentic.cli.output import console, print_json, ratio, table
from otel_agentic.errors import CaseError


@click.group()
def truth() -> None:
    """Handle annotated ground truth."""


@truth.command(name="import")
@click.argument("cases", nargs=-1, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE...")
@labels_option
@target_options
def import_(
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    db: Path | None,
    server: str | None,
    config_file: Path | None,
) -> None:
    """Put files of cases (JSON lines) and labels in force; a changed case is a new version."""
    with opened(db, server, config_file) as client:
        found = client.call("truth_import", cases=texts_of(cases, "cases"), labels=texts_of(labels, "labels"))
    click.echo(f"{found['new_case_versions']:,} new case versions; {found['cases']:,} cases in force")


@truth.command(name="list")
@target_options
@format_option
def list_(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """List the cases in force."""
    with opened(db, server, config_file) as client:
        rows = client.call("truth_list")
    if output == "json":
        print_json(rows)
        return
    names = ("dataset", "case_id", "agent", "tags", "turns", "expected_calls", "attempts", "source")
    shown = [[", ".join(row[name]) if name == "tags" else row[name] for name in names] for row in rows]
    right = ("turns", "expected calls", "attempts")
    console().print(table(None, [name.replace("_", " ") for name in names], shown, right=right))


@truth.command()
@target_options
@selection_options
@click.option("--only", type=click.Choice(["unmatched", "ambiguous", "warning"]), help="Only those.")
@format_option
def matches(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    only: str | None,
    output: str,
) -> None:
    """List which case each conversation was matched to, how, and how surely."""
    chosen = {**selection_of(since, until, agent), **({"only": only} if only else {})}
    with opened(db, server, config_file) as client:
        rows = client.call("truth_matches", **chosen)
    if output == "json":
        print_json(rows)
        return
    shown = [
        [
            row["conversation_id"],
            row["agent"],
            row["case_id"] or ", ".join(row["candidates"] or []) or None,
            row["method"] or row["reason"],
            ratio(row["confidence"]),
            row["warning"],
        ]
        for row in rows
    ]
    console().print(table(None, ("conversation", "agent", "case", "method", "confidence", "warning"), shown))


@truth.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE...")
def validate(files: tuple[Path, ...]) -> None:
    """Check files of cases (JSON lines) or labels (CSV); tells every problem with file, line and field."""
    from otel_agentic.truth import parse_cases, parse_labels  # noqa: PLC0415 — pydantic models are not needed for --help

    problems: list[str] = []
    for path in files:
        ((name, text),) = texts_of((path,), "truth")
        if path.suffix == ".csv":
            labels = parse_labels(name, text)
            problems += labels.problems
            count = f"{len(labels.labels):,} labels"
        else:
            cases = parse_cases(name, text)
            problems += cases.problems
            count = f"{len(cases.cases):,} cases"
        click.echo(f"{path}: {count}")
    if problems:
        raise CaseError("\n".join(problems))
