"""The console in Chromium; run by `make test-browser`, which installs Playwright."""

from __future__ import annotations

import random
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.console.pages import PAGES
from otel_agentic.console.reports import Reports
from otel_agentic.net.tickets import new_ticket, secret_of
from otel_agentic.render.text import ratio
from tests.cli.hostile import build_hostile, planted_columns
from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_monitors import OBJECTIVE, raised
from tests.console.test_console_pages import links_of
from tests.console.test_console_tail import HOSTILE, following
from tests.live.running_collector import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
_CONVERSATION = "/conversation?id=lyon-family-1.1.0-3&environment=demo"
_OTHERS = [
    "/review",
    "/cases",
    "/case?case_id=lyon-family",
    "/case?id=lyon-family-1.1.0-3",
    "/matches",
    "/match?id=lyon-family-1.1.0-3",
    "/monitors",
    "/tail",
]
#: Pages that state an error, with their status.
_ERRORS = {"/nowhere": 404, "/span": 400, "/conversation?id=nowhere": 400, "/sql?q=SELEC+1": 400}
_PAGES = ["/", *(path for path in PAGES if path not in {"/conversation", "/span"}), _CONVERSATION, *_OTHERS]
_WIDTHS = (1280, 390)
#: Columns of the store that contain markup.
_FIELDS = 40
#: Items that each annotator labels.
_ITEMS = 40


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 — installed by `make test-browser` only

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def messages() -> list[str]:
    """Receive the messages of the browser's console, among them violations of the content security policy, and dialogs."""
    return []


def open_console(
    browser: Browser, console: RunningConsole, annotator: str, messages: list[str], **options: Any
) -> Page:
    """Return a page of a new browser context, logged in by a link."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(120_000)  # a loaded machine is slow, and no test measures time
    page.on("console", lambda message: messages.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: messages.append(f"{page.url}: {error}"))
    page.on("dialog", lambda dialog: messages.append(f"{page.url}: dialog {dialog.message}"))
    page.goto(f"{console.url}/login?ticket={new_ticket(secret_of(console.db), annotator)}")
    page.wait_for_url(f"{console.url}/")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_and_are_accessible_without_a_message(
    browser: Browser, console: RunningConsole, messages: list[str], scheme: str
) -> None:
    page = open_console(browser, console, "ana", messages, color_scheme=scheme)
    for path in _PAGES:
        assert problems_of(page, console.url + path) == []
    assert messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_errors_and_reports_being_computed_fit_their_window_and_are_accessible(
    browser: Browser, console: RunningConsole, messages: list[str], monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    page = open_console(browser, console, "ana", messages, color_scheme=scheme)
    statuses = []
    page.on("response", lambda answer: statuses.append((answer.url.removeprefix(console.url), answer.status)))
    for path in _ERRORS:
        assert problems_of(page, console.url + path) == []
        assert page.get_by_role("navigation").get_by_role("link", name="Tools").is_visible()
    assert [statuses.count(error) for error in _ERRORS.items()] == [len(_WIDTHS)] * len(_ERRORS)
    assert all("the server responded with a status of 4" in message for message in messages)

    monkeypatch.setattr("otel_agentic.console.app._PATIENCE_S", 0.0)
    monkeypatch.setattr("otel_agentic.console.app._RELOAD_S", 3600)  # it must not reload itself while it is checked
    released, current = threading.Event(), Reports._current
    monkeypatch.setattr(Reports, "_current", lambda *arguments: released.wait(120) and current(*arguments))
    path = f"/tools?since=30d&agent={scheme}"  # which no other test requests, so that it is computed
    assert problems_of(page, console.url + path) == []
    assert page.get_by_role("heading", name="Computing the report").is_visible()
    assert [status for target, status in statuses if target == path] == [202, 202]

    released.set()
    monkeypatch.setattr("otel_agentic.console.app._PATIENCE_S", 120.0)
    page.get_by_role("link", name="reload it now").click()
    assert page.get_by_role("heading", name="Tools").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_alarms_fit_their_window_and_are_accessible(
    browser: Browser, tmp_path: Path, demo_file: Path, messages: list[str], scheme: str
) -> None:
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    for console in serving(db, slo={"objectives": [OBJECTIVE], "block": "none"}, windows={"lateness_s": 1.0}):
        with console.session() as session:
            raised(session)
        page = open_console(browser, console, "ana", messages, color_scheme=scheme)
        assert problems_of(page, f"{console.url}/monitors") == []
        assert page.get_by_role("link", name="failed conversations").count() > 0
    assert messages == []


def test_paper_has_folded_parts_and_no_forms_and_is_black_on_white(
    browser: Browser, console: RunningConsole, messages: list[str]
) -> None:
    page = open_console(browser, console, "ana", messages, color_scheme="dark")
    page.goto(console.url + _CONVERSATION)
    folded = page.get_by_role("region", name="Scores of metrics")
    assert not folded.is_visible()

    page.emulate_media(media="print", color_scheme="dark")
    assert folded.is_visible()
    assert [page.locator(css).filter(visible=True).count() for css in ("nav", "form", "button")] == [0, 0, 0]
    colours = "[getComputedStyle(document.body).color, getComputedStyle(document.querySelector('main a')).color]"
    assert page.evaluate(colours) == ["rgb(0, 0, 0)", "rgb(0, 0, 0)"]
    page.set_viewport_size({"width": 700, "height": 900})  # about that of a sheet of A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert messages == []


def test_hostile_text_executes_nothing(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, messages: list[str]
) -> None:
    db = build_hostile(tmp_path_factory.mktemp("hostile"))
    assert len(planted_columns(db)) >= _FIELDS
    for console in serving(db):
        page = open_console(browser, console, "<script>alert(1)</script>", messages)
        with console.session() as session:
            targets = {
                link for path in ("/", "/conversations", "/cases", "/tools") for link in links_of(session.get(path))
            }
        for target in sorted(target for target in targets if ".csv" not in target and ".json" not in target):
            page.goto(console.url + target)
            page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true })")
            for width in _WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), target
        assert len(targets) > len(_PAGES)
        assert [message for message in messages if "404" not in message] == []


def test_the_arrow_keys_move_in_the_waterfall(browser: Browser, console: RunningConsole, messages: list[str]) -> None:
    page = open_console(browser, console, "ana", messages)
    page.goto(f"{console.url}/conversation?id=lyon-family-1.1.0-3&environment=demo")
    page.locator("#spans summary").click()
    levels = [int(row.get_attribute("aria-level") or 0) for row in page.locator("#spans tbody tr").all()]
    page.keyboard.press("Tab")  # the region that scrolls
    page.keyboard.press("Tab")
    positions = []
    for key in ("End", "ArrowDown", "ArrowLeft", "Home", "ArrowUp", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
        positions.append(
            page.evaluate("[...document.querySelectorAll('#spans tbody a')].indexOf(document.activeElement)")
        )
    last = len(levels) - 1
    parent = max(position for position in range(last) if levels[position] < levels[last])
    second = 2 if levels[2] > levels[1] else 1

    assert positions == [last, last, parent, 0, 0, 1, second]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#spans table')") is None
    assert messages == []


@pytest.mark.timeout(1200)  # about a hundred verdicts, each with a new report
def test_two_annotators_label_by_keyboard_and_the_report_shows_the_corrected_rate(
    browser: Browser, tmp_path: Path, demo_file: Path, messages: list[str]
) -> None:
    """Two annotators label the same random sample, a third person resolves their disagreements, and all use the keyboard alone."""
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    chosen: dict[str, dict[str, bool]] = {}
    for console in serving(db):
        for annotator in ("ana", "bo"):
            page = open_console(browser, console, annotator, messages)
            page.goto(f"{console.url}/review")
            chosen[annotator] = {}
            for _ in range(_ITEMS):
                conversation_id = _reviewed(page)
                chosen[annotator][conversation_id] = passes = _verdict_of(annotator, conversation_id)
                page.keyboard.press("j")
                page.keyboard.press("c")
                page.keyboard.type("1 2 3")
                page.keyboard.press("Enter")
                _press(page, "1" if passes else "2")
            _press(page, "u")
            assert _reviewed(page) == conversation_id
            _press(page, "1" if passes else "2")
        text = page.locator("main").inner_text()
        assert chosen["ana"].keys() == chosen["bo"].keys()
        assert f"Cohen's kappa {kappa(*(list(verdicts.values()) for verdicts in chosen.values())):.2f}" in text

        decided = {name: passes for name, passes in chosen["ana"].items() if chosen["bo"][name] == passes}
        page = open_console(browser, console, "chris", messages)
        page.goto(f"{console.url}/review?order=newest&disagreements=1")
        while page.locator("form.verdict").count():
            conversation_id = _reviewed(page)
            assert conversation_id not in decided
            decided[conversation_id] = passes = _verdict_of("chris", conversation_id)
            _press(page, "1" if passes else "2")
        assert decided.keys() == chosen["ana"].keys()

        page.goto(f"{console.url}/numbers?criterion=traffic&by=agent")
        displayed = page.locator("main").inner_text()
        with console.session("chris") as session:
            groups = session.get("/reliability.json?criterion=traffic&by=agent").json()["groups"]
    assert [group["agent"] for group in groups] == ["refund-desk", "trip-planner"]
    for group in groups:
        is_refund = group["agent"] == "refund-desk"
        verdicts = [passes for name, passes in decided.items() if name.startswith("refund-") == is_refund]
        correction = group["label_correction"]
        assert correction["labels"] == len(verdicts)
        assert correction["people"]["here"]["value"] == pytest.approx(sum(verdicts) / len(verdicts))
        assert ratio(correction["corrected"]["here"]["value"]) in displayed
    assert "corrected by people's labels" in displayed
    assert messages == []


def _reviewed(page: Page) -> str:
    """Return the id of the conversation under review."""
    return page.locator("form.verdict input[name=id]").get_attribute("value") or ""


def _press(page: Page, key: str) -> None:
    """Press a key that leads to another page."""
    with page.expect_navigation():
        page.keyboard.press(key)


def _verdict_of(annotator: str, conversation_id: str) -> bool:
    """Return whether an annotator passes a conversation: most of the time as all others do."""
    common, own = (random.Random(seed) for seed in (conversation_id, annotator + conversation_id))  # noqa: S311 — no secrets
    return (common.random() < 0.6) != (own.random() < 0.15)


def test_keys_turn_the_pages_of_a_list_and_of_a_queue(
    browser: Browser, console: RunningConsole, messages: list[str]
) -> None:
    page = open_console(browser, console, "ana", messages)
    page.goto(f"{console.url}/conversations?limit=20")
    urls = [page.url]
    for _ in range(2):
        _press(page, "n")
        urls.append(page.url)
    assert len(set(urls)) == 3
    for earlier in reversed(urls[:-1]):
        _press(page, "p")
        assert page.url == earlier

    link = page.context.new_page()  # which came from nowhere, like a link that was shared
    link.goto(urls[2])
    _press(link, "p")
    assert link.url == urls[0]

    page.goto(f"{console.url}/review")
    first = _reviewed(page)
    _press(page, "s")
    assert _reviewed(page) != first
    _press(page, "p")
    assert _reviewed(page) == first
    _press(page, "e")
    assert page.url.startswith(f"{console.url}/case?id={first}")
    assert messages == []


def test_the_live_tail_follows_pauses_and_executes_nothing(
    browser: Browser, tmp_path: Path, messages: list[str]
) -> None:
    with following(tmp_path / "t.duckdb") as tailed:
        page = open_console(browser, tailed.console, "ana", messages)
        page.goto(f"{tailed.console.url}/tail")
        state, rows = page.locator("[data-state]"), page.locator("[data-tail] tbody tr")
        eventually(state.inner_text, "● Live")
        tailed.converse(HOSTILE, agent=HOSTILE, answer="The Savoy.")
        eventually(lambda: rows.filter(has_text="✗ fail").filter(has_text="alert(1)").count(), 1)

        page.keyboard.press("p")
        tailed.converse("paused", ends=False)
        eventually(lambda: tailed.session.get("/tail.json").json()["rows"][0]["conversation_id"], "paused")
        assert (state.inner_text(), rows.count()) == ("Paused", 1)
        page.keyboard.press("p")
        eventually(lambda: rows.filter(has_text="paused").count(), 1)
        tailed.converse("paused")
        eventually(lambda: rows.filter(has_text="paused").filter(has_text="✓ pass").count(), 1)
        assert rows.count() == 2  # a conversation has one row

        tailed.converse(*(f"burst-{number}" for number in range(120)), ends=False)
        eventually(lambda: page.locator("[data-missed]").is_visible(), True)
        assert rows.count() <= 50
        assert problems_of(page) == []
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        eventually(lambda: len(tailed.live._tail._viewers), 0)
        page.evaluate("delete document.hidden")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        eventually(state.inner_text, "● Live")
        assert messages == []

        page.context.request.post(f"{tailed.console.url}/logout", headers={"sec-fetch-site": "same-origin"})
        eventually(lambda: "otel-agentic console --db FILE" in state.inner_text(), True)
        assert all("401" in message for message in messages)


def problems_of(page: Page, url: str | None = None) -> list[str]:
    """Return the problems of a page, or of the current one, in a wide and in a narrow window.

    These are what axe-core finds, with the first element of each, and content that is wider than the window.
    """
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 — installed by `make test-browser` only

    problems = []
    for width in _WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if url is not None:
            page.goto(url)
            page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true })")
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            problems.append(f"{page.url} is wider than {width} px")
        violations = Axe().run(page).response["violations"]
        problems += [f"{page.url} at {width} px: {rule['id']}: {rule['nodes'][0]['html']}" for rule in violations]
    return problems


def kappa(first: list[bool], second: list[bool]) -> float:
    """Return Cohen's kappa of two annotators, by its definition."""
    agreement = sum(left == right for left, right in zip(first, second, strict=True)) / len(first)
    rates = sum(first) / len(first), sum(second) / len(second)
    expected = rates[0] * rates[1] + (1 - rates[0]) * (1 - rates[1])
    return (agreement - expected) / (1 - expected)
