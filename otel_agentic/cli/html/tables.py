"""The tables of a page: summary, coverage, tools, metrics, comparison and corrected rates."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.drawing import TIERS
from otel_agentic.cli.html.markup import Html, markup, stranger, tag
from otel_agentic.cli.render import report_tables as report_compare
from otel_agentic.cli.render import report_tables as report_corrected
from otel_agentic.cli.render.report_notes import KEYS, estimates_by_role, objective_notes, rates_by_k, shown_estimates
from otel_agentic.cli.render.report_tables import (
    can_fail,
    headline_bands,
    metrics_of,
    shown_name,
    shown_threshold,
    shown_value,
)
from otel_agentic.cli.render.terminal import differing_and_shared
from otel_agentic.cli.render.text import NOTHING, moment, percent, plural, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.render.terminal import Column
    from otel_agentic.results.charts import CurveRow, FailureCause, ToolHealth
    from otel_agentic.results.failures import FailingTool
    from otel_agentic.results.reports import Comparison, MetricSummary, ObjectiveStatus, Rate, ReportGroup

_NS_PER_S: Final = 1_000_000_000


def telling(groups: Sequence[object], *always: str) -> list[str]:
    """Return the keys that tell groups apart, in their order, with those that are always named."""
    differing, _ = differing_and_shared(groups, KEYS)
    return [name for name in KEYS if name in differing or name in always]


def group_name(group: object, differing: Sequence[str]) -> Html:
    """Return the name of a group by the keys that tell it apart, or its agent where there are none."""
    parts = [stranger(value) for name in differing if (value := getattr(group, name, None))]
    return Html(" · ".join(parts)) or stranger(getattr(group, "agent", None) or "all conversations")


def tier_chip(tier: str, leaning_to: str | None) -> Html:
    """Return the tier of a group: shape, colour and word, and what it leans to."""
    style = TIERS[tier]
    shape = tag("span", style.sign, class_=f"shape {style.role}", aria_hidden="true")
    told = tag("span", shape, " ", style.words, class_="tier")
    leaning = f"leaning {TIERS[leaning_to].words}" if leaning_to and tier == "insufficient_evidence" else None
    return markup((told, " ", tag("span", leaning, class_="sub leaning") if leaning else None))


def estimate_cell(found: Rate) -> Html:
    """Return an estimate with its interval, in figures and as a bar from 0 to 1."""
    if found.value is None:
        return tag("span", NOTHING, class_="none", title="undefined: too few attempts")
    if found.lower is None or found.upper is None:
        return tag("b", ratio(found.value))
    told = f"[{ratio(found.lower)}, {ratio(found.upper)}]"
    bar = tag(
        "span",
        tag("i", style=f"left:{_share(found.lower)};right:{_share(1 - found.upper)}"),
        tag("b", style=f"left:{_share(found.value)}"),
        class_="range",
        aria_hidden="true",
    )
    return markup((tag("b", ratio(found.value)), " ", tag("span", told, class_="sub nowrap"), bar))


def coverage_cell(coverage: float | None) -> Html:
    """Return a coverage in figures and as a bar."""
    if coverage is None:
        return tag("span", NOTHING, class_="none")
    bar = tag("span", tag("i", style=f"left:0;right:{_share(1 - coverage)}"), class_="range cover", aria_hidden="true")
    return markup((percent(coverage), bar))


def table(
    caption: str, heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, class_: str = "", numbers: int = 0
) -> Html:
    """Return a table whose first column names its rows; on a narrow screen each row becomes a card.

    Args:
        caption: what it shows.
        heads: names of the columns.
        rows: cells, as many as there are columns.
        class_: its classes.
        numbers: how many of the last columns are figures.
    """
    words = len(heads) - numbers
    kinds = ["" if place < words else "figure" for place in range(len(heads))]
    head = tag(
        "tr", *(tag("th", text, scope="col", class_=kind or None) for text, kind in zip(heads, kinds, strict=True))
    )
    labels = [str(text) for text in heads]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, class_=kind or None, data_label=label)
                for cell, kind, label in zip(row[1:], kinds[1:], labels[1:], strict=True)
            ),
        )
        for row in rows
    ]
    made = tag(
        "table", tag("caption", caption), tag("thead", head), tag("tbody", body), class_=f"cards {class_}".strip()
    )
    return scrolling(made, caption)


def scrolling(content: Html, label: str) -> Html:
    """Return content that scrolls by itself where it is wider than the page, by keys, too."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)


def _share(value: float) -> str:
    return f"{100 * value:.4g}%"


def time_of(time_ns: int) -> str:
    """Return a time in UTC, to the minute.

    >>> time_of(1_772_452_800_000_000_000)
    '2026-03-02 12:00'
    """
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")


#: Groups in the tables at most; beyond, `--format json` has them.
MOST_ROWS: Final = 500
_ESTIMATES: Final = {"pass_at_k": "pass@{}", "pass_pow_k": "pass^{}"}
_USUAL_K: Final = "3"


def summary_table(groups: Sequence[ReportGroup]) -> Html:
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
            *(_name(getattr(group, name)) for name in names),
            tier_chip(group.tier, group.leaning),
            *(estimate_cell(rates_by_k(estimates_by_role(group)[role], kind)[k]) for role, kind, k in shown),
            _part(group.c, group.n),
            coverage_cell(group.coverage),
            _needed(group),
        ]
        for group in groups[:MOST_ROWS]
    ]
    return table(
        "Each group: its tier, estimates with intervals, counts and coverage", heads, rows, numbers=len(shown) + 3
    )


def coverage_table(groups: Sequence[ReportGroup]) -> Html:
    """Return what was evaluated of each group, what was not and why, and what the pass rate may be with it."""
    rows: list[list[Child]] = []
    differing = telling(groups)
    for group in groups[:MOST_ROWS]:
        missing = sum(group.not_evaluated.values())
        total = group.n + missing
        bounds = NOTHING if group.bounds is None else " to ".join(ratio(each) for each in group.bounds)
        rows.append(
            [
                group_name(group, differing),
                _shares(group.c, group.n - group.c, missing),
                _reasons(group.not_evaluated),
                _part(group.n, total),
                percent(group.coverage),
                bounds,
            ]
        )
    heads = ["group", "conversations", "not evaluated, because", "evaluated", "coverage", "pass rate, worst to best"]
    return table("What was evaluated, and why the rest was not", heads, rows, numbers=3)


def curve_table(rows: Sequence[CurveRow], differing: Sequence[str]) -> Html:
    """Return the numbers behind the curves: a row for each group and k."""
    lines: list[list[Child]] = [
        [
            group_name(group, differing),
            group.default_estimator,
            k,
            *(_interval(rates_by_k(shown_estimates(group), kind)[k]) for kind in _ESTIMATES),
            f"{group.cases_left_out.get(k, 0):,}",
        ]
        for group in rows
        for k in shown_estimates(group).pass_at_k
    ]
    heads = ["group", "estimator", "k", "pass@k", "pass^k", "cases left out"]
    return table("The numbers behind the curves", heads, lines, class_="plain", numbers=4)


def estimator_line(rows: Sequence[CurveRow]) -> str:
    """Return which estimators made the curves, and the level of their bands."""
    names = sorted({row.default_estimator for row in rows})
    levels = sorted({f"{shown_estimates(row).level:.0%}" for row in rows})
    return f"estimator {' and '.join(names)}, {' and '.join(levels)} intervals"


def more_rows(groups: Sequence[ReportGroup]) -> Html:
    """Return a sentence about the groups that tables leave out, nothing where they hold all."""
    if len(groups) <= MOST_ROWS:
        return Html("")
    left = plural(len(groups) - MOST_ROWS, "more group")
    return tag("p", f"{left}: `--format json` has all of them, --agent and --since narrow the choice.", class_="note")


def _shown(groups: Sequence[ReportGroup]) -> list[tuple[str, str, str]]:
    """Return role, rate and k of the summary: pass@1, and both at 3 where that is asked for, else at the highest k."""
    ks = list(shown_estimates(groups[0]).pass_at_k)
    high = _USUAL_K if _USUAL_K in ks else ks[-1]
    first = [("pass_at_k", ks[0])] if ks[0] != high else []
    rates = [*first, ("pass_at_k", high), ("pass_pow_k", high)]
    return [(role, kind, k) for role in estimates_by_role(groups[0]) for kind, k in rates]


def _interval(found: Rate) -> Child:
    if found.value is None:
        return NOTHING
    return markup((tag("b", ratio(found.value)), f" [{ratio(found.lower)}, {ratio(found.upper)}]"))


def _part(count: int, whole: int) -> Html:
    return tag("span", tag("b", f"{count:,}"), f" of {whole:,}")


def _needed(group: ReportGroup) -> Child:
    if group.needed:
        return f"≈ {group.needed:,} more"
    if group.tier == "insufficient_evidence" or group.needed is None:
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


_DIMENSIONS: Final = ("selection", "parameters", "sequence", "utilization")
#: What a dimension's score is the mean of.
_OF: Final = {"selection": "call", "parameters": "call", "sequence": "call", "utilization": "result"}
#: The darkest cell is this opaque: its figures stay readable on it.
_DARKEST: Final = 0.62
_SCALE: Final = (1.0, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)
_VALUES: Final = 3
_VALUE_LIMIT: Final = 40


def tool_map(rows: Sequence[ToolHealth]) -> Html:
    """Return a map of tools by dimension: the deeper a cell, the more of the score is lost there."""
    agents, _ = differing_and_shared(rows, ["agent"])
    head = tag(
        "tr",
        tag("th", "tool", scope="col"),
        *(tag("th", name, scope="col") for name in _DIMENSIONS),
        tag("th", "errors", scope="col"),
    )
    body = [
        tag(
            "tr",
            _tool(row, named=bool(agents)),
            *(_cell(row, name) for name in _DIMENSIONS),
            tag("td", tag("b", f"{row.errored:,}"), class_="count", data_label="errors"),
        )
        for row in rows
    ]
    told = "Mean score of each tool in each dimension, from 0 to 1, with how much it is the mean of"
    return scrolling(tag("table", tag("caption", told), tag("thead", head), tag("tbody", body), class_="heat"), told)


def heat_legend() -> Html:
    """Return the scale of the map: what colour a score has."""
    steps = [tag("span", ratio(score), style=f"--a:{_depth(score):.3f}") for score in _SCALE]
    return tag(
        "p",
        tag("span", *steps, class_="scale"),
        tag("span", tag("span", class_="key hatched"), " does not apply"),
        class_="legend",
    )


def failing_table(rows: Sequence[FailingTool]) -> Html:
    """Return what is wrong with which tool: first what most conversations failed by."""
    agents, _ = differing_and_shared(rows, ["agent"])
    versions, _ = differing_and_shared(rows, ["agent_version"])
    heads = [
        "tool",
        *agents,
        *("version" for _ in versions),
        "fault",
        "parameter",
        "made, not expected",
        "an example",
        "faults",
        "of its calls",
        "failed",
    ]
    lines: list[list[Child]] = [
        [
            stranger(row.tool),
            *(_tool_name(getattr(row, name)) for name in (*agents, *versions)),
            _fault(row),
            _tool_name(row.parameter),
            _values(row),
            tag("span", stranger(row.example_conversation), class_="id"),
            f"{row.faults:,}",
            NOTHING if row.rate is None else percent(row.rate),
            tag("span", tag("b", f"{row.failed:,}"), f" of {row.conversations:,}"),
        ]
        for row in rows
    ]
    return table("What is wrong with which tool; first what most conversations failed by", heads, lines, numbers=3)


def _tool(row: ToolHealth, *, named: bool) -> Html:
    """Return the head of a row: the tool, its agent where there are several, how many conversations had it."""
    agent = (stranger(row.agent), " · ") if named else ()
    about = tag("span", agent, plural(row.conversations, "conversation"), class_="sub")
    return tag("th", stranger(row.tool), about, scope="row")


def _cell(row: ToolHealth, name: str) -> Html:
    """Return a cell; one of a dimension that never applied is hatched, for that is not a score of 0."""
    score, count, faults = (getattr(row, f"{name}{suffix}") for suffix in ("", "_n", "_faults"))
    if score is None:
        told = plural(faults, "fault") if faults else "does not apply"
        return tag(
            "td", tag("span", NOTHING, class_="none"), tag("span", told, class_="sub"), class_="empty", data_label=name
        )
    found = plural(count, _OF[name])
    lost = f"{found}, {plural(faults, 'fault')}" if faults else found
    depth = f"--a:{_depth(score):.3f}"
    return tag("td", tag("b", ratio(score)), tag("span", lost, class_="sub"), style=depth, data_label=name)


def _depth(score: float) -> float:
    """Return how deep the colour of a score is: by the root of what is lost, so that a small loss is seen."""
    return _DARKEST * math.sqrt(max(0.0, 1.0 - score))


def _fault(row: FailingTool) -> Html:
    new = (
        tag("span", "new", class_="new", title="an earlier version used the tool without this") if row.is_new else None
    )
    return markup((row.fault.replace("_", " "), " ", new, tag("span", row.dimension, class_="sub")))


def _values(row: FailingTool) -> Child:
    """Return the most frequent wrong values: what was made, and what was expected."""
    pairs = (row.wrong_values or [])[:_VALUES]
    if not pairs:
        return tag("span", NOTHING, class_="none blank")
    return markup([tag("span", _value(each.actual), " not ", _value(each.expected), class_="pair") for each in pairs])


def _value(value: Any) -> Html:
    return tag("code", stranger("nothing" if value is None else value, _VALUE_LIMIT))


def _tool_name(value: Any) -> Child:
    return tag("span", NOTHING, class_="none blank") if value is None else stranger(value)


#: The metric that names the layer which broke first, and its label where none did.
_LAYERS: Final = "agentic.layers.verdict"
_NO_LAYER: Final = "none"
_LABELS: Final = 8
_BANDS: Final = ("perfect", "good", "moderate", "poor")
_BLANK: Final = tag("span", NOTHING, class_="none blank")
#: Signs of severities, for those who see no colour.
_SIGNS: Final = {"critical": "■", "high": "▲", "medium": "◆", "low": "●"}


def layers_table(groups: Sequence[ReportGroup]) -> Html | None:
    """Return how often which layer broke first, a row for each group; None where nobody looked."""
    differing = telling(groups)
    lines: list[list[Child]] = [
        [
            group_name(group, differing),
            _label_bar(metric, [label for label in metric.labels if label != _NO_LAYER]),
            tag("span", tag("b", f"{metric.n:,}"), f" of {metric.n + sum(metric.not_evaluated.values()):,}"),
        ]
        for group in groups[:MOST_ROWS]
        for metric in metrics_of(group)
        if metric.name == _LAYERS and metric.labels
    ]
    if not lines:
        return None
    return table("Which layer broke first, by group", ["group", "first to break", "conversations"], lines, numbers=1)


def metrics_table(groups: Sequence[ReportGroup], *, every: bool = False) -> Html | None:
    """Return a row for each group and metric, None without any; with `every` also of metrics without a score."""
    differing = telling(groups)
    lines: list[list[Child]] = []
    for group in groups:
        name = [group_name(group, differing)] if differing else []
        lines += [[*_named(metric, name), *_cells(metric)] for metric in metrics_of(group, every=every)]
    if not lines:
        return None
    heads = ["metric", *(["group"] if differing else []), "score", "good is", "not evaluated", "scores", "failures"]
    says = [place for place in range(len(heads)) if any(line[place] != _BLANK for line in lines)]
    cells = [[line[place] for place in says] for line in lines[:MOST_ROWS]]
    return table("What each metric says", [heads[place] for place in says], cells, numbers=_figures(says, heads))


def bands_table(groups: Sequence[ReportGroup]) -> Html | None:
    """Return how many conversations are perfect, good, moderate and poor in each tool dimension; None without any."""
    differing = telling(groups)
    lines: list[list[Child]] = [
        [
            *([group_name(group, differing)] if differing else []),
            dimension,
            _band_bar(found),
            *(f"{found[band]:,}" for band in _BANDS),
        ]
        for group in groups[:MOST_ROWS]
        for dimension, found in headline_bands(group).items()
    ]
    if not lines:
        return None
    heads = [*(["group"] if differing else []), "dimension", "conversations", *_BANDS]
    return table("Tool scores of conversations in bands", heads, lines, numbers=len(_BANDS))


def failures_table(rows: Sequence[FailureCause]) -> Html:
    """Return failures by cause, the worst first."""
    lines: list[list[Child]] = [
        [
            stranger(row.title, 200),
            _severity(row.severity),
            tag("span", stranger(row.example_conversation), class_="id"),
            tag("span", f"{time_of(row.first_seen_ns)} to ", tag("span", time_of(row.last_seen_ns))),
            tag("b", f"{row.conversations:,}"),
            f"{row.failures:,}",
            percent(row.share),
        ]
        for row in rows
    ]
    heads = ["what fails", "severity", "newest example", "seen", "conversations", "failures", "of all"]
    return table("Failures by cause, the worst first", heads, lines, numbers=3)


def _figures(kept: Sequence[int], heads: Sequence[str]) -> int:
    """Return how many of the columns that are kept are figures."""
    return sum(heads[place] in {"scores", "failures"} for place in kept)


def _named(metric: MetricSummary, group: Sequence[Child]) -> list[Child]:
    title = tag("span", stranger(metric.title), class_="sub") if metric.title else None
    return [markup((stranger(shown_name(metric)), title)), *group]


def _cells(metric: MetricSummary) -> Iterator[Child]:
    yield _score(metric)
    yield _or_nothing(shown_threshold(metric))
    yield _metric_reasons(metric)
    yield f"{metric.n:,}"
    if not can_fail(metric):
        yield _BLANK
    else:
        yield tag("b", f"{metric.failures:,}")


def _score(metric: MetricSummary) -> Html:
    """Return the mean with what lies around it, and labels with their shares."""
    labels = _label_bar(metric, metric.failing_labels) if metric.labels else None
    if metric.mean is None:
        return labels or tag("span", NOTHING, class_="none")
    mean = tag("b", shown_value(metric.mean, metric))
    around = None
    if metric.n > 1:
        low, median, high = (
            NOTHING if value is None else shown_value(value, metric, scale=False)
            for value in (metric.low, metric.median, metric.high)
        )
        around = tag("span", f"median {median}, from {low} to {high}", class_="sub")
    return markup((mean, _bar(metric), around, labels))


def _bar(metric: MetricSummary) -> Html | None:
    """Return where the mean lies between the bounds of its metric, where it has two."""
    low, high = metric.range or (None, None)
    if low is None or high is None or low >= high or metric.mean is None:
        return None
    left = 100 * min(1.0, max(0.0, (high - metric.mean) / (high - low)))
    return tag("span", tag("i", style=f"left:0;right:{left:.4g}%"), class_="range cover", aria_hidden="true")


def _label_bar(metric: MetricSummary, failing_labels: Sequence[str]) -> Html:
    """Return the labels as a bar of their shares, and in words; failing ones come last, in the colour of failures."""
    neutral = "plain" if not failing_labels else "passed"
    labels = sorted(metric.labels.items(), key=lambda item: (item[0] in failing_labels, -item[1], item[0]))
    kinds = [(label, count, label in failing_labels) for label, count in labels]
    bar = [
        tag("i", class_="failed" if failing else neutral, style=f"width:{100 * count / metric.n:.4g}%")
        for _, count, failing in kinds[:_LABELS]
    ]
    words = [
        tag("span", tag("b", percent(count / metric.n)), " ", stranger(label.replace("_", " ")), class_="reason")
        for label, count, _ in kinds[:_LABELS]
    ]
    more = tag("span", plural(len(kinds[_LABELS:]), "more label"), class_="sub") if kinds[_LABELS:] else None
    return markup((tag("span", *bar, class_="shares", aria_hidden="true"), words, more))


def _band_bar(found: Mapping[str, int]) -> Html:
    total = sum(found.values())
    parts = [
        tag("i", class_=f"band {band}", style=f"width:{100 * found[band] / total:.4g}%")
        for band in _BANDS
        if found[band]
    ]
    return tag("span", *parts, class_="shares", aria_hidden="true")


def _metric_reasons(metric: MetricSummary) -> Child:
    most = sorted(metric.not_evaluated.items(), key=lambda item: (-item[1], item[0]))
    if not most:
        return _BLANK
    return markup([tag("span", f"{count:,} {reason.replace('_', ' ')}", class_="reason") for reason, count in most])


def _severity(severity: str) -> Html:
    sign = tag("span", _SIGNS.get(severity, "○"), class_=f"shape severity-{severity}", aria_hidden="true")
    return tag("span", sign, " ", severity, class_="tier")


def _or_nothing(told: str) -> Child:
    return _BLANK if told == NOTHING else told


#: An e-value beyond is told as "above" it.
_MOST: Final = 1e6


def comparison_part(comparison: Comparison) -> Html:
    """Return the differences between two groups, and what they say."""
    notes = tag("ul", *(tag("li", note) for note in report_compare.comparison_notes(comparison)))
    columns, rows = report_compare.difference_columns(comparison), report_compare.difference_rows(comparison)
    title = report_compare.difference_title(comparison)
    return markup((notes, tag("h3", title) if rows else None, _listed(title, columns, rows) if rows else None))


def corrected_part(groups: Sequence[ReportGroup]) -> Html | None:
    """Return the rates that people's verdicts correct, None where there are none."""
    rows = report_corrected.corrected_rows(groups)
    if not rows:
        return None
    notes = tag("ul", *(tag("li", note) for note in report_corrected.corrected_notes(groups)))
    return markup((_listed(report_corrected.CORRECTED_TITLE, report_corrected.corrected_columns(groups), rows), notes))


def objectives_part(objectives: Sequence[ObjectiveStatus]) -> Html:
    """Return each objective: what is promised, what the evidence against it is, and whether it raised an alarm."""
    rows = objectives
    differing = telling(rows, "agent")
    lines: list[list[Child]] = [
        [
            group_name(row, differing),
            stranger(row.objective),
            _verdict(row),
            _since(row),
            tag("span", tag("b", f"{row.c:,}"), f" of {row.n:,}"),
            tag(
                "span",
                tag("b", _evidence(row.e_value)),
                tag("span", f"alarm at {1 / row.alpha:.4g}", class_="sub"),
            ),
        ]
        for row in rows
    ]
    heads = ["group", "objective", "verdict", "since", "correct", "e-value"]
    notes = tag("ul", *(tag("li", note) for note in objective_notes(objectives)))
    return markup((table("Objectives, and the evidence that they are broken", heads, lines, numbers=2), notes))


def _verdict(row: ObjectiveStatus) -> Html:
    role, sign, words = _standing(row)
    told = tag("span", tag("span", sign, class_=f"shape {role}", aria_hidden="true"), " ", words, class_="tier")
    fallen = tag("span", "pass rate seems to have fallen", class_="sub") if row.changed_at else None
    return markup((told, fallen))


def _standing(row: ObjectiveStatus) -> tuple[str, str, str]:
    if row.alarm:
        return "not-ready", "■", "broken"
    if not row.n:
        return "insufficient-evidence", "○", "nothing final yet"
    return "ready", "●", "no alarm"


def _since(row: ObjectiveStatus) -> Child:
    found = row.alarmed_at or row.changed_at
    return moment(found) if found else tag("span", NOTHING, class_="none blank")


def _evidence(e_value: float) -> str:
    return f"above {_MOST:.0e}" if e_value > _MOST else f"{e_value:.3g}"


def _listed(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Html:
    """Return a table that was made for a terminal; what is blank there because it stands above is filled in."""
    filled: list[list[Any]] = []
    for row in rows:
        above = filled[-1] if filled else row
        filled.append([above[place] if value == "" else value for place, value in enumerate(row)])
    lead = f"{columns[0].name} = " if columns[0].name == "k" else ""
    cells = [
        [markup((lead if not place else None, stranger(value))) for place, value in enumerate(row)] for row in filled
    ]
    return table(title, [column.name for column in columns], cells)
