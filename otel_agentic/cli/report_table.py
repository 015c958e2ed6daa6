"""A report as tables, for a terminal and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli import report_compare, report_corrected, report_metrics
from otel_agentic.cli.output import console, say
from otel_agentic.cli.report_notes import (
    KEYS,
    estimates_by_role,
    group_notes,
    method_notes,
    name_of,
    not_rebuilt_notes,
    text_match_notes,
    tier_notes,
    title,
)
from otel_agentic.cli.report_objectives import objective_notes
from otel_agentic.cli.tables import Column, fits, print_table, text, told_apart
from otel_agentic.cli.text import interval, markdown, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from otel_agentic.cli.report_notes import Group

NOTHING_FOUND: Final = (
    "no closed conversations in this selection; `otel-agentic conversations list` shows what there is"
)
#: Utilization has no default weight: `tools` and `conversations show` have it, the summary does not.
_DIMENSIONS: Final = ("selection", "parameters", "sequence")
_TOOLS_TITLE: Final = "Tool correctness: mean score (conversations)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A table before it is drawn."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]


def print_report(found: dict[str, Any], about: str) -> None:
    """Print a report as a table with the notes that its numbers need.

    Args:
        found: the report, in the shape of the contract.
        about: what time it is about.
    """
    out = console()
    groups: list[Group] = found["groups"]
    if not groups:
        for note in (NOTHING_FOUND, *not_rebuilt_notes(found)):
            say(out, note)
        return
    heading = f"{title(groups)} ({about})"
    layouts = [_reliability(groups, stacked=stacked) for stacked in (False, True)]
    whole = next((each for each in layouts if fits(each.columns, each.rows, out.width)), None)
    if whole is None:
        _print_blocks(out, groups, heading)
    else:
        print_table(out, whole.columns, whole.rows, heading)
    for title_of_table, table in _further(found):
        click.echo()
        print_table(out, table.columns, table.rows, title_of_table)
    click.echo()
    for note in _notes(found):
        say(out, note)
    for note in method_notes(groups):
        say(out, note, style="dim")


def print_markdown(found: dict[str, Any], about: str) -> None:
    """Print a report as Markdown: tables, then the notes as a list. See `print_report`."""
    groups: list[Group] = found["groups"]
    if not groups:
        click.echo(markdown(" ".join([NOTHING_FOUND, *not_rebuilt_notes(found)])))
        return
    lines = [f"## {markdown(title(groups))}", "", f"{markdown(about).capitalize()}.", "", *_pipes(_reliability(groups))]
    for title_of_table, table in _further(found):
        lines += ["", f"### {markdown(title_of_table)}", "", *_pipes(table)]
    notes = [*_notes(found), *method_notes(groups)]
    click.echo("\n".join([*lines, "", *(f"- {markdown(note)}" for note in notes)]))


def _further(found: dict[str, Any]) -> Iterator[tuple[str, _Drawn]]:
    """Yield title and content of the tables below the rates, where there is something to tell."""
    groups, comparison = found["groups"], found.get("comparison")
    tables = [(_TOOLS_TITLE, _tools(groups)), *_metrics(found)]
    if comparison is not None:
        rows = report_compare.difference_rows(comparison)
        tables.append(
            (
                report_compare.difference_title(comparison),
                _Drawn(columns=report_compare.difference_columns(comparison), rows=rows),
            )
        )
    columns = report_corrected.corrected_columns(groups)
    tables.append(
        (report_corrected.CORRECTED_TITLE, _Drawn(columns=columns, rows=report_corrected.corrected_rows(groups)))
    )
    yield from ((title, table) for title, table in tables if table.rows)


def _metrics(found: dict[str, Any]) -> Iterator[tuple[str, _Drawn]]:
    """Yield tool scores in bands, and metrics beyond the outcome; of many groups only what was asked for."""
    groups, chosen = found["groups"], found.get("metrics_chosen")
    if len(groups) <= report_metrics.MOST_GROUPS:
        columns, rows = report_metrics.table_of_bands(groups)
        yield report_metrics.BANDS_TITLE, _Drawn(columns=columns, rows=rows)
    if len(groups) <= report_metrics.MOST_GROUPS or chosen:
        columns, rows = report_metrics.table_of_metrics(groups, every=bool(chosen))
        yield report_metrics.METRICS_TITLE, _Drawn(columns=columns, rows=rows)


def _notes(found: dict[str, Any]) -> list[str]:
    """Return what is to be known of the numbers: the comparison first, then the objectives."""
    comparison = found.get("comparison")
    compared = [] if comparison is None else report_compare.comparison_notes(comparison)
    told = [
        *not_rebuilt_notes(found),
        *text_match_notes(found),
        *compared,
        *objective_notes(found.get("objectives", ())),
    ]
    measured = report_metrics.metric_notes(found["groups"], found.get("metrics_chosen"))
    corrected = report_corrected.corrected_notes(found["groups"])
    clocks = [f"warning: {row['note']}" for row in found.get("wrong_clocks", ())]
    return list(
        dict.fromkeys(
            [*told, *clocks, *tier_notes(found["groups"]), *group_notes(found["groups"]), *measured, *corrected]
        )
    )


def _print_blocks(out: Console, groups: Sequence[Group], heading: str) -> None:
    """Print a small table a group, for a terminal that is too narrow for one of all."""
    say(out, heading, style="bold")
    stacked = not all(fits(_estimate_columns(groups), _estimate_rows(group), out.width) for group in groups)
    for group in groups:
        name = f"{name_of(group, groups)}: " if len(groups) > 1 else ""
        coverage = f"coverage {percent(group['coverage'])}"
        click.echo()
        say(out, f"{name}{group['c']:,} of {group['n']:,} correct, {coverage}, {group['tier']}")
        print_table(out, _estimate_columns([group], stacked=stacked), _estimate_rows(group, stacked=stacked))


def _reliability(groups: Sequence[Group], *, stacked: bool = False) -> _Drawn:
    """Return a row for each group and k; counts, coverage and tier of a group are in its first row.

    Args:
        groups: of the report.
        stacked: one estimate below the other instead of next to it, which needs less than half of the width.
    """
    names, _ = told_apart(groups, KEYS)
    columns = [
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="correct", right=True),
        Column(name="coverage", right=True),
        Column(name="tier", whole=True),
        *_estimate_columns(groups, stacked=stacked),
    ]
    rows = []
    for group in groups:
        whole = [
            *(group[name] for name in names),
            f"{group['c']:,}/{group['n']:,}",
            percent(group["coverage"]),
            group["tier"],
        ]
        for place, cells in enumerate(_estimate_rows(group, stacked=stacked)):
            rows.append([*(whole if place == 0 else [""] * len(whole)), *cells])
    return _Drawn(columns=columns, rows=rows)


def _estimate_columns(groups: Sequence[Group], *, stacked: bool = False) -> list[Column]:
    """Return the columns of the estimates: pass@k and pass^k, each pooled, per case and by a third estimator."""
    if stacked:
        return [
            Column(name="estimate", whole=True),
            Column(name="k", right=True),
            *(Column(name=rate, whole=True) for rate in ("pass@k", "pass^k")),
        ]
    shown = estimates_by_role(groups[0])
    names = [f"{rate}, {role}" for role in shown for rate in ("pass@k", "pass^k")]
    return [Column(name="k", right=True), *(Column(name=name, whole=True) for name in names)]


def _estimate_rows(group: Group, *, stacked: bool = False) -> list[list[str]]:
    shown = estimates_by_role(group)
    if stacked:
        return [
            [role if place == 0 else "", k, *(interval(found[kind][k]) for kind in ("pass_at_k", "pass_pow_k"))]
            for role, found in shown.items()
            for place, k in enumerate(found["pass_at_k"])
        ]
    return [
        [k, *(interval(found[kind][k]) for found in shown.values() for kind in ("pass_at_k", "pass_pow_k"))]
        for k in shown["pooled"]["pass_at_k"]
    ]


def _tools(groups: Sequence[Group]) -> _Drawn:
    """Return the mean of each tool dimension that any group has."""
    names, _ = told_apart(groups, KEYS)
    scored = [group for group in groups if group["tool_dimensions"].keys() & set(_DIMENSIONS)]
    there = [name for name in _DIMENSIONS if any(name in group["tool_dimensions"] for group in scored)]
    rows = [
        [*(group[name] for name in names), *(_mean(group["tool_dimensions"].get(name)) for name in there)]
        for group in scored
    ]
    columns = [
        *text(*(name.replace("agent_", "") for name in names)),
        *(Column(name=name, right=True) for name in there),
    ]
    return _Drawn(columns=columns, rows=rows)


def _mean(found: dict[str, Any] | None) -> str | None:
    return None if found is None else f"{ratio(found['mean'])} ({found['n']:,})"


def _pipes(drawn: _Drawn) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(markdown(column.name) for column in drawn.columns)} |"
    yield f"|{'|'.join('---:' if column.right else '---' for column in drawn.columns)}|"
    for row in drawn.rows:
        yield f"| {' | '.join(markdown(value) for value in row)} |"
