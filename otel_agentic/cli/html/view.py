"""The values that the templates of the page show, prepared from a report and the data of its charts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.drawing import TIERS, Series, TierStyle, can_draw, curves, inline_svg, timeline
from otel_agentic.cli.html.plain import curves_svg, timeline_svg
from otel_agentic.cli.render import conversation_table, corrected_rates, report_tables
from otel_agentic.cli.render.notes import metric_advice
from otel_agentic.cli.render.report_notes import (
    KEYS,
    estimates_by_role,
    estimator_kind,
    group_notes,
    method_notes,
    not_rebuilt_notes,
    objective_notes,
    rates_by_k,
    shown_estimates,
    text_match_notes,
    tier_notes,
)
from otel_agentic.cli.render.terminal import differing_and_shared
from otel_agentic.cli.render.text import NOTHING, interval, percent, plural, safe
from otel_agentic.results.reports import (
    Comparison,
    CriterionRule,
    MetricSummary,
    ObjectiveStatus,
    Rate,
    Report,
    ReportGroup,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from otel_agentic.results.charts import (
        Charts,
        ConversationOutcomes,
        CurveRow,
        Curves,
        FailingRows,
        History,
        HistoryRow,
        ToolRows,
    )

#: An untrusted name is cut after this many characters; the JSON report contains all of it.
NAME_LIMIT: Final = 80
#: An argument of a tool call is cut after this many characters.
VALUE_LIMIT: Final = 40
#: The largest number of rows of a table; `--format json` contains all of them.
ROW_LIMIT: Final = 500
#: Notes on single groups are collapsed if there are more than this many.
NOTE_LIMIT: Final = 8
#: The number of tier changes that are listed for each group, the newest first.
CHANGE_LIMIT: Final = 8
#: The largest number of panels that are drawn wide.
FEW_PANELS: Final = 2
#: The dimensions of tool correctness, each with the noun of the things that its score is the mean of.
DIMENSIONS: Final = {"selection": "call", "parameters": "call", "sequence": "call", "utilization": "result"}
#: The scores in the legend of the tool map.
SCALE: Final = (1.0, 0.95, 0.9, 0.75, 0.5, 0.25, 0.0)
BANDS: Final = ("perfect", "good", "moderate", "poor")
#: Signs of severities, for readers who cannot see colours.
SEVERITY_SIGNS: Final = {"critical": "■", "high": "▲", "medium": "◆", "low": "●"}

#: The width of a drawing in px: in a column of a grid or on a phone; of curves and windows if there are few panels.
_NARROW_PX: Final = 370
_HALF_PX: Final = 560
_WHOLE_PX: Final = 1120
#: The keys that are always shown in the name of a group of windows.
_WINDOW_KEYS: Final = ("agent", "agent_version")
_NS_PER_S: Final = 1_000_000_000
_USUAL_K: Final = "3"
_RATES: Final = {"pass_at_k": "pass@{}", "pass_pow_k": "pass^{}"}
#: The opacity of the darkest cell of the tool map, at which its numbers are readable.
_DARKEST: Final = 0.62
#: The metric that names the layer that failed first.
_LAYERS: Final = "agentic.layers.verdict"
_LABELS: Final = 8
#: Larger e-values are shown as greater than this one.
_LARGEST_E_VALUE: Final = 1e6
#: A part of a text that is never broken: up to a space or a character that joins words, and at most 18 characters.
_PIECE: Final = re.compile(r"[^-_/:@ ]{0,17}[-_/:@ ]+|[^-_/:@ ]{1,18}")
_NO_WINDOWS: Final = (
    "No window is stored for this selection. A running collector (`otel-agentic serve`) stores them as conversations are "
    "scored; `otel-agentic backfill` computes them for the past."
)
_DEFAULT_ONLY: Final = "Windows are computed for the default evaluation only."


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateColumn:
    """A column of the summary: one rate at one k, of the estimator with one role."""

    role: str
    kind: str
    k: str

    @property
    def head(self) -> str:
        """The header of the column, such as `pass^3, pooled`."""
        return f"{_RATES[self.kind].format(self.k)}, {self.role}"

    def rate(self, group: ReportGroup) -> Rate:
        """Return the rate of a group."""
        return rates_by_k(estimates_by_role(group)[self.role], self.kind)[self.k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The summary: the groups, the keys that name them, and the estimates that matter most."""

    groups: Sequence[ReportGroup]
    left_out: int
    keys: Sequence[str]
    estimates: Sequence[EstimateColumn]

    @classmethod
    def of(cls, groups: Sequence[ReportGroup]) -> Summary:
        """Return the summary: pass@1, and both rates at k = 3 if it was requested, else at the highest k."""
        ks = list(shown_estimates(groups[0]).pass_at_k)
        high = _USUAL_K if _USUAL_K in ks else ks[-1]
        first = [("pass_at_k", ks[0])] if ks[0] != high else []
        rates = [*first, ("pass_at_k", high), ("pass_pow_k", high)]
        return cls(
            groups=groups[:ROW_LIMIT],
            left_out=max(0, len(groups) - ROW_LIMIT),
            keys=distinguishing_keys(groups) or ["agent"],
            estimates=[
                EstimateColumn(role=role, kind=kind, k=k) for role in estimates_by_role(groups[0]) for kind, k in rates
            ],
        )

    @property
    def heads(self) -> list[str]:
        """The headers of the columns."""
        names = [column_name(key) for key in self.keys]
        return [*names, "tier", *(column.head for column in self.estimates), "correct", "coverage", "to settle it"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of the terminal report with its notes."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str]

    @classmethod
    def of_comparison(cls, comparison: Comparison) -> TextTable:
        """Return the table of differences between two groups."""
        return cls(
            title=report_tables.difference_title(comparison),
            heads=[column.name for column in report_tables.difference_columns(comparison)],
            rows=_fill_cells(report_tables.difference_rows(comparison)),
            notes=report_tables.comparison_notes(comparison),
        )

    @classmethod
    def of_conversations(cls, outcomes: ConversationOutcomes) -> TextTable:
        """Return the table of the outcomes of single conversations."""
        return cls(
            title=conversation_table.CONVERSATIONS_TITLE,
            heads=[column.name for column in conversation_table.conversation_columns(outcomes)],
            rows=conversation_table.conversation_rows(outcomes),
            notes=list(conversation_table.conversation_notes(outcomes)),
        )

    @classmethod
    def of_corrected(cls, groups: Sequence[ReportGroup]) -> TextTable:
        """Return the table of judged rates that are corrected with people's labels."""
        return cls(
            title=corrected_rates.CORRECTED_TITLE,
            heads=[column.name for column in corrected_rates.corrected_columns(groups)],
            rows=_fill_cells(corrected_rates.corrected_rows(groups)),
            notes=corrected_rates.corrected_notes(groups),
        )

    @classmethod
    def of_labels(cls, groups: Sequence[ReportGroup]) -> TextTable:
        """Return the table of rates by a criterion that are corrected with people's labels."""
        return cls(
            title=corrected_rates.LABELLED_TITLE,
            heads=[column.name for column in corrected_rates.labelled_columns(groups)],
            rows=_fill_cells(corrected_rates.labelled_rows(groups)),
            notes=corrected_rates.labelled_notes(groups),
        )

    @classmethod
    def of_parts(cls, rules: Sequence[CriterionRule]) -> TextTable:
        """Return the table of the conditions of criteria."""
        columns, rows = corrected_rates.parts_table(rules)
        return cls(
            title=corrected_rates.PARTS_TITLE,
            heads=[column.name for column in columns],
            rows=_fill_cells(rows),
            notes=corrected_rates.parts_notes(rules),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """The state of each objective."""

    rows: Sequence[ObjectiveStatus]
    keys: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The drawing of a group in one or two widths (the page shows the one that fits), and the group's name."""

    names: Sequence[object]
    tier: str
    leaning: str | None
    details: Sequence[str]
    drawings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesView:
    """pass@k and pass^k over k, by group.

    `hollow` and `ending` are whether there are hollow marks and curves that end early.
    """

    rows: Sequence[CurveRow]
    keys: Sequence[str]
    left_out: int
    panels: Sequence[Panel]
    estimators: Sequence[str]
    levels: Sequence[str]
    hollow: bool
    ending: bool

    @classmethod
    def of(cls, data: Curves, keys: Sequence[str]) -> CurvesView:
        """Return the view with the curves drawn."""
        rows = data.rows
        points = [
            (rate.value is not None, row.cases_left_out.get(k, 0))
            for row in rows
            for k, rate in shown_estimates(row).pass_pow_k.items()
        ]
        wide_px = _HALF_PX if len(rows) <= FEW_PANELS else None
        return cls(
            rows=rows,
            keys=keys,
            left_out=data.left_out,
            panels=[_curve_panel(row, f"k{index}", keys, wide_px) for index, row in enumerate(rows)],
            estimators=sorted({row.default_estimator for row in rows}),
            levels=sorted({f"{shown_estimates(row).level:.0%}" for row in rows}),
            hollow=any(defined and left_out for defined, left_out in points),
            ending=not all(defined for defined, _ in points),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChange:
    """A run of windows in which a group had one tier; the times are the ends of its first and last window."""

    names: Sequence[object]
    tier: str
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """Reliability over time, by group."""

    history: History
    explanation: str
    restated: bool
    panels: Sequence[Panel]
    changes: Sequence[TierChange]

    @classmethod
    def of(cls, history: History) -> HistoryView:
        """Return the view with the stored windows drawn."""
        rows = history.rows
        keys = distinguishing_keys(rows, *_WINDOW_KEYS)
        span_ns = (min(row.end_ns[0] for row in rows), max(row.end_ns[-1] for row in rows))
        wide_px = _WHOLE_PX if len(rows) <= FEW_PANELS else None
        return cls(
            history=history,
            explanation=_explanation(history),
            restated=any(any(row.restated) for row in rows),
            panels=[
                _history_panel(row, history, f"t{index}", keys, span_ns, wide_px) for index, row in enumerate(rows)
            ],
            changes=[change for row in rows for change in _tier_changes(row, history.width_ns, keys)],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of a bar: its CSS class, its count, and its description."""

    css: str
    count: int
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    """The conversations of a group in each band of one dimension."""

    group: ReportGroup
    dimension: str
    counts: Mapping[str, int]

    @property
    def bar(self) -> list[Share]:
        """The bands that have conversations."""
        return [Share(css=f"band {band}", count=self.counts[band]) for band in BANDS if self.counts[band]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsView:
    """The scores of tools by dimension and band, and their faults."""

    tools: ToolRows
    with_agent: bool
    bands: Sequence[BandRow]
    keys: Sequence[str]
    failing: FailingRows
    failing_keys: Sequence[str]

    @classmethod
    def of(cls, charts: Charts, groups: Sequence[ReportGroup]) -> ToolsView:
        """Return the tools of a report."""
        return cls(
            tools=charts.tools,
            with_agent=bool(differing_and_shared(charts.tools.rows, ["agent"])[0]),
            bands=band_rows(groups),
            keys=distinguishing_keys(groups),
            failing=charts.failing,
            failing_keys=[
                key for key in ("agent", "agent_version") if differing_and_shared(charts.failing.rows, [key])[0]
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """A metric of a group."""

    group: ReportGroup
    metric: MetricSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBar:
    """The most frequent labels, as a bar and as pairs of share and label; `more` is the number of labels left out."""

    counts: Sequence[Share]
    total: int
    words: Sequence[tuple[str, str]]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTable:
    """The metrics of each group. Empty columns are omitted."""

    rows: Sequence[MetricRow]
    heads: Sequence[str]
    figures: int
    with_thresholds: bool
    with_reasons: bool
    with_failures: bool

    @classmethod
    def of(cls, groups: Sequence[ReportGroup], *, every: bool = False) -> MetricsTable:
        """Return the metrics that have a score, or all metrics if `every` is set."""
        rows = [
            MetricRow(group=group, metric=metric)
            for group in groups
            for metric in report_tables.metrics_of(group, every=every)
        ]
        metrics = [row.metric for row in rows]
        columns = {
            "metric": True,
            "group": bool(distinguishing_keys(groups)),
            "score": True,
            "good is": any(metric.threshold is not None for metric in metrics),
            "not evaluated": any(metric.not_evaluated for metric in metrics),
            "scores": True,
            "failures": any(report_tables.can_fail(metric) for metric in metrics),
        }
        return cls(
            rows=rows[:ROW_LIMIT],
            heads=[name for name, present in columns.items() if present],
            figures=1 + columns["failures"],
            with_thresholds=columns["good is"],
            with_reasons=columns["not evaluated"],
            with_failures=columns["failures"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """The metrics in addition to the outcome.

    `abstained` maps the sentence about metrics without any score to its groups.
    """

    metrics: MetricsTable
    layers: Sequence[MetricRow]
    keys: Sequence[str]
    not_computed: Sequence[str]
    abstained: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, groups: Sequence[ReportGroup], chosen: Sequence[str] | None) -> MetricsView:
        """Return the metrics of a report; `chosen` are those that were requested by name."""
        return cls(
            metrics=MetricsTable.of(groups, every=bool(chosen)),
            layers=layer_rows(groups),
            keys=distinguishing_keys(groups),
            not_computed=report_tables.not_computed(groups, chosen) if chosen else [],
            abstained={} if chosen else report_tables.abstained(groups),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageView:
    """The groups whose coverage is shown."""

    groups: Sequence[ReportGroup]
    left_out: int
    keys: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes on the whole report, and those on single groups."""

    general: Sequence[str]
    groups: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """The page: `agent` if the report has only one, the number of agents, and the sections by name."""

    agent: str | None
    agents: int
    facts: Sequence[str]
    sections: Sequence[tuple[str, object]]

    @classmethod
    def of(
        cls, report: Report, charts: Charts, about: str, conversations: ConversationOutcomes | None = None
    ) -> PageView:
        """Return the page of a report; call it inside `drawing`.

        Args:
            report: the report.
            charts: the data of its charts.
            about: the time range of the report, as text.
            conversations: the outcomes of single conversations; None omits their section.
        """
        agents = {group.agent for group in report.groups}
        return cls(
            agent=report.groups[0].agent if len(agents) == 1 else None,
            agents=len(agents),
            facts=_facts(report.groups, charts, about),
            sections=list(_sections(report, charts, conversations)) if report.groups else [],
        )


def _sections(
    report: Report, charts: Charts, conversations: ConversationOutcomes | None
) -> Iterator[tuple[str, object]]:
    """Yield the name and the content of each section, in order; `sections.html.j2` has a macro for each."""
    groups = report.groups
    keys = distinguishing_keys(groups)
    yield "Summary", Summary.of(groups)
    if report.comparison:
        yield "Comparison", TextTable.of_comparison(report.comparison)
    if report.objectives:
        objectives = report.objectives
        notes = objective_notes(objectives)
        yield "Objectives", Objectives(rows=objectives, keys=distinguishing_keys(objectives, "agent"), notes=notes)
    yield "Curves", CurvesView.of(charts.curves, keys)
    yield "Over time", _history(charts.history, report.evaluation)
    if conversations is not None:
        yield "Conversations", TextTable.of_conversations(conversations)
    yield "Tools", ToolsView.of(charts, groups)
    if groups[0].metrics is not None:
        yield "Metrics", MetricsView.of(groups, report.metrics_chosen)
    if charts.failures is not None:
        yield "Failures", charts.failures
    yield "Coverage", CoverageView(groups=groups[:ROW_LIMIT], left_out=max(0, len(groups) - ROW_LIMIT), keys=keys)
    corrected = TextTable.of_corrected(groups)
    if corrected.rows:
        yield "Judge errors", corrected
    if any(len(rule.parts) > 1 for rule in report.criteria):
        yield "Conditions", TextTable.of_parts(report.criteria)
    labelled = TextTable.of_labels(groups)
    if labelled.rows:
        yield "Labels", labelled
    yield "Notes", _notes(report)


def _facts(groups: Sequence[ReportGroup], charts: Charts, about: str) -> list[str]:
    facts = [about[:1].upper() + about[1:]]
    if charts.first_ns is not None and charts.last_ns is not None:
        facts.append(f"conversations that ended from {time_of(charts.first_ns)} to {time_of(charts.last_ns)} UTC")
    if groups:
        evaluated = sum(group.n for group in groups)
        facts.append(f"{plural(len(groups), 'group')}, {plural(evaluated, 'evaluated conversation')}")
    return facts


def _history(history: History | None, evaluation: str) -> HistoryView | str:
    """Return the history, or the reason why it is missing."""
    if evaluation != "default":
        return _DEFAULT_ONLY
    if history is None or not history.rows:
        return _NO_WINDOWS
    return HistoryView.of(history)


def _notes(report: Report) -> Notes:
    groups = report.groups
    metrics = (metric for group in groups for metric in group.metrics or ())
    clocks = [f"warning: {row.note}" for row in report.wrong_clocks]
    reuse = [] if report.id_reuse is None else report.id_reuse.notes
    return Notes(
        general=[*not_rebuilt_notes(report), *text_match_notes(report), *clocks, *reuse, *method_notes(groups)],
        groups=list(dict.fromkeys([*tier_notes(groups), *group_notes(groups), *metric_advice(metrics)])),
    )


def _explanation(history: History) -> str:
    window = history.window
    width = f"the last {window[1:]} conversations" if window.startswith("n") else window
    other_widths = [width_name for width_name in history.widths if width_name != window]
    more = (
        f" Stored, too: {', '.join(other_widths)}; `--window {other_widths[-1]}` draws them, and bounds the tables."
        if other_widths
        else ""
    )
    return (
        f"Each point is a window of {width}, drawn at its end: estimator {history.estimator}, {history.level:.0%} "
        f"intervals as bands. A line breaks where no window holds a conversation.{more}"
    )


def _curve_panel(row: CurveRow, name: str, keys: Sequence[str], wide_px: int | None) -> Panel:
    estimates = shown_estimates(row)
    last = list(estimates.pass_at_k)[-1]
    description = f"k from 1 to {last}: pass@{last} {interval(estimates.pass_at_k[last])}, pass^{last} {interval(estimates.pass_pow_k[last])}"
    return Panel(
        names=names(row, keys),
        tier=row.tier,
        leaning=row.leaning,
        details=[f"{row.c:,} of {row.n:,} correct", estimator_kind(row.default_estimator)],
        drawings=_drawings(
            partial(curves, row), partial(curves_svg, row), name, "pass@k and pass^k over k", description, wide_px
        ),
    )


def _history_panel(
    row: HistoryRow, history: History, name: str, keys: Sequence[str], span_ns: tuple[int, int], wide_px: int | None
) -> Panel:
    k = history.k
    draw = partial(timeline, Series.of(row, history.width_ns), span_ns)
    newest = f"newest: pass@{k} {_newest(row, 'pass_at_k')}, pass^{k} {_newest(row, 'pass_pow_k')}, n {row.n[-1]:,}"
    return Panel(
        names=names(row, keys),
        tier=row.tier[-1] or "",
        leaning=row.leaning[-1],
        details=[newest],
        drawings=_drawings(
            draw,
            partial(timeline_svg, row),
            name,
            f"pass@{k} and pass^{k} over time",
            _description(row, history),
            wide_px,
        ),
    )


def _newest(row: HistoryRow, name: str) -> str:
    value, lower, upper = (getattr(row, f"{name}{suffix}")[-1] for suffix in ("", "_lower", "_upper"))
    return interval(Rate(value=value, lower=lower, upper=upper))


def _description(row: HistoryRow, history: History) -> str:
    ends, power = row.end_ns, [value for value in row.pass_pow_k if value is not None]
    spread = f"; pass^{history.k} between {min(power):.3f} and {max(power):.3f}" if power else ""
    count = sum(row.restated)
    restated_note = f"; {plural(count, 'point')} restated" if count else ""
    return f"{plural(len(ends), 'window')} of {history.window} that ended from {time_of(ends[0])} to {time_of(ends[-1])} UTC{spread}{restated_note}"


def _drawings(
    draw: Callable[[int], Figure],
    plain: Callable[[str, str, str], str],
    name: str,
    title: str,
    description: str,
    wide_px: int | None,
) -> list[str]:
    """Return a drawing, and a wide one as well if there is room for it; without matplotlib a plain one."""
    if not can_draw():
        return [plain(name, title, description)]
    if wide_px is None:
        return [inline_svg(draw(_NARROW_PX), name=name, title=title, description=description)]
    return [
        inline_svg(draw(width), name=f"{name}{extra[0]}", title=title, description=description, extra=extra)
        for width, extra in ((_NARROW_PX, "narrow"), (wide_px, "wide"))
    ]


def _tier_changes(row: HistoryRow, width_ns: int | None, keys: Sequence[str]) -> list[TierChange]:
    """Return the latest tier changes of a group, newest first."""
    runs = list(Series.of(row, width_ns).tier_runs())
    return [
        TierChange(names=names(row, keys), tier=tier, first_ns=row.end_ns[first], last_ns=row.end_ns[last])
        for first, last, tier in reversed(runs[-CHANGE_LIMIT:])
    ]


def _fill_cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a terminal table with its empty cells filled from the row above, whose values they repeat."""
    filled_rows: list[list[Any]] = []
    for row in rows:
        previous_row = filled_rows[-1] if filled_rows else row
        filled_rows.append([previous_row[index] if value == "" else value for index, value in enumerate(row)])
    return filled_rows


def layer_rows(groups: Sequence[ReportGroup]) -> list[MetricRow]:
    """Return the metric of the layer that failed first, for each group that has this metric."""
    return [
        MetricRow(group=group, metric=metric)
        for group in groups[:ROW_LIMIT]
        for metric in report_tables.metrics_of(group)
        if metric.name == _LAYERS and metric.labels
    ]


def band_rows(groups: Sequence[ReportGroup]) -> list[BandRow]:
    """Return the bands of each group and dimension."""
    return [
        BandRow(group=group, dimension=dimension, counts=counts)
        for group in groups[:ROW_LIMIT]
        for dimension, counts in report_tables.headline_bands(group).items()
    ]


def distinguishing_keys(groups: Sequence[object], *always: str) -> list[str]:
    """Return the keys that distinguish the groups, and those that are always shown, in the order of `KEYS`."""
    differing, _ = differing_and_shared(groups, KEYS)
    return [name for name in KEYS if name in differing or name in always]


# Filters of the templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """An untrusted name: its text, and the full text if that is longer."""

    text: str
    full: str | None


def shorten(value: object, limit: int = NAME_LIMIT) -> Name:
    """Return an untrusted value as one line of at most `limit` characters.

    >>> shorten("x" * 9, 4)
    Name(text='xxx…', full='xxxxxxxxx')
    """
    text = " ".join(safe(value).split())
    if len(text) <= limit:
        return Name(text=text, full=None)
    return Name(text=text[: limit - 1] + "…", full=text[: 10 * limit])


def pieces(text: str) -> list[str]:
    """Return the parts of a text between which a line may break.

    >>> pieces("look_up the order")
    ['look_', 'up ', 'the ', 'order']
    """
    return _PIECE.findall(text)


def names(group: object, keys: Sequence[str]) -> list[object]:
    """Return the values that name a group: those of the keys, or its agent if there are no keys."""
    values = [value for key in keys if (value := getattr(group, key, None))]
    return values or [getattr(group, "agent", None) or "all conversations"]


def column_name(key: str) -> str:
    """Return the header of the column of a key."""
    return key.replace("agent_", "")


def share(value: float) -> str:
    """Return a ratio as a length in CSS."""
    return f"{100 * value:.4g}%"


def width(count: int, total: int) -> str:
    """Return the share of a count as a length in CSS."""
    return f"{100 * count / total:.4g}%"


def thousands(count: int) -> str:
    """Return a count with separators."""
    return f"{count:,}"


def time_of(time_ns: int) -> str:
    """Return a time in UTC, to the minute.

    >>> time_of(1_772_452_800_000_000_000)
    '2026-03-02 12:00'
    """
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")


def words(identifier: str) -> str:
    """Return an identifier with spaces for underscores."""
    return identifier.replace("_", " ")


def by_count(counts: Mapping[str, int]) -> list[str]:
    """Return counts as text, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda name_and_count: (-name_and_count[1], name_and_count[0]))
    return [f"{count:,} {words(reason)}" for reason, count in ordered]


def outcome_counts(group: ReportGroup) -> list[Share]:
    """Return the conversations of a group that passed, failed and were not evaluated."""
    missing = sum(group.not_evaluated.values())
    counts = (
        ("passed", group.c, "passed"),
        ("failed", group.n - group.c, "failed"),
        ("missing", missing, "not evaluated"),
    )
    return [Share(css=css, count=count, words=f"{count:,} {name}") for css, count, name in counts if count]


def depth(score: float) -> str:
    """Return the opacity of a score's colour: the square root of the loss, so that a small loss is visible."""
    return f"{_DARKEST * math.sqrt(max(0.0, 1.0 - score)):.3f}"


def label_bar(metric: MetricSummary, failing_labels: Sequence[str]) -> LabelBar:
    """Return the labels of a metric; failing labels come last, in the colour of failures."""
    neutral = "plain" if not failing_labels else "passed"
    labels = sorted(
        metric.labels.items(),
        key=lambda label_and_count: (label_and_count[0] in failing_labels, -label_and_count[1], label_and_count[0]),
    )
    first = labels[:_LABELS]
    return LabelBar(
        counts=[Share(css="failed" if label in failing_labels else neutral, count=count) for label, count in first],
        total=metric.n,
        words=[(percent(count / metric.n), words(label)) for label, count in first],
        more=len(labels[_LABELS:]),
    )


def distance(metric: MetricSummary) -> float | None:
    """Return the distance of the mean from the upper bound, as a share of the range; None without two bounds."""
    low, high = metric.range or (None, None)
    if low is None or high is None or low >= high or metric.mean is None:
        return None
    return min(1.0, max(0.0, (high - metric.mean) / (high - low)))


def bound(metric: MetricSummary, name: str) -> str:
    """Return the `low`, `median` or `high` of a metric without its scale."""
    value = getattr(metric, name)
    return NOTHING if value is None else report_tables.shown_value(value, metric, scale=False)


def objective_state(objective: ObjectiveStatus) -> TierStyle:
    """Return the state of an objective, in the style of a tier."""
    if objective.alarm:
        return TierStyle(words="broken", role="not-ready", marker="", sign="■")
    if not objective.n:
        return TierStyle(words="nothing final yet", role="insufficient-evidence", marker="", sign="○")
    return TierStyle(words="no alarm", role="ready", marker="", sign="●")


def evidence(e_value: float) -> str:
    """Return an e-value with three digits."""
    return f"above {_LARGEST_E_VALUE:.0e}" if e_value > _LARGEST_E_VALUE else f"{e_value:.3g}"


def anchor(section: str) -> str:
    """Return the id of a section."""
    return section.lower().replace(" ", "-")


#: The constants that the templates use.
GLOBALS: Final[Mapping[str, Any]] = {
    "bands": list(BANDS),
    "change_limit": CHANGE_LIMIT,
    "dash": NOTHING,
    "dimensions": DIMENSIONS,
    "few_panels": FEW_PANELS,
    "name_limit": NAME_LIMIT,
    "note_limit": NOTE_LIMIT,
    "nothing_found": report_tables.NOTHING_FOUND,
    "scale": SCALE,
    "severity_signs": SEVERITY_SIGNS,
    "tiers": TIERS,
    "value_limit": VALUE_LIMIT,
}
