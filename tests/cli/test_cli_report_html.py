"""`report --format html`: one file that needs no other, with a section for everything there is, and words where there is nothing."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.config import load_settings
from otel_agentic.engine.engine import Engine
from otel_agentic.render.html import page as html_page
from otel_agentic.render.text import interval, percent
from otel_agentic.results import from_json, to_json
from otel_agentic.results.charts import Charts, History
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
    "Failures",
    "Conversations",
    "Over time",
    "Curves",
    "Tools",
    "Metrics",
    "Coverage",
    "Notes",
]
_WITHOUT_HISTORY: Final = [name for name in _SECTIONS if name != "Over time"]
#: What the page shows of a metric.
_NUMBERS: Final = {"n", "mean", "low", "median", "high", "labels", "not_evaluated", "failures", "threshold"}
#: A page of a store with many conversations stays small enough to be sent by mail.
_MAX_PAGE: Final = 3_000_000


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
    assert not re.search(r"""<[^>]* style=""", text)


def test_a_browser_accepts_the_style_of_the_page_by_its_hash(text: str) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()

    assert f"default-src 'none'; style-src 'sha256-{digest}'" in unescape(text)


def test_a_page_is_ascii_and_the_same_each_time(hotel: Path, text: str) -> None:
    assert text == done("report", "--db", hotel, "--by", "version", "--format", "html").out
    assert text.isascii()


def test_the_summary_says_what_the_json_says(hotel: Path, page: Page) -> None:
    groups = done("report", "--db", hotel, "--by", "version", "--format", "json").json["groups"]

    for group in groups:
        headline = interval(Rate(**group["estimates"][group["default_estimator"]]["pass_pow_k"]["3"]))
        assert f"{headline} {group['c']} of {group['n']} {percent(group['coverage'])}" in page.text


def test_the_page_opens_with_a_sentence_about_each_group(page: Page) -> None:
    opening_text = page.text.partition("All time")[0]

    assert exactly(opening_text) == snapshot(
        "Reliability report Reliability of clerk ○ clerk · 1.0 has insufficient evidence, leaning not ready: pass^3 .400 [.004, .963]. ○ clerk · 1.10 has insufficient evidence, leaning not ready: pass^3 .071 [.000, .368]; book.city is wrong in 3 of 4 conversations since 2026-03-04 12:01 . ○ clerk · 1.9 has insufficient evidence, leaning not ready: pass^3 .200 [.001, .743]; book is not called in 1 of 2 conversations since 2026-03-03 12:01 . "
    )


def test_each_group_has_curves_and_a_picture_over_time_in_two_widths_where_groups_are_few(
    hotel: Path, page: Page
) -> None:
    with Engine(load_settings(None, store={"db": hotel})) as engine:
        rows = Commands(engine).report_pictures(by=["version"])["curves"]["rows"]
    two_over_time = 2

    assert {"bayesian": 3, "per_case": len(rows) - 3} == Counter(row["default_estimator"] for row in rows)
    assert len(rows) + 2 * two_over_time == page.charts


def test_every_picture_has_a_title_and_a_description(page: Page) -> None:
    drawn = [value for name, value in page.attributes if name == "aria-labelledby"]

    assert page.charts == len(drawn)
    assert passage(page.text) == snapshot("pass@k and pass^k over k")
    assert passage(page.text) == snapshot("7 windows of 24h that ended from 2026-03-02 12:00 to 2026-03-03 20:00 UTC")


def test_the_numbers_behind_the_pictures_can_be_read(page: Page) -> None:
    assert "1.9 ○ insufficient evidence 2026-03-02 12:00 2026-03-02 15:00" in page.text
    assert "1.10 ● ready 2026-03-03 18:00 2026-03-03 20:00" in page.text


def test_tools_stand_in_a_map_with_what_is_wrong_below(page: Page) -> None:
    assert passage(page.text) == snapshot(
        "with how much it is the mean of tool selection parameters utilization errors book 6 conversations .833 6 calls, 1 fault .583 6 calls, 3 faults 1.00 2 results 1 drop 1 conversation .000 1 call"
    )
    assert passage(page.text) == snapshot("book city 1.10 wrong parameters new")


def test_more_groups_than_panels_are_counted_and_stand_in_the_summary(hotel: Path) -> None:
    with Engine(load_settings(None, store={"db": hotel})) as engine:
        payload = Commands(engine).report(by=["version"])
        drawn = Commands(engine).report_pictures(by=["version"], panels=1)
    page = Page.of(html_page(from_json(Report, payload), from_json(Charts, drawn), "all time"))

    assert 2 * (2 + 1) == page.charts  # two estimators over k, and one picture over time
    assert passage(page.text) == snapshot("2 more groups in the summary.")
    assert passage(page.text) == snapshot("1 more group not drawn; select some with --agent .")
    assert {"1.9", "1.10"} <= set(page.texts)


def test_a_page_goes_to_a_file(shop: Shop, tmp_path: Path) -> None:
    ran = done("report", "--db", shop.db, "--format", "html", "-o", tmp_path / "r.html")
    page = Page.of((tmp_path / "r.html").read_text(encoding="ascii"))

    assert "" == ran.out
    assert re.fullmatch(r".*r\.html: [0-9,]+ KiB\n", ran.err)
    assert set(_WITHOUT_HISTORY) <= set(page.headings)


@pytest.mark.parametrize("is_given", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_page_is_opened_in_the_browser(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_given: bool
) -> None:
    log = tmp_path / "opened"
    monkeypatch.setenv("BROWSER", f'{sys.executable} -c \'import sys; open("{log}", "w").write(sys.argv[1])\' %s')
    monkeypatch.setattr("webbrowser._tryorder", None)  # the browsers are registered once per process
    monkeypatch.setattr("webbrowser._browsers", {})
    out: tuple[str | Path, ...] = ("-o", tmp_path / "r.html") if is_given else ()
    ran = done("report", "--db", shop.db, "--format", "html", *out, "--web")
    opened = Path(log.read_text(encoding="utf-8").removeprefix("file://"))

    assert (tmp_path / "r.html" == opened) == is_given
    assert str(opened) in ran.err
    assert Page.of(opened.read_text(encoding="ascii")).headings


def test_without_stored_windows_the_page_has_those_that_a_backfill_would_store(tmp_path: Path) -> None:
    db = build_hotel(tmp_path)
    computed, html = _history(db), done("report", "--db", db, "--format", "html").out
    done("backfill", "--db", db, "--window", "24h", "--step", "6h")
    stored = _history(db)

    assert computed == replace(stored, widths=[])
    assert "Over time" in Page.of(html).headings


def _history(db: Path) -> History:
    with Engine(load_settings(None, store={"db": db})) as engine:
        return from_json(History, Commands(engine).report_pictures()["history"])


def test_without_a_stretch_of_time_there_is_no_history(shop: Shop) -> None:
    assert "Over time" not in Page.of(done("report", "--db", shop.db, "--format", "html").out).headings


def test_a_failing_conversation_is_on_the_page_with_its_differences(page: Page) -> None:
    assert passage(page.text) == snapshot("fail c3")
    assert passage(page.text) == snapshot("book.city: Paris ≠ Rome")
    assert passage(page.text) == snapshot(
        "please Calls of turn 1 result actual expected differs city : Paris ≠ Rome book city : Paris nights "
    )


def test_ids_of_failing_conversations_link_to_the_conversations(text: str) -> None:
    links = dict(re.findall(r'<a href="#(c\d+)"><bdi class="id">(\w+)</bdi></a>', text))

    assert links
    for anchor, conversation_id in links.items():
        _, article, rest = text.partition(f'<article id="{anchor}">')
        assert article
        assert re.search(rf'<a class="chip" href="#{anchor}\b', rest.partition("</article>")[0])
        assert f'<bdi class="id">{conversation_id}</bdi></b>' in text.partition(article)[0].rpartition("<summary>")[2]


def test_metrics_with_the_same_numbers_are_one_row(hotel: Path) -> None:
    report = from_json(Report, done("report", "--db", hotel, "--format", "json").json)
    text = done("report", "--db", hotel, "--format", "html").out
    metrics = [metric for metric in report.groups[0].metrics or () if metric.n]
    numbers = {repr([(key, value) for key, value in to_json(metric).items() if key in _NUMBERS]) for metric in metrics}
    _, _, table = text.partition('aria-label="The scores of each metric"')

    assert len(numbers) == table.partition("</table>")[0].count("<tr>") - 1 < len(metrics)
    page_text = Page.of(text).text
    assert all(metric.name.removeprefix("agentic.") in page_text for metric in metrics)


def test_a_page_of_many_large_conversations_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    calls = [("book", {f"key{index}": "x" * 300 for index in range(30)}, "y" * 300)] * 3
    requests = [conversation(f"c{number}", answer="z" * 2_000, calls=calls, case="k") for number in range(60)]
    cases = [{"case_id": "k", "tools": {"calls": [{"tool_name": "pay", "parameters": {}}]}}]
    done("ingest", write_spans(tmp_path / "s.jsonl", requests), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", cases), "--metrics", "none")
    text = done("report", "--db", "t.duckdb", "--format", "html").out

    assert len(text) < _MAX_PAGE
    assert passage(Page.of(text).text) == snapshot("10 more conversations of this selection")


def test_one_conversation_is_drawn_as_far_as_its_attempts_reach(tmp_path: Path) -> None:
    cases = [{"case_id": "k", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]}]
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1", case="k")]), "--db", "t.duckdb")
    done("evaluate", "--db", "t.duckdb", "--cases", write_cases(tmp_path / "c.jsonl", cases))
    page = Page.of(done("report", "--db", "t.duckdb", "--format", "html", "--estimator", "per_case").out)

    assert 2 * 2 == page.charts  # pooled, and per case as requested
    assert "1 of 1 correct" in page.text
    assert passage(page.text) == snapshot("A curve ends where there are too few attempts.")
    assert "Hollow marks" not in page.text
    assert passage(page.text) == snapshot("No call was scored")


def test_without_evaluations_the_page_has_reasons_and_no_all_clear(tmp_path: Path) -> None:
    done("ingest", write_spans(tmp_path / "s.jsonl", [conversation("c1")]), "--db", "t.duckdb")
    page = Page.of(done("report", "--db", "t.duckdb", "--format", "html").out)

    assert ["Summary", "Conversations", "Coverage", "Notes"] == page.headings
    assert 0 == page.charts
    assert passage(page.text) == snapshot("clerk has no evaluated conversation.")
    assert "Nothing failed" not in page.text
    assert passage(page.text) == snapshot("1 not scored")


def test_an_empty_selection_is_a_page_that_says_so(shop: Shop) -> None:
    page = Page.of(done("report", "--db", shop.db, "--format", "html", "--environment", "nowhere").out)

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
        (("--web",), "--web needs --format html"),
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
    assert passage(ran.err) == snapshot("give --web, -o report.html, or > report.html")


def test_the_library_of_terminal_plots_is_named_with_what_installs_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    ran = run("report", "--db", shop.db, "--plot")

    assert 2 == ran.code
    assert exactly(ran.err) == snapshot("otel-agentic: --plot needs plotext: pip install 'otel-agentic[plots]'\n")


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
