"""A report on one screen: how reliable each agent is, what fails most, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.render.notes import advice
from otel_agentic.render.report_notes import (
    criterion_notes,
    key_columns,
    keyed_rows,
    name_of,
    not_rebuilt_notes,
    objective_notes,
    shown_estimates,
    text_match_notes,
    title,
    warning_notes,
)
from otel_agentic.render.report_tables import (
    NOTHING_FOUND,
    comparison_notes,
    difference_columns,
    difference_rows,
    difference_title,
    print_requested_metrics,
)
from otel_agentic.render.terminal import Column, console, fits, print_table, say
from otel_agentic.render.text import argument, interval, percent, plural, ratio, short

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.results.failures import FailureGroup, FailureReport
    from otel_agentic.results.reports import Report, ReportGroup

#: The k of the tiers, which is also that of the summary if it was computed.
_TIER_K: Final = "3"
#: The criterion that tiers are about.
_CORRECT: Final = "correct"
_MOST_GROUPS: Final = 8
MOST_FAILURES: Final = 3
#: Effective n below this share of n: further attempts at the same cases add little.
_FEW_CASES: Final = 0.8
_TITLE: Final = 70
_EXPLANATION: Final = 160


def print_summary(report: Report, failures: FailureReport | None, about: str, options: str | None) -> None:
    """Print a report on one screen.

    Args:
        report: the report.
        failures: the failures of the same conversations, worst first; None if they were not requested.
        about: the time range of the report, as text.
        options: the options that select the store, for commands to continue with; None prints no commands.
    """
    out = console()
    groups = report.groups
    if not groups:
        for note in (NOTHING_FOUND, *not_rebuilt_notes(report)):
            say(out, note)
        return
    evaluated = any(group.n for group in groups)
    if evaluated:
        _print_rates(out, groups, f"{title(groups)} ({about})")
    for group in groups[:_MOST_GROUPS]:
        say(out, f"{name_of(group, groups)}: {_tier(group)}")
    for note in _notes(report, evaluated=evaluated):
        say(out, note)
    _print_requested(out, report)
    if failures is not None and failures.groups:
        _print_failures(out, failures, several={group.agent_version for group in groups} > {groups[0].agent_version})
    click.echo()
    for line in () if options is None else _next_steps(report, failures, options):
        say(out, line)


def _print_rates(out: Console, groups: Sequence[ReportGroup], heading: str) -> None:
    """Print a row for each group, with as many columns as fit."""
    k = _k_of(groups)
    rates = ["pass@1", *([] if k == "1" else [f"pass@{k}", f"pass^{k}"])]
    passed = "correct" if all(group.criterion == _CORRECT for group in groups) else "passed"

    def row(group: ReportGroup) -> list[Any]:
        estimates = shown_estimates(group)
        at_k = [interval(estimates.pass_at_k[k]), interval(estimates.pass_pow_k[k])]
        first = estimates.pass_at_k.get("1")
        return [
            f"{group.c:,}/{group.n:,}",
            percent(group.coverage),
            interval(first) if first is not None else None,
            *([] if k == "1" else at_k),
        ]

    columns = [
        *key_columns(groups),
        Column(name=passed, right=True),
        Column(name="coverage", right=True),
        *(Column(name=rate, unfolded=True) for rate in rates),
    ]
    rows = keyed_rows(groups, lambda group: [row(group)])
    if not fits(columns, rows, out.width) and k != "1":
        index = len(columns) - 2  # pass@k
        columns, rows = _without(columns, index), [_without(cells, index) for cells in rows]
    print_table(out, columns, rows, heading)


def _without(items: Sequence[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def _k_of(groups: Sequence[ReportGroup]) -> str:
    """Return the k of the summary: that of the tiers, else the largest one that was computed."""
    computed = list(shown_estimates(groups[0]).pass_pow_k)
    return _TIER_K if _TIER_K in computed else computed[-1]


def _tier(group: ReportGroup) -> str:
    """Return the tier of a group, the missing evidence for a claim, and the conversations that were not evaluated."""
    if not group.n:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in group.not_evaluated.items())
        return f"no conversation was evaluated, so there is no number to give: {reasons or 'the group is empty'}"
    parts = [group.tier] if group.criterion == _CORRECT else []
    if parts == ["insufficient_evidence"]:
        parts += [f"leaning {group.leaning}"] if group.leaning else []
        if group.tier_evidence is not None and group.tier_evidence.withheld:
            parts.append(f"no tier is claimed: {group.tier_evidence.withheld}")
        elif group.needed:
            parts.append(f"about {plural(group.needed, 'more conversation')} {_of_which(group)}would settle it")
    if group.not_evaluated:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in group.not_evaluated.items())
        bounds = "" if group.bounds is None else " (pass@1 in [{}, {}] with them)".format(*map(ratio, group.bounds))
        parts.append(f"not evaluated: {reasons}{bounds}")
    return "; ".join(parts) or f"no tier: a tier is about {_CORRECT}"


def _of_which(group: ReportGroup) -> str:
    return "of new cases " if _needs_cases(group) else ""


def _needs_cases(group: ReportGroup) -> bool:
    """Return whether more cases would narrow the intervals, rather than more attempts at the same cases."""
    if group.case is None and group.tier_evidence is not None and group.tier_evidence.cases == 1 < group.n:
        return True
    return group.effective_n is not None and group.effective_n < _FEW_CASES * group.n


def _notes(report: Report, *, evaluated: bool) -> Iterator[str]:
    """Yield the notes without which a reader would draw a wrong conclusion; `evaluated` if there is a rate to explain."""
    yield from criterion_notes(report) if evaluated else ()
    yield from not_rebuilt_notes(report)
    yield from text_match_notes(report)
    yield from (f"warning: {row.note}" for row in report.wrong_clocks)
    yield from [] if report.id_reuse is None else report.id_reuse.notes
    yield from warning_notes(report.groups)
    hidden = len(report.groups) - _MOST_GROUPS
    if hidden > 0:
        yield f"(the tiers of {plural(hidden, 'more group')}: --details)"


def _print_requested(out: Console, report: Report) -> None:
    """Print what the options of the command requested: a comparison, objectives, and metrics by name."""
    comparison = report.comparison
    if comparison is not None:
        click.echo()
        rows = difference_rows(comparison)
        if rows:
            print_table(out, difference_columns(comparison), rows, difference_title(comparison))
        for line in comparison_notes(comparison):
            say(out, line)
    if report.metrics_chosen:
        print_requested_metrics(out, report)
    for line in objective_notes(report.objectives or ()):
        say(out, line)


def _print_failures(out: Console, failures: FailureReport, *, several: bool) -> None:
    """Print the worst causes of failures; with `several` versions, which of them have each."""
    click.echo()
    worst = failures.groups[:MOST_FAILURES]
    more = failures.group_count - len(worst)
    others = f"; {plural(more, 'more cause')}: otel-agentic failures" if more > 0 else ""
    evaluated = plural(failures.scored - failures.not_evaluated, "conversation")
    say(out, f"What fails ({failures.failed:,} of {evaluated}{others})", style="bold")
    for number, group in enumerate(worst, 1):
        times = f"{plural(group.conversations, 'conversation')}{_versions(group) if several else ''}"
        say(out, f"{number}. {short(group.title, _TITLE)}: {times}")
        say(out, f"   {short(group.example.explanation, _EXPLANATION)}")
        say(out, f"   in {short(group.example.conversation_id, _TITLE)}", style="dim")


def _versions(group: FailureGroup) -> str:
    """Return the version of the agent if all failures are of one, and it is not the only version."""
    names = [version.agent_version for version in group.agent_versions if version.agent_version]
    return f", only in version {names[0]}" if len(names) == 1 else ""


def _next_steps(report: Report, failures: FailureReport | None, options: str) -> Iterator[str]:
    """Yield one to three commands or actions that help most."""
    if failures is not None and failures.groups:
        example = failures.groups[0].example.conversation_id
        yield f"next: otel-agentic conversations show {argument(example)}{options}"
    yield from advice([reason for group in report.groups for reason in group.not_evaluated])
    of_correct = (group for group in report.groups if group.criterion == _CORRECT)
    undecided = [group for group in of_correct if group.tier == "insufficient_evidence" and group.n]
    few = next((group for group in undecided if _needs_cases(group) and group.tier_evidence is not None), None)
    if few is not None and few.tier_evidence is not None:
        evidence = few.tier_evidence
        yield (
            f"write more cases: {plural(evidence.n, 'conversation')} of {name_of(few, report.groups)} "
            f"{'covers' if evidence.n == 1 else 'cover'} only "
            f"{plural(evidence.cases, 'case')}, and further attempts at {'it' if evidence.cases == 1 else 'these'} add little"
        )
    yield f"more: otel-agentic report --details{options}"
