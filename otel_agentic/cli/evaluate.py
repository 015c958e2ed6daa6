"""`otel-agentic evaluate`: match and score conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import (
    cases_option,
    format_option,
    labels_option,
    opened,
    quiet_option,
    selection_of,
    selection_options,
    target_options,
    texts_of,
)
from otel_agentic.cli.output import console, print_json, progress_bar

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@target_options
@cases_option
@labels_option
@click.option(
    "--judge", metavar="NAME", help="Answer judge, by plug-in name (with --db on a file that no collector holds)."
)
@selection_options
@click.option("--force", is_flag=True, help="Score again what has a score already.")
@format_option
@quiet_option
def evaluate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    judge: str | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    force: bool,
    output: str,
    quiet: bool,
) -> None:
    """Match closed conversations to cases and score them. What is scored already under the same truth stays as it is."""
    truth = {"cases": texts_of(cases, "cases"), "labels": texts_of(labels, "labels")}
    chosen = selection_of(since, until, agent)
    sections = {"scoring": {"judge": judge}} if judge else {}
    with progress_bar(quiet=quiet) as progress, opened(db, server, config_file, progress, **sections) as client:
        done = client.call("evaluate", **truth, **chosen, force=force)
    if output == "json":
        print_json(done)
    elif not quiet:
        _print(done)


def _print(done: dict[str, Any]) -> None:
    out = console()
    out.print(f"{done['cases']:,} cases and {done['labels']:,} labels in force; evaluator {done['evaluation_id']}")
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(done["outcomes"].items()))
    out.print(f"[bold]{done['scored']:,}[/] conversations scored now{': ' + counts if counts else ''}")
    for reason, count in sorted(done["reasons"].items()):
        out.print(f"  {count:,} x {reason}", markup=False)
    if done["restated"]:
        out.print(f"{done['restated']:,} of them had an earlier score, which is kept as superseded")
    for warning in done["warnings"][:10]:
        out.print(f"warning: {warning}", markup=False)
