"""The drawings of a page: curves over k and reliability over time, as inline SVG by matplotlib.

Each role (ink, grid, a tier, ...) is drawn in a unique placeholder colour, its mark, which is replaced by a CSS
variable in the SVG, so that one drawing serves light mode, dark mode and print. The variables have the colours of Okabe
and Ito, which can be distinguished with every kind of colour vision.

Ref: M. Okabe, K. Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import numpy as np

from otel_agentic.cli.render.report_notes import rates_by_k
from otel_agentic.cli.render.text import printable

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from otel_agentic.results.charts import CurveRow, HistoryRow

    Floats = npt.NDArray[np.float64]

#: Role -> the mark that matplotlib draws it with; `style.css` gives each role its colours.
MARKS: Final[Mapping[str, str]] = {
    role: f"#0d0e{code:02x}"
    for code, role in enumerate(
        (
            "ink",
            "muted",
            "grid",
            "surface",
            "at",
            "pow",
            "cover",
            "ready",
            "needs-improvement",
            "inconsistent",
            "not-ready",
            "insufficient-evidence",
        ),
        start=0xA0,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStyle:
    """The presentation of a deployment tier: words, a colour, and a shape for readers who cannot see colours.

    `marker` is matplotlib's name of the shape, `sign` the character.
    """

    words: str
    role: str
    marker: str
    sign: str


TIERS: Final[Mapping[str, TierStyle]] = {
    "ready": TierStyle(words="ready", role="ready", marker="o", sign="●"),
    "needs_improvement": TierStyle(words="needs improvement", role="needs-improvement", marker="^", sign="▲"),
    "inconsistent": TierStyle(words="inconsistent", role="inconsistent", marker="D", sign="◆"),
    "not_ready": TierStyle(words="not ready", role="not-ready", marker="s", sign="■"),
    "insufficient_evidence": TierStyle(
        words="insufficient evidence", role="insufficient-evidence", marker="", sign="○"
    ),
    "no_row": TierStyle(words="no row in the table", role="insufficient-evidence", marker="d", sign="◇"),
}
#: The opacity of a band in the drawing; the page overrides it for light and dark mode.
BAND: Final = 0.161
#: Font size of a drawing at its natural size, px.
FONT_PX: Final = 11.5
_RC: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "otel-agentic",
    "figure.dpi": 72,  # so that a point is a pixel
    "font.size": FONT_PX,
    "axes.edgecolor": MARKS["grid"],
    "axes.labelcolor": MARKS["muted"],
    "axes.linewidth": 1.0,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": MARKS["grid"],
    "grid.linewidth": 0.8,
    "text.color": MARKS["ink"],
    "xtick.color": MARKS["grid"],
    "ytick.color": MARKS["grid"],
    "xtick.labelcolor": MARKS["muted"],
    "ytick.labelcolor": MARKS["muted"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.9,
    "lines.markersize": 5,
    "lines.solid_joinstyle": "round",
    "text.parse_math": False,
    "timezone": "UTC",
}


def can_draw() -> bool:
    """Return whether matplotlib is installed; without it, `plain.py` draws."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 — only pictures pay for it
    except ImportError:
        return False
    return mpl is not None


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the style of the page while the block runs, regardless of the user's matplotlib style; nothing without matplotlib."""
    if not can_draw():
        yield
        return
    import matplotlib as mpl  # noqa: PLC0415 — only pictures pay for it

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


_NAMESPACE: Final = re.compile(r"\{[^}]*\}")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_LONG: Final = re.compile(r"(\d+\.\d)\d{2,}")
_REFERENCE: Final = re.compile(r"#([mp][0-9a-f]{10})")
_NO_ROTATION: Final = re.compile(r"rotate\(-?0(\.0)? .*")
_COLOURS: Final = re.compile("|".join(MARKS.values()))
_ROLES: Final = {mark: f"var(--{role})" for role, mark in MARKS.items()}
_BAND: Final = f"fill-opacity: {BAND:g}"
_SPACES: Final = re.compile(r"\s+")


def inline_svg(figure: Figure, *, name: str, title: str, description: str, extra: str = "") -> str:
    """Return a figure as an `svg` element for a page.

    Args:
        figure: drawn in the marks of `MARKS`, without any untrusted text.
        name: unique in the page; ids in the drawing begin with it.
        title: its subject in a few words, for screen readers.
        description: its content in a sentence.
        extra: a CSS class of the element in addition to `plot`.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415 — only pictures pay for it

    text = StringIO()
    FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
        text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    root = ET.fromstring(text.getvalue())  # noqa: S314 — our own drawing, made a line ago
    _clean(root, name)
    view = root.get("viewBox", "")
    content = "".join(ET.tostring(child, encoding="unicode") for child in root)
    texts = f'<title id="{name}-t">{escape(printable(title))}</title><desc id="{name}-d">{escape(printable(description))}</desc>'
    classes = f"plot {extra}".strip()
    return f'<svg class="{classes}" role="img" aria-labelledby="{name}-t {name}-d" viewBox="{view}">{texts}{_coloured(content)}</svg>'


def _clean(root: ET.Element, name: str) -> None:
    """Remove elements that a page does not need, and make the ids unique within the page."""
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child) in {"metadata", "style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            attribute = _attribute(element.tag, _NAMESPACE.sub("", key), value, name)
            if attribute is not None:
                element.set(_NAMESPACE.sub("", key), attribute)
    for element in root.iter():
        element.tail = None
        if element.tag != "text":
            element.text = None


def _attribute(element: str, key: str, value: str, name: str) -> str | None:
    """Return the value that an attribute has in a page, or None if the page does not need it."""
    if key == "id":
        # Groups are named, too, but nothing refers to them.
        return f"{name}-{value}" if _REFERENCE.fullmatch(f"#{value}") else None
    if key == "transform" and _NO_ROTATION.fullmatch(value):
        return None
    if key == "style":
        return _FONT.sub("", value).strip("; ") or None
    if key in {"href", "clip-path"}:
        return _REFERENCE.sub(rf"#{name}-\1", value)
    if key == "d":
        return _SPACES.sub(" ", _LONG.sub(r"\1", value)).strip()
    return _LONG.sub(r"\1", value) if element != "svg" else value


def _coloured(text: str) -> str:
    return _COLOURS.sub(lambda match: _ROLES[match.group()], text.replace(_BAND, "fill-opacity: var(--band)"))


def _local(element: ET.Element) -> str:
    return _NAMESPACE.sub("", str(element.tag))


#: Names of the estimates of a point, each with its bounds.
ESTIMATES: Final = ("pass_at_k", "pass_pow_k")
#: A line breaks where the next window end is further away than this many steps: no window in between contains data.
_STEPS: Final = 1.5
#: The number of steps on either side whose median is the usual step, which differs where history was backfilled.
_NEAR: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Points of one group, by window end, each array of the same length.

    Attributes:
        ends_ns: window ends, ascending, nanoseconds UTC.
        values: by name, (points, 3) value, lower, upper; NaN where it is undefined.
        coverage: evaluated / all.
        tiers: the tier of each point.
        restated: whether each point was changed after it had been final.
        width_ns: width of a window; None for windows of the last n conversations.
    """

    ends_ns: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    coverage: Floats
    tiers: Sequence[str]
    restated: npt.NDArray[np.bool_]
    width_ns: int | None = field(default=None)

    @classmethod
    def of(cls, row: HistoryRow, width_ns: int | None) -> Series:
        """Return the series for a row of `report_pictures` with windows of this width."""
        bounds = {name: (name, f"{name}_lower", f"{name}_upper") for name in ESTIMATES}
        return cls(
            ends_ns=np.array(row.end_ns, dtype=np.int64),
            values={
                name: np.stack([_floats(getattr(row, column)) for column in names], axis=1)
                for name, names in bounds.items()
            },
            coverage=_floats(row.coverage),
            tiers=[tier or "" for tier in row.tier],
            restated=np.array(row.restated, dtype=np.bool_),
            width_ns=width_ns,
        )

    def segments(self, name: str | None = None) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the indices of the points of each segment of the line, which breaks where there is no data.

        Args:
            name: an estimate; the line also breaks where it is undefined.
        """
        is_defined = np.ones(len(self.ends_ns), bool) if name is None else ~np.isnan(self.values[name][:, 0])
        starts = np.flatnonzero(breaks(self.ends_ns, self.width_ns) | ~is_defined)
        for indices in np.split(np.arange(len(self.ends_ns)), starts):
            segment = indices[is_defined[indices]]
            if len(segment):
                yield segment

    def tier_runs(self, every: int = 1) -> Iterator[tuple[int, int, str]]:
        """Yield first index, last index and tier of each run of one tier without a gap, at every `every`-th point."""
        for segment in self.segments():
            first = segment[0]
            for index in segment[1::every]:
                if self.tiers[index] != self.tiers[first]:
                    yield int(first), int(index), self.tiers[first]
                    first = index
            yield int(first), int(segment[-1]), self.tiers[first]


def breaks(ends_ns: npt.NDArray[np.int64], width_ns: int | None) -> npt.NDArray[np.bool_]:
    """Return which points begin a new segment of the line: no window with data covers the time before them.

    A segment begins where the step to a point is longer than a window, or than the neighbouring steps.

    >>> hours = np.array([1, 2, 3, 8, 9, 10]) * 3_600_000_000_000
    >>> breaks(hours, 24 * 3_600_000_000_000).tolist()
    [False, False, False, True, False, False]
    """
    if len(ends_ns) <= 1:
        return np.zeros(len(ends_ns), bool)
    steps = np.diff(ends_ns)
    padded_steps = (
        np.pad(steps, _NEAR, mode="reflect")
        if len(steps) > _NEAR
        else np.full(len(steps) + 2 * _NEAR, np.median(steps))
    )
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded_steps, 2 * _NEAR + 1), axis=1)
    is_break = steps > _STEPS * usual
    if width_ns is not None:
        is_break |= steps > width_ns
    return np.concatenate([[False], is_break])


def thinned(columns: Floats, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of at most about `most` points that draw the same picture: ends and extremes of intervals.

    Args:
        columns: (points, columns) the drawn values; the extremes of each column are kept.
        most: the approximate maximum number of points.

    >>> thinned(np.array([[0.0], [0.0], [9.0], [0.0], [0.0], [0.0], [0.0], [0.0]]), 4).tolist()
    [0, 2, 7]
    """
    count, width = columns.shape
    if count <= most:
        return np.arange(count)
    stretches = np.array_split(np.arange(count), max(1, most // (2 + 2 * width)))
    lowest, highest = (np.where(np.isnan(columns), worst, columns) for worst in (np.inf, -np.inf))
    extremes = [
        index
        for stretch in stretches
        for index in (
            stretch[0],
            stretch[-1],
            *stretch[lowest[stretch].argmin(axis=0)],
            *stretch[highest[stretch].argmax(axis=0)],
        )
    ]
    return np.unique(extremes)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


_LINES: Final = (("pass_at_k", "at", (0, (4, 2)), "o"), ("pass_pow_k", "pow", "-", "s"))
#: Height by width: a wider drawing is also taller.
_HEIGHT: Final = 0.4
_LEAST_PX: Final = 190
_MARGINS: Final = {"left": 30, "right": 10, "top": 8, "bottom": 36}
#: The largest number of values of k of which each gets a mark.
_FEW: Final = 16


def curves(row: CurveRow, width_px: int) -> Figure:
    """Return the figure of a group's curves; call it inside `drawing`.

    Args:
        row: estimates of one estimator, a row of `report_pictures`.
        width_px: the natural width of the figure.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 — only pictures pay for it

    height_px = max(_LEAST_PX, _HEIGHT * width_px)
    figure = Figure(figsize=(width_px / 72, height_px / 72))
    sides = (_MARGINS["left"] / width_px, _MARGINS["bottom"] / height_px)
    size = (
        1 - (_MARGINS["left"] + _MARGINS["right"]) / width_px,
        1 - (_MARGINS["top"] + _MARGINS["bottom"]) / height_px,
    )
    axes = figure.add_axes((*sides, *size))
    estimates = row.estimates[row.default_estimator]
    ks = [int(k) for k in estimates.pass_at_k]
    _frame(axes, ks)
    hollow = np.array([row.cases_left_out.get(str(k), 0) > 0 for k in ks])
    for name, role, style, marker in _LINES:
        rates = [rates_by_k(estimates, name)[str(k)] for k in ks]
        numbers = np.array([[rate.value, rate.lower, rate.upper] for rate in rates], dtype=np.float64)
        _curve(axes, np.array(ks), numbers, hollow, colour=MARKS[role], style=style, marker=marker)
    return figure


def _frame(axes: Axes, ks: list[int]) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 — only pictures pay for it

    axes.set_xlim(ks[0] - 0.25, ks[-1] + 0.25)
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    axes.set_xlabel("k")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)


def _curve(
    axes: Axes, ks: np.ndarray, numbers: np.ndarray, hollow: np.ndarray, *, colour: str, style: object, marker: str
) -> None:
    """Draw a curve with its band.

    Where cases with too few attempts are excluded, the estimate is about other cases, so it gets a separate hollow
    mark.
    """
    is_defined = ~np.isnan(numbers[:, 0])
    complete, partial = is_defined & ~hollow, is_defined & hollow
    axes.fill_between(ks[complete], numbers[complete, 1], numbers[complete, 2], color=colour, alpha=BAND, linewidth=0)
    axes.plot(ks[complete], numbers[complete, 1:], color=colour, alpha=0.45, linewidth=0.7)
    axes.plot(
        ks[complete], numbers[complete, 0], color=colour, linestyle=style, marker=marker if len(ks) <= _FEW else ""
    )
    axes.vlines(ks[partial], numbers[partial, 1], numbers[partial, 2], color=colour, alpha=0.35, linewidth=2.5)
    axes.plot(
        ks[partial],
        numbers[partial, 0],
        linestyle="",
        marker=marker,
        markerfacecolor=MARKS["surface"],
        markeredgecolor=colour,
        markersize=5,
    )


_DAY_NS: Final = 86_400_000_000_000
#: The largest number of points of a line in a panel, beyond which it is thinned; and the number from which it is drawn
#: thin.
_MOST: Final = 500
_THIN: Final = 500
#: The largest number of points of which each gets a mark.
_FEW_POINTS: Final = 40
#: The largest number of rings around restated points.
_RINGS: Final = 80
#: The minimum width of a run in the strip that shows the shape of its tier, px.
_SHAPE_PX: Final = 13.0
#: Heights of the rows, px: the lines, coverage, tier. A wide panel is taller.
_HEIGHTS: Final = (118, 24, 14)
_WIDE_HEIGHTS: Final = (190, 28, 16)
_WIDE_PX: Final = 600
_TIMELINE_MARGINS: Final = {"left": 30, "right": 10, "top": 8, "bottom": 22}
_GAP_PX: Final = 14
#: Longer intervals by frequency (dateutil's month, hour, minute, second), which are missing in matplotlib's own.
_LONGER: Final = {1: 12, 4: 24, 5: 60, 6: 60}
#: The formats of ticks for a year, a month, a day, an hour, a minute and a second.
_DATES: Final = ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]


def timeline(series: Series, span_ns: tuple[int, int], width_px: int) -> Figure:
    """Return the figure of a series; call it inside `drawing`.

    Args:
        series: the windows of a group.
        span_ns: first and last time of the axis, the same for all panels, so that they are comparable.
        width_px: the natural width of the figure.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 — only pictures pay for it

    heights = _WIDE_HEIGHTS if width_px > _WIDE_PX else _HEIGHTS
    tall = sum(heights) + 2 * _GAP_PX + _TIMELINE_MARGINS["top"] + _TIMELINE_MARGINS["bottom"]
    figure = Figure(figsize=(width_px / 72, tall / 72))
    axes = [_axes(figure, heights[: row + 1], width_px, tall) for row in range(len(heights))]
    _timeline_frame(axes, span_ns)
    for name, role, style, marker in _LINES:
        _line(axes[0], series, name, MARKS[role], style, marker)
    _rings(axes[0], series)
    _coverage(axes[1], series)
    _tiers(axes[2], series, width_px)
    return figure


def _axes(figure: Figure, heights: Sequence[int], width_px: int, tall: int) -> Axes:
    """Return the axes of the last of the given rows, at the same positions in px in every panel."""
    bottom = tall - _TIMELINE_MARGINS["top"] - sum(heights) - (len(heights) - 1) * _GAP_PX
    width = width_px - _TIMELINE_MARGINS["left"] - _TIMELINE_MARGINS["right"]
    return figure.add_axes((_TIMELINE_MARGINS["left"] / width_px, bottom / tall, width / width_px, heights[-1] / tall))


def _timeline_frame(axes: list[Axes], span_ns: tuple[int, int]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 — only pictures pay for it

    main, coverage, tiers = axes
    first, last = (time_ns / _DAY_NS for time_ns in span_ns)
    margin = max(0.01 * (last - first), 1 / 24)
    for row in axes:
        row.set_xlim(first - margin, last + margin)
        row.tick_params(axis="x", labelbottom=False, length=0)
        row.spines["left"].set_visible(False)
    main.set_ylim(-0.02, 1.02)
    main.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    main.grid(axis="y")
    main.spines["bottom"].set_visible(False)
    coverage.set_ylim(0, 1)
    coverage.set_yticks([0, 1], ["0", "1"])
    coverage.spines["bottom"].set_visible(False)
    tiers.set_ylim(0, 1)
    tiers.set_yticks([])
    tiers.spines["bottom"].set_visible(False)
    for strip, name in ((coverage, "coverage"), (tiers, "tier")):
        strip.annotate(name, (0, 1), (0, 2), "axes fraction", "offset points", color=MARKS["muted"], size="small")
    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    for frequency, interval in _LONGER.items():
        locator.intervald[frequency] = [*locator.intervald[frequency], interval]
    formats = {"formats": _DATES, "zero_formats": ["", *_DATES[:-1]], "offset_formats": [""] * len(_DATES)}
    tiers.xaxis.set_major_locator(locator)
    tiers.xaxis.set_major_formatter(ConciseDateFormatter(locator, **formats))  # type: ignore[no-untyped-call]
    tiers.tick_params(axis="x", labelbottom=True, length=3)


def _line(axes: Axes, series: Series, name: str, colour: str, style: object, marker: str) -> None:
    days, values = _days(series), series.values[name]
    has_few_points = len(days) <= _FEW_POINTS
    thin = 1.1 if len(days) > _THIN else 1.9
    for segment in series.segments(name):
        points = segment[thinned(values[segment], max(8, _MOST * len(segment) // len(days)))]
        times, (value, lower, upper) = days[points], values[points].T
        if len(points) == 1:
            axes.vlines(times, lower, upper, color=colour, alpha=0.45, linewidth=3)
        else:
            axes.fill_between(times, lower, upper, color=colour, alpha=BAND, linewidth=0)
            axes.plot(times, lower, times, upper, color=colour, alpha=0.45, linewidth=0.7)
        needs_mark = has_few_points or len(points) == 1
        axes.plot(
            times,
            value,
            color=colour,
            linestyle=style,
            linewidth=thin,
            marker=marker if needs_mark else "",
            markersize=4,
        )


def _rings(axes: Axes, series: Series) -> None:
    """Mark the restated points on the line of pass^k."""
    indices = np.flatnonzero(series.restated & ~np.isnan(series.values["pass_pow_k"][:, 0]))
    indices = indices[:: max(1, -(-len(indices) // _RINGS))]
    if len(indices):
        axes.plot(
            _days(series)[indices],
            series.values["pass_pow_k"][indices, 0],
            linestyle="",
            marker="o",
            markersize=6.5,
            markerfacecolor=MARKS["surface"],
            markeredgecolor=MARKS["ink"],
            markeredgewidth=1.2,
            zorder=5,
        )


def _coverage(axes: Axes, series: Series) -> None:
    days = _days(series)
    for segment in series.segments():
        points = segment[thinned(series.coverage[segment, None], max(8, _MOST * len(segment) // len(days)))]
        times = _spread(days[points], series)
        coverage = (
            np.broadcast_to(series.coverage[points], times.shape) if len(points) == 1 else series.coverage[points]
        )
        axes.fill_between(times, 0, 1, color=MARKS["grid"], alpha=0.5, linewidth=0)
        axes.fill_between(times, 0, coverage, color=MARKS["cover"], alpha=0.75, linewidth=0)


def _tiers(axes: Axes, series: Series, width_px: int) -> None:
    days = _days(series)
    low, high = axes.get_xlim()
    shape_days = _SHAPE_PX * (high - low) / (width_px - _TIMELINE_MARGINS["left"] - _TIMELINE_MARGINS["right"])
    bars: dict[str, list[tuple[float, float]]] = {}
    for first, last, tier in series.tier_runs(every=-(-len(days) // _MOST)):
        start, end = _spread(days[[first, last]] if first != last else days[[first]], series)[[0, -1]]
        bars.setdefault(tier, []).append((start, end - start))
    for tier, spans in bars.items():
        style = TIERS[tier]
        axes.broken_barh(spans, (0, 1), color=MARKS[style.role], alpha=0.9 if style.marker else 0.35, linewidth=0)
        middles = [start + length / 2 for start, length in spans if length >= shape_days]
        if style.marker and middles:
            axes.plot(
                middles,
                [0.5] * len(middles),
                linestyle="",
                marker=style.marker,
                markersize=5.5,
                color=MARKS["surface"],
                markeredgewidth=0,
            )


def _spread(days: np.ndarray, series: Series) -> np.ndarray:
    """Return the times unchanged, except that a single time becomes the short interval around it, which is visible."""
    if len(days) > 1:
        return days
    ends = _days(series)
    half = max((ends[-1] - ends[0]) / 200, 1 / 96)
    return np.array([days[0] - half, days[0] + half])


def _days(series: Series) -> np.ndarray:
    """Return the window ends in matplotlib's unit, days since the epoch."""
    return np.asarray(series.ends_ns / _DAY_NS)
