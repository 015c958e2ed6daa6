"""Runs that hold a whole conversation: a voice session, a chat loop, a harness around several turns.

The rule: **several user inputs under one root are several turns, whatever the spans are called.** A span that looks like an
agent run and holds several user inputs is no run: the runs below it, else the model calls, are cut into turns as if it were
not there. An input is a user's when one of two things shows it:

- a model call was sent `text 1, answer 1, text 2`, and an earlier model call below the same root was asked text 1;
- the root records no input, and one agent runs below it several times in a row, each time with another input.

One turn, although it looks alike: a run whose history holds queries that no model call below it was asked; an agent that a
tool call started; a text that another model call wrote (an orchestrator delegates, a critic comments); a run with model calls
of its own, which asks again when an answer does not fit; a run that records the query which its first model call was asked;
the same query again after a failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import last_words
from otel_agentic.conversations.queries import after_last_assistant, answered_query, last_query
from otel_agentic.dialects.events import AgentRun, ModelCall, ToolCall
from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.dialects.events import Message

    #: The runs around a node, the topmost first, each with the child of it that holds the node.
    _Line = tuple[tuple[Node, Node], ...]

#: Fewer inputs are no conversation.
_SEVERAL: Final = 2
#: So many runs around a span may be sessions, from the root down: deeper ones would make deep traces expensive.
_MOST_AROUND: Final = 8
#: Of the responses before an input so many are compared with it; a shorter input may stand in one by chance.
_MOST_RESPONSES: Final = 16
_LEAST_DELEGATED: Final = 16


def find_sessions(ordered: Sequence[Node]) -> frozenset[int]:
    """Return the agent runs of a trace, by `id()`, that hold several turns of a conversation.

    Args:
        ordered: all nodes of the trace in depth-first order.
    """
    if not _may_hold_sessions(ordered):
        return frozenset()
    lines = _lines(ordered)
    return frozenset(_by_history(ordered, lines) | _by_inputs(ordered, lines))


def _may_hold_sessions(ordered: Sequence[Node]) -> bool:
    """Return whether a trace has several runs, or a model call whose history holds a query of another: few have."""
    runs = [node.event for node in ordered if isinstance(node.event, AgentRun)]
    if not runs:
        return False
    if sum(run.certain for run in runs) >= _SEVERAL and len(runs) > _SEVERAL:
        return True
    histories = [heard for node in ordered if (heard := _heard(node))]
    if len(histories) < _SEVERAL:
        return False
    asked = {last_query(heard)[0] for heard in histories}
    return any(before in asked for heard in histories if (before := answered_query(heard)) is not None)


def _lines(ordered: Sequence[Node]) -> dict[int, _Line]:
    """Return the runs around each node that no tool call holds, by the node's `id()`."""
    lines: dict[int, _Line] = {}
    for node in ordered:  # depth first: what is above is known already
        parent = node.parent
        if parent is None:
            lines[id(node)] = ()
            continue
        line = lines.get(id(parent))
        if line is None or isinstance((parent.same_as or parent).event, ToolCall):
            continue
        if isinstance(parent.event, AgentRun) and len(line) < _MOST_AROUND:
            line = (*line, (parent, node))
        lines[id(node)] = line
    return lines


def _by_history(ordered: Sequence[Node], lines: dict[int, _Line]) -> set[int]:
    """Return the runs below which a model call was asked something new after an earlier one was answered."""
    calls = [node for node in ordered if isinstance(node.event, ModelCall) and lines.get(id(node))]
    calls.sort(key=lambda node: node.at)
    thinking = {id(run) for node in calls for run, branch in lines[id(node)] if branch is node}
    found: set[int] = set()
    asked: dict[str, Node] = {}
    first: dict[int, str] = {}
    for index, node in enumerate(calls):
        heard = _heard(node)
        query = last_query(heard)[0]
        if query is None or any(message.results for message in after_last_assistant(heard)):
            continue
        for run, _ in lines[id(node)]:
            first.setdefault(id(run), query)
        before = answered_query(heard)
        earlier = asked.get(before) if before is not None else None
        asked[query] = node
        # One that was asked as much is the same call, tried before.
        if earlier is None or len(_heard(earlier)) >= len(heard):
            continue
        if _is_written(query, heard, calls[max(index - _MOST_RESPONSES, 0) : index]):
            continue
        around = _around_both(lines[id(earlier)], lines[id(node)])
        found.update(
            id(run) for run in around if not _is_one_run(run, first[id(run)], query, thinks=id(run) in thinking)
        )
    return found


def _heard(node: Node) -> Sequence[Message]:
    return (node.event.messages_in or ()) if isinstance(node.event, ModelCall) else ()


def _around_both(one: _Line, other: _Line) -> Iterable[Node]:
    """Yield the runs around both of two nodes, the topmost first."""
    for (run, branch), (other_run, other_branch) in zip(one, other, strict=False):
        if run is not other_run:
            return
        yield run
        if branch is not other_branch:
            return


def _is_one_run(run: Node, first: str, query: str, *, thinks: bool) -> bool:
    """Return whether a run is one although a model call below it was asked something new after an answer.

    Args:
        run: the run.
        first: the first query below it.
        query: the new one.
        thinks: whether it has model calls of its own, right below it.
    """
    assert isinstance(run.event, AgentRun)  # noqa: S101 — lines hold nothing else
    own = _own_query(run.event)
    if own is None:
        return thinks and run.event.certain
    if thinks:
        return True
    return (own in first or first in own) and query not in own


def _own_query(event: AgentRun) -> str | None:
    """Return what the span of a run itself records as its input; None where it records none."""
    if event.query is not None:
        return event.query.strip()
    return (last_query(event.messages_in)[0] or "").strip() if event.messages_in else None


def _is_written(query: str, heard: Sequence[Message], before: Sequence[Node]) -> bool:
    """Return whether a model wrote the query; the answers in its own history, which a user may quote, aside."""
    answers = {message.text for message in heard if message.role == "assistant"}
    for node in before:
        said = last_words(node.event.messages_out) if isinstance(node.event, ModelCall) else None
        if said is None or said[0] is None or said[0] in answers:
            continue
        if _holds(said[0], query):
            return True
    return False


def _holds(text: str, query: str) -> bool:
    """Return whether a query is what a model said, part of it, or says it in turn; of JSON each text counts."""
    found = parsed(text)
    said = (
        [text, *(value for value in found.values() if isinstance(value, str))] if isinstance(found, Mapping) else [text]
    )
    return any(_is_part(query.strip(), each.strip()) or _is_part(each.strip(), query.strip()) for each in said)


def _is_part(text: str, of: str) -> bool:
    return text == of or (len(text) >= _LEAST_DELEGATED and text in of)


def _by_inputs(ordered: Sequence[Node], lines: dict[int, _Line]) -> set[int]:
    """Return the runs without an input below which one agent runs several times in a row, with another input each time."""
    below: dict[int, list[tuple[Node, AgentRun]]] = defaultdict(list)
    silent: dict[int, bool] = {}
    first: dict[int, str] = {}
    for node in ordered:
        line = lines.get(id(node))
        if not line:
            continue
        run = line[-1][0]
        if isinstance(node.event, ModelCall):
            silent[id(run)] = False
            first.setdefault(id(run), (last_query(_heard(node))[0] or "").strip())
        elif isinstance(node.event, AgentRun) and node.event.certain and isinstance(run.event, AgentRun):
            below[id(run)].append((node, node.event))
            silent.setdefault(id(run), _own_query(run.event) is None)
    return {run for run, runs in below.items() if silent[run] and _take_turns(runs, first)}


def _take_turns(runs: Sequence[tuple[Node, AgentRun]], first: Mapping[int, str]) -> bool:
    """Return whether runs are turns of one agent: it is asked other things in a row, none of them its last answer.

    Args:
        runs: the runs.
        first: what the first model call right below each was asked, by the run's `id()`.
    """
    if len({event.header.agent_name or node.span.name for node, event in runs}) > 1:
        return False
    asked = [(node, query) for node, event in runs if (query := _own_query(event) or first.get(id(node)))]
    asked.sort(key=lambda each: each[0].at)
    others = 0
    for (one, before), (other, query) in pairwise(asked):
        if other.span.start_ns < one.span.end_ns or _is_written_by(one, query):
            return False
        others += query != before
    return others > 0


def _is_written_by(run: Node, query: str) -> bool:
    """Return whether a query contains what a run, or the last model call below it, answered."""
    answer = run.event.answer if isinstance(run.event, AgentRun) else None
    if answer is None:
        said = [node.event.messages_out for node in run.subtree() if isinstance(node.event, (AgentRun, ModelCall))]
        answer = next((found[0] for messages in reversed(said) if (found := last_words(messages)) is not None), None)
    return bool(answer and answer.strip() in query)
