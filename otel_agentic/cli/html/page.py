"""The page: a report in sections, as one HTML file without external resources."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from otel_agentic.cli.html.drawing import TIERS, Series, curves, drawing, inline_svg, timeline
from otel_agentic.cli.html.markup import Html, breakable, markup, stranger, tag
from otel_agentic.cli.html.tables import (
    bands_table,
    comparison_part,
    corrected_part,
    coverage_table,
    curve_table,
    estimator_line,
    failing_table,
    failures_table,
    group_name,
    heat_legend,
    layers_table,
    metrics_table,
    more_rows,
    objectives_part,
    summary_table,
    table,
    telling,
    tier_chip,
    time_of,
    tool_map,
)
from otel_agentic.cli.render.notes import metric_advice
from otel_agentic.cli.render.report_notes import (
    estimator_kind,
    group_notes,
    method_notes,
    not_rebuilt_notes,
    shown_estimates,
    text_match_notes,
    tier_notes,
)
from otel_agentic.cli.render.report_tables import NOTHING_FOUND, abstained, not_computed
from otel_agentic.cli.render.text import interval, plural
from otel_agentic.results.charts import (
    Charts,
    CurveRow,
    Curves,
    FailingRows,
    FailureCauses,
    History,
    HistoryRow,
    ToolRows,
)
from otel_agentic.results.reports import Rate, Report, ReportGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.results.charts import (
        Charts,
        CurveRow,
        Curves,
        FailingRows,
        FailureCauses,
        History,
        HistoryRow,
        ToolRows,
    )

#: Own width of a drawing, px: in a column of a grid or on a phone; where panels are few, curves get half a line and
#: windows a whole one, wherever there is room for it.
_NARROW_PX: Final = 370
_HALF_PX: Final = 560
_WHOLE_PX: Final = 1120
_FEW: Final = 2
#: Changes of tier that are listed of a group, the newest.
_CHANGES: Final = 8
#: What a group of windows is always named by.
_SUBJECT: Final = ("agent", "agent_version")
_NS: Final = 1_000_000_000


def curve_panels(rows: Sequence[CurveRow], differing: Sequence[str]) -> Html:
    """Return a panel with pass@k and pass^k for each group, named by the keys that tell groups apart."""
    few = len(rows) <= _FEW
    panels = []
    for place, row in enumerate(rows):
        estimates = shown_estimates(row)
        last = list(estimates.pass_at_k)[-1]
        told = f"k from 1 to {last}: pass@{last} {interval(estimates.pass_at_k[last])}, pass^{last} {interval(estimates.pass_pow_k[last])}"
        words = ("pass@k and pass^k over k", told)
        drawn = _drawn(partial(curves, row), f"k{place}", words, _HALF_PX if few else None)
        counts = tag("span", f"{row.c:,} of {row.n:,} correct", class_="sub")
        estimator = tag("span", estimator_kind(row.default_estimator), class_="sub")
        panels.append(
            _panel(group_name(row, differing), markup((tier_chip(row.tier, row.leaning), counts, estimator)), drawn)
        )
    return tag("div", *panels, class_="panels half" if few else "panels")


def history_panels(history: History, rows: Sequence[HistoryRow]) -> Html:
    """Return a panel with reliability over time for each group."""
    few = len(rows) <= _FEW
    differing = telling(rows, *_SUBJECT)
    span_ns = (min(row.end_ns[0] for row in rows), max(row.end_ns[-1] for row in rows))
    title = f"pass@{history.k} and pass^{history.k} over time"
    panels = []
    for place, row in enumerate(rows):
        draw = partial(timeline, Series.of(row, history.width_ns), span_ns)
        drawn = _drawn(draw, f"t{place}", (title, _told(row, history)), _WHOLE_PX if few else None)
        panels.append(_panel(group_name(row, differing), _latest(row, history), drawn))
    return tag("div", *panels, class_="panels whole" if few else "panels")


def tier_table(rows: Sequence[HistoryRow], width_ns: int | None) -> Html:
    """Return since when each group has had which tier: the newest changes first."""
    lines: list[list[Child]] = []
    differing = telling(rows, *_SUBJECT)
    for row in rows:
        runs = list(Series.of(row, width_ns).tier_runs())
        for first, last, tier in reversed(runs[-_CHANGES:]):
            style = TIERS[tier]
            lines.append(
                [
                    group_name(row, differing),
                    markup(
                        (tag("span", style.sign, class_=f"shape {style.role}", aria_hidden="true"), " ", style.words)
                    ),
                    time_of(row.end_ns[first]),
                    time_of(row.end_ns[last]),
                ]
            )
    heads = ["group", "tier", "first window that ended", "last window that ended"]
    return table(f"Tiers over time, at most the last {_CHANGES} changes of each group", heads, lines, class_="plain")


def _drawn(draw: Callable[[int], Figure], name: str, told: tuple[str, str], wide_px: int | None) -> Html:
    """Return a drawing, and where there is room for a wide one that, too; the page shows the one that fits."""
    title, description = told
    if wide_px is None:
        return inline_svg(draw(_NARROW_PX), name=name, title=title, description=description)
    return markup(
        [
            inline_svg(draw(width), name=f"{name}{extra[0]}", title=title, description=description, extra=extra)
            for width, extra in ((_NARROW_PX, "narrow"), (wide_px, "wide"))
        ]
    )


def _panel(name: Html, about: Html, drawn: Html) -> Html:
    return tag("figure", tag("figcaption", tag("h3", name), tag("p", about)), drawn, class_="panel")


def _latest(row: HistoryRow, history: History) -> Html:
    """Return what the newest window says."""
    k = history.k
    told = f"newest: pass@{k} {_newest(row, 'pass_at_k')}, pass^{k} {_newest(row, 'pass_pow_k')}, n {row.n[-1]:,}"
    return markup((tier_chip(row.tier[-1] or "", row.leaning[-1]), tag("span", told, class_="sub")))


def _newest(row: HistoryRow, name: str) -> str:
    value, lower, upper = (getattr(row, f"{name}{suffix}")[-1] for suffix in ("", "_lower", "_upper"))
    return interval(Rate(value=value, lower=lower, upper=upper))


def _told(row: HistoryRow, history: History) -> str:
    ends, power = row.end_ns, [value for value in row.pass_pow_k if value is not None]
    spread = f"; pass^{history.k} between {min(power):.3f} and {max(power):.3f}" if power else ""
    restated = sum(row.restated)
    told = f"; {plural(restated, 'point')} restated" if restated else ""
    return f"{plural(len(ends), 'window')} of {history.window} that ended from {time_of(ends[0])} to {time_of(ends[-1])} UTC{spread}{told}"


#: Notes on groups that stand open; more of them are folded.
_OPEN_NOTES: Final = 8
_NO_WINDOWS: Final = (
    "No window is stored for this selection. A running collector (`otel-agentic serve`) stores them as conversations are "
    "scored; `otel-agentic backfill` computes them for the past."
)
_DEFAULT_ONLY: Final = "Windows are computed for the default evaluation only."
_NONE_EVALUATED: Final = (
    "No conversation of this selection was evaluated, so there is no curve to draw. The reasons stand under Coverage."
)
_NO_TOOLS: Final = "No call was scored: no case of this selection names expected tools (under `tools`), or its evaluation scores no single call."
_NO_FAULTS: Final = "No tool fault was found."
_NO_METRICS: Final = "No metric beyond the outcome was computed for this selection: `otel-agentic evaluate` computes those that need no judge."
_NO_FAILURES: Final = "Nothing failed in this selection."
_LAYERS: Final = "Reasoning, action, outcome: a run that breaks in one layer often breaks in the next ones, too. Counted is the first."
_BANDS: Final = "Perfect is 1.00, good from .75, moderate from .50, poor below."
_FAILURES: Final = (
    "What was found wrong in the same way counts as one cause. Each failure is in exactly one row; a conversation may have "
    "several. `otel-agentic failures` tells of single ones."
)
_COVERAGE: Final = tag(
    "p",
    "A conversation that could not be evaluated is neither right nor wrong. The last column is the pass rate if all of them "
    "had failed, and if all had passed but those that are known to fail.",
    class_="note",
)
_HEAT: Final = (
    "1.00 is faultless; the deeper the colour, the more is lost. A hatched cell is a dimension that does not apply, which is "
    "not a score of 0."
)
_HOLLOW: Final = " Hollow marks: cases with fewer than k attempts are left out there."
_ENDS: Final = " A curve ends where there are too few attempts."


def sections(found: Report, drawn: Charts) -> Iterator[tuple[str, Html]]:
    """Yield name and content of each section of a report that has groups, to be drawn inside `theme.drawing`.

    Args:
        found: the report.
        drawn: what the pictures are drawn from.
    """
    groups = found.groups
    yield "Summary", markup((summary_table(groups), more_rows(groups), _tier_legend()))
    if found.comparison:
        yield "Comparison", comparison_part(found.comparison)
    if found.objectives:
        yield "Objectives", objectives_part(found.objectives)
    yield "Curves", _curves(drawn.curves, telling(groups))
    yield "Over time", _history(drawn.history, found.evaluation)
    yield "Tools", _tools(drawn.tools, drawn.failing, groups)
    if groups[0].metrics is not None:
        yield "Metrics", _metrics(groups, found.metrics_chosen)
    if drawn.failures is not None:
        yield "Failures", _failures(drawn.failures)
    yield "Coverage", markup((_COVERAGE, coverage_table(groups), more_rows(groups)))
    if corrected := corrected_part(groups):
        yield "Judge errors", corrected
    clocks = [f"warning: {row.note}" for row in found.wrong_clocks]
    yield "Notes", _notes(groups, [*not_rebuilt_notes(found), *text_match_notes(found), *clocks])


def empty_state(text: str) -> Html:
    """Return words that stand where there is nothing to draw."""
    return tag("p", _coded(text), class_="empty-state")


def _curves(found: Curves, differing: Sequence[str]) -> Html:
    rows = found.rows
    if not rows:
        return empty_state(_NONE_EVALUATED)
    legend = _legend("pass@k: at least one of k attempts is right", "pass^k: all k are right")
    return markup(
        (
            legend,
            tag("p", _bands(rows), class_="note"),
            curve_panels(rows, differing),
            _left_out(found.left_out, "group", "in the summary"),
            _folded("The numbers behind the curves", curve_table(rows, differing)),
        )
    )


def _bands(rows: Sequence[CurveRow]) -> str:
    """Return what bands are, and where there are some, what hollow marks and early ends of curves are."""
    points = [
        (found.value is not None, row.cases_left_out.get(k, 0))
        for row in rows
        for k, found in shown_estimates(row).pass_pow_k.items()
    ]
    hollow = _HOLLOW if any(defined and left_out for defined, left_out in points) else ""
    ends = "" if all(defined for defined, _ in points) else _ENDS
    return f"Bands are the intervals: {estimator_line(rows)}.{hollow}{ends}"


def _history(history: History | None, evaluation: str) -> Html:
    if evaluation != "default":
        return empty_state(_DEFAULT_ONLY)
    if history is None or not history.rows:
        return empty_state(_NO_WINDOWS)
    rows = history.rows
    k, width = history.k, history.window
    others = [other for other in history.widths if other != width]
    told = (
        f"Each point is a window of {_width_told(width)}, drawn at its end: estimator {history.estimator}, {history.level:.0%} "
        "intervals as bands. A line breaks where no window holds a conversation."
    )
    more = (
        f" Stored, too: {', '.join(others)}; `--window {others[-1]}` draws them, and bounds the tables."
        if others
        else ""
    )
    return markup(
        (
            _legend(f"pass@{k}", f"pass^{k}", restated=any(any(row.restated) for row in rows)),
            tag("p", _coded(told + more), class_="note"),
            history_panels(history, rows),
            _left_out(history.left_out, "group", "not drawn; `--agent` chooses"),
            _folded("When each group had which tier", tier_table(rows, history.width_ns)),
        )
    )


def _metrics(groups: Sequence[ReportGroup], chosen: Sequence[str] | None) -> Html:
    whole = metrics_table(groups, every=bool(chosen))
    if whole is None:
        return empty_state(_NO_METRICS)
    layers = layers_table(groups)
    first = (tag("h3", "Which layer broke first"), tag("p", _LAYERS, class_="note"), layers) if layers else None
    notes = [_coded(note) for note in not_computed(groups, chosen)] if chosen else list(_abstained(groups))
    listed = tag("ul", *(tag("li", note) for note in notes)) if notes else None
    return markup((first, tag("h3", "What each metric says"), whole, listed))


def _abstained(groups: Sequence[ReportGroup]) -> Iterator[Html]:
    """Yield which groups have metrics without any score, and how many."""
    for told, names in abstained(groups).items():
        named = [markup((", " if place else None, stranger(name))) for place, name in enumerate(names[:_OPEN_NOTES])]
        more = f" and {plural(len(names[_OPEN_NOTES:]), 'more group')}" if names[_OPEN_NOTES:] else None
        yield markup((named, more, ": ", _coded(told)))


def _failures(found: FailureCauses) -> Html:
    if not found.rows:
        return empty_state(_NO_FAILURES)
    left_out = _left_out(found.left_out, "cause", "in `otel-agentic failures`")
    return markup((tag("p", _coded(_FAILURES), class_="note"), failures_table(found.rows), left_out))


def _in_bands(groups: Sequence[ReportGroup]) -> Html | None:
    bands = bands_table(groups)
    return markup((tag("h3", "In bands"), tag("p", _BANDS, class_="note"), bands)) if bands else None


def _tools(tools: ToolRows, failing: FailingRows, groups: Sequence[ReportGroup]) -> Html:
    if not tools.rows:
        return empty_state(_NO_TOOLS)
    faults = failing_table(failing.rows) if failing.rows else tag("p", _NO_FAULTS, class_="note")
    return markup(
        (
            tag("p", _HEAT, class_="note"),
            heat_legend(),
            tool_map(tools.rows),
            _left_out(tools.left_out, "tool", "with fewer faults, not shown"),
            _in_bands(groups),
            tag("h3", "What is wrong"),
            faults,
            _left_out(failing.left_out, "fault kind", "in `otel-agentic tools failing`"),
        )
    )


def _notes(groups: Sequence[ReportGroup], first: Sequence[str]) -> Html:
    metrics = (metric for group in groups for metric in group.metrics or ())
    about = [
        tag("li", _coded(note))
        for note in dict.fromkeys([*tier_notes(groups), *group_notes(groups), *metric_advice(metrics)])
    ]
    told = tag("ul", *about) if about else None
    if len(about) > _OPEN_NOTES:
        told = _folded(f"{len(about)} notes on single groups", told)
    return markup((tag("ul", *(tag("li", _coded(note)) for note in (*first, *method_notes(groups)))), told))


def _legend(at: str, power: str, *, restated: bool = False) -> Html:
    keys = [
        tag("span", tag("span", class_="key at", aria_hidden="true"), " ", at),
        tag("span", tag("span", class_="key pow", aria_hidden="true"), " ", power),
    ]
    if restated:
        keys.append(tag("span", tag("span", class_="key ring", aria_hidden="true"), " restated after it was final"))
    return tag("p", *keys, class_="legend")


def _tier_legend() -> Html:
    signs = [
        tag("span", tag("span", style.sign, class_=f"shape {style.role}", aria_hidden="true"), " ", style.words)
        for style in TIERS.values()
    ]
    return tag("p", *signs, class_="legend")


def _folded(summary: str, content: Child) -> Html:
    return tag("details", tag("summary", summary), content)


def _left_out(count: int, noun: str, told: str) -> Html | None:
    return tag("p", _coded(f"{plural(count, f'more {noun}')} {told}."), class_="note") if count else None


def _coded(text: str) -> Html:
    """Return a sentence with what stands between backticks as code."""
    return markup([tag("code", part) if place % 2 else breakable(part) for place, part in enumerate(text.split("`"))])


def _width_told(window: str) -> str:
    return f"the last {window[1:]} conversations" if window.startswith("n") else window


#: What a browser may load for this page: nothing, and its own style.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(found: Report, drawn: Charts, about: str) -> str:
    """Return a report as an HTML page, in ASCII.

    Args:
        found: the report, in the shape of the contract.
        drawn: what the pictures are drawn from: the answer of `report_pictures`.
        about: what time the report is about.
    """
    groups = found.groups
    with drawing():
        parts = dict(sections(found, drawn)) if groups else {}
    content = [_section(name, part) for name, part in parts.items()]
    heading = _heading(groups)
    body = (
        tag("header", tag("h1", heading), tag("p", _facts(groups, drawn, about), class_="facts"), _contents(parts)),
        tag("main", *(content or [empty_state(NOTHING_FOUND)])),
        tag("footer", tag("p", f"otel-agentic {version('otel-agentic')}. All times are UTC.")),
    )
    text = f"<!DOCTYPE html>\n{tag('html', _head('Reliability report'), tag('body', *body), lang='en')}\n"
    # Signs by their numbers: whatever the encoding of the terminal, the page arrives as it is.
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _head(title: str) -> Html:
    style = files("otel_agentic.cli.html").joinpath("style.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )


def _heading(groups: Sequence[ReportGroup]) -> Html:
    agents = {group.agent for group in groups}
    if not agents:
        return markup("Reliability")
    of = stranger(groups[0].agent) if len(agents) == 1 and None not in agents else plural(len(agents), "agent")
    return markup(("Reliability of ", of))


def _facts(groups: Sequence[ReportGroup], drawn: Charts, about: str) -> Child:
    facts = [about[:1].upper() + about[1:]]
    if drawn.first_ns is not None and drawn.last_ns is not None:
        facts.append(f"conversations that ended from {time_of(drawn.first_ns)} to {time_of(drawn.last_ns)} UTC")
    if groups:
        evaluated = sum(group.n for group in groups)
        facts.append(f"{plural(len(groups), 'group')}, {plural(evaluated, 'evaluated conversation')}")
    return [tag("span", fact) for fact in facts]


def _contents(names: Mapping[str, Html]) -> Html | None:
    if not names:
        return None
    return tag("nav", *(tag("a", name, href=f"#{_id(name)}") for name in names), aria_label="Sections")


def _section(name: str, part: Html) -> Html:
    return tag("section", tag("h2", name), part, id=_id(name))


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")
