"""`otel-agentic report`: pass@K and pass^K by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import (
    format_option,
    numbers_of,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.output import console, interval, print_json, ratio, table

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("agent", "agent_version", "environment", "service", "tag", "case", "tool")


@click.command()
@target_options
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["agent", "version", "environment", "tag", "case", "tool"]),
    help="Group by this too; may be given several times.",
)
@click.option("--window", metavar="WIDTH", help="Only the last 1h, 24h, 7d up to the newest conversation (or --until).")
@selection_options
@click.option(
    "--estimator", metavar="NAME", help="One estimator: plugin, unbiased, per_case, bayesian, or a plug-in's."
)
@format_option
def report(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    k: str | None,
    by: tuple[str, ...],
    window: str | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    estimator: str | None,
    output: str,
) -> None:
    """Tell how reliable each agent is, with intervals, coverage and deployment tier."""
    arguments: dict[str, Any] = {**selection_of(since, until, agent), "by": list(by)}
    optional = {"k": numbers_of(k, "-k"), "window": window, "estimator": estimator}
    arguments |= {name: value for name, value in optional.items() if value is not None}
    with opened(db, server, config_file) as client:
        found = client.call("report", **arguments)
    if output == "json":
        print_json(found)
        return
    print_report(found)


def print_report(found: dict[str, Any]) -> None:
    """Print a report as a table with the notes that its numbers need."""
    out = console()
    groups = found["groups"]
    if not groups:
        out.print("no closed conversations in this selection; `otel-agentic conversations list` shows what there is")
        return
    out.print(_table(groups))
    for group in groups:
        for note in _notes(group):
            out.print(f"{_name(group)}: {note}", markup=False)


def _table(groups: list[dict[str, Any]]) -> Any:
    """Return a row for each group and k; what is true of the whole group stands in its first row."""
    keys = [key for key in _KEYS if any(group[key] is not None for group in groups)]
    rows = []
    for group in groups:
        found = _shown(group)
        whole = [*(group[key] for key in keys), group["n"], group["c"], ratio(group["coverage"]), group["tier"]]
        for place, k in enumerate(found["pass_at_k"]):
            cells = whole if place == 0 else [""] * len(whole)
            rows.append([*cells, k, interval(found["pass_at_k"][k]), interval(found["pass_pow_k"][k])])
    columns = [key.replace("_", " ") for key in keys]
    right = ("n", "correct", "coverage", "k")
    return table(
        "Reliability", [*columns, "n", "correct", "coverage", "tier", "k", "pass@k", "pass^k"], rows, right=right
    )


def _shown(group: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = group["estimates"][group["default_estimator"]]
    return found


def _notes(group: dict[str, Any]) -> list[str]:
    estimates = _shown(group)
    notes = [
        f"estimator {group['default_estimator']}, intervals {estimates['interval_method']} at {estimates['level']:.0%}"
    ]
    if group["not_evaluated"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in group["not_evaluated"].items())
        low, high = group["bounds"]
        notes.append(f"not evaluated: {reasons}; with them the pass rate lies in [{ratio(low)}, {ratio(high)}]")
    if group["tier"] == "insufficient_evidence":
        needed = group["needed"]
        more = (
            f"about {needed:,} more conversations at this rate would settle it"
            if needed
            else "no number would settle it soon"
        )
        notes.append(f"leaning {group['leaning'] or 'nowhere'}; {more}")
    dimensions = group["tool_dimensions"]
    if dimensions:
        means = ", ".join(f"{name} {ratio(found['mean'])} (n {found['n']})" for name, found in dimensions.items())
        notes.append(f"tools: {means}")
    return notes


def _name(group: dict[str, Any]) -> str:
    return " ".join(str(group[key]) for key in _KEYS if group[key] is not None) or "all"
