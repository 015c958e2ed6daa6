"""The documentation as a site: every page is in the navigation once, and links out of docs/ lead to the repository."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tools.generated import ROOT
from tools.site_links import on_page_markdown

CONFIG = SimpleNamespace(repo_url="https://example.com/r")


def pages_of(entry: Any) -> list[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages_of(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {"frameworks/index.md"}

    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("gate.md", "../README.md", "https://example.com/r/blob/main/README.md"),
        ("gate.md", "matching.md#ids", "matching.md#ids"),
        ("frameworks/index.md", "../matching.md", "../matching.md"),
        ("frameworks/index.md", "../../deploy/", "https://example.com/r/blob/main/deploy/"),
    ],
)
def test_links_out_of_the_documentation_lead_to_the_repository(page: str, link: str, expected: str) -> None:
    source = SimpleNamespace(file=SimpleNamespace(src_uri=page))

    assert on_page_markdown(f"see [it]({link})", page=source, config=CONFIG, files=None) == f"see [it]({expected})"
