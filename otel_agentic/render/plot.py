"""The curves of a report in the terminal: pass@k and pass^k over k, with intervals as bars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.render.report_notes import estimator_kind, name_of, rates_by_k, shown_estimates
from otel_agentic.render.terminal import console, say
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.results.charts import Curves
    from otel_agentic.results.reports import Estimates, Rate


NOTHING_TO_DRAW: Final = "no group has an evaluated conversation, so there is no curve to draw"
_MOST_WIDE: Final = 100
_PIPE_WIDE: Final = 80
_LEAST_WIDE: Final = 30
_HEIGHT: Final = 17
#: The columns occupied by the axis and its numbers.
_AXIS: Final = 5
#: The largest number of labels on the axis of k.
_TICKS: Final = 12
_LEVELS: Final = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One curve: its rate, mark, column offset and colour (of 256), which distinguish curves that coincide."""

    kind: str
    name: str
    mark: str
    plain: str
    column: int
    colour: int


_LINES: Final = (
    _Line(kind="pass_at_k", name="pass@k", mark="●", plain="o", column=0, colour=32),
    _Line(kind="pass_pow_k", name="pass^k", mark="■", plain="#", column=1, colour=166),
)
_BAR: Final = ("│", "|")
#: The ASCII replacements of line-drawing characters.
_PLAIN: Final = str.maketrans("┌┐└┘├┤┬┴┼│─", "+++++++++|-")


def plot(data: Curves) -> None:
    """Print the curves of groups, one below the other.

    A plot is as wide as the terminal, up to 100 columns. It has no colours in a pipe or if NO_COLOR is set, and is
    ASCII if the encoding of the output has no line-drawing characters.

    Args:
        data: the `curves` of `report_pictures`.
    """
    out = console()
    rows = data.rows
    click.echo()
    if not rows:
        say(out, NOTHING_TO_DRAW)
        return
    ascii_only = not _shows("●■│┤", out.encoding)
    coloured = out.is_terminal and not out.no_color and os.environ.get("TERM") != "dumb"
    width = max(_LEAST_WIDE, min(out.width, _MOST_WIDE) if out.is_terminal else _PIPE_WIDE)
    for index, row in enumerate(rows):
        if index:
            click.echo()
        estimates = shown_estimates(row)
        marks = ", ".join(f"{line.plain if ascii_only else line.mark} {line.name}" for line in _LINES)
        say(
            out,
            f"{name_of(row, rows)}, {estimator_kind(row.default_estimator)}: {marks}; bars are "
            f"{estimates.level:.0%} intervals",
        )
        click.echo(drawn(estimates, width, ascii_only=ascii_only, coloured=coloured), color=True)
    if data.left_out:
        say(out, f"{plural(data.left_out, 'more group')} in the table; --agent selects groups")


def drawn(estimates: Estimates, width: int, *, ascii_only: bool, coloured: bool) -> str:
    """Return the plot of pass@k and pass^k over k.

    Args:
        estimates: the estimates of one estimator, for each k.
        width: the width in columns.
        ascii_only: whether to use only ASCII characters.
        coloured: whether to include the escape sequences of colours.
    """
    from plotext import figure, terminal  # type: ignore[import-untyped]  # noqa: PLC0415 — only a plot pays for it

    ks = [int(k) for k in estimates.pass_at_k]
    figure.clear()
    try:
        terminal.limit(False, False)  # the width is set here, and a terminal with few lines scrolls
        figure.theme("colorless")
        figure.plot_size(width, _HEIGHT)
        figure.ruler("x").lim(ks[0] - 0.5, ks[-1] + 0.5)
        figure.ruler("y").lim(0, 1)
        step = -(-len(ks) // _TICKS)
        figure.ruler("x").ticks(ks[::step], [str(k) for k in ks[::step]])
        figure.ruler("y").ticks(list(_LEVELS), [f"{level:g}".removeprefix("0") or "0" for level in _LEVELS])
        figure.label("k", "x")
        column = (ks[-1] - ks[0] + 1) / (width - _AXIS - 1)
        for line in _LINES:
            _draw(figure, line, rates_by_k(estimates, line.kind), column, ascii_only=ascii_only)
        text = figure.build().string(colorless=not coloured)
    finally:
        terminal.limit()
        figure.clear()
    lines = [rate.rstrip() for rate in text.strip("\n").split("\n")]
    return "\n".join(lines).translate(_PLAIN) if ascii_only else "\n".join(lines)


def _draw(figure: Any, line: _Line, rates: Mapping[str, Rate], column: float, *, ascii_only: bool) -> None:
    """Draw one curve: a bar and a mark for each k at which it is defined."""
    from plotext import marker  # noqa: PLC0415 — only a plot pays for it

    points = {int(k) + line.column * column: rate for k, rate in rates.items() if rate.value is not None}
    bar = marker(_BAR[ascii_only], line.colour)
    for x, rate in points.items():
        if rate.lower is not None and rate.upper is not None:
            figure.draw(figure.segment((x, x), (rate.lower, rate.upper), marker=bar))
    if points:
        mark = marker(line.plain if ascii_only else line.mark, line.colour)
        figure.draw(figure.signal(list(points), [rate.value for rate in points.values()], marker=mark))


def _shows(signs: str, encoding: str) -> bool:
    try:
        signs.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
