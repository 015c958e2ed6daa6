"""Coverage as text: the recorded content, and advice on missing content."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.render.terminal import Column, print_table, say
from otel_agentic.render.text import percent, printable, safe

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.results.store import Coverage, Missing

_SHARES: Final = {
    "query": "query",
    "answer": "answer",
    "arguments": "arguments",
    "results": "results",
    "conversation_id": "id",
}


def print_coverage(out: Console, rows: Sequence[Coverage], title: str) -> None:
    """Print the shares of turns and calls with recorded content, followed by advice on recording the rest."""
    columns = [
        Column(name="service", least=10),
        Column(name="framework", least=14),
        Column(name="dialect", least=8, spare=3),
        Column(name="turns", right=True, spare=1),
        Column(name="calls", right=True, spare=2),
        *(Column(name=name, right=True) for name in _SHARES.values()),
    ]
    cells = [
        (
            row.service,
            row.framework,
            row.dialect,
            f"{row.turns:,}",
            f"{row.calls:,}",
            *(percent(getattr(row, name)) for name in _SHARES),
        )
        for row in rows
    ]
    print_table(out, columns, cells, title)
    several = len(rows) > 1
    for row in rows:
        if row.missing:
            click.echo()
            if several:
                say(out, f"{safe(row.service)}, {row.framework}:", style="bold")
            for line in missing_lines(row.missing):
                hang(out, line, style="yellow")


def missing_lines(missing: Iterable[Missing]) -> list[str]:
    """Return one line per advice, with all kinds of content that it applies to.

    >>> from otel_agentic.results.store import Missing
    >>> missing_lines([Missing(what="answers", have=0, of=15, advice="content capture is off: set X=1")])
    ['answers: 0 of 15 — content capture is off: set X=1']
    """
    by_advice: dict[str, list[str]] = {}
    for gap in missing:
        by_advice.setdefault(gap.advice, []).append(f"{gap.what}: {gap.have:,} of {gap.of:,}")
    return [f"{', '.join(gaps)} — {advice}" for advice, gaps in by_advice.items()]


def hang(out: Console, line: str, style: str | None = None, indent: str = "  ") -> None:
    """Print a line whose continuation lines, on a terminal, are indented."""
    if not out.is_terminal:
        say(out, indent + line, style=style)
        return
    wrapped = textwrap.wrap(
        printable(line), max(out.width, 20), initial_indent=indent, subsequent_indent=indent * 2, break_on_hyphens=False
    )
    for text_line in wrapped:
        say(out, text_line, style=style)
