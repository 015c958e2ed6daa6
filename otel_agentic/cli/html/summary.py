"""The tables of a report: the summary, coverage, and the numbers behind the curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.html.names import coverage_cell, estimate_cell, group_name, table, telling, tier_chip
from otel_agentic.cli.report_notes import estimates_by_role, shown_estimates
from otel_agentic.cli.text import NOTHING, percent, plural, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group

#: Groups in the tables at most; beyond, `--format json` has them.
MOST_ROWS: Final = 500
_ESTIMATES: Final = {"pass_at_k": "pass@{}", "pass_pow_k": "pass^{}"}
_USUAL_K: Final = "3"


def summary_table(groups: Sequence[Group]) -> Html:
    """Return a row for each group: counts, coverage, tier, and the estimates that matter most."""
    names = telling(groups) or ["agent"]
    shown = _shown(groups)
    heads = [
        *(name.replace("agent_", "") for name in names),
        "tier",
        *(f"{_ESTIMATES[kind].format(k)}, {role}" for role, kind, k in shown),
        "correct",
        "coverage",
        "to settle it",
    ]
    rows = [
        [
            *(_name(group[name]) for name in names),
            tier_chip(group),
            *(estimate_cell(estimates_by_role(group)[role][kind][k]) for role, kind, k in shown),
            _part(group["c"], group["n"]),
            coverage_cell(group["coverage"]),
            _needed(group),
        ]
        for group in groups[:MOST_ROWS]
    ]
    return table(
        "Each group: its tier, estimates with intervals, counts and coverage", heads, rows, numbers=len(shown) + 3
    )


def coverage_table(groups: Sequence[Group]) -> Html:
    """Return what was evaluated of each group, what was not and why, and what the pass rate may be with it."""
    rows: list[list[Child]] = []
    differing = telling(groups)
    for group in groups[:MOST_ROWS]:
        missing = sum(group["not_evaluated"].values())
        total = group["n"] + missing
        bounds = NOTHING if group["bounds"] is None else " to ".join(ratio(each) for each in group["bounds"])
        rows.append(
            [
                group_name(group, differing),
                _shares(group["c"], group["n"] - group["c"], missing),
                _reasons(group["not_evaluated"]),
                _part(group["n"], total),
                percent(group["coverage"]),
                bounds,
            ]
        )
    heads = ["group", "conversations", "not evaluated, because", "evaluated", "coverage", "pass rate, worst to best"]
    return table("What was evaluated, and why the rest was not", heads, rows, numbers=3)


def curve_table(rows: Sequence[Group], differing: Sequence[str]) -> Html:
    """Return the numbers behind the curves: a row for each group and k."""
    lines: list[list[Child]] = [
        [
            group_name(group, differing),
            group["default_estimator"],
            k,
            *(_interval(shown_estimates(group)[kind][k]) for kind in _ESTIMATES),
            f"{group['cases_left_out'].get(k, 0):,}",
        ]
        for group in rows
        for k in shown_estimates(group)["pass_at_k"]
    ]
    heads = ["group", "estimator", "k", "pass@k", "pass^k", "cases left out"]
    return table("The numbers behind the curves", heads, lines, class_="plain", numbers=4)


def estimator_line(rows: Sequence[Group]) -> str:
    """Return which estimators made the curves, and the level of their bands."""
    names = sorted({row["default_estimator"] for row in rows})
    levels = sorted({f"{shown_estimates(row)['level']:.0%}" for row in rows})
    return f"estimator {' and '.join(names)}, {' and '.join(levels)} intervals"


def more_rows(groups: Sequence[Group]) -> Html:
    """Return a sentence about the groups that tables leave out, nothing where they hold all."""
    if len(groups) <= MOST_ROWS:
        return Html("")
    left = plural(len(groups) - MOST_ROWS, "more group")
    return tag("p", f"{left}: `--format json` has all of them, --agent and --since narrow the choice.", class_="note")


def _shown(groups: Sequence[Group]) -> list[tuple[str, str, str]]:
    """Return role, rate and k of the summary: pass@1, and both at 3 where that is asked for, else at the highest k."""
    ks = list(shown_estimates(groups[0])["pass_at_k"])
    high = _USUAL_K if _USUAL_K in ks else ks[-1]
    first = [("pass_at_k", ks[0])] if ks[0] != high else []
    rates = [*first, ("pass_at_k", high), ("pass_pow_k", high)]
    return [(role, kind, k) for role in estimates_by_role(groups[0]) for kind, k in rates]


def _interval(found: Mapping[str, float | None]) -> Child:
    if found["value"] is None:
        return NOTHING
    return markup((tag("b", ratio(found["value"])), f" [{ratio(found['lower'])}, {ratio(found['upper'])}]"))


def _part(count: int, whole: int) -> Html:
    return tag("span", tag("b", f"{count:,}"), f" of {whole:,}")


def _needed(group: Group) -> Child:
    if group["needed"]:
        return f"≈ {group['needed']:,} more"
    if group["tier"] == "insufficient_evidence" or group["needed"] is None:
        return tag("span", NOTHING, class_="none", title="not known, or beyond reach")
    return tag("span", "settled", class_="sub")


def _name(value: Any) -> Child:
    return tag("span", NOTHING, class_="none") if value is None else stranger(value)


def _shares(passed: int, failed: int, missing: int) -> Html:
    """Return a bar of what passed, failed and was not evaluated, with the counts in words."""
    total = passed + failed + missing
    if not total:
        return tag("span", NOTHING, class_="none")
    parts = [("passed", passed), ("failed", failed), ("missing", missing)]
    bar = [tag("i", class_=kind, style=f"width:{100 * count / total:.4g}%") for kind, count in parts if count]
    words = ", ".join(
        f"{count:,} {name}"
        for name, count in zip(("passed", "failed", "not evaluated"), (passed, failed, missing), strict=True)
        if count
    )
    return markup((tag("span", *bar, class_="shares", aria_hidden="true"), tag("span", words, class_="sub")))


def _reasons(reasons: Mapping[str, int]) -> Child:
    if not reasons:
        return tag("span", "nothing left out", class_="sub")
    most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return markup([tag("span", f"{count:,} {reason.replace('_', ' ')}", class_="reason") for reason, count in most])
