"""What metrics say of one conversation, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.output import say
from otel_agentic.cli.report_metrics import shown_name, shown_value
from otel_agentic.cli.tables import Column, print_table
from otel_agentic.cli.text import safe, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

_EXPLANATION: Final = 200
_NAME: Final = 40
_FAILURE: Final = "failure"
_COLUMNS: Final = (
    Column(name="metric", least=20),
    Column(name="of", least=16),
    Column(name="score", least=12),
    Column(name=_FAILURE, whole=True),
    Column(name="why", least=30),
)


def print_metrics(out: Console, metrics: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores of a conversation, its turns and calls, and how many metrics had nothing to score."""
    scored = [metric for metric in metrics if metric["reason"] is None]
    if scored:
        click.echo()
        rows = [_cells(metric) for metric in scored]
        failing = any(metric["severity"] for metric in scored)
        kept = [place for place, column in enumerate(_COLUMNS) if failing or column.name != _FAILURE]
        print_table(out, [_COLUMNS[place] for place in kept], [[row[place] for place in kept] for row in rows])
    reasons = Counter(metric["reason"] for metric in metrics if metric["reason"] is not None)
    if reasons:
        told = ", ".join(f"{count:,} {safe(reason)}" for reason, count in reasons.most_common())
        say(out, f"nothing to score: {told}; --format json says why", style="dim")


def _cells(metric: Mapping[str, Any]) -> list[str]:
    return [
        shown_name(metric),
        _place(metric),
        _score(metric),
        metric["severity"] or "",
        short(metric["explanation"] or "", _EXPLANATION),
    ]


def _place(metric: Mapping[str, Any]) -> str:
    """Return what a score is about.

    >>> _place({"turn_index": 0, "position": 1, "tool_name": "search", "parameter": "city"})
    'turn 1, call 2: search city'
    """
    turn, position = metric["turn_index"], metric["position"]
    whole = "the conversation" if turn is None else f"turn {turn + 1}"
    where = whole if position is None else f"{whole}, call {position + 1}"
    named = " ".join(short(name, _NAME) for name in (metric["tool_name"], metric["parameter"]) if name)
    return f"{where}: {named}" if named else where


def _score(metric: Mapping[str, Any]) -> str:
    value = None if metric["value"] is None else shown_value(metric["value"], metric)
    label = None if metric["label"] is None else short(metric["label"], _NAME)
    return ": ".join(filter(None, (value, label)))
