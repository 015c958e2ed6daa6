"""The reliability of each group: the opening sentence, the summary, objectives, curves, windows over time, coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.render.html.charts import HALF_PX, WHOLE_PX, Chart, curve_charts, evidence_charts, timeline_charts
from otel_agentic.render.html.filters import TierStyle, column_name, distinguishing_keys, names, time_of, words
from otel_agentic.render.html.series import Series
from otel_agentic.render.report_notes import (
    criterion_notes,
    estimator_kind,
    objective_notes,
    rates_by_k,
    shown_estimates,
)
from otel_agentic.render.text import interval, moment
from otel_agentic.results.reports import ObjectiveStatus, Rate, Report, ReportGroup

if TYPE_CHECKING:
    from otel_agentic.render.html.links import Href, Links
    from otel_agentic.results.charts import Charts, CurveRow, Curves, History, HistoryRow
    from otel_agentic.results.reports import EvidenceHistory

#: The largest number of rows of a table; `--format json` contains all of them.
ROW_LIMIT: Final = 500
#: The number of groups about which the page opens with a sentence.
HEADLINES: Final = 8
#: The number of tier changes that are listed for each group, the newest first.
CHANGE_LIMIT: Final = 8
#: The largest number of charts that get more room than a column.
_FEW_CHARTS: Final = 2
#: The keys that are always shown in the name of a group of windows.
_WINDOW_KEYS: Final = ("agent", "agent_version")
_USUAL_K: Final = "3"
_RATES: Final = {"pass_at_k": "pass@{}", "pass_pow_k": "pass^{}"}
#: What the tier of a group means, in the opening sentence.
_VERDICTS: Final = {
    "ready": "is ready",
    "needs_improvement": "needs improvement",
    "inconsistent": "is inconsistent",
    "not_ready": "is not ready",
    "insufficient_evidence": "has insufficient evidence",
    "no_row": "has no tier",
}
#: What a fault of a tool means for the call or the parameter, in the opening sentence.
_FAULTS: Final = {
    "wrong_parameters": "is wrong",
    "missing": "is not called",
    "spurious": "is called unexpectedly",
    "forbidden": "is called although it is forbidden",
    "wrong_order": "is called out of order",
    "unused_result": "has unused results",
    "errored": "returns errors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstFault:
    """The tool fault by which most conversations of a group failed, and since when it occurs."""

    name: str
    problem: str
    conversations: int
    total: int
    since: str
    href: Href


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The sentence about a group: its tier, pass^k, and the worst fault of its tools."""

    names: Sequence[object]
    tier: str
    verdict: str
    leaning: str | None
    k: str
    rate: Rate
    fault: WorstFault | None

    @classmethod
    def of(cls, group: ReportGroup, keys: Sequence[str], charts: Charts, links: Links) -> Headline:
        """Return the sentence about a group."""
        k, rates = high_k(group), rates_by_k(shown_estimates(group), "pass_pow_k")
        return cls(
            names=names(group, keys),
            tier=group.tier,
            verdict=_VERDICTS[group.tier] if group.n else "has no evaluated conversation",
            leaning=group.leaning if group.tier == "insufficient_evidence" else None,
            k=k,
            rate=rates[k],
            fault=_worst_fault(group, charts, links),
        )


def headlines(groups: Sequence[ReportGroup], charts: Charts, links: Links) -> list[Headline]:
    """Return the sentences about the first groups, each with its agent and version."""
    keys = distinguishing_keys(groups, *_WINDOW_KEYS)
    return [Headline.of(group, keys, charts, links) for group in groups[:HEADLINES]]


def _worst_fault(group: ReportGroup, charts: Charts, links: Links) -> WorstFault | None:
    rows = [
        row
        for row in charts.failing.rows
        if row.failed
        and all(
            getattr(group, key) in (None, getattr(row, key))
            for key in ("agent", "agent_version", "environment", "tool")
        )
    ]
    # Faults are counted over the whole selection: a group that is only a part of it has no count of its own.
    if not rows or group.tag or group.case or group.service:
        return None
    worst = max(rows, key=lambda row: (row.failed, row.conversations))
    return WorstFault(
        name=".".join(filter(None, (worst.tool or "a call", worst.parameter))),
        problem=_FAULTS.get(worst.fault, words(worst.fault)),
        conversations=worst.conversations,
        total=max(group.n, worst.conversations),
        since=_since(worst.since or worst.first_seen, charts.last_ns),
        href=links.fault(worst),
    )


def _since(first: str | None, newest_ns: int | None) -> str:
    """Return when a fault began: only the time of the day if that is the day of the newest conversation.

    >>> _since("2026-03-02T09:05:09Z", 1_772_452_800_000_000_000), _since("2026-03-01T09:05:09Z", None)
    ('09:05', '2026-03-01 09:05')
    """
    text = moment(first)
    return text[11:] if newest_ns is not None and text[:10] == time_of(newest_ns)[:10] else text


def high_k(group: ReportGroup) -> str:
    """Return the k that a summary shows: 3 if it was requested, else the highest."""
    ks = list(shown_estimates(group).pass_at_k)
    return _USUAL_K if _USUAL_K in ks else ks[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateColumn:
    """A column of the summary: one rate at one k, of the headline estimator."""

    kind: str
    k: str

    @property
    def head(self) -> str:
        """The header of the column, such as `pass^3`."""
        return _RATES[self.kind].format(self.k)

    def rate(self, group: ReportGroup) -> Rate:
        """Return the rate of a group."""
        return rates_by_k(shown_estimates(group), self.kind)[self.k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The groups, the keys that name them, the estimates that matter most, and what decides."""

    groups: Sequence[ReportGroup]
    left_out: int
    keys: Sequence[str]
    estimates: Sequence[EstimateColumn]
    notes: Sequence[str]
    links: Links

    @classmethod
    def of(cls, report: Report, links: Links) -> Summary:
        """Return the summary: pass@1, and both rates at k = 3 if it was requested, else at the highest k."""
        groups = report.groups
        ks = list(shown_estimates(groups[0]).pass_at_k)
        high = high_k(groups[0])
        first = [("pass_at_k", ks[0])] if ks[0] != high else []
        estimators = sorted({estimator_kind(group.default_estimator) for group in groups})
        levels = sorted({f"{shown_estimates(group).level:.0%}" for group in groups})
        return cls(
            groups=groups[:ROW_LIMIT],
            left_out=max(0, len(groups) - ROW_LIMIT),
            keys=distinguishing_keys(groups) or ["agent"],
            estimates=[
                EstimateColumn(kind=kind, k=k) for kind, k in (*first, ("pass_at_k", high), ("pass_pow_k", high))
            ],
            notes=[
                *criterion_notes(report),
                f"Estimator {' and '.join(estimators)}, {' and '.join(levels)} intervals.",
            ],
            links=links,
        )

    @property
    def heads(self) -> list[str]:
        """The headers of the columns."""
        keys = [column_name(key) for key in self.keys]
        return [*keys, "tier", *(column.head for column in self.estimates), "correct", "coverage", "to settle it"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """The state of each objective."""

    rows: Sequence[ObjectiveStatus]
    keys: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(cls, rows: Sequence[ObjectiveStatus]) -> Objectives:
        """Return the objectives with their notes."""
        return cls(rows=rows, keys=distinguishing_keys(rows, "agent"), notes=objective_notes(rows))


def objective_state(objective: ObjectiveStatus) -> TierStyle:
    """Return the state of an objective, in the style of a tier."""
    if objective.alarm:
        return TierStyle(words="broken", css="not-ready", sign="■")
    if not objective.n:
        return TierStyle(words="nothing final yet", css="insufficient-evidence", sign="○")
    return TierStyle(words="no alarm", css="ready", sign="●")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePanel:
    """The chart of the evidence against an objective, in one or two widths."""

    objective: ObjectiveStatus
    names: Sequence[object]
    charts: Sequence[Chart]


def evidence_panels(
    objectives: Sequence[ObjectiveStatus], histories: Sequence[EvidenceHistory]
) -> Iterator[EvidencePanel]:
    """Yield the charts of objectives over time, broken ones first; one with fewer than two points has none."""
    drawn = [(row, history) for row, history in zip(objectives, histories, strict=True) if len(history.end_ns) > 1]
    drawn.sort(key=lambda pair: (not pair[0].alarm, -pair[0].e_value))
    keys = distinguishing_keys([row for row, _ in drawn], "agent")
    wide_px = {1: WHOLE_PX, 2: HALF_PX}.get(len(drawn))
    for index, (row, history) in enumerate(drawn):
        yield EvidencePanel(
            objective=row, names=names(row, keys), charts=evidence_charts(history, f"e{index}", wide_px)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The chart of a group in one or two widths (the page shows the one that fits), and the group's name."""

    names: Sequence[object]
    tier: str
    leaning: str | None
    details: Sequence[str]
    charts: Sequence[Chart]


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
        """Return the view with the charts."""
        rows = data.rows
        points = [
            (rate.value is not None, row.cases_left_out.get(k, 0))
            for row in rows
            for k, rate in shown_estimates(row).pass_pow_k.items()
        ]
        return cls(
            rows=rows,
            keys=keys,
            left_out=data.left_out,
            panels=[
                Panel(
                    names=names(row, keys),
                    tier=row.tier,
                    leaning=row.leaning,
                    details=[f"{row.c:,} of {row.n:,} correct", estimator_kind(row.default_estimator)],
                    charts=curve_charts(row, f"k{index}", is_wide=len(rows) <= _FEW_CHARTS),
                )
                for index, row in enumerate(rows)
            ],
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
        """Return the view with the charts of the windows."""
        rows = history.rows
        keys = distinguishing_keys(rows, *_WINDOW_KEYS)
        span_ns = (min(row.end_ns[0] for row in rows), max(row.end_ns[-1] for row in rows))
        is_wide = len(rows) <= _FEW_CHARTS
        return cls(
            history=history,
            explanation=_explanation(history),
            restated=any(any(row.restated) for row in rows),
            panels=[
                Panel(
                    names=names(row, keys),
                    tier=row.tier[-1] or "",
                    leaning=row.leaning[-1],
                    details=[_newest(row, history.k)],
                    charts=timeline_charts(row, history, f"t{index}", span_ns, is_wide=is_wide),
                )
                for index, row in enumerate(rows)
            ],
            changes=[change for row in rows for change in _tier_changes(row, history.width_ns, keys)],
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
    level = "" if history.level is None else f", {history.level:.0%} intervals as bands"
    return (
        f"Each point is a window of {width}, drawn at its end: estimator {history.estimator}{level}. "
        f"A line breaks where no window holds a conversation.{more}"
    )


def _newest(row: HistoryRow, k: int) -> str:
    at_k, pow_k = (
        interval(Rate(value=value[-1], lower=lower[-1], upper=upper[-1]))
        for value, lower, upper in (
            (row.pass_at_k, row.pass_at_k_lower, row.pass_at_k_upper),
            (row.pass_pow_k, row.pass_pow_k_lower, row.pass_pow_k_upper),
        )
    )
    return f"newest: pass@{k} {at_k}, pass^{k} {pow_k}, n {row.n[-1]:,}"


def _tier_changes(row: HistoryRow, width_ns: int | None, keys: Sequence[str]) -> Iterator[TierChange]:
    """Yield the latest tier changes of a group, newest first."""
    runs = list(Series.of(row, width_ns).tier_runs())
    for first, last, tier in reversed(runs[-CHANGE_LIMIT:]):
        yield TierChange(names=names(row, keys), tier=tier, first_ns=row.end_ns[first], last_ns=row.end_ns[last])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageView:
    """The evaluated conversations of each group, and the reasons why others were not evaluated."""

    groups: Sequence[ReportGroup]
    left_out: int
    keys: Sequence[str]

    @classmethod
    def of(cls, groups: Sequence[ReportGroup]) -> CoverageView:
        """Return the coverage of the groups."""
        return cls(
            groups=groups[:ROW_LIMIT],
            left_out=max(0, len(groups) - ROW_LIMIT),
            keys=distinguishing_keys(groups),
        )
