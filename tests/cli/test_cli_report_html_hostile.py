"""What strangers wrote is shown on a page as it is: it becomes no markup, steers no text, and takes no more room than it may."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.cli.html.markup import markup, stranger, tag
from tests.cli.pictured import Page, store_windows, window
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans

_SCRIPT: Final = "<script>alert(1)</script>\"'&amp;`$a_b$`"
_IMAGE: Final = '"><img src=x onerror=alert(1)><!--'
_TURNED: Final = "مرحبا \u202egnp.exe"
_LONG: Final = "y" * 500
_AGENTS: Final = (_SCRIPT, _TURNED, _LONG, "日本語")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a store in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    db = folder / "t.duckdb"
    made = [
        conversation(
            f"c{place}{_SCRIPT}",
            calls=[(_IMAGE, {_IMAGE: f"</style>{_SCRIPT}"}, "ok"), (_LONG, {}, "Error: no")],
            agent=agent,
            version=f"</svg>{_SCRIPT}",
            case=_SCRIPT,
        )
        for place, agent in enumerate(_AGENTS)
    ]
    tools = {"calls": [{"tool_name": _IMAGE, "parameters": {_IMAGE: "</title>"}}]}
    case = {"case_id": _SCRIPT, "tags": [_IMAGE], "tools": tools}
    done("ingest", write_spans(folder / "s.jsonl", made), "--db", db)
    done("evaluate", "--db", db, "--cases", write_cases(folder / "c.jsonl", [case]))
    rows = [window(0, 0.5, agent=agent, service=_IMAGE, agent_version=_SCRIPT) for agent in _AGENTS]
    store_windows(db, rows)
    return done("report", "--db", db, "--by", "version", "--by", "tag", "--format", "html").out


def test_names_become_no_markup(text: str) -> None:
    page = Page.of(text)

    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert _SCRIPT in page.text
    assert _IMAGE in page.text


def test_names_stand_in_no_drawing(text: str) -> None:
    drawings = [part.partition("</svg>")[0] for part in text.split("<svg")[1:]]

    assert drawings
    assert [] == [part for part in drawings if "alert" in part or "yyy" in part]


def test_names_turn_no_text_around(text: str) -> None:
    assert "\u202e" not in Page.of(text).text
    assert "&#8238;" not in text
    assert "<bdi>" in text


def test_names_are_cut_and_may_break(text: str) -> None:
    page = Page.of(text)
    runs = [part for part in text.replace("<wbr>", " ").replace(">", " ").replace("<", " ").split() if "yyy" in part]

    assert _LONG not in page.text
    assert ("title", _LONG) in page.attributes
    assert max(len(part) for part in runs if not part.startswith('title="')) <= 20


@given(st.text())
def test_text_is_read_as_it_was_written(text: str) -> None:
    shown = " ".join("".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text).split())
    page = Page.of(tag("p", stranger(text, limit=10_000)))

    assert "".join(page.texts) == shown


@given(st.text())
def test_an_attribute_is_read_as_it_was_written(text: str) -> None:
    shown = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)

    assert [("title", shown)] == Page.of(tag("p", title=text)).attributes


def test_what_is_made_here_stays_markup_and_other_text_does_not() -> None:
    assert "<b>&lt;</b>&lt;b&gt;12" == markup([tag("b", "<"), "<b>", None, 1, (2,)])


def test_text_that_would_steer_is_made_visible_wherever_it_goes_in() -> None:
    assert "a\ufffdb\ufffd" == markup("a\x1bb\u202e")
    assert '<p title="\ufffd">\ufffd</p>' == tag("p", "\u202e", title="\x00")
