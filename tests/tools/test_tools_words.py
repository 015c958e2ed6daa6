"""The check of the language finds phrases and names with their lines, and leaves technical English alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import check_words
from tools.check_words import WORDS, check_markdown, check_python, load_rules, main

RULES = load_rules()

PYTHON = '''"""Return what stands
in the store."""

import json as told

# A comment that runs over
# two lines, in force
def rate(places, first_seen, *, place_count):
    """Return the rate."""
    one = said_before = 1
    self.found = f"{one} calls are left out, for it is late"
    return {"told": sql("select one")}  # noqa: S608  beside this


class ToldReporter:
    pass
'''


def found_in(path: str, source: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in check_python(path, source, RULES)]


def test_names_comments_docstrings_and_messages_are_checked() -> None:
    assert found_in("otel_agentic/rates.py", PYTHON) == [
        (1, '"Return what"'),
        (1, '"stands"'),
        (1, '"what stands"'),
        (4, "name `told`"),
        (7, '"in force"'),
        (8, "name `places`"),
        (10, "name `one`"),
        (10, "name `said_before`"),
        (11, '"for it"'),
        (11, "name `found`"),
        (12, '"beside"'),
        (15, "name `ToldReporter`"),
    ]


def test_a_module_is_checked_by_its_name() -> None:
    assert found_in("otel_agentic/store/living.py", "") == [(1, "name `living`")]


@pytest.mark.parametrize(
    "source",
    [
        '"""Return the spans of a conversation, or None if it is unknown."""',
        "last_seen = place_in_line = oneof = 1",
        'raise ValueError("unknown setting: use one of a, b")',
        'x = "told"  # a lone word in quotes is a key, not prose',
        "telltale = 1  # storytelling",
    ],
)
def test_technical_english_passes(source: str) -> None:
    assert found_in("otel_agentic/rates.py", source) == []


def test_a_page_is_checked_without_its_code() -> None:
    page = "# What is pass^k?\n\nIt `tells` a rate.\n\n```console\nwhat is told\n```\n\nIt tells\na rate.\n"
    assert [(finding.line, finding.word) for finding in check_markdown("docs/x.md", page, RULES)] == [(9, '"tells"')]


def test_an_exemption_holds_in_its_files_only() -> None:
    assert found_in("otel_agentic/stats/compare.py", "means = 1") == []
    assert [finding for _, finding in found_in("otel_agentic/live/means.py", "")] == ["name `means`"]


def test_the_exit_code_and_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(WORDS)]) == 0, "a file that is neither Python nor Markdown is not checked"
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("It tells a rate.\n", encoding="utf-8")
    assert main(["--count", str(page)]) == 1
    assert re.search(r"^ +1 docs/page\.md$", capsys.readouterr().out, re.MULTILINE)
