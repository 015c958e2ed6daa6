"""Reliability over time: pass@k and pass^k by window end with their bands, coverage and tier below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.cli.html.series import Series, thinned
from otel_agentic.cli.html.theme import BAND, MARKS, TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DAY_NS: Final = 86_400_000_000_000
#: Points that a line of one panel is drawn through at most, thinned from there on; and from how many on it is thin.
_MOST: Final = 500
_THIN: Final = 500
#: A point gets a mark of its own up to this many.
_FEW_POINTS: Final = 40
#: Rings of restated points at most.
_RINGS: Final = 80
#: How wide a stretch of the strip must be, in px, to show the shape of its tier.
_SHAPE_PX: Final = 13.0
_LINES: Final = (("pass_at_k", "at", (0, (4, 2)), "o"), ("pass_pow_k", "pow", "-", "s"))
#: Heights of the rows, px: the lines, coverage, tier. A panel of a whole line is taller.
_HEIGHTS: Final = (118, 24, 14)
_WIDE_HEIGHTS: Final = (190, 28, 16)
_WIDE_PX: Final = 600
_TIMELINE_MARGINS: Final = {"left": 30, "right": 10, "top": 8, "bottom": 22}
_GAP_PX: Final = 14
#: By frequency (of dateutil: month, hour, minute, second) a longer interval, where matplotlib's own leave a hole.
_LONGER: Final = {1: 12, 4: 24, 5: 60, 6: 60}
#: How ticks name a year, a month, a day, an hour, a minute, a second.
_DATES: Final = ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]


def timeline(series: Series, span_ns: tuple[int, int], width_px: int) -> Figure:
    """Return the picture of a series, to be drawn inside `theme.drawing`.

    Args:
        series: the windows of a group.
        span_ns: first and last time of the axis: the same for all panels, so that they compare.
        width_px: how wide it is in its own size.
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
    """Return the axes of the last of some rows, at places in px: the same in every panel, so that they compare."""
    bottom = tall - _TIMELINE_MARGINS["top"] - sum(heights) - (len(heights) - 1) * _GAP_PX
    width = width_px - _TIMELINE_MARGINS["left"] - _TIMELINE_MARGINS["right"]
    return figure.add_axes((_TIMELINE_MARGINS["left"] / width_px, bottom / tall, width / width_px, heights[-1] / tall))


def _timeline_frame(axes: list[Axes], span_ns: tuple[int, int]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 — only pictures pay for it

    main, coverage, tiers = axes
    first, last = (time_ns / _DAY_NS for time_ns in span_ns)
    margin = max(0.01 * (last - first), 1 / 24)
    for each in axes:
        each.set_xlim(first - margin, last + margin)
        each.tick_params(axis="x", labelbottom=False, length=0)
        each.spines["left"].set_visible(False)
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
    few = len(days) <= _FEW_POINTS
    thin = 1.1 if len(days) > _THIN else 1.9
    for piece in series.segments(name):
        kept = piece[thinned(values[piece], max(8, _MOST * len(piece) // len(days)))]
        at, (value, lower, upper) = days[kept], values[kept].T
        if len(kept) == 1:
            axes.vlines(at, lower, upper, color=colour, alpha=0.45, linewidth=3)
        else:
            axes.fill_between(at, lower, upper, color=colour, alpha=BAND, linewidth=0)
            axes.plot(at, lower, at, upper, color=colour, alpha=0.45, linewidth=0.7)
        alone = few or len(kept) == 1
        axes.plot(
            at, value, color=colour, linestyle=style, linewidth=thin, marker=marker if alone else "", markersize=4
        )


def _rings(axes: Axes, series: Series) -> None:
    """Mark the points that were restated, on the line of pass^k."""
    places = np.flatnonzero(series.restated & ~np.isnan(series.values["pass_pow_k"][:, 0]))
    places = places[:: max(1, -(-len(places) // _RINGS))]
    if len(places):
        axes.plot(
            _days(series)[places],
            series.values["pass_pow_k"][places, 0],
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
    for piece in series.segments():
        kept = piece[thinned(series.coverage[piece, None], max(8, _MOST * len(piece) // len(days)))]
        at = _spread(days[kept], series)
        covered = np.broadcast_to(series.coverage[kept], at.shape) if len(kept) == 1 else series.coverage[kept]
        axes.fill_between(at, 0, 1, color=MARKS["grid"], alpha=0.5, linewidth=0)
        axes.fill_between(at, 0, covered, color=MARKS["cover"], alpha=0.75, linewidth=0)


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
            shape: dict[str, Any] = {
                "marker": style.marker,
                "markersize": 5.5,
                "color": MARKS["surface"],
                "markeredgewidth": 0,
            }
            axes.plot(middles, [0.5] * len(middles), linestyle="", **shape)


def _spread(days: np.ndarray, series: Series) -> np.ndarray:
    """Return times as they are, a single one as the short stretch around it, so that it has a width to be seen."""
    if len(days) > 1:
        return days
    whole = _days(series)
    half = max((whole[-1] - whole[0]) / 200, 1 / 96)
    return np.array([days[0] - half, days[0] + half])


def _days(series: Series) -> np.ndarray:
    """Return the window ends as matplotlib counts time: days since the epoch."""
    return np.asarray(series.ends_ns / _DAY_NS)
