"""`otel-agentic truth`: cases, labels and which conversation belongs to which."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

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
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.tables import Column, print_table, text, told_apart
from otel_agentic.cli.text import plural, ratio
from otel_agentic.errors import CaseError, UsageError

_NONE: Final = {
    None: "no conversations",
    "unmatched": "no unmatched conversations",
    "ambiguous": "no ambiguous conversations",
    "warning": "no matches with a warning",
}


@click.group(short_help="Import, list and check cases and labels.")
def truth() -> None:
    """Handle annotated ground truth."""


@truth.command(name="import", short_help="Put files of cases and labels in force.")
@click.argument("cases", nargs=-1, type=click.Path(path_type=Path, dir_okay=False), metavar="[FILE]...")
@labels_option
@target_options
@format_option
def import_(
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Put files of cases (JSON lines) and labels in force; a changed case becomes a new version of itself."""
    if not cases and not labels:
        raise UsageError("nothing to import: give files of cases, or --labels FILE")
    with opened(db, server, config_file) as client:
        found = client.call("truth_import", cases=texts_of(cases, "cases"), labels=texts_of(labels, "labels"))
    if output == "json":
        print_json(found)
        return
    say(
        console(),
        f"{plural(found['new_case_versions'], 'new case version')}; {plural(found['cases'], 'case')} in force",
    )


@truth.command(name="list", short_help="List the cases in force.")
@target_options
@format_option
def list_(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """List the cases in force, with how much each expects and how many conversations were held against it."""
    with opened(db, server, config_file) as client:
        rows = client.call("truth_list")
    if output == "json":
        print_json(rows)
    elif rows:
        _print_cases(rows)
    else:
        say(console(), "no cases in force; `otel-agentic truth import FILE` puts some in force")


@truth.command(short_help="List which case each conversation was matched to.")
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
    elif rows:
        _print_matches(rows)
    else:
        say(console(), f"{_NONE[only]} in this selection")


@truth.command(short_help="Check files of cases or labels.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE...")
@format_option
def validate(files: tuple[Path, ...], output: str) -> None:
    """Check files of cases (JSON lines) or labels (CSV); tells every problem with file, line and field."""
    checked = [_checked(path) for path in files]
    if output == "json":
        print_json(checked)
    else:
        for file in checked:
            state = plural(len(file["problems"]), "problem") if file["problems"] else "ok"
            say(console(), f"{file['file']}: {plural(file['count'], file['kind'])}, {state}")
    problems = [problem for file in checked for problem in file["problems"]]
    if problems:
        raise CaseError("\n".join(problems))


def _checked(path: Path) -> dict[str, Any]:
    from otel_agentic.truth import parse_cases, parse_labels  # noqa: PLC0415 — pydantic models are not needed for --help

    ((name, content),) = texts_of((path,), "truth")
    if path.suffix == ".csv":
        labels = parse_labels(name, content)
        return _file(path, "label", len(labels.labels), labels.problems)
    cases = parse_cases(name, content)
    return _file(path, "case", len(cases.cases), cases.problems)


def _file(path: Path, kind: str, count: int, problems: tuple[str, ...]) -> dict[str, Any]:
    return {"file": str(path), "kind": kind, "count": count, "problems": list(problems)}


def _print_cases(rows: list[dict[str, Any]]) -> None:
    names, _ = told_apart(rows, ("dataset", "agent", "source"))
    columns = [
        Column(name="case", least=20),
        *text(*names, "tags"),
        *(Column(name=name, right=True) for name in ("turns", "expected calls", "attempts")),
    ]
    shown = [
        (
            row["case_id"],
            *(row[name] for name in names),
            ", ".join(row["tags"]),
            row["turns"],
            row["expected_calls"],
            row["attempts"],
        )
        for row in rows
    ]
    datasets = {row["dataset"] for row in rows}
    title = f"{plural(len(rows), 'case')} in force"
    print_table(console(), columns, shown, f"{title}, dataset {datasets.pop()}" if len(datasets) == 1 else title)


def _print_matches(rows: list[dict[str, Any]]) -> None:
    names, _ = told_apart(rows, ("agent", "environment"))
    warned = any(row["warning"] for row in rows)
    columns = [
        Column(name="conversation", whole=True),
        *text(*names, "case", "method"),
        Column(name="confidence", right=True),
        *([Column(name="warning", least=30)] if warned else []),
    ]
    shown = [
        [
            row["conversation_id"],
            *(row[name] for name in names),
            row["case_id"] or ", ".join(row["candidates"] or []) or None,
            row["method"] or row["reason"],
            ratio(row["confidence"]),
            *([row["warning"] or ""] if warned else []),
        ]
        for row in rows
    ]
    print_table(console(), columns, shown)
