"""A running collector for people: its health, what it receives, what is missing, what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.coverage import hang, print_coverage
from otel_agentic.cli.output import say
from otel_agentic.cli.tables import Column, print_table
from otel_agentic.cli.text import moment, plural, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


def print_live(out: Console, found: dict[str, Any]) -> None:
    """Print what the command `live` of a running collector returns."""
    state = found["collector"]
    _print_health(out, state)
    _print_conversations(out, found, state)
    if found["spans"]:
        click.echo()
        _print_spans(out, found["spans"])
    else:
        hang(
            out,
            f"nothing has arrived yet: point the exporter at {state.get('http') or state.get('grpc')}",
            "yellow",
            "",
        )
    if found["coverage"]:
        click.echo()
        print_coverage(out, found["coverage"], "Content captured, share of turns or calls that have it")
    elif found["spans"]:
        hang(out, "no turn is over yet: once one is, this tells which content is captured", indent="")
    click.echo()
    _print_problems(out, found, state)


def _print_health(out: Console, state: dict[str, Any]) -> None:
    ready = state["ready"]
    word = "is ready" if ready else "does not take spans"
    since = f", since {moment(state['started_at'], 19)} UTC" if state.get("started_at") else ""
    say(out, f"the collector {word}{since}", style="bold green" if ready else "bold red")
    addresses = (("OTLP/HTTP", "http"), ("OTLP/gRPC", "grpc"), ("admin", "admin"))
    told = [f"{title} {state[name]}" for title, name in addresses if state.get(name)]
    hang(out, f"{safe(state['db'])}; {', '.join(told)}", indent="")
    counts = state["received"]
    hang(
        out,
        f"{counts['stored']:,} spans and log records stored since then, {counts['duplicate']:,} duplicate, "
        f"{counts['rejected']:,} rejected, {counts['ignored']:,} ignored, {counts['late']:,} after their conversation closed",
        indent="",
    )


def _print_conversations(out: Console, found: dict[str, Any], state: dict[str, Any]) -> None:
    kept = ", ".join(plural(found[name], noun) for name, noun in (("turns", "turn"), ("tool_calls", "tool call")))
    held = plural(found["conversations"], "conversation")
    hang(out, f"{held} in the store ({kept}), {state['open_conversations']:,} open now", indent="")


def _print_spans(out: Console, rows: Sequence[dict[str, Any]]) -> None:
    columns = [
        Column(name="service", least=10),
        Column(name="scope", least=18),
        Column(name="dialect", least=8),
        Column(name="framework", least=12, spare=1),
        Column(name="spans", right=True),
        Column(name="last received", whole=True, spare=2),
    ]
    shown = [
        (
            row["service"],
            row["scope"] or "(no scope)",
            row["dialect"],
            row["framework"],
            f"{row['spans']:,}",
            moment(row["last_received"], 19),
        )
        for row in rows
    ]
    print_table(out, columns, shown, "Spans in the store, by scope")


def _print_problems(out: Console, found: dict[str, Any], state: dict[str, Any]) -> None:
    told = [f"{count:,} x {reason}" for reason, count in sorted(state["reasons"].items())]
    told += state["problems"]
    if found["ambiguous_links"]:
        alone = plural(found["ambiguous_links"], "conversation")
        told.append(f"{alone} without an id whose history fits two others equally: each stands alone")
    if not told:
        say(out, "no problems seen", style="green")
        return
    say(out, "problems seen since the start", style="bold yellow")
    for each in told:
        hang(out, each)
