"""`otel-agentic conversations`: list, show and export what was rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import format_option, opened, selection_of, selection_options, target_options
from otel_agentic.cli.output import console, print_json, print_line, ratio, safe, short, table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


@click.group()
def conversations() -> None:
    """Look at rebuilt conversations."""


@conversations.command(name="list")
@target_options
@selection_options
@click.option("--outcome", type=click.Choice(["pass", "fail", "not_evaluated"]), help="Only with this outcome.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Newest so many.")
@format_option
def list_(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    outcome: str | None,
    limit: int,
    output: str,
) -> None:
    """List conversations, newest first."""
    chosen = selection_of(since, until, agent)
    if outcome is not None:
        chosen["outcome"] = outcome
    with opened(db, server, config_file) as client:
        rows = client.call("conversations_list", **chosen, limit=limit)
    if output == "json":
        print_json(rows)
        return
    names = (
        "conversation_id",
        "agent",
        "agent_version",
        "ended_at",
        "turn_count",
        "call_count",
        "case_id",
        "outcome",
        "reason",
    )
    shown = [[_shown(name, row[name]) for name in names] for row in rows]
    console().print(table(None, [name.replace("_", " ") for name in names], shown, right=("turn count", "call count")))


@conversations.command()
@click.argument("conversation_id")
@click.option("--environment", help="Deployment environment, where the id exists in several.")
@target_options
@format_option
def show(
    conversation_id: str,
    environment: str | None,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Show one conversation, expected beside made."""
    arguments = {"conversation_id": conversation_id, **({"environment": environment} if environment else {})}
    with opened(db, server, config_file) as client:
        found = client.call("conversations_show", **arguments)
    if output == "json":
        print_json(found)
        return
    print_conversation(console(), found)


@conversations.command()
@target_options
@selection_options
def export(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
) -> None:
    """Print every conversation as one line of JSON."""
    with opened(db, server, config_file) as client:
        for line in client.stream("conversations_export", **selection_of(since, until, agent)):
            print_line(line)


def print_conversation(out: Console, found: dict[str, Any]) -> None:
    """Print one conversation with what was expected beside what was made."""
    conversation, score = found["conversation"], found["score"]
    out.print(
        f"conversation {safe(conversation['conversation_id'])}, agent {safe(conversation['agent_name'])} "
        f"{safe(conversation['agent_version'])}, revision {conversation['revision']}",
        style="bold",
        markup=False,
    )
    case = (score or {}).get("case") or {}
    if score is not None:
        reason = f" ({score['reason']})" if score["reason"] else ""
        out.print(
            f"case {safe(score['case_id'])}: {score['outcome']}{reason} — {safe(score['explanation'])}", markup=False
        )
    expected_turns = _aligned(case, score)
    for turn in conversation["turns"]:
        out.print(
            table(
                f"turn {turn['index'] + 1}",
                ("", "made", "expected"),
                _turn_rows(turn, expected_turns.get(turn["index"], {})),
            )
        )
    if case.get("tools"):
        rows = [[call["tool_name"], short(call.get("parameters", {}), 100)] for call in case["tools"]["calls"]]
        out.print(table("expected in any turn", ("tool", "parameters"), rows))
    faults = (score or {}).get("tool_faults") or []
    if faults:
        rows = [[fault["dimension"], fault["fault"], fault["tool_name"], fault["explanation"]] for fault in faults]
        out.print(table("faults", ("dimension", "fault", "tool", "what"), rows))
    for tools in (score or {}).get("tool_scores") or []:
        where = "conversation" if tools["turn_index"] is None else f"turn {tools['turn_index'] + 1}"
        names = ("selection", "parameters", "sequence", "utilization")
        told = ", ".join(f"{name} {ratio(tools[name])}" for name in names)
        out.print(f"tools of the {where}: {told}; overall {ratio(tools['overall'])}", markup=False)


def _aligned(case: dict[str, Any], score: dict[str, Any] | None) -> dict[int, dict[str, Any]]:
    """Return the case's turn that each turn of the conversation was held against."""
    expected = case.get("turns") or []
    pairs = [(turn["turn_index"], turn["case_turn_index"]) for turn in (score or {}).get("turn_scores") or []]
    return {made: expected[place] for made, place in pairs if place is not None and place < len(expected)}


def _turn_rows(turn: dict[str, Any], expected: dict[str, Any]) -> list[list[Any]]:
    calls = (expected.get("tools") or {}).get("calls") or []
    rows = [["query", short(turn["query"], 200), short(expected["query"], 200) if expected.get("query") else ""]]
    for place in range(max(len(turn["tools"]), len(calls))):
        made = _made(turn["tools"][place]) if place < len(turn["tools"]) else ""
        wanted = (
            f"{calls[place]['tool_name']} {short(calls[place].get('parameters', {}), 100)}"
            if place < len(calls)
            else ""
        )
        rows.append(["call", made, wanted])
    rows.append(
        ["answer", short(turn["answer"], 300), short(expected["answer"], 300) if expected.get("answer") else ""]
    )
    return rows


def _made(call: dict[str, Any]) -> str:
    outcome = f"error: {short(call['error'], 60)}" if call["error"] else short(call["result"], 60)
    return f"{call['name']} {short(call['arguments'], 100)} -> {outcome}"


def _shown(name: str, value: Any) -> Any:
    return value[:19].replace("T", " ") if name == "ended_at" and value else value
