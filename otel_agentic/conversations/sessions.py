"""Finds agent runs that contain a whole conversation: a voice session, a chat loop, a harness around several turns.

The rule: **several user inputs under one root are several turns, regardless of the names of the spans.** A span that looks like
an agent run and contains several user inputs is not a run: the runs below it, else the model calls, are cut into turns as if
it did not exist. An input is a user's in one of two cases:

- a model call's input is `text 1, answer 1, text 2`, and text 1 is the query of an earlier model call below the same root;
- the root records no input, and one agent runs below it several times in a row, each time with another input.

These cases look similar but are one turn: a run whose history contains queries that are not the query of any model call below
it; an agent that a tool call started; a text that another model call wrote (an orchestrator delegates, a critic comments); a run
with model calls of its own, which asks again if an answer is unsuitable; a run that records the query of its first model
call; the same query again after a failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import last_answer
from otel_agentic.conversations.queries import after_last_assistant, answered_query, last_query
from otel_agentic.dialects.events import AgentRun, ModelCall, ToolCall
from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.dialects.events import Message

    #: The runs around a node, the topmost first, each with the child of it that holds the node.
    _Line = tuple[tuple[Node, Node], ...]

#: The smallest number of inputs of a conversation.
_SEVERAL: Final = 2
#: This many runs around a span may be sessions, from the root down: more would make deep traces expensive.
_MOST_AROUND: Final = 8
#: The number of responses before an input that are compared with it; a shorter input may be part of one by chance.
_MOST_RESPONSES: Final = 16
_LEAST_DELEGATED: Final = 16


def find_sessions(ordered: Sequence[Node]) -> frozenset[int]:
    """Return the agent runs of a trace, by `id()`, that contain several turns of a conversation.

    Args:
        ordered: all nodes of the trace in depth-first order.
    """
    if not _may_hold_sessions(ordered):
        return frozenset()
    lines = _lines(ordered)
    return frozenset(_by_history(ordered, lines) | _by_inputs(ordered, lines))


def _may_hold_sessions(ordered: Sequence[Node]) -> bool:
    """Return whether a trace has several runs, or a model call whose history contains the query of another; few have."""
    runs = [node.event for node in ordered if isinstance(node.event, AgentRun)]
    if not runs:
        return False
    if sum(run.certain for run in runs) >= _SEVERAL and len(runs) > _SEVERAL:
        return True
    inputs = [messages for node in ordered if (messages := _input_of(node))]
    if len(inputs) < _SEVERAL:
        return False
    queries = {last_query(messages)[0] for messages in inputs}
    return any(before in queries for messages in inputs if (before := answered_query(messages)) is not None)


def _lines(ordered: Sequence[Node]) -> dict[int, _Line]:
    """Return the runs around each node outside of tool calls, by the node's `id()`."""
    lines: dict[int, _Line] = {}
    for node in ordered:  # depth first: the line of the parent is known already
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
    """Return the runs below which a model call got a new query after an earlier one was answered."""
    calls = [node for node in ordered if isinstance(node.event, ModelCall) and lines.get(id(node))]
    calls.sort(key=lambda node: node.at)
    thinking = {id(run) for node in calls for run, branch in lines[id(node)] if branch is node}
    sessions: set[int] = set()
    by_query: dict[str, Node] = {}
    first: dict[int, str] = {}
    for index, node in enumerate(calls):
        messages = _input_of(node)
        query = last_query(messages)[0]
        if query is None or any(message.results for message in after_last_assistant(messages)):
            continue
        for run, _ in lines[id(node)]:
            first.setdefault(id(run), query)
        before = answered_query(messages)
        earlier = by_query.get(before) if before is not None else None
        by_query[query] = node
        # A call with an input of the same length is an earlier try of the same call.
        if earlier is None or len(_input_of(earlier)) >= len(messages):
            continue
        if _is_written(query, messages, calls[max(index - _MOST_RESPONSES, 0) : index]):
            continue
        around = _around_both(lines[id(earlier)], lines[id(node)])
        sessions.update(
            id(run) for run in around if not _is_one_run(run, first[id(run)], query, thinks=id(run) in thinking)
        )
    return sessions


def _input_of(node: Node) -> Sequence[Message]:
    return (node.event.messages_in or ()) if isinstance(node.event, ModelCall) else ()


def _around_both(line: _Line, other: _Line) -> Iterable[Node]:
    """Yield the runs around both of two nodes, the topmost first."""
    for (run, branch), (other_run, other_branch) in zip(line, other, strict=False):
        if run is not other_run:
            return
        yield run
        if branch is not other_branch:
            return


def _is_one_run(run: Node, first: str, query: str, *, thinks: bool) -> bool:
    """Return whether a run is a single turn although a model call below it got a new query after an answer.

    Args:
        run: the run.
        first: the first query below it.
        query: the new query.
        thinks: whether it has model calls of its own, directly below it.
    """
    assert isinstance(run.event, AgentRun)  # noqa: S101 — lines contain nothing else
    own = _own_query(run.event)
    if own is None:
        return thinks and run.event.certain
    if thinks:
        return True
    return (own in first or first in own) and query not in own


def _own_query(event: AgentRun) -> str | None:
    """Return the input that the span of a run itself records, or None."""
    if event.query is not None:
        return event.query.strip()
    return (last_query(event.messages_in)[0] or "").strip() if event.messages_in else None


def _is_written(query: str, messages: Sequence[Message], before: Sequence[Node]) -> bool:
    """Return whether a model wrote the query, apart from the answers in its own history, which a user may quote."""
    answers = {message.text for message in messages if message.role == "assistant"}
    for node in before:
        answer = last_answer(node.event.messages_out) if isinstance(node.event, ModelCall) else None
        if answer is None or answer[0] is None or answer[0] in answers:
            continue
        if _overlaps(answer[0], query):
            return True
    return False


def _overlaps(text: str, query: str) -> bool:
    """Return whether a query equals, contains or is part of a model's output; for JSON, of any text in it."""
    content = parsed(text)
    texts = [text]
    if isinstance(content, Mapping):
        texts += [value for value in content.values() if isinstance(value, str)]
    return any(_is_part(query.strip(), part.strip()) or _is_part(part.strip(), query.strip()) for part in texts)


def _is_part(text: str, of: str) -> bool:
    return text == of or (len(text) >= _LEAST_DELEGATED and text in of)


def _by_inputs(ordered: Sequence[Node], lines: dict[int, _Line]) -> set[int]:
    """Return the runs without an input below which one agent runs several times in a row, each time with another input."""
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
            first.setdefault(id(run), (last_query(_input_of(node))[0] or "").strip())
        elif isinstance(node.event, AgentRun) and node.event.certain and isinstance(run.event, AgentRun):
            below[id(run)].append((node, node.event))
            silent.setdefault(id(run), _own_query(run.event) is None)
    return {run for run, runs in below.items() if silent[run] and _take_turns(runs, first)}


def _take_turns(runs: Sequence[tuple[Node, AgentRun]], first: Mapping[int, str]) -> bool:
    """Return whether runs are turns of one agent: it gets different queries in sequence, none of them its last answer.

    Args:
        runs: the runs.
        first: the query of the first model call directly below each run, by the run's `id()`.
    """
    if len({event.header.agent_name or node.span.name for node, event in runs}) > 1:
        return False
    queries = [(node, query) for node, event in runs if (query := _own_query(event) or first.get(id(node)))]
    queries.sort(key=lambda item: item[0].at)
    changes = 0
    for (run, before), (following, query) in pairwise(queries):
        if following.span.start_ns < run.span.end_ns or _is_written_by(run, query):
            return False
        changes += query != before
    return changes > 0


def _is_written_by(run: Node, query: str) -> bool:
    """Return whether a query contains the answer of a run, or of the last model call below it."""
    answer = run.event.answer if isinstance(run.event, AgentRun) else None
    if answer is None:
        outputs = [node.event.messages_out for node in run.subtree() if isinstance(node.event, (AgentRun, ModelCall))]
        answers = (last_answer(messages) for messages in reversed(outputs))
        answer = next((found_answer[0] for found_answer in answers if found_answer is not None), None)
    return bool(answer and answer.strip() in query)
