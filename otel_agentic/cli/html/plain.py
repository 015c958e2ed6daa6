"""Drawings without matplotlib: pass@k and pass^k as two lines with their intervals, as SVG of a few elements.

matplotlib draws more (hollow marks, tiers, restated points, a time axis); the tables of the page contain the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from otel_agentic.cli.render.report_notes import rates_by_k
from otel_agentic.cli.render.text import printable

if TYPE_CHECKING:
    from otel_agentic.results.charts import CurveRow, HistoryRow

#: Position on the horizontal axis from 0 to 1, then value, lower and upper bound; None if there is no estimate.
Point = tuple[float, float | None, float | None, float | None]

_WIDTH: Final = 370
_HEIGHT: Final = 230
_LEFT: Final = 34
_TOP: Final = 12
_INNER_WIDTH: Final = _WIDTH - _LEFT - 14
_INNER_HEIGHT: Final = _HEIGHT - _TOP - 34
#: Rate, colour of the page, and dashes, as in the legend.
_LINES: Final = (("pass_at_k", "at", "6 4"), ("pass_pow_k", "pow", ""))
_NS_PER_S: Final = 1_000_000_000


def curves_svg(row: CurveRow, name: str, title: str, description: str) -> str:
    """Return the curves of a group over k; see `inline_svg` for the texts."""
    estimates = row.estimates[row.default_estimator]
    ks = [int(k) for k in estimates.pass_at_k]
    span = max(ks[-1] - ks[0], 1)
    lines: list[Sequence[Point]] = []
    for rate, _, _ in _LINES:
        rates = rates_by_k(estimates, rate)
        lines.append([((k - ks[0]) / span, rates[str(k)].value, rates[str(k)].lower, rates[str(k)].upper) for k in ks])
    step = -(-len(ks) // 9)
    labels = [((k - ks[0]) / span, str(k)) for k in ks[::step]]
    return _svg(lines, labels, name, title, description)


def timeline_svg(row: HistoryRow, name: str, title: str, description: str) -> str:
    """Return the windows of a group over time; see `inline_svg` for the texts."""
    first, span = row.end_ns[0], max(row.end_ns[-1] - row.end_ns[0], 1)
    xs = [(end - first) / span for end in row.end_ns]
    lines: list[Sequence[Point]] = [
        list(zip(xs, getattr(row, rate), getattr(row, f"{rate}_lower"), getattr(row, f"{rate}_upper"), strict=True))
        for rate, _, _ in _LINES
    ]
    labels = [(xs[index], _day(row.end_ns[index])) for index in ((0, -1) if len(xs) > 1 else (0,))]
    return _svg(lines, labels, name, title, description)


def _day(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // _NS_PER_S, UTC).strftime("%Y-%m-%d")


def _svg(
    lines: Sequence[Sequence[Point]], labels: Sequence[tuple[float, str]], name: str, title: str, description: str
) -> str:
    content = [*_axes(labels)]
    for points, (_, role, dashes) in zip(lines, _LINES, strict=True):
        for run in _runs(points):
            content += _line(run, role, dashes)
    return (
        f'<svg class="plot" role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<title id="{name}-t">{escape(printable(title))}</title>'
        f'<desc id="{name}-d">{escape(printable(description))}</desc>{"".join(content)}</svg>'
    )


def _axes(labels: Sequence[tuple[float, str]]) -> Iterator[str]:
    for value, text in ((0.0, "0"), (0.25, ".25"), (0.5, ".5"), (0.75, ".75"), (1.0, "1")):
        x, y = _at(0.0, value)
        yield f'<path d="M{x} {y}h{_INNER_WIDTH}" style="stroke: var(--grid)"/>'
        yield f'<text x="{x - 6}" y="{y + 4}" style="fill: var(--muted); font-size: 11px; text-anchor: end">{text}</text>'
    for position, text in labels:
        x, y = _at(position, 0.0)
        anchor = "middle" if 0.0 < position < 1.0 else "start" if position == 0.0 else "end"
        yield f'<text x="{x}" y="{y + 18}" style="fill: var(--muted); font-size: 11px; text-anchor: {anchor}">{text}</text>'


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield the points between those without an estimate."""
    run: list[Point] = []
    for point in points:
        if point[1] is not None:
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _line(run: Sequence[Point], role: str, dashes: str) -> Iterator[str]:
    colour = f"var(--{role})"
    bounds = [(x, lower, upper) for x, _, lower, upper in run if lower is not None and upper is not None]
    if len(bounds) > 1:
        edge = [_at(x, upper) for x, _, upper in bounds] + [_at(x, lower) for x, lower, _ in reversed(bounds)]
        yield f'<path d="M{_path(edge)}z" style="fill: {colour}; fill-opacity: var(--band); stroke: none"/>'
    centre = [_at(x, value) for x, value, _, _ in run if value is not None]
    style = f"fill: none; stroke: {colour}; stroke-width: 2" + (f"; stroke-dasharray: {dashes}" if dashes else "")
    yield f'<path d="M{_path(centre)}" style="{style}"/>'
    yield from (f'<circle cx="{x}" cy="{y}" r="3" style="fill: {colour}"/>' for x, y in centre)


def _at(position: float, value: float) -> tuple[float, float]:
    """Return the coordinates of a point, in px."""
    return round(_LEFT + position * _INNER_WIDTH, 1), round(_TOP + (1.0 - value) * _INNER_HEIGHT, 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x} {y}" for x, y in points)
