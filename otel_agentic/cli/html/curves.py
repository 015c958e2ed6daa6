"""pass@k and pass^k of one group against k, with the bands of their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.cli.html.theme import BAND, MARKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: Final = (("pass_at_k", "at", (0, (4, 2)), "o"), ("pass_pow_k", "pow", "-", "s"))
#: Height by width: what is drawn wider is taller, too.
_HEIGHT: Final = 0.4
_LEAST_PX: Final = 190
_MARGINS: Final = {"left": 30, "right": 10, "top": 8, "bottom": 36}
#: A mark for each k up to this many.
_FEW: Final = 16


def curves(row: Mapping[str, Any], width_px: int) -> Figure:
    """Return the picture of a group's curves, to be drawn inside `theme.drawing`.

    Args:
        row: estimates of one estimator, a row of `report_pictures`.
        width_px: how wide it is in its own size.
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
    estimates = row["estimates"][row["default_estimator"]]
    ks = [int(k) for k in estimates["pass_at_k"]]
    _frame(axes, ks)
    hollow = np.array([row["cases_left_out"].get(str(k), 0) > 0 for k in ks])
    for name, role, style, marker in _LINES:
        found = [estimates[name][str(k)] for k in ks]
        numbers = np.array([[each[part] for part in ("value", "lower", "upper")] for each in found], dtype=np.float64)
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

    Where cases had too few attempts to take part, the estimate is of other cases: a hollow mark on its own.
    """
    there = ~np.isnan(numbers[:, 0])
    whole, part = there & ~hollow, there & hollow
    axes.fill_between(ks[whole], numbers[whole, 1], numbers[whole, 2], color=colour, alpha=BAND, linewidth=0)
    axes.plot(ks[whole], numbers[whole, 1:], color=colour, alpha=0.45, linewidth=0.7)
    axes.plot(ks[whole], numbers[whole, 0], color=colour, linestyle=style, marker=marker if len(ks) <= _FEW else "")
    axes.vlines(ks[part], numbers[part, 1], numbers[part, 2], color=colour, alpha=0.35, linewidth=2.5)
    hollow_mark: dict[str, Any] = {"markerfacecolor": MARKS["surface"], "markeredgecolor": colour, "markersize": 5}
    axes.plot(ks[part], numbers[part, 0], linestyle="", marker=marker, **hollow_mark)
