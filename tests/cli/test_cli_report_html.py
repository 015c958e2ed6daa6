"""`report --format html`: one file that needs no other, with a section for everything there is, and words where there is nothing."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.html import page as html_page
from otel_agentic.cli.render.text import interval, percent
from otel_agentic.commands import Commands
from otel_agentic.config import load_settings
from otel_agentic.engine.engine import Engine
from otel_agentic.results import from_json
from otel_agentic.results.charts import Charts
from otel_agentic.results.reports import Rate, Report
from tests.cli.hotel import build_hotel
from tests.cli.pictured import Page, store_windows, window
from tests.cli.running import Terminal, done, run
from tests.cli.small import conversation, write_cases, write_spans
from tests.cli.test_cli_serve import serving
from tests.snapshots import exactly, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_SECTIONS: Final = [
    "Summary",
    "Curves",
    "Over time",
    "Conversations",
    "Tools",
    "Metrics",
    "Failures",
    "Coverage",
    "Notes",
]
_NO_WINDOW: Final = "No window is stored for this selection."


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with two versions, tool faults, and windows of one of them."""
    db = build_hotel(tmp_path_factory.mktemp("hotel"))
    hours = [0, 1, 2, 3, 30, 31, 32]
    rows = [window(hour, 0.5 + hour / 100, agent_version="1.9") for hour in hours]
    rows += [window(hour, 0.9, agent_version="1.10", tier="ready", leaning=None) for hour in hours]
    return store_windows(db, rows)


@pytest.fixture(scope="module")
def text(hotel: Path) -> str:
    """Return the page of the hotel, by version, as it is written."""
    return done("report", "--db", hotel, "--by", "version", "--format", "html").out


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    """Return the same, taken apart."""
    return Page.of(text)


def test_a_page_has_a_section_for_everything_in_order(page: Page) -> None:
    assert _SECTIONS == page.headings


def test_every_id_is_there_once_and_every_reference_leads_somewhere(page: Page) -> None:
    assert len(set(page.ids)) == len(page.ids)
    assert set() == set(page.references) - set(page.ids)


def test_a_page_asks_for_nothing_from_anywhere(text: str) -> None:
    assert [] == re.findall(r"""(?:src|href)=["'](?!#|data:,)|url\((?!#)|@import|//[a-z]""", text)
    assert passage(text) == snapshot("default-src 'none'; style-src 'unsafe-inline'")


def test_a_page_is_ascii_and_the_same_each_time(hotel: Path, text: str) -> None:
    assert text == done("report", "--db", hotel, "--by", "version", "--format", "html").out
    assert text.isascii()


def test_the_summary_says_what_the_json_says(hotel: Path, page: Page) -> None:
    groups = done("report", "--db", hotel, "--by", "version", "--format", "json").json["groups"]

    for group in groups:
        pooled, per_case = (interval(Rate(**group[role]["pass_pow_k"]["3"])) for role in ("pooled", "per_case"))
        assert pooled in page.text
        assert f"{per_case} {group['c']} of {group['n']} {percent(group['coverage'])}" in page.text


def test_each_group_has_curves_and_a_picture_over_time_in_two_widths_where_groups_are_few(
    hotel: Path, page: Page
) -> None:
    with Engine(load_settings(None, store={"db": hotel})) as engine:
        rows = Commands(engine).report_pictures(by=["version"])["curves"]["rows"]
    two_over_time = 2

    assert {"bayesian": 3, "per_case": len(rows) - 3} == Counter(row["default_estimator"] for row in rows)
    assert len(rows) + 2 * two_over_time == page.svgs


def test_every_picture_has_a_title_and_a_description(page: Page) -> None:
    drawn = [value for name, value in page.attributes if name == "aria-labelledby"]

    assert page.svgs == len(drawn)
    assert passage(page.text) == snapshot("pass@k and pass^k over k")
    assert passage(page.text) == snapshot("7 windows of 24h that ended from 2026-03-02 12:00 to 2026-03-03 20:00 UTC")


def test_the_numbers_behind_the_pictures_can_be_read(page: Page) -> None:
    assert "1.9 ○ insufficient evidence 2026-03-02 12:00 2026-03-02 15:00" in page.text
    assert "1.10 ● ready 2026-03-03 18:00 2026-03-03 20:00" in page.text


def test_tools_stand_in_a_map_with_what_is_wrong_below(page: Page) -> None:
    assert passage(page.text) == snapshot(
        "book 6 conversations .833 6 calls, 1 fault .583 6 calls, 3 faults — does not apply 1.00 2 results"
    )
    assert passage(page.text) == snapshot("book 1.10 wrong parameters new parameters city")


def test_more_groups_than_panels_are_counted_and_stand_in_the_summary(hotel: Path) -> None:
    with Engine(load_settings(None, store={"db": hotel})) as engine:
        payload = Commands(engine).report(by=["version"])
        drawn = Commands(engine).report_pictures(by=["version"], panels=1)
    page = Page.of(html_page(from_json(Report, payload), from_json(Charts, drawn), "all time"))

    assert 2 * (2 + 1) == page.svgs  # two estimators over k, and one picture over time
    assert passage(page.text) == snapshot("2 more groups in the summary.")
    assert passage(page.text) == snapshot("1 more group not drawn; --agent chooses.")
    assert {"1.9", "1.10"} <= set(page.texts)


def test_a_page_goes_to_a_file_and_says_how_to_come_by_windows(shop: Shop, tmp_path: Path) -> None:
    ran = done("report", "--db", shop.db, "--format", "html", "-o", tmp_path / "r.html")
    page = Page.of((tmp_path / "r.html").read_text(encoding="ascii"))

    assert "" == ran.out
    assert re.fullmatch(r".*r\.html: [0-9,]+ KiB\n", ran.err)
    assert _SECTIONS == page.headings
    assert passage(page.text, no_window=_NO_WINDOW) == snapshot(
        "<no_window> A running collector ( otel-agentic serve ) stores them"
    )
    assert "otel-agentic backfill" in page.text


def test_one_conversation_is_drawn_as_far_as_its_attempts_reach(tmp_path: Path) -> None:
    cases = [{"case_id": "k", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]}]
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1", case="k")]), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", cases))
    page = Page.of(done("report", "--db", "t.duckdb", "--format", "html", "--estimator", "per_case").out)

    assert 2 * 2 == page.svgs  # pooled, and per case as asked
    assert "1 of 1 correct" in page.text
    assert passage(page.text) == snapshot("A curve ends where there are too few attempts.")
    assert "Hollow marks" not in page.text
    assert passage(page.text) == snapshot("No call was scored")


def test_without_evaluations_there_are_reasons_instead_of_curves(tmp_path: Path) -> None:
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1")]), "--db", "t.duckdb")
    page = Page.of(done("report", "--db", "t.duckdb", "--format", "html").out)

    assert _SECTIONS == page.headings
    assert 0 == page.svgs
    assert passage(page.text) == snapshot(
        "No conversation of this selection was evaluated, so there is no curve to draw."
    )


def test_an_empty_selection_is_a_page_that_says_so(shop: Shop) -> None:
    page = Page.of(done("report", "--db", shop.db, "--format", "html", "--agent", "nobody").out)

    assert [] == page.headings
    assert passage(page.text) == snapshot("no closed conversations in this selection")


def test_a_selection_bounds_pictures_too(hotel: Path) -> None:
    page = Page.of(done("report", "--db", hotel, "--format", "html", "--since", "2026-03-03T17:00:00Z").out)

    assert passage(page.text) == snapshot("3 windows of 24h that ended from 2026-03-03 18:00 to 2026-03-03 20:00 UTC")


def test_a_comparison_and_objectives_stand_before_the_curves(hotel: Path, tmp_path: Path) -> None:
    settings = tmp_path / "s.toml"
    settings.write_text("[[slo.objectives]]\nk = 1\ntarget = 0.9\n", encoding="utf-8")
    arguments = ("report", "--db", hotel, "--compare", "version=1.9,1.10", "--config", settings)
    page = Page.of(done(*arguments, "--format", "html").out)

    assert ["Summary", "Comparison", "Objectives", *_SECTIONS[1:]] == page.headings
    assert passage(page.text) == snapshot("1.10 is worse than 1.9 with probability")
    assert "alarm at 20" in page.text


@pytest.mark.slow
def test_the_collector_that_holds_the_file_gives_the_same_page(hotel: Path, tmp_path: Path) -> None:
    (tmp_path / "live.duckdb").write_bytes(hotel.read_bytes())
    here = done("report", "--db", tmp_path / "live.duckdb", "--format", "html").out
    with serving(tmp_path) as live:
        assert here == done("report", "--server", live.admin, "--format", "html").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "r.html"), "-o r.html needs --format html; other formats go to standard output: > r.html"),
        (("--format", "html", "-o", "no/where.html"), "-o no/where.html: No such file or directory"),
        (("--format", "html", "--plot"), "--plot draws in the terminal below the table"),
        (("--format", "json", "--plot"), "it cannot be combined with --format json"),
    ],
)
def test_conflicting_options_are_named(shop: Shop, arguments: tuple[str, ...], message: str) -> None:
    ran = run("report", "--db", shop.db, *arguments)

    assert (2, "") == (ran.code, ran.out)
    assert message in ran.err


def test_a_page_does_not_go_to_a_terminal(shop: Shop) -> None:
    ran = run("report", "--db", shop.db, "--format", "html", out=Terminal())

    assert 2 == ran.code
    assert passage(ran.err) == snapshot("give -o report.html, or > report.html")


def test_the_library_of_terminal_plots_is_named_with_what_installs_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    ran = run("report", "--db", shop.db, "--plot")

    assert 2 == ran.code
    assert exactly(ran.err) == snapshot("otel-agentic: --plot needs plotext: pip install 'otel-agentic[plots]'\n")


def test_without_matplotlib_the_page_has_plain_drawings(
    hotel: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = done("report", "--db", hotel, "--by", "version", "--format", "html").out
    plain = Page.of(text)

    assert page.headings == plain.headings
    assert (len(set(plain.ids)), set()) == (len(plain.ids), set(plain.references) - set(plain.ids))
    drawings = re.findall(r'<svg class="plot".*?</svg>', text, re.DOTALL)
    assert len(drawings) == plain.svgs > 0
    for drawing in drawings:  # two lines with their points, over one axis, within the drawing
        root = ET.fromstring(drawing)  # noqa: S314 — our own page
        assert {"var(--at)", "var(--pow)"} <= set(re.findall(r"stroke: (var\(--\w+\))", drawing))
        points = [(float(point.get("cx", "")), float(point.get("cy", ""))) for point in root.iter("circle")]
        assert all(34 <= x <= 370 and 12 <= y <= 230 for x, y in points)
    assert "pass@k and pass^k over k" in plain.text


def test_single_conversations_are_listed_with_their_turns_failed_ones_first(hotel: Path) -> None:
    with Engine(load_settings(None, store={"db": hotel})) as engine:
        outcomes = Commands(engine).report_conversations()
        fewer = Commands(engine).report_conversations(limit=1)
    results = [row["outcome"] for row in outcomes["rows"]]

    assert results == sorted(results, key=["fail", "not_evaluated", "pass"].index)
    assert (len(fewer["rows"]), fewer["left_out"]) == (1, len(results) - 1)
    markdown = done("report", "--db", hotel, "--format", "markdown").out
    html = Page.of(done("report", "--db", hotel, "--format", "html").out).text
    for row in outcomes["rows"]:
        assert row["conversation_id"] in markdown
        assert row["conversation_id"] in html
    assert "PASS" in markdown
