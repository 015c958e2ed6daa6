"""Traces for people: a tree of what each span became, and below it the turns that the trace came to."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text
from rich.tree import Tree

from otel_agentic.cli.coverage import hang
from otel_agentic.cli.output import show
from otel_agentic.cli.tables import Column, print_table
from otel_agentic.cli.text import plural, printable, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

_STYLES: Final = {"agent_run": "bold", "model_call": "cyan", "tool_call": "green", "plan": "cyan", "ignored": "dim"}
_QUERY: Final = 200
_ANSWER: Final = 300
_ARGUMENTS: Final = 160
#: Reasons that are told of one scope and dialect.
_MOST_REASONS: Final = 2
#: What the tree shows of arguments: the turns below it show more.
_HINT: Final = 80


def scopes_of(traces: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many spans of each scope were read as what, and why by that dialect."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trace in traces:
        for span in trace["spans"]:
            found[span["scope"], span["dialect"]][span["event"]] += 1
            reasons[span["scope"], span["dialect"]][span["because_of"]] += 1
    return [
        {
            "scope": key[0],
            "dialect": key[1],
            "because_of": _reasons(reasons[key]),
            "events": dict(kinds.most_common()),
        }
        for key, kinds in sorted(found.items())
    ]


def _reasons(found: Counter[str]) -> str:
    """Return the most frequent reasons."""
    named = [reason for reason, _ in found.most_common(_MOST_REASONS)]
    more = len(found) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def print_scopes(out: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print the scopes, by whom their spans were read, and why."""
    columns = [
        Column(name="scope", least=20),
        Column(name="dialect", least=8),
        Column(name="because of", least=12),
        Column(name="read as", least=20),
    ]
    told = [
        (
            each["scope"],
            each["dialect"],
            each["because_of"],
            ", ".join(
                plural(count, kind.replace("_", " ") if kind != "ignored" else "ignored span")
                for kind, count in each["events"].items()
            ),
        )
        for each in rows
    ]
    print_table(out, columns, told)


def print_trace(out: Console, trace: dict[str, Any]) -> None:
    """Print one trace as `pipeline.traces.trace_json` gives it."""
    show(out, _tree(trace))
    if not trace["conversations"]:
        hang(
            out, "no conversation: nothing in this trace is an agent's run, a model call or a tool call", style="yellow"
        )
    for conversation in trace["conversations"]:
        _print_conversation(out, conversation)


def _tree(trace: dict[str, Any]) -> Tree:
    frameworks = ", ".join(trace["frameworks"]) or "no agent"
    service = f", service {trace['service']}" if trace["service"] else ""
    head = Text(f"trace {trace['trace_id']}", style="bold")
    head.append(f" — {plural(len(trace['spans']), 'span')}{printable(service)}, {frameworks}", style="not bold")
    main = Counter(span["dialect"] for span in trace["spans"] if span["event"] != "ignored").most_common(1)
    branches: dict[str | None, tuple[Tree, str | None]] = {None: (Tree(head), None)}
    for span in trace["spans"]:
        above, told_id = branches[span["parent_span_id"]]
        own_id = span["conversation_id"] or told_id
        line = _line(span, main[0][0] if main else None, own_id if own_id != told_id else None)
        branches[span["span_id"]] = (above.add(line), own_id)
    return branches[None][0]


def _line(span: dict[str, Any], main_dialect: str | None, new_id: str | None) -> Text:
    """Return the line of a span: what differs from the lines above it is said, what is like them is not."""
    line = Text(short(span["name"]), style=_STYLES[span["event"]])
    line.append(f" — {_meaning(span)}", style="not bold")
    if new_id is not None:
        line.append(f", conversation {short(new_id)}", style="not bold")
    if span["dialect"] != main_dialect and span["event"] != "ignored":
        line.append(f" [{printable(span['dialect'])}]", style="magenta")
    if span["error"] and span["event"] != "tool_call":
        line.append(f", failed: {short(span['error'])}", style="red")
    return line


def _meaning(span: dict[str, Any]) -> str:
    match span["event"]:
        case "agent_run" if span["counts"]:
            return f"agent run of {short(span['agent'])}, {_content(span, nothing='no content of its own')}"
        case "agent_run":
            return "may be an agent run, but one above or below it is"
        case "model_call":
            return f"model call, {_content(span, nothing='content not captured')}"
        case "tool_call":
            return f"tool call {short(span['tool'])} {_arguments(span['arguments'], _HINT)} -> {_outcome(span)}"
        case "plan":
            return f"plan: {short(span['plan']) if span['plan'] is not None else 'not captured'}"
        case _:
            same = f" ({span['same_as']})" if span["same_as"] else ""
            return f"ignored: {short(span['reason'], _ARGUMENTS)}{same}"


def _content(span: dict[str, Any], *, nothing: str) -> str:
    """Return how much of input and output a run or a model call recorded."""
    sides = {"in": (span["messages_in"], span.get("query")), "out": (span["messages_out"], span.get("answer"))}
    told = {side: _side(side, count, text) for side, (count, text) in sides.items()}
    if not any(told.values()):
        return nothing
    return ", ".join(found or f"nothing {side} captured" for side, found in told.items())


def _side(side: str, count: int | None, text: str | None) -> str | None:
    if count is not None:
        return f"{plural(count, 'message')} {side}"
    return f"text {side}" if text is not None else None


def _arguments(arguments: dict[str, Any] | None, limit: int = _ARGUMENTS) -> str:
    return short(arguments, limit) if arguments is not None else "arguments not captured"


def _outcome(span: dict[str, Any]) -> str:
    if span["error"]:
        return f"error: {short(span['error'])}"
    if span["handoff_to"]:
        return f"hands over to {short(span['handoff_to'])}"
    return short(span["result"]) if span["result_captured"] else "result not captured"


def _print_conversation(out: Console, conversation: dict[str, Any]) -> None:
    environment = f" in {printable(conversation['environment'])}" if conversation["environment"] else ""
    named = f"conversation {short(conversation['conversation_id'])}{environment}"
    hang(out, f"{named}, id from {short(conversation['id_from'], _QUERY)}", style="bold", indent="")
    for turn in conversation["turns"]:
        columns = [Column(name=f"turn {turn['index'] + 1}", whole=True), Column(name="", least=30)]
        print_table(out, columns, _turn_rows(turn))
    if conversation["repeats"]:
        hang(out, "no turn of its own: it adds nothing", indent="")
    elif conversation["goes_on_with"] is None:
        hang(out, "no turn: neither a model call nor a tool call nor the content of an agent's run", indent="")
    elif not conversation["turns"]:
        hang(out, f"no turn begins here: the trace goes on with turn {conversation['goes_on_with'] + 1}", indent="")


def _turn_rows(turn: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("query", _said(turn["query"], captured=turn["query_captured"], limit=_QUERY))]
    for call in turn["tools"]:
        kind = "" if call["kind"] == "tool" else f" {call['kind']}"
        rows.append((f"step {call['step']}{kind}", _call(call)))
    if turn["error"]:
        rows.append(("error", short(turn["error"], _ANSWER)))
    rows.append(("answer", _said(turn["answer"], captured=turn["answer_captured"], limit=_ANSWER)))
    return rows


def _call(call: dict[str, Any]) -> str:
    asked = f"{short(call['name'])} {_arguments(call['arguments'])}"
    if call["error"]:
        outcome = f"error: {short(call['error'], _HINT)}"
    else:
        outcome = short(call["result"], _HINT) if call["result_captured"] else "result not captured"
    return f"{asked}{' ' if len(asked) <= _HINT else chr(10)}-> {outcome}"


def _said(text: str | None, *, captured: bool, limit: int) -> str:
    return short(text, limit) if text is not None else "none" if captured else "not captured"


def print_rest(out: Console, more: int, total: int) -> None:
    """Say how many traces are not shown."""
    if more > 0:
        click.echo()
        hang(out, f"({plural(more, 'more trace')}; --traces {total} shows all, --trace ID shows one)", "dim", "")
