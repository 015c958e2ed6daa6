"""Prints what the demo found, for people, in 80 columns or more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from otel_agentic.demo.findings import EVENT, GAUGE, GAUGE_K, pass_pow_k
from otel_agentic.demo.fleet import NEW, OLD, TRIP_PLANNER
from otel_agentic.demo.queries import TO_TRY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from otel_agentic.demo.backend import Received
    from otel_agentic.demo.findings import Fault, Findings, Json

_COLOURS: Final = {"ready": "green", "not_ready": "red", "insufficient_evidence": "cyan"}
_INDENT: Final = (0, 0, 0, 2)


def show(out: Console, found: Findings, received: Received, db: Path) -> None:
    """Print everything, in the order in which a reader asks."""
    _title(out, "How reliable is each agent?", "pass@1, and the chance that 3 in a row are right; 95 % intervals")
    _body(out, reliability(found.groups))
    for group in found.groups:
        _body(out, tier(group))
    _title(out, "What is wrong with which tool?", "expected against made, and since when")
    _body(out, failing_tools(found.faults))
    _title(out, "One failing conversation, expected beside made", found.failing["conversation"]["conversation_id"])
    _body(out, conversation(found.failing))
    _title(out, "What the telemetry backend received", "over OTLP, from the collector")
    for line in telemetry(found, received):
        _body(out, line)
    _title(out, "Now you", "the collector is stopped; its store is one open file")
    for line in to_try(found.revised, db):
        out.print(line, soft_wrap=True)


def _title(out: Console, question: str, note: str) -> None:
    out.print(f"\n[bold]{question}[/]  [dim]{escape(note)}[/]", soft_wrap=True)


def _body(out: Console, what: Any) -> None:
    out.print(Padding(what, _INDENT))


def reliability(groups: Sequence[Json]) -> Table:
    """Return the reliability table."""
    table = _table("agent", "right", "coverage", "pass@1", "pass@3", "pass^3", right=("right", "coverage"))
    for group in groups:
        shown = group["estimates"][group["default_estimator"]]
        at, power = shown["pass_at_k"], shown["pass_pow_k"]
        counts = (f"{group['c']}/{group['n']}", f"{group['coverage']:.0%}")
        table.add_row(_name(group), *counts, _interval(at["1"]), _interval(at["3"]), _interval(power["3"]))
    return table


def tier(group: Json) -> str:
    """Return the tier as a sentence: a claim, or what it leans to and how much evidence is missing."""
    name = group["tier"]
    claim = f"{_name(group)}: [{_COLOURS.get(name, 'yellow')}]{name}[/]"
    if group["leaning"] is None:
        return claim
    more = f"; {group['needed']} more conversations at this rate would settle it" if group["needed"] else ""
    return f"{claim}, leaning {group['leaning']}{more}"


def failing_tools(faults: Sequence[Fault]) -> Table:
    """Return the failing tools, a line for each fault."""
    table = _table("tool", "dimension", "fault", "times", "seen in", right=("times",))
    for fault in faults:
        what = fault.kind.replace("_", " ")
        if fault.parameter is not None:
            what = f"{fault.parameter}: expected {_json(fault.expected)}, made {_json(fault.made)}"
        since = f"{fault.versions[0]}, new" if TRIP_PLANNER == fault.agent and fault.versions == (NEW,) else ", ".join(fault.versions)
        table.add_row(fault.tool, fault.dimension or "", escape(what), str(fault.count), since)
    return table


def conversation(found: Json) -> Table:
    """Return one conversation: for each turn the query, and expected beside made."""
    table = _table("", "expected", "made")
    expected = (found["score"]["case"] or {}).get("turns", [])
    for turn in found["conversation"]["turns"]:
        case = expected[turn["index"]] if turn["index"] < len(expected) else {}
        table.add_row("[bold]user[/]", f"[bold]{escape(turn['query'])}[/]", "")
        calls = (case.get("tools") or {}).get("calls", [])
        for place in range(max(len(calls), len(turn["tools"]))):
            wanted = _call(calls[place]["tool_name"], calls[place]["parameters"]) if place < len(calls) else ""
            made = _call(turn["tools"][place]["name"], turn["tools"][place]["arguments"]) if place < len(turn["tools"]) else ""
            table.add_row("tool", wanted, made if made == wanted else f"[red]{made}[/]")
        table.add_row("answer", escape(case.get("answer") or "(not annotated)"), escape(turn["answer"] or ""))
    return table


def telemetry(found: Findings, received: Received) -> list[str]:
    """Return what arrived in the backend, line by line."""
    group = found.group(TRIP_PLANNER, NEW)
    ours = {name: count for name, count in received.points.items() if name.startswith("agentic.")}
    value = f"{pass_pow_k(group):.3f}"
    subject = f'gen_ai.agent.name="{group["agent"]}", gen_ai.agent.version="{group["agent_version"]}", agentic.k={GAUGE_K}'
    return [
        f"{sum(ours.values()):,} points of {len(ours)} metrics, {received.events[EVENT]:,} {EVENT} events, among them",
        escape(f"{GAUGE}{{{subject}}} = {value}: the pass^{GAUGE_K} of the table"),
    ]
