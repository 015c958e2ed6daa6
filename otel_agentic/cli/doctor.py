"""`otel-agentic doctor`: how spans are read, and whether this installation is sound."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text
from rich.tree import Tree

from otel_agentic.cli.options import config_option, format_option, settings_of
from otel_agentic.cli.output import console, print_json, say, show
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import plural, safe, short
from otel_agentic.errors import DecodeError, PluginError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from otel_agentic.conversations.tree import Node
    from otel_agentic.dialects import Reading


@click.command(short_help="Show how spans are read; check the installation.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--traces", type=click.IntRange(min=0), metavar="N", default=5, show_default=True, help="Show so many traces."
)
@config_option
@format_option
def doctor(paths: tuple[str, ...], traces: int, config_file: Path | None, output: str) -> None:
    """Show how the spans of files are read, trace by trace; without a file, check this installation."""
    settings = settings_of(config_file)
    if not paths:
        _check_installation(output)
        return
    from otel_agentic.pipeline.inspect import read_traces  # noqa: PLC0415 — not needed for --help

    found = read_traces(settings, paths)
    scopes = _scopes([node.reading for nodes in found.traces.values() for node in nodes])
    if output == "json":
        print_json({"traces": len(found.traces), "scopes": scopes, "problems": list(found.problems)})
    else:
        _print(found.traces, scopes, traces)
    if found.problems:
        raise DecodeError("\n".join(found.problems))


def _scopes(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return how many spans of each scope were read as what, and why in that dialect."""
    by_scope: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for reading in readings:
        header = reading.event.header
        by_scope[header.span.scope.name, header.dialect, reading.why][type(reading.event).__name__] += 1
    return [
        {"scope": scope, "dialect": dialect, "because_of": why, "events": dict(kinds.most_common())}
        for (scope, dialect, why), kinds in sorted(by_scope.items())
    ]


def _print(traces: Mapping[str, Sequence[Node]], scopes: Sequence[dict[str, Any]], limit: int) -> None:
    out = console()
    if not traces:
        say(out, "no spans in these files")
        return
    rows = [
        (
            each["scope"],
            each["dialect"],
            each["because_of"],
            ", ".join(f"{count:,} {kind}" for kind, count in each["events"].items()),
        )
        for each in scopes
    ]
    columns = [Column(name="scope", least=20), *text("dialect", "because of"), Column(name="read as", least=20)]
    print_table(out, columns, rows)
    for trace_id, nodes in list(traces.items())[:limit]:
        click.echo()
        show(out, _tree(trace_id, nodes))
    if len(traces) > limit:
        click.echo()
        say(out, f"({plural(len(traces) - limit, 'more trace')}; --traces {len(traces)} shows all)", style="dim")


def _tree(trace_id: str, nodes: Sequence[Node]) -> Tree:
    root = Tree(Text(f"trace {trace_id}", style="bold"))
    branches: dict[int, Tree] = {}
    for node in nodes:
        above = branches.get(id(node.parent), root) if node.parent is not None else root
        branches[id(node)] = above.add(Text(_line(node)))
    return root


def _line(node: Node) -> str:
    from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall  # noqa: PLC0415 — beside their one use

    event = node.event
    name = short(node.span.name)
    if isinstance(event, Ignored):
        return f"{name} — ignored: {event.reason}"
    if isinstance(event, ToolCall):
        arguments = short(event.arguments) if event.arguments is not None else "arguments not captured"
        return f"{name} — tool call {short(event.name)} {arguments} -> {_result(event)}"
    if isinstance(event, ModelCall):
        return f"{name} — model call, {_messages(event.messages_in)} in, {_messages(event.messages_out)} out"
    if isinstance(event, AgentRun):
        kind = "agent run" if node.is_run else "may be an agent run, but one above it is"
        return f"{name} — {kind} of {short(node.agent_name)}, conversation {safe(event.header.conversation_id)}"
    return f"{name} — {type(event).__name__}"


def _result(event: Any) -> str:
    if event.header.error:
        return f"error: {short(event.header.error)}"
    return short(event.result) if event.result_captured else "result not captured"


def _messages(found: tuple[Any, ...] | None) -> str:
    return "content not captured" if found is None else plural(len(found), "message")


def _check_installation(output: str) -> None:
    from otel_agentic.pipeline.inspect import installation  # noqa: PLC0415 — not needed for --help

    checks = list(installation())
    if output == "json":
        print_json([{"what": check.what, "ok": check.ok, "found": check.found} for check in checks])
    else:
        rows = [("ok" if check.ok else "wrong", check.what, check.found) for check in checks]
        print_table(console(), [Column(name="state", whole=True), *text("what", "found")], rows)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        raise PluginError(f"{plural(len(wrong), 'check')} failed: {', '.join(check.what for check in wrong)}")
