"""A running collector for people: its health, what it receives, what is missing, what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.coverage import hang, print_coverage
from otel_agentic.cli.output import say
from otel_agentic.cli.store_show import size_text
from otel_agentic.cli.tables import Column, print_table
from otel_agentic.cli.text import moment, percent, plural, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


def print_live(out: Console, found: dict[str, Any]) -> None:
    """Print what the command `live` of a running collector returns."""
    state = found["collector"]
    _print_health(out, state)
    _print_waiting(out, state)
    if "store_error" in found:
        _print_problems(out, found, state)
        return
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
    word = "is ready," if ready else "does not take spans; up"
    since = f" since {moment(state['started_at'], 19)} UTC" if state.get("started_at") else ""
    say(out, f"the collector {word}{since}", style="bold green" if ready else "bold red")
    if not ready:
        hang(out, safe(state["why_not"]))
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
    if state["altered"]:
        altered = ", ".join(f"{count:,} x {reason}" for reason, count in sorted(state["altered"].items()))
        hang(out, f"in what was received, mended, cut or redacted: {altered}", indent="")


def _print_waiting(out: Console, state: dict[str, Any]) -> None:
    backlog, share = state["backlog"], state["background_share"]
    counts = {
        "to be written": plural(state["queued_spans"], "span"),
        "to be read": plural(backlog["read"], "trace"),
        "to be rebuilt": plural(backlog["rebuild"], "conversation"),
        "to be scored": plural(backlog["score"], "conversation"),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if not count.startswith("0 ")) or "nothing"
    slow = f"; rebuilding and scoring give way to what arrives: {percent(share)} of the time is left to them"
    hang(out, f"waiting: {told}{slow if share < 1 else ''}", indent="")
    told = f"store {size_text(state['store_bytes'])}, log {size_text(state['log_bytes'])}"
    if state["store_reopened"]:
        told += f", opened again {plural(state['store_reopened'], 'time')} after a failure"
    if state["queries"]:
        told += f"; queries that run: {state['queries']}"
    hang(out, told, indent="")


def _judge_told(judge: dict[str, Any]) -> list[str]:
    if judge["state"] == "closed":
        return (
            [f"the judge was left alone {plural(judge['opened'], 'time')}; it answers now"] if judge["opened"] else []
        )
    when = f"in {judge['retry_in_s']:.0f} s" if judge["state"] == "open" else "now"
    told = f"the judge failed {plural(judge['failures'], 'time')} in a row and is left alone: it is tried again {when}"
    return [f"{told}, and conversations wait for it (left alone {plural(judge['opened'], 'time')} since the start)"]


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
    told += [*_judge_told(state["judge"]), *state["problems"]]
    if state["retention_problem"]:
        told.append(f"{state['retention_problem']}; it is tried again")
    if found.get("ambiguous_links"):
        alone = plural(found["ambiguous_links"], "conversation")
        told.append(f"{alone} without an id whose history fits two others equally: each stands alone")
    told += [safe(row["note"]) for row in found.get("wrong_clocks", ())]
    if not told:
        say(out, "no problems seen", style="green")
        return
    say(out, "problems seen", style="bold yellow")
    for each in told:
        hang(out, each)
