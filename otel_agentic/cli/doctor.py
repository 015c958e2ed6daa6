"""`otel-agentic doctor`: how spans are read, and whether this installation is sound."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.tree import Tree

from otel_agentic.cli.options import config_option, settings_of
from otel_agentic.cli.output import console, safe, short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from otel_agentic.conversations.tree import Node
    from otel_agentic.dialects import Reading


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--traces", type=click.IntRange(min=1), default=5, show_default=True, help="Show this many traces.")
@config_option
def doctor(paths: tuple[str, ...], traces: int, config_file: Path | None) -> None:
    """Show how the spans of files are read, trace by trace; without a file, check this installation."""
    settings = settings_of(config_file)
    if not paths:
        _check_installation()
        return
    from otel_agentic.pipeline.inspect import read_traces  # noqa: PLC0415 — not needed for --help

    found = read_traces(settings, paths)
    out = console()
    for problem in found.problems:
        out.print(problem, markup=False, style="red")
    _print_scopes([node.reading for nodes in found.traces.values() for node in nodes])
    for trace_id, nodes in list(found.traces.items())[:traces]:
        out.print(_tree(trace_id, nodes))
    left = len(found.traces) - traces
    if left > 0:
        out.print(f"{left:,} more traces; --traces shows them")


def _print_scopes(readings: Sequence[Reading]) -> None:
    out = console()
    by_scope: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for reading in readings:
        header = reading.event.header
        by_scope[header.span.scope.name, header.dialect, reading.why][type(reading.event).__name__] += 1
    for (scope, dialect, why), kinds in sorted(by_scope.items()):
        told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        out.print(f"scope {safe(scope)}: dialect {dialect}, because of {safe(why)}: {told}", markup=False)


def _tree(trace_id: str, nodes: Sequence[Node]) -> Tree:
    root = Tree(f"trace {trace_id}")
    branches: dict[int, Tree] = {}
    for node in nodes:
        above = branches.get(id(node.parent), root) if node.parent is not None else root
        branches[id(node)] = above.add(escape(_line(node)))
    return root


def _line(node: Node) -> str:
    from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall  # noqa: PLC0415 — beside their one use

    event, span = node.event, node.span
    name = safe(span.name)
    if isinstance(event, Ignored):
        return f"{name} — ignored: {event.reason}"
    if isinstance(event, ToolCall):
        result = (
            event.header.error or short(event.result) if event.result_captured or event.header.error else "not captured"
        )
        arguments = short(event.arguments) if event.arguments is not None else "not captured"
        return f"{name} — tool call {safe(event.name)} {arguments} -> {result}"
    if isinstance(event, ModelCall):
        return f"{name} — model call, {_messages(event.messages_in)} in, {_messages(event.messages_out)} out"
    if isinstance(event, AgentRun):
        kind = "agent run" if node.is_run else "may be an agent run, but one above it is"
        return f"{name} — {kind} of {safe(node.agent_name)}, conversation {safe(event.header.conversation_id)}"
    return f"{name} — {type(event).__name__}"


def _messages(found: tuple[Any, ...] | None) -> str:
    return "content not captured" if found is None else f"{len(found)} messages"


def _check_installation() -> None:
    from otel_agentic.pipeline.inspect import installation  # noqa: PLC0415 — not needed for --help

    out = console()
    for check in installation():
        mark = "[green]ok[/]" if check.ok else "[red]wrong[/]"
        out.print(f"{mark}  {escape(check.what)}: {escape(check.found)}")
