"""Open conversations in the terminal: their provisional outcomes, and why a selection has no closed conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import Column, numbers, print_table, say, text
from otel_agentic.render.text import moment, plural, short
from otel_agentic.results.conversations import OpenConversations

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.cli.options import Selection
    from otel_agentic.commands import Client

open_option: Final = click.option(
    "--open", "show_open", is_flag=True, help="Show open conversations with their provisional outcomes."
)
_MAX_AGENTS: Final = 5
_MAX_EXPLANATION: Final = 100


def open_conversations_of(
    client: Client, selection: Selection, *, scored: bool = False, is_empty: bool = False
) -> OpenConversations:
    """Return the open conversations of a selection.

    Args:
        client: the store.
        selection: selects the conversations.
        scored: whether to compute the provisional outcomes of the newest ones.
        is_empty: whether the selection has no closed conversation, so that the reason is wanted.

    Raises:
        UsageError: the selection is empty, because no agent in the store matches its name.
    """
    arguments = {name: value for name, value in selection.arguments.items() if name != "evaluation"}
    result = client.get(
        OpenConversations, "conversations_open", **arguments, scored=scored, arriving=scored or is_empty
    )
    if is_empty:
        _require_agent(result, selection.agent)
    return result


def require_agent(client: Client, selection: Selection) -> None:
    """Check the agent of a selection whose result is empty, because an empty output would not show that its name is wrong.

    Raises:
        UsageError: the store has agents, and none of them matches.
    """
    if selection.agent is not None:
        _require_agent(open_conversations_of(client, selection), selection.agent)


def _require_agent(result: OpenConversations, agent: str | None) -> None:
    if agent is not None and result.agents and not any(fnmatchcase(name, agent) for name in result.agents):
        raise UsageError(f"no agent matches {agent!r}; the store has: {', '.join(result.agents[:_MAX_AGENTS])}")


def refuse_open(output: str) -> None:
    """Refuse `--open` in a format that is not for people.

    Raises:
        UsageError: the format is not `table`.
    """
    if output != "table":
        raise UsageError(
            f"--open with --format {output}: provisional outcomes are in no rate; `otel-agentic conversations list --open "
            "--format json` has them"
        )


def say_open(out: Console, result: OpenConversations) -> None:
    """Print that conversations are open, if any are, and what to do about them."""
    for line in _open_lines(result):
        say(out, line)


def _say_when(out: Console, result: OpenConversations) -> None:
    for line in [*_open_lines(result, hint="")] or ["no open conversations in this selection"]:
        say(out, line)


def say_empty(out: Console, result: OpenConversations) -> None:
    """Print why a selection has no closed conversation, and what to do next."""
    for line in _empty_lines(result):
        say(out, line)


def print_open(out: Console, result: OpenConversations) -> None:
    """Print the number of open conversations of each agent by provisional outcome."""
    agents = Counter((item.agent, item.agent_version) for item in result.conversations)
    outcomes = Counter((item.agent, item.agent_version, item.outcome) for item in result.conversations)
    columns = [*text("agent", "version"), *numbers("open", *_OUTCOMES)]
    rows = [
        (*subject, count, *(outcomes[(*subject, outcome)] for outcome in _OUTCOMES))
        for subject, count in agents.items()
    ]
    if rows:
        print_table(out, columns, rows, _TITLE)
    _say_when(out, result)


def print_open_list(out: Console, result: OpenConversations) -> None:
    """Print each open conversation with its provisional outcome, and when it closes if a collector runs."""
    closes = [Column(name="closes", spare=1)] if result.collecting else []
    columns = [
        *(Column(name="conversation", unfolded=True), Column(name="agent"), *closes),
        *(*text("case", "so far"), Column(name="because", least=30)),
    ]
    rows = [
        (
            item.conversation_id,
            " ".join(filter(None, (item.agent, item.agent_version))),
            *(moment(item.closes_at) for _ in closes),
            item.case_id,
            item.outcome,
            "" if item.outcome == "no failure so far" else short(item.explanation, _MAX_EXPLANATION),
        )
        for item in result.conversations
    ]
    if rows:
        print_table(out, columns, rows, _TITLE)
    _say_when(out, result)


def print_open_faults(out: Console, result: OpenConversations) -> None:
    """Print the faults of tools in open conversations, the most frequent first."""
    faults = [(item, fault) for item in result.conversations for fault in item.faults]
    counts = Counter((fault.tool_name, fault.fault, fault.parameter) for _, fault in faults)
    newest = {(fault.tool_name, fault.fault, fault.parameter): (item, fault) for item, fault in reversed(faults)}
    columns = [*text("tool", "fault"), *numbers("faults"), *text("for example", "conversation")]
    rows = [
        (
            tool,
            f"{kind} {parameter or ''}".rstrip(),
            count,
            short(newest[tool, kind, parameter][1].explanation, _MAX_EXPLANATION),
            newest[tool, kind, parameter][0].conversation_id,
        )
        for (tool, kind, parameter), count in counts.most_common()
    ]
    if rows:
        print_table(out, columns, rows, "Tool faults of open conversations (provisional: in no rate)")
    elif result.conversations:
        say(out, f"no tool faults so far in {plural(len(result.conversations), 'open conversation')}")
    _say_when(out, result)


_OUTCOMES: Final = ("failed already", "no failure so far", "not evaluated")
_TITLE: Final = "Open conversations (provisional: in no rate, window or tier)"


def _open_lines(
    result: OpenConversations, hint: str = "; `otel-agentic conversations list --open` shows provisional outcomes"
) -> Iterator[str]:
    arriving = result.arriving or 0
    count = result.open + arriving
    if not count:
        return
    still_open = f"{plural(count, 'conversation')} {'is' if count == 1 else 'are'} open"
    if not result.collecting:
        yield (
            f"{still_open}; no collector runs on this store, so nothing closes them: start `otel-agentic serve`, or close them "
            "with `otel-agentic evaluate --close-open`"
        )
        return
    if arriving:
        still_open += f" ({arriving:,} not rebuilt yet: conversations.turn_idle_s after the last span)"
    if not result.first_closes_at:
        yield still_open
        return
    first = f"the first closes at {moment(result.first_closes_at)} UTC (conversations.idle_s after the last span)"
    yield f"{still_open}; {first}{hint}"


def _empty_lines(result: OpenConversations) -> Iterator[str]:
    if not result.spans:
        yield (
            "the store has no spans: run your agent with `otel-agentic run -- COMMAND`, send its spans to `otel-agentic "
            "serve`, or read files with `otel-agentic ingest`"
        )
        return
    yield from _open_lines(result)
    if result.others:
        yield f"{plural(result.others, 'other conversation')} of the store: not in this selection"
    elif not result.open and not result.arriving:
        yield "the store has spans but no conversation: `otel-agentic doctor --live` shows how spans are read"
    if not result.cases:
        yield (
            "no cases are loaded, so no outcome can be computed: pass --cases FILE to `serve`, `run` or `evaluate`, or load "
            "them with `otel-agentic truth import FILE`"
        )
