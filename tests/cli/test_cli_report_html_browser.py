"""A page as a browser shows it: without an error, without sideways scrolling on a phone, light by day and dark by night."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.hotel import build_hotel
from tests.cli.pictured import store_windows, window
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans

_CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_LIMIT_S: Final = 120
#: Shows a page in a frame of some width, and writes down what it finds there.
_WRAPPER: Final = """
<!DOCTYPE html><meta charset="utf-8"><iframe id="f" src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {{
  const frame = document.getElementById("f").contentDocument, root = frame.documentElement;
  const view = root.clientWidth, wide = [];
  for (const each of frame.querySelectorAll("body *")) {{
    const box = each.getBoundingClientRect();
    if (box.width && box.right > view + 1 && !each.closest(".scroll, svg, caption, thead")) wide.push(each.tagName + "." + each.className);
  }}
  const sizes = [...frame.querySelectorAll("svg text")].map(each => each.getBoundingClientRect().height).filter(Boolean);
  const shown = [...frame.querySelectorAll("svg.plot")].filter(each => each.getBoundingClientRect().width > 0).length;
  const colours = [...frame.querySelectorAll("svg.plot .at .stroke")].map(each => getComputedStyle(each).stroke);
  const closed = [...frame.querySelectorAll("details.conversation")].filter(each => !each.open).length;
  const link = frame.querySelector("a[href^='#c1']");
  if (link) link.click();
  const opened = [...frame.querySelectorAll("details.conversation")].filter(each => each.open).map(each => each.querySelector("article").id);
  document.getElementById("found").textContent = JSON.stringify({{
    view, scroll: root.scrollWidth, wide, shown, least: Math.min(...sizes),
    background: getComputedStyle(frame.body).backgroundColor, colour: colours.find(each => each !== "none"),
    closed, opened, scripts: frame.scripts.length, resources: frame.defaultView.performance.getEntriesByType("resource").length,
  }});
}});
</script>
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CHROMIUM is None, reason="there is no Chromium to look with"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with everything: versions, faults, windows with gaps and restatements."""
    folder = tmp_path_factory.mktemp("hotel")
    db = build_hotel(folder)
    hours = [*range(30), *range(40, 60)]
    rows = [window(hour, 0.3 + hour / 100, agent_version=version) for hour in hours for version in ("1.9", "1.10")]
    store_windows(db, rows)
    done("report", "--db", db, "--by", "version", "--format", "html", "-o", folder / "page.html")
    return folder / "page.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of names that are long and mean."""
    folder = tmp_path_factory.mktemp("hostile")
    name = "<script>document.title='owned'</script>" + "y" * 500
    points = [
        conversation(f"{number}{name}", agent=f"{number}{name}", calls=[(name, {name: name}, "ok")], case="k")
        for number in (1, 2)
    ]
    case = {"case_id": "k", "tools": {"calls": [{"tool_name": name, "parameters": {name: "other"}}]}}
    done("ingest", write_spans(folder / "s.jsonl", points), "--db", folder / "t.duckdb")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", write_cases(folder / "c.jsonl", [case]))
    done("report", "--db", folder / "t.duckdb", "--format", "html", "-o", folder / "page.html")
    return folder / "page.html"


def looked_at(page: Path, width: int, *, dark: bool = False) -> dict[str, Any]:
    """Return the measurements of a page in a browser of some width, which must not log to its console."""
    wrapper = page.with_name(f"wrapper-{width}.html")
    wrapper.write_text(_WRAPPER.format(page=page.name, width=width), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
    ]
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    own = [f"--user-data-dir={page.parent / 'browser'}", "--window-size=1400,1000", "--dump-dom", wrapper.as_uri()]
    ran = subprocess.run(
        [str(_CHROMIUM), *options, *scheme, *own], capture_output=True, check=True, text=True, timeout=_LIMIT_S
    )
    assert [] == [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    (text,) = re.findall(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    measured: dict[str, Any] = json.loads(unescape(text))
    return measured


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_at_any_width(page: Path, hostile: Path, width: int) -> None:
    for html_page in (page, hostile):
        measured = looked_at(html_page, width)

        assert [] == measured["wide"]
        assert measured["scroll"] <= measured["view"]


def test_figures_in_pictures_are_readable_on_a_phone(page: Path) -> None:
    assert looked_at(page, 390)["least"] >= 9


def test_a_link_opens_the_conversation_that_it_leads_to(page: Path) -> None:
    measured = looked_at(page, 1280)

    assert measured["closed"]
    assert ["c1"] == measured["opened"]


def test_of_two_drawings_of_a_group_one_is_shown(page: Path) -> None:
    curves, over_time = 5, 2  # curves of each estimator shown

    assert curves + over_time == looked_at(page, 390)["shown"] == looked_at(page, 1280)["shown"]


def test_a_page_is_light_by_day_and_dark_by_night(page: Path) -> None:
    day, night = looked_at(page, 1280), looked_at(page, 1280, dark=True)

    assert ("rgb(246, 247, 249)", "rgb(0, 114, 178)") == (day["background"], day["colour"])
    assert ("rgb(15, 19, 23)", "rgb(86, 180, 233)") == (night["background"], night["colour"])


def test_a_page_runs_and_loads_nothing(hostile: Path) -> None:
    measured = looked_at(hostile, 1280)

    assert (0, 0) == (measured["scripts"], measured["resources"])
