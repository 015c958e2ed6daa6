"""Untrusted text on a page is displayed as it is: it becomes no markup, steers no text, and takes a limited amount of room."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from otel_agentic.render.html.page import environment, render
from tests.cli.hostile import IMAGE, LONG, SCRIPT, build_hostile
from tests.cli.pictured import Page
from tests.cli.running import done


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a store in which every name is hostile."""
    db = build_hostile(tmp_path_factory.mktemp("hostile"))
    return done("report", "--db", db, "--by", "version", "--by", "tag", "--format", "html").out


def test_names_become_no_markup(text: str) -> None:
    page = Page.of(text)

    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"style", "srcdoc"}]
    assert not set(page.references) - set(page.ids)
    assert all((value or "#").startswith(("#", "data:,")) for name, value in page.attributes if name == "href")
    assert SCRIPT in page.text
    assert IMAGE in page.text


def test_names_are_in_no_chart(text: str) -> None:
    charts = [part.partition("</svg>")[0] for part in text.split("<svg")[1:]]

    assert charts
    assert [] == [part for part in charts if "alert" in part or "yyy" in part]


def test_names_turn_no_text_around(text: str) -> None:
    assert "\u202e" not in Page.of(text).text
    assert "&#8238;" not in text
    assert "<bdi>" in text


def test_names_are_cut_and_may_break(text: str) -> None:
    page = Page.of(text)
    visible = re.sub(r' title="[^"]*"', "", text)
    runs = [part for part in re.split(r"[<>\s]", visible) if "yyy" in part]

    assert LONG not in page.text
    assert ("title", LONG) in page.attributes
    assert max(map(len, runs)) <= len("y" * 18 + "&#8230;")


@given(st.text())
def test_text_is_read_as_it_was_written(text: str) -> None:
    visible = " ".join("".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text).split())
    page = Page.of(render("text", "untrusted", text, 10_000))

    assert "".join(page.texts) == visible


@given(st.text())
def test_an_attribute_is_read_as_it_was_written(text: str) -> None:
    visible = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)

    page = Page.of(environment().from_string('<p title="{{ text }}"></p>').render(text=text))
    assert [("title", visible)] == page.attributes


def test_the_markup_of_a_template_is_kept_and_values_are_escaped() -> None:
    template = environment().from_string(
        "{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}{{ bold('<') }}{{ value }}"
    )

    assert "<b>&lt;</b>&lt;b&gt;" == template.render(value="<b>")
    assert "<b>&lt;</b>" == template.render(value=None)
    assert "<b>&lt;</b>12" == template.render(value=12)


def test_characters_that_steer_text_are_replaced_in_every_value() -> None:
    template = environment().from_string('<p title="{{ text }}">{{ text }}</p>')

    assert '<p title="a\ufffdb\ufffd">a\ufffdb\ufffd</p>' == template.render(text="a\x1bb\u202e")


def test_names_may_break_and_are_cut() -> None:
    assert "<bdi>look_<wbr>up_<wbr>an_<wbr>order&lt;b</bdi>" == render("text", "untrusted", "look_up_an_order<b")
    assert '<bdi title="xxxxxxxxx">xxx…</bdi>' == render("text", "untrusted", "x" * 9, 4)


def test_a_template_with_an_unknown_name_fails() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ view.unknown.name }}").render(view={})
