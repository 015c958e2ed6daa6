"""A hook of MkDocs: links that leave docs/ point to the files of the repository."""

from __future__ import annotations

import re
from typing import Any, Final

_OUTSIDE: Final = re.compile(r"\]\((?:\.\./)+(?!docs/)(?P<target>[^)\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 — the signature of MkDocs
    """Return the text of a page with absolute links to files outside of docs/."""
    depth = page.file.src_uri.count("/") + 1

    def absolute(match: re.Match[str]) -> str:
        leaves = match[0].count("../") >= depth
        return f"]({config.repo_url}/blob/main/{match['target']}" if leaves else match[0]

    return _OUTSIDE.sub(absolute, markdown)
