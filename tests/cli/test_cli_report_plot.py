"""`report --plot`: the curves in the terminal, as wide as it is, with and without colours and line drawing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import pytest

from otel_agentic.render.plot import NOTHING_TO_DRAW, drawn, plot
from otel_agentic.results.charts import Curves
from otel_agentic.results.reports import Estimates, Rate
from tests.cli.partial import partial
from tests.cli.running import Terminal, done, on_terminal, run

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_WIDTHS: Final = (30, 60, 80, 100)


def _estimates(p: float, *, bounds: bool = True) -> Estimates:
    def of(value: float) -> dict[str, float | None]:
        low, high = max(0.0, value - 0.2), min(1.0, value + 0.2)
        return {"value": value, "lower": low if bounds else None, "upper": high if bounds else None}

    ks = range(1, 9)
    rates = {"pass_at_k": {str(k): of(1 - (1 - p) ** k) for k in ks}, "pass_pow_k": {str(k): of(p**k) for k in ks}}
    return partial(Estimates, rates)


def _rows(text: str, mark: str) -> list[int]:
    """Return the rows of a mark by its column, from left to right."""
    lines = text.splitlines()
    positions = [(line.index(mark, start), row) for row, line in enumerate(lines) for start in _starts(line, mark)]
    return [row for _, row in sorted(positions)]


def _starts(line: str, mark: str) -> list[int]:
    return [position for position, char in enumerate(line) if char == mark]


@pytest.mark.parametrize("width", _WIDTHS)
def test_a_picture_has_the_given_width_and_every_k(width: int) -> None:
    text = drawn(_estimates(0.8), width, ascii_only=False, coloured=False)

    assert width == max(map(len, text.splitlines()))
    assert (8, 8) == (text.count("●"), text.count("■"))
    assert [str(k) for k in range(1, 9)] == text.splitlines()[-2].split()


def test_one_curve_never_falls_and_the_other_never_rises() -> None:
    text = drawn(_estimates(0.8), 80, ascii_only=False, coloured=False)
    up, down = _rows(text, "●"), _rows(text, "■")

    assert sorted(up, reverse=True) == up
    assert sorted(down) == down
    assert up[0] == down[0]
    assert up[-1] < down[-1]


def test_bounds_are_bars_and_an_estimate_without_them_has_none() -> None:
    frame = drawn(_estimates(0.8, bounds=False), 80, ascii_only=False, coloured=False).count("│")

    assert drawn(_estimates(0.8), 80, ascii_only=False, coloured=False).count("│") > frame


def test_an_undefined_estimate_is_not_drawn() -> None:
    estimates = _estimates(0.8)
    estimates.pass_pow_k["8"] = Rate(value=None, lower=None, upper=None)

    assert 7 == drawn(estimates, 80, ascii_only=False, coloured=False).count("■")


def test_a_picture_can_do_without_line_drawing() -> None:
    text = drawn(_estimates(0.8), 80, ascii_only=True, coloured=False)

    assert text.isascii()
    assert (8, 8) == (text.count("o"), text.count("#"))


def test_forty_k_are_drawn_with_a_few_numbers_below() -> None:
    estimates = {
        kind: {str(k): {"value": 0.5, "lower": 0.4, "upper": 0.6} for k in range(1, 41)}
        for kind in ("pass_at_k", "pass_pow_k")
    }
    numbers = drawn(partial(Estimates, estimates), 100, ascii_only=False, coloured=False).splitlines()[-2].split()

    assert ["1", "5", "9", "13", "17", "21", "25", "29", "33", "37"] == numbers


def test_the_plot_stands_below_the_table(shop: Shop) -> None:
    table = done("report", "--db", shop.db).out
    output = done("report", "--db", shop.db, "--plot").out

    assert output.startswith(table)
    headings = [line.partition(" (")[0] for line in output.splitlines() if "● pass@k, ■ pass^k" in line]
    assert ["clerk, bayesian", "clerk, per_case"] == headings
    assert "\x1b" not in output


@pytest.mark.parametrize("width", [pytest.param(60, marks=pytest.mark.slow), 200])
def test_a_plot_fits_the_terminal_and_no_more_than_a_hundred_columns(shop: Shop, width: int) -> None:
    lines = on_terminal(width, "report", "--db", shop.db, "--plot")
    frames = [line for line in lines if line.strip().startswith("┌")]

    assert [min(width, 100)] * 2 == [len(frame) for frame in frames]


def test_colours_stand_on_a_terminal_unless_they_are_unwanted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = run("report", "--db", shop.db, "--plot", out=Terminal()).out
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run("report", "--db", shop.db, "--plot", out=Terminal()).out

    assert "\x1b[38;5;32m" in coloured
    assert "\x1b[38" not in plain
    # Each of two cases has two attempts, so there are eight pooled points and two per case.
    assert 8 + 2 == plain.count("■") - plain.count("■ pass")


def test_an_output_of_ascii_gets_ascii(shop: Shop) -> None:
    class Ascii(io.StringIO):
        encoding = "ascii"

    output = run("report", "--db", shop.db, "--plot", out=Ascii()).out
    plot = output[output.index("clerk, bayesian (") :]

    assert plot.isascii()


def test_where_nothing_was_evaluated_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    plot(Curves(rows=[], left_out=0, asked=[]))

    assert f"\n{NOTHING_TO_DRAW}\n" == capsys.readouterr().out
