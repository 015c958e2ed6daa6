"""The drawings: in the colours of the page, with nothing where there is no data, and legible in any number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from otel_agentic.cli.html.drawing import MARKS, TIERS, Series, curves, drawing, inline_svg, timeline
from otel_agentic.results.charts import CurveRow, HistoryRow
from tests.cli.partial import partial
from tests.cli.pictured import HOUR_NS, history, window
from tests.cli.small import NOON_NS, SECOND_NS

_DAY_NS: Final = 24 * HOUR_NS
_NUMBERS: Final = re.compile(r"-?\d+\.?\d*")
_WIDTH: Final = 370
_STRIP_PX: Final = 24
_MINUTE_NS: Final = 60 * SECOND_NS


def _over_time(rows: Sequence[dict[str, Any]], width_ns: int | None = _DAY_NS) -> ET.Element:
    series = Series.of(partial(HistoryRow, history(rows)), width_ns)
    with drawing():
        figure = timeline(series, (int(series.ends_ns[0]), int(series.ends_ns[-1])), _WIDTH)
        return ET.fromstring(inline_svg(figure, name="t", title="over time", description="told"))  # noqa: S314 — our own drawing


def _paths(svg: ET.Element, style: str) -> list[list[tuple[float, float]]]:
    """Return the points of the paths whose style has that text."""
    drawn = []
    for path in svg.iter("path"):
        if style in path.get("style", ""):
            numbers = [float(number) for number in _NUMBERS.findall(path.get("d", ""))]
            drawn.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return drawn


def _marks(svg: ET.Element, style: str) -> int:
    return sum(style in use.get("style", "") for use in svg.iter("use"))


def _row(**left_out: int) -> dict[str, Any]:
    estimates = {str(k): {"value": 0.9**k, "lower": 0.9**k - 0.1, "upper": min(1.0, 0.9**k + 0.1)} for k in range(1, 9)}
    estimates_by_kind = {"interval_method": "wilson", "level": 0.95, "pass_at_k": estimates, "pass_pow_k": estimates}
    return {
        "default_estimator": "per_case",
        "estimates": {"per_case": estimates_by_kind},
        "cases_left_out": {key[1:]: count for key, count in left_out.items()},
    }


def _curves(row: dict[str, Any]) -> ET.Element:
    with drawing():
        figure = curves(partial(CurveRow, row), _WIDTH)
        return ET.fromstring(inline_svg(figure, name="k", title="curves", description="told"))  # noqa: S314 — our own drawing


def test_a_drawing_has_the_colours_of_the_page_and_none_of_its_own() -> None:
    text = ET.tostring(_over_time([window(hour, 0.5) for hour in range(5)]), encoding="unicode")

    assert [] == re.findall(r"#[0-9a-f]{6}\b", text)
    assert set(re.findall(r"var\(--([a-z-]+)\)", text)) - set(MARKS) == {"band"}


def test_every_role_has_a_colour_by_day_and_by_night() -> None:
    css = files("otel_agentic.cli.html").joinpath("style.css").read_text(encoding="ascii")
    by_day, _, by_night = css.partition("prefers-color-scheme: dark")

    for role in (*MARKS, "band", *(style.role for style in TIERS.values())):
        assert f"--{role}: " in by_day
        assert f"--{role}: " in by_night.partition("* { box-sizing")[0]


def test_tiers_differ_by_shape_and_not_by_colour_alone() -> None:
    assert (
        len(TIERS) == len({style.sign for style in TIERS.values()}) == len({style.marker for style in TIERS.values()})
    )


def test_a_gap_is_left_empty_and_never_drawn_as_zero() -> None:
    hours = [*range(50), *range(70, 120)]
    svg = _over_time([window(hour, 0.5) for hour in hours])
    lines = [path for path in _paths(svg, "stroke: var(--pow)") if len(path) > 1]
    ends = sorted((path[0][0], path[-1][0]) for path in lines)

    assert 2 == len({first for first, _ in ends})
    assert max(last for first, last in ends if first < 100) < min(first for first, _ in ends if first > 100)
    assert 1 == len({y for path in lines for _, y in path if 60 < y < 75})


def test_a_lone_point_is_seen() -> None:
    svg = _over_time([window(hour, 0.5) for hour in (*range(45), 200)])

    assert 1 == _marks(svg, "fill: var(--pow); stroke")


def test_what_was_restated_has_a_ring() -> None:
    rows = [window(hour, 0.5, revision=2 if hour in {3, 7} else 1) for hour in range(60)]

    assert 2 == _marks(_over_time(rows), "stroke: var(--ink)")


def test_coverage_is_drawn_as_high_as_it_is() -> None:
    svg = _over_time([window(hour, 0.5, coverage=0.25) for hour in range(60)])
    (covered,) = [use.get("href", "")[1:] for use in svg.iter("use") if "fill: var(--cover)" in use.get("style", "")]
    (path,) = [path for path in svg.iter("path") if path.get("id") == covered]
    ys = [float(number) for number in _NUMBERS.findall(path.get("d", ""))][1::2]

    assert 0.25 * _STRIP_PX == pytest.approx(max(ys) - min(ys), abs=0.15)


def test_each_tier_has_a_stretch_of_its_strip_with_its_shape() -> None:
    tiers = ["ready"] * 30 + ["not_ready"] * 30 + ["insufficient_evidence"] * 30
    svg = _over_time([window(hour, 0.5, tier=tier) for hour, tier in enumerate(tiers)])

    for role in ("ready", "not-ready", "insufficient-evidence"):
        assert 1 == _marks(svg, f"fill: var(--{role})")
    assert 2 == _marks(svg, "fill: var(--surface)")


def test_thousands_of_points_are_drawn_thin_and_with_their_extremes() -> None:
    values = [0.5] * 5000
    values[1234], values[4321] = 0.05, 0.95
    svg = _over_time([window(hour, value) for hour, value in enumerate(values)])
    (line,) = [path for path in _paths(svg, "stroke: var(--pow)") if any(abs(y - 67) < 1 for _, y in path)][:1]
    ys = [y for _, y in line]

    assert len(ET.tostring(svg)) < 120_000
    assert 0.9 == pytest.approx((max(ys) - min(ys)) / (118 / 1.04), abs=0.01)


def test_hollow_marks_stand_alone_where_cases_had_too_few_attempts() -> None:
    svg = _curves(_row(k6=1, k7=2, k8=2))
    (line,) = [path for path in _paths(svg, "stroke: var(--at)") if len(path) == 5][:1]

    assert 3 == _marks(svg, "fill: var(--surface); stroke: var(--at)")
    assert 5 == _marks(svg, "fill: var(--at); stroke")
    assert line[0][0] < line[-1][0]


@pytest.mark.parametrize("minutes", [1, 4, 160, 179, 61 * 60, 71 * 60, 8 * 1440, 92 * 1440, 1000 * 1440, 3650 * 1440])
def test_any_stretch_of_time_has_a_few_ticks(minutes: int) -> None:
    """matplotlib warns where it finds no interval, and warnings are errors here."""
    rows = [window(0, 0.5), window(0, 0.5, end=NOON_NS + minutes * _MINUTE_NS)]
    ticks = [text for text in _over_time(rows).iter("text") if float(text.get("y", "0")) > 190]

    assert 1 <= len(ticks) <= 9


def test_a_picture_says_in_words_what_it_shows() -> None:
    svg = _curves(_row())

    assert ("img", "k-t k-d") == (svg.get("role"), svg.get("aria-labelledby"))
    assert ["curves", "told"] == [svg.findtext("title"), svg.findtext("desc")]


def test_the_style_of_the_user_is_left_alone_and_left_out() -> None:
    with mpl.rc_context({"font.size": 40.0, "axes.facecolor": "red"}):
        styled = ET.tostring(_curves(_row()))
        assert 40.0 == mpl.rcParams["font.size"]

    assert ET.tostring(_curves(_row())) == styled
