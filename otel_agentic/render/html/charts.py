"""The charts of a page as geometry: curves over k, and reliability over time; `charts.html.j2` writes them as SVG.

Every colour is a class of `style.css`, so one chart serves light mode, dark mode and print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.render.html.filters import TIERS, time_of
from otel_agentic.render.html.series import Series
from otel_agentic.render.report_notes import rates_by_k, shown_estimates
from otel_agentic.render.text import interval, plural
from otel_agentic.stats.thinning import thinned

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.results.charts import CurveRow, History, HistoryRow
    from otel_agentic.results.reports import EvidenceHistory, Rate

#: Natural widths of a chart, px: in a column of a grid or on a phone, half of the page, and the whole page.
NARROW_PX: Final = 370
HALF_PX: Final = 560
WHOLE_PX: Final = 1120

#: The rates of a chart and the class of each.
_RATES: Final = (("pass_at_k", "at"), ("pass_pow_k", "pow"))
_LEFT: Final = 30
_RIGHT: Final = 10
_TOP: Final = 8
#: Height of the line of tick labels below a chart.
_BOTTOM: Final = 24
_GRID: Final = ((0.0, "0"), (0.25, ".25"), (0.5, ".5"), (0.75, ".75"), (1.0, "1"))
#: Labels of powers of ten, and the range of e-values that a chart displays, in decades.
_POWERS: Final = {-2: ".01", -1: ".1", 0: "1", 1: "10", 2: "100", 3: "1k", 4: "10k", 6: "1M"}
_LEAST_DECADES: Final = -2.0
_MOST_DECADES: Final = 6.0
#: The height of the curves over k, as a share of the width, and its limits.
_CURVE_SHARE: Final = 0.34
_CURVE_PX: Final = (170, 250)
#: Heights of the lines over time, of coverage and of the strip of tiers; and the space of the name above a strip.
_LINES_PX: Final = 170
_COVERAGE_PX: Final = 22
_TIER_PX: Final = 14
_GAP_PX: Final = 24
#: The largest number of points of a line, and of points that each get a mark.
_MAX_POINTS: Final = 500
_MAX_MARKS: Final = 40
#: The largest number of rings around restated points.
_MAX_RINGS: Final = 80
#: The least width of a run of a tier that contains the sign of the tier.
_SIGN_PX: Final = 14.0
#: The least width of a run of windows.
_RUN_PX: Final = 4.0
_NS_PER_S: Final = 1_000_000_000
_DAY_S: Final = 86_400
_MONTH_S: Final = 30 * _DAY_S
#: Steps between ticks of time; the first that results in few enough ticks is used.
_STEPS_S: Final = (
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(_DAY_S * days for days in (1, 2, 4, 7, 14, 30, 61, 91, 182, 365, 730, 1825, 3650)),
)
_PX_PER_TICK: Final = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label of an axis: its position in px, and the end of the text that is there."""

    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point; `css` is empty, `hollow` (other cases than the line) or `ring` (restated)."""

    x: float
    y: float
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One rate: the paths of its band, its line, and the intervals of single points."""

    css: str
    band: str
    path: str
    bars: str
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle of a strip, with a sign in its middle or without."""

    css: str
    x: float
    y: float
    width: float
    height: float
    sign: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A horizontal line at a height in px, with its name."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A sign at a point in px, with its meaning."""

    x: float
    y: float
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of one width; `name` is unique in the page, `css` is empty if the chart is visible at every width."""

    name: str
    title: str
    description: str
    css: str
    width: int
    height: float
    grid: Sequence[Tick]
    ticks: Sequence[Tick]
    lines: Sequence[Line]
    blocks: Sequence[Block] = ()
    strips: Sequence[Tick] = ()
    limits: Sequence[Limit] = ()
    signs: Sequence[Sign] = ()

    @property
    def left(self) -> int:
        """The left end of the grid, px."""
        return _LEFT

    @property
    def right(self) -> int:
        """The right end of the grid, px."""
        return self.width - _RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Positions in px: horizontally from `first` to `last`, vertically from 1 at the top to 0 below `height`."""

    first: float
    last: float
    width: int
    height: float

    def x(self, value: float) -> float:
        share = (value - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 1)

    def y(self, rate: float) -> float:
        return round(_TOP + (1.0 - rate) * self.height, 1)

    def grid(self) -> list[Tick]:
        return [Tick(at=self.y(rate), text=text, anchor="end") for rate, text in _GRID]


def curve_charts(row: CurveRow, name: str, *, is_wide: bool) -> list[Chart]:
    """Return the curves of a group over k in one width, or in two if there is room."""
    estimates = shown_estimates(row)
    ks = [int(k) for k in estimates.pass_at_k]
    last = str(ks[-1])
    description = (
        f"k from 1 to {last}: pass@{last} {interval(estimates.pass_at_k[last])}, "
        f"pass^{last} {interval(estimates.pass_pow_k[last])}"
    )
    hollow = np.array([row.cases_left_out.get(str(k), 0) > 0 for k in ks])
    values = {rate: _numbers(rates_by_k(estimates, rate)[str(k)] for k in ks) for rate, _ in _RATES}

    def chart(width: int, css: str) -> Chart:
        least, most = _CURVE_PX
        scale = _Scale(
            first=ks[0] - 0.25, last=ks[-1] + 0.25, width=width, height=min(most, max(least, _CURVE_SHARE * width))
        )
        step = -(-len(ks) // 9)
        return Chart(
            name=name + css[:1],
            title="pass@k and pass^k over k",
            description=description,
            css=css,
            width=width,
            height=scale.height + _TOP + _BOTTOM,
            grid=scale.grid(),
            ticks=[Tick(at=scale.x(k), text=f"k = {k}" if k == ks[0] else str(k)) for k in ks[::step]],
            lines=[_curve(np.array(ks), values[rate], hollow, scale, css) for rate, css in _RATES],
        )

    return _in_widths(chart, HALF_PX if is_wide else None)


def timeline_charts(
    row: HistoryRow, history: History, name: str, span_ns: tuple[int, int], *, is_wide: bool
) -> list[Chart]:
    """Return the windows of a group over time in one width, or in two if there is room.

    Args:
        row: the windows of the group.
        history: their kind.
        name: unique in the page.
        span_ns: first and last time of the axis, the same for all groups, so that they are comparable.
        is_wide: whether the group gets the whole width of the page.
    """
    series = Series.of(row, history.width_ns)

    def chart(width: int, css: str) -> Chart:
        scale = _Scale(first=span_ns[0], last=span_ns[1], width=width, height=_LINES_PX)
        tops = (_TOP + _LINES_PX + _GAP_PX, _TOP + _LINES_PX + _COVERAGE_PX + 2 * _GAP_PX)
        return Chart(
            name=name + css[:1],
            title=f"pass@{history.k} and pass^{history.k} over time",
            description=_description(row, history),
            css=css,
            width=width,
            height=tops[1] + _TIER_PX + _BOTTOM,
            grid=scale.grid(),
            ticks=_time_ticks(scale),
            lines=[_line_over_time(series, rate, css, scale) for rate, css in _RATES],
            blocks=[*_coverage(series, scale, tops[0]), *_tiers(series, scale, tops[1])],
            strips=[
                Tick(at=top - 4, text=text, anchor="start")
                for top, text in zip(tops, ("coverage", "tier"), strict=True)
            ],
        )

    return _in_widths(chart, WHOLE_PX if is_wide else None)


def evidence_charts(row: EvidenceHistory, name: str, wide_px: int | None) -> list[Chart]:
    """Return charts of the e-value of an objective over time on a logarithmic scale, with its limit and its alarms.

    Args:
        row: the history of the objective.
        name: unique in the page.
        wide_px: the width of the chart where there is room; None if it is always narrow.
    """
    limit = 1 / row.alpha
    logs = np.log10(row.e_value)
    highest = min(_MOST_DECADES, max(float(logs.max()), np.log10(limit)) + 0.3)
    lowest = max(_LEAST_DECADES, min(float(logs.min()), 0.0) - 0.1)

    def height_of(log: float) -> float:
        return float((min(max(log, lowest), highest) - lowest) / (highest - lowest))

    def chart(width: int, css: str) -> Chart:
        scale = _Scale(first=row.end_ns[0], last=row.end_ns[-1], width=width, height=_LINES_PX)
        points = [(scale.x(end), scale.y(height_of(log))) for end, log in zip(row.end_ns, logs.tolist(), strict=True)]
        marks = [Mark(x=x, y=y) for x, y in points] if len(points) <= _MAX_MARKS else []
        alarms = [(row.alarmed_ns, "■", "the objective is broken")] if row.alarmed_ns is not None else []
        alarms += [(moment, "▼", "the pass rate fell") for moment in row.changed_ns]
        return Chart(
            name=name + css[:1],
            title=f"e-value of {row.objective} over time",
            description=(
                f"{plural(len(row.end_ns), 'point')} from {time_of(row.end_ns[0])} to {time_of(row.end_ns[-1])} UTC, the last at "
                f"{row.e_value[-1]:.3g}; an alarm is raised at {limit:.4g}; {plural(len(alarms), 'alarm')}"
            ),
            css=css,
            width=width,
            height=_LINES_PX + _TOP + _BOTTOM,
            grid=[
                Tick(at=scale.y(height_of(decade)), text=_POWERS[decade], anchor="end")
                for decade in _POWERS
                if lowest <= decade <= highest
            ],
            ticks=_time_ticks(scale),
            lines=[Line(css="pow", band="", path=_joined(points), bars="", marks=marks)],
            limits=[Limit(at=scale.y(height_of(np.log10(limit))), text=f"alarm at {limit:.4g}")],
            signs=[
                Sign(x=scale.x(moment), y=scale.y(_at(row, logs, moment, height_of)) - 6, text=sign, title=meaning)
                for moment, sign, meaning in alarms
            ],
        )

    return _in_widths(chart, wide_px)


def _at(row: EvidenceHistory, logs: npt.NDArray[np.float64], moment: int, height_of: Callable[[float], float]) -> float:
    """Return the height of the line at a time, in [0, 1]."""
    return height_of(float(np.interp(moment, row.end_ns, logs)))


def _in_widths(chart: Callable[[int, str], Chart], wide_px: int | None) -> list[Chart]:
    if wide_px is None:
        return [chart(NARROW_PX, "")]
    return [chart(NARROW_PX, "narrow"), chart(wide_px, "wide")]


def _description(row: HistoryRow, history: History) -> str:
    ends, power = row.end_ns, [value for value in row.pass_pow_k if value is not None]
    spread = f"; pass^{history.k} between {min(power):.3f} and {max(power):.3f}" if power else ""
    count = sum(row.restated)
    restated_note = f"; {plural(count, 'point')} restated" if count else ""
    return f"{plural(len(ends), 'window')} of {history.window} that ended from {time_of(ends[0])} to {time_of(ends[-1])} UTC{spread}{restated_note}"


def _numbers(rates: Iterable[Rate]) -> npt.NDArray[np.float64]:
    """Return (points, 3) value, lower and upper bound; NaN where undefined."""
    return np.array([(rate.value, rate.lower, rate.upper) for rate in rates], dtype=np.float64)


def _curve(
    ks: npt.NDArray[np.int64], values: npt.NDArray[np.float64], hollow: npt.NDArray[np.bool_], scale: _Scale, css: str
) -> Line:
    """Return a curve over k.

    Where cases with too few attempts are left out, the estimate is about other cases, so it gets a separate hollow mark.
    """
    is_defined = ~np.isnan(values[:, 0])
    complete, partial = np.flatnonzero(is_defined & ~hollow), np.flatnonzero(is_defined & hollow)
    marks = [Mark(x=scale.x(ks[index]), y=scale.y(values[index, 0])) for index in complete]
    marks += [Mark(x=scale.x(ks[index]), y=scale.y(values[index, 0]), css="hollow") for index in partial]
    xs = [scale.x(k) for k in ks]
    return Line(
        css=css,
        band=_band(xs, values, complete, scale),
        path=_path(xs, values, complete, scale),
        bars="".join(_bar(xs, values, index, scale) for index in partial.tolist()),
        marks=marks if len(marks) <= _MAX_MARKS else [],
    )


def _line_over_time(series: Series, rate: str, css: str, scale: _Scale) -> Line:
    values, ends = series.values[rate], series.ends_ns
    xs = [scale.x(end) for end in ends.tolist()]
    band, path, bars = "", "", ""
    marks: list[Mark] = []
    for segment in series.segments(rate):
        points = segment[thinned(values[segment], max(8, _MAX_POINTS * len(segment) // len(ends)))]
        if len(points) == 1:
            bars += _bar(xs, values, int(points[0]), scale)
        else:
            band += _band(xs, values, points, scale)
            path += _path(xs, values, points, scale)
        if len(points) == 1 or len(ends) <= _MAX_MARKS:
            marks += [Mark(x=xs[index], y=scale.y(values[index, 0])) for index in points]
    if css == "pow":
        marks += _rings(series, xs, scale)
    return Line(css=css, band=band, path=path, bars=bars, marks=marks)


def _rings(series: Series, xs: Sequence[float], scale: _Scale) -> list[Mark]:
    """Return marks of the points of pass^k that were changed after they had been final."""
    values = series.values["pass_pow_k"][:, 0]
    indices = np.flatnonzero(series.restated & ~np.isnan(values)).tolist()
    indices = indices[:: max(1, -(-len(indices) // _MAX_RINGS))]
    return [Mark(x=xs[index], y=scale.y(values[index]), css="ring") for index in indices]


def _coverage(series: Series, scale: _Scale, top: float) -> Iterator[Block]:
    """Yield the strip of coverage: runs of equal coverage (in percent), each as high as it is."""
    rounded = np.round(series.coverage, 2)
    for segment in series.segments():
        starts = np.flatnonzero(np.diff(rounded[segment])) + 1
        for run in np.split(segment, starts):
            x, width = _extent(series, run[0], min(run[-1] + 1, segment[-1]), scale)
            yield Block(css="whole", x=x, y=top, width=width, height=_COVERAGE_PX)
            covered = 0.0 if np.isnan(rounded[run[0]]) else float(rounded[run[0]]) * _COVERAGE_PX
            yield Block(
                css="covered", x=x, y=round(top + _COVERAGE_PX - covered, 2), width=width, height=round(covered, 2)
            )


def _tiers(series: Series, scale: _Scale, top: float) -> Iterator[Block]:
    for first, last, tier in series.tier_runs(every=-(-len(series.ends_ns) // _MAX_POINTS)):
        x, width = _extent(series, first, last, scale)
        style = TIERS[tier]
        sign = style.sign if width >= _SIGN_PX and style.is_claim else ""
        yield Block(css=f"run {style.css}", x=x, y=top, width=width, height=_TIER_PX, sign=sign)


def _extent(series: Series, first: int, last: int, scale: _Scale) -> tuple[float, float]:
    """Return the left end and the width of a run of windows; a single window is still visible."""
    left, right = scale.x(int(series.ends_ns[first])), scale.x(int(series.ends_ns[last]))
    if right - left < _RUN_PX:
        left = max(_LEFT, (left + right - _RUN_PX) / 2)
        right = left + _RUN_PX
    return round(left, 1), round(right - left, 1)


def _path(xs: Sequence[float], values: npt.NDArray[np.float64], points: Iterable[int], scale: _Scale) -> str:
    return _joined([(xs[index], scale.y(values[index, 0])) for index in points])


def _band(xs: Sequence[float], values: npt.NDArray[np.float64], points: Iterable[int], scale: _Scale) -> str:
    bounded = [index for index in points if not np.isnan(values[index]).any()]
    if len(bounded) <= 1:
        return ""
    upper = [(xs[index], scale.y(values[index, 2])) for index in bounded]
    lower = [(xs[index], scale.y(values[index, 1])) for index in reversed(bounded)]
    return _joined([*upper, *lower]) + "z"


def _bar(xs: Sequence[float], values: npt.NDArray[np.float64], index: int, scale: _Scale) -> str:
    _, lower, upper = values[index]
    if np.isnan(lower) or np.isnan(upper):
        return ""
    return _joined([(xs[index], scale.y(lower)), (xs[index], scale.y(upper))])


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""


def _time_ticks(scale: _Scale) -> list[Tick]:
    """Return ticks at round times in UTC; the first and those at midnight contain the date."""
    first_s, last_s = scale.first / _NS_PER_S, scale.last / _NS_PER_S
    most = max(2, (scale.width - _LEFT - _RIGHT) // _PX_PER_TICK)
    step = next((step for step in _STEPS_S if (last_s - first_s) / step <= most), _STEPS_S[-1])
    start = int(-(-first_s // step) * step)
    times = [*range(start, int(last_s) + 1, step)][: most + 1] or [int(first_s)]
    return [
        Tick(
            at=max(_LEFT, scale.x(time_s * _NS_PER_S)),
            text=_time_label(time_s, step, is_first=index == 0),
            anchor="start" if index == 0 else "end" if scale.x(time_s * _NS_PER_S) > scale.width - 40 else "middle",
        )
        for index, time_s in enumerate(times)
    ]


def _time_label(time_s: int, step_s: int, *, is_first: bool) -> str:
    moment = datetime.fromtimestamp(time_s, UTC)
    if step_s >= _MONTH_S:
        return f"{moment:%b %Y}"
    day = f"{moment.day} {moment:%b}"
    if step_s >= _DAY_S or time_s % _DAY_S == 0:
        return day
    return f"{day} {moment:%H:%M}" if is_first else f"{moment:%H:%M}"
