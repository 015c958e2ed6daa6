"""The charts: in the colours of the page, with nothing where there is no data, and legible in any number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from otel_agentic.render.html.charts import NARROW_PX, Chart, curve_charts, timeline_charts
from otel_agentic.render.html.filters import TIERS
from otel_agentic.render.html.page import render
from otel_agentic.results.charts import CurveRow, History, HistoryRow
from tests.cli.partial import partial
from tests.cli.pictured import HOUR_NS, history, window
from tests.cli.small import NOON_NS, SECOND_NS

_DAY_NS: Final = 24 * HOUR_NS
_STRIP_PX: Final = 22
_LINES_PX: Final = 170
_MINUTE_NS: Final = 60 * SECOND_NS
_NUMBERS: Final = re.compile(r"-?\d+\.?\d*")


def _over_time(rows: Sequence[dict[str, Any]]) -> Chart:
    row = partial(HistoryRow, history(rows))
    kind = partial(History, {"window": "24h", "width_ns": _DAY_NS, "k": 3})
    (chart,) = timeline_charts(row, kind, "t", (row.end_ns[0], row.end_ns[-1]), is_wide=False)
    return chart


def _curves(**left_out: int) -> Chart:
    estimates = {str(k): {"value": 0.9**k, "lower": 0.9**k - 0.1, "upper": min(1.0, 0.9**k + 0.1)} for k in range(1, 9)}
    row = {
        "default_estimator": "per_case",
        "estimates": {
            "per_case": {"interval_method": "wilson", "level": 0.95, "pass_at_k": estimates, "pass_pow_k": estimates}
        },
        "cases_left_out": {key[1:]: count for key, count in left_out.items()},
    }
    (chart,) = curve_charts(partial(CurveRow, row), "k", is_wide=False)
    return chart


def _segments(path: str) -> list[list[tuple[float, float]]]:
    """Return the points of each segment of a path."""
    numbers = [[float(number) for number in _NUMBERS.findall(part)] for part in path.split("M")[1:]]
    return [list(zip(values[::2], values[1::2], strict=True)) for values in numbers]


def test_every_role_has_a_colour_by_day_and_by_night() -> None:
    css = files("otel_agentic.render.html").joinpath("templates/style.css").read_text(encoding="ascii")

    for role in ("ink", "muted", "grid", "surface", "at", "pow", "cover", *(style.css for style in TIERS.values())):
        assert re.search(rf"--{role}: light-dark\(#[0-9a-f]{{6}}, #[0-9a-f]{{6}}\);", css)


def test_a_chart_has_no_colours_of_its_own() -> None:
    svg = render("charts", "chart", _over_time([window(hour, 0.5) for hour in range(5)]))

    assert [] == re.findall(r"#[0-9a-f]{3,6}\b|style=|fill=|stroke=", svg)


def test_tiers_differ_by_sign_and_not_by_colour_alone() -> None:
    named = [style for name, style in TIERS.items() if name]

    assert len(named) == len({style.sign for style in named})


def test_a_gap_is_left_empty_and_never_drawn_as_zero() -> None:
    chart = _over_time([window(hour, 0.5) for hour in (*range(50), *range(70, 120))])
    first, second = _segments(chart.lines[1].path)

    assert first[-1][0] < second[0][0]
    assert 1 == len({y for _, y in (*first, *second)})


def test_a_lone_point_has_a_mark_and_its_interval() -> None:
    chart = _over_time([window(hour, 0.5) for hour in (*range(45), 200)])

    assert 1 == len(chart.lines[1].marks)
    assert 1 == len(_segments(chart.lines[1].bars))


def test_what_was_restated_has_a_ring() -> None:
    chart = _over_time([window(hour, 0.5, revision=2 if hour in {3, 7} else 1) for hour in range(60)])

    assert ["ring", "ring"] == [mark.css for mark in chart.lines[1].marks]


def test_coverage_is_drawn_as_high_as_it_is() -> None:
    chart = _over_time([window(hour, 0.5, coverage=0.25) for hour in range(60)])
    full, covered = (block for block in chart.blocks if not block.css.startswith("run"))

    assert _STRIP_PX == full.height
    assert covered.height == pytest.approx(0.25 * _STRIP_PX, abs=0.01)
    assert full.y + full.height == pytest.approx(covered.y + covered.height)


def test_each_tier_has_a_stretch_of_its_strip_and_a_claim_its_sign() -> None:
    tiers = ["ready"] * 30 + ["not_ready"] * 30 + ["insufficient_evidence"] * 30
    chart = _over_time([window(hour, 0.5, tier=tier) for hour, tier in enumerate(tiers)])
    runs = [(block.css, block.sign) for block in chart.blocks if block.css.startswith("run")]

    assert [("run ready", "●"), ("run not-ready", "■"), ("run insufficient-evidence", "")] == runs


def test_thousands_of_points_are_thinned_and_keep_their_extremes() -> None:
    values = [0.5] * 5000
    values[1234], values[4321] = 0.05, 0.95
    chart = _over_time([window(hour, value) for hour, value in enumerate(values)])
    ys = [y for segment in _segments(chart.lines[1].path) for _, y in segment]

    assert len(render("charts", "chart", chart)) < 120_000
    assert 0.9 * _LINES_PX == pytest.approx(max(ys) - min(ys), abs=0.2)


def test_hollow_marks_are_separate_where_cases_had_too_few_attempts() -> None:
    at = _curves(k6=1, k7=2, k8=2).lines[0]

    assert [""] * 5 + ["hollow"] * 3 == [mark.css for mark in at.marks]
    assert (5, 3) == (len(_segments(at.path)[0]), len(_segments(at.bars)))


@pytest.mark.parametrize("minutes", [1, 4, 160, 179, 61 * 60, 71 * 60, 8 * 1440, 92 * 1440, 1000 * 1440, 3650 * 1440])
def test_any_stretch_of_time_has_a_few_ticks_within_the_chart(minutes: int) -> None:
    chart = _over_time([window(0, 0.5), window(0, 0.5, end=NOON_NS + minutes * _MINUTE_NS)])

    assert 1 <= len(chart.ticks) <= 9
    assert all(chart.left <= tick.at <= chart.right for tick in chart.ticks)
    assert len({tick.text for tick in chart.ticks}) == len(chart.ticks)


def test_all_marks_are_within_the_chart() -> None:
    for chart in (_curves(), _over_time([window(hour, hour / 20) for hour in range(20)])):
        for mark in (mark for line in chart.lines for mark in line.marks):
            assert chart.left <= mark.x <= chart.right
            assert 0 <= mark.y <= chart.height


def test_few_groups_get_a_narrow_and_a_wide_chart() -> None:
    row = partial(HistoryRow, history([window(hour, 0.5) for hour in range(5)]))
    kind = partial(History, {"window": "24h", "width_ns": _DAY_NS, "k": 3})
    narrow, wide = timeline_charts(row, kind, "t", (row.end_ns[0], row.end_ns[-1]), is_wide=True)

    assert ("narrow", "wide") == (narrow.css, wide.css)
    assert NARROW_PX == narrow.width < wide.width
    assert narrow.name != wide.name


def test_a_chart_has_a_title_and_a_description_for_screen_readers() -> None:
    svg = ET.fromstring(render("charts", "chart", _curves()))  # noqa: S314 — our own chart

    assert ("img", "k-t k-d") == (svg.get("role"), svg.get("aria-labelledby"))
    assert "pass@k and pass^k over k" == svg.findtext("title")
    assert (svg.findtext("desc") or "").startswith("k from 1 to 8: pass@8 .430 [")
