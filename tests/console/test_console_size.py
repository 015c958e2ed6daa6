"""The size of pages: what a browser loads for one page of each kind, on the demo's store."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

from otel_agentic.console.app import PATHS
from tests.console.test_console_pages import links_of

if TYPE_CHECKING:
    import httpx

#: The median over the pages, and the size of the HTML of one with its style and its script.
_MEDIAN: Final = 15 * 1024
_FIRST_LOAD: Final = 80 * 1024
_FILES: Final = ("/static/style.css", "/static/console.css", "/static/console.js")
#: The parameters of the pages of one object.
_OBJECTS: Final = {
    "/conversation": "id=lyon-family-1.1.0-3&environment=demo",
    "/case": "case_id=lyon-family",
    "/match": "id=lyon-family-1.1.0-3&environment=demo",
    "/sql": "q=SELECT+42",
}


def _sizes(session: httpx.Client) -> dict[str, int]:
    """Return the bytes of the HTML of one page of each kind, without compression."""
    objects = dict(_OBJECTS)
    conversation = session.get(f"/conversation?{objects['/conversation']}")
    objects["/span"] = next(link for link in links_of(conversation) if link.startswith("/span?")).partition("?")[2]
    pages = {path: session.get(f"{path}?{objects.get(path, '')}") for path in PATHS}
    assert {answer.status_code for answer in pages.values()} == {200}
    return {path: len(answer.content) for path, answer in pages.items()}


@pytest.mark.slow  # each page is bounded: tests/console/test_console_pages.py
def test_the_median_page_is_small_and_the_first_load_is_bounded(session: httpx.Client) -> None:
    sizes = _sizes(session)
    files = sum(len(session.get(name).content) for name in _FILES)

    assert len(sizes) > 12, sizes
    assert median(sizes.values()) <= _MEDIAN, sizes
    assert sizes["/reliability"] + files <= _FIRST_LOAD, (sizes["/reliability"], files)
