"""The drawn parts of a report, a panel a group: curves over k, reliability over time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.html.curves import curves
from otel_agentic.cli.html.markup import Html, markup, tag
from otel_agentic.cli.html.names import group_name, table, telling, tier_chip, time_of
from otel_agentic.cli.html.series import Series
from otel_agentic.cli.html.svg import inline_svg
from otel_agentic.cli.html.theme import TIERS
from otel_agentic.cli.html.timeline import timeline
from otel_agentic.cli.report_notes import estimator_kind, shown_estimates
from otel_agentic.cli.text import interval, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from otel_agentic.cli.html.markup import Child
    from otel_agentic.cli.html.names import Group

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


def curve_panels(rows: Sequence[Group], differing: Sequence[str]) -> Html:
    """Return a panel with pass@k and pass^k for each group, named by the keys that tell groups apart."""
    few = len(rows) <= _FEW
    panels = []
    for place, row in enumerate(rows):
        estimates = shown_estimates(row)
        last = list(estimates["pass_at_k"])[-1]
        told = f"k from 1 to {last}: pass@{last} {interval(estimates['pass_at_k'][last])}, pass^{last} {interval(estimates['pass_pow_k'][last])}"
        words = ("pass@k and pass^k over k", told)
        drawn = _drawn(partial(curves, row), f"k{place}", words, _HALF_PX if few else None)
        counts = tag("span", f"{row['c']:,} of {row['n']:,} correct", class_="sub")
        estimator = tag("span", estimator_kind(row["default_estimator"]), class_="sub")
        panels.append(_panel(group_name(row, differing), markup((tier_chip(row), counts, estimator)), drawn))
    return tag("div", *panels, class_="panels half" if few else "panels")


def history_panels(history: Mapping[str, Any], rows: Sequence[Group]) -> Html:
    """Return a panel with reliability over time for each group."""
    few = len(rows) <= _FEW
    differing = telling(rows, *_SUBJECT)
    span_ns = (min(row["end_ns"][0] for row in rows), max(row["end_ns"][-1] for row in rows))
    title = f"pass@{history['k']} and pass^{history['k']} over time"
    panels = []
    for place, row in enumerate(rows):
        draw = partial(timeline, Series.of(row, history["width_ns"]), span_ns)
        drawn = _drawn(draw, f"t{place}", (title, _told(row, history)), _WHOLE_PX if few else None)
        panels.append(_panel(group_name(row, differing), _latest(row, history), drawn))
    return tag("div", *panels, class_="panels whole" if few else "panels")


def tier_table(rows: Sequence[Group], width_ns: int | None) -> Html:
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
                    time_of(row["end_ns"][first]),
                    time_of(row["end_ns"][last]),
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


def _latest(row: Group, history: Mapping[str, Any]) -> Html:
    """Return what the newest window says."""
    group = {"tier": row["tier"][-1], "leaning": row["leaning"][-1]}
    k = history["k"]
    told = f"newest: pass@{k} {_newest(row, 'pass_at_k')}, pass^{k} {_newest(row, 'pass_pow_k')}, n {row['n'][-1]:,}"
    return markup((tier_chip(group), tag("span", told, class_="sub")))


def _newest(row: Group, name: str) -> str:
    return interval({"value": row[name][-1], "lower": row[f"{name}_lower"][-1], "upper": row[f"{name}_upper"][-1]})


def _told(row: Group, history: Mapping[str, Any]) -> str:
    ends, power = row["end_ns"], [value for value in row["pass_pow_k"] if value is not None]
    spread = f"; pass^{history['k']} between {min(power):.3f} and {max(power):.3f}" if power else ""
    restated = sum(row["restated"])
    told = f"; {plural(restated, 'point')} restated" if restated else ""
    return f"{plural(len(ends), 'window')} of {history['window']} that ended from {time_of(ends[0])} to {time_of(ends[-1])} UTC{spread}{told}"
