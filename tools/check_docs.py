"""Check the Markdown pages: relative links have a target, and the displayed commands are valid.

Run it as `python -m tools.check_docs`. It checks the lines of ```` ```console ```` blocks that begin with
`$ otel-agentic` or `$ make`; a backslash at the end of a line continues it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.generated import ROOT
from tools.shown_commands import problem_of, shown_commands

_PAGES: Final = ("*.md", "docs/**/*.md", "examples/**/*.md")
_FENCE: Final = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<!\\)\[[^\]\n]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_FOREIGN: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages(root: Path) -> list[Path]:
    """Return the Markdown pages of a checkout, sorted."""
    return sorted({path for pattern in _PAGES for path in root.glob(pattern)})


def broken_links(page: Path) -> Iterator[str]:
    """Yield the relative links of a page that have no target."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for match in _LINK.finditer(prose):
        target, _, anchor = match[1].partition("#")
        if _FOREIGN.match(match[1]):
            continue
        aimed = page.parent / target if target else page
        if not aimed.exists():
            yield f"link to {match[1]}: no such file"
        elif anchor and aimed.suffix == ".md" and anchor not in anchors(aimed.read_text(encoding="utf-8")):
            yield f"link to {match[1]}: no such heading"


def anchors(text: str) -> set[str]:
    r"""Return the anchors of the headings of a page.

    >>> sorted(anchors("# What it answers\n## `pass^k`, in short\n"))
    ['passk-in-short', 'what-it-answers']
    """
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def refused_commands(page: Path) -> Iterator[str]:
    """Yield the invalid commands of a page, each with the reason."""
    for command in shown_commands(page.read_text(encoding="utf-8")):
        problem = problem_of(command)
        if problem:
            yield f"`{command}`: {problem}"


def main() -> int:
    """Print the problems; return the exit code."""
    problems = [
        f"{page.relative_to(ROOT)}: {problem}"
        for page in pages(ROOT)
        for problem in (*broken_links(page), *refused_commands(page))
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
