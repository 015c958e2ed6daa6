"""`otel-agentic truth import|validate`: files of cases and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from otel_agentic.cli.options import (
    format_option,
    labels_option,
    opened,
    target_options,
    texts_of,
)
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.text import plural
from otel_agentic.errors import CaseError, UsageError


@click.command(name="import", short_help="Put files of cases and labels in force.")
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


@click.command(short_help="Check files of cases or labels.")
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
