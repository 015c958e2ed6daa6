"""The tree of the spans of a trace, and the messages of its model calls: query, answer, and which of the input are new.

The rule for runs that contain a whole conversation (a voice session, a chat loop, a harness around several turns): **several
user inputs under one root are several turns, regardless of the names of the spans.** A span that looks like an agent run
and contains several user inputs is not a run: the runs below it, else the model calls, are cut into turns as if it did
not exist. An input is a user's in one of two cases:

- a model call's input is `text 1, answer 1, text 2`, and text 1 is the query of an earlier model call below the same root;
- the root records no input, and one agent runs below it several times in a row, each time with another input.

These cases look similar but are one turn: a run whose history contains queries that are not the query of any model call below
it; an agent that a tool call started; a text that another model call wrote (an orchestrator delegates, a critic comments); a run
with model calls of its own, which asks again if an answer is unsuitable; a run that records the query of its first model
call; the same query again after a failure.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.merge import Node, by_time, drop_repetitions, folded, merge_duplicates
from otel_agentic.dialects.events import AgentRun, ModelCall, Redacted, ToolCall
from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.dialects.base import Reading
    from otel_agentic.dialects.events import CallRequest, Message

#: Tools that give the answer: their call ends a run and is not an action of the agent (smolagents, pydantic-ai).
_ANSWER_TOOLS: Final = frozenset({"final_answer", "final_result"})
#: Tools with these names give the answer if it is their only argument (DSPy); otherwise they may do anything.
_POSSIBLE_ANSWER_TOOLS: Final = frozenset({"answer", "attempt_completion", "finish", "respond", "submit"})


def gives_answer(name: str, arguments: Mapping[str, Any] | None, answer: str | None) -> bool:
    """Return whether a call gives the answer instead of performing an action.

    >>> gives_answer("final_answer", None, None), gives_answer("submit", {"form": "A38"}, "Done.")
    (True, False)
    """
    if is_answer_tool(name):
        return True
    return (
        folded(name) in _POSSIBLE_ANSWER_TOOLS and answer is not None and list((arguments or {}).values()) == [answer]
    )


def is_answer_tool(name: str) -> bool:
    """Return whether a tool gives the answer, by its name.

    >>> is_answer_tool("final_answer"), is_answer_tool("answer_phone")
    (True, False)
    """
    return folded(name) in _ANSWER_TOOLS


def answer_in(message: Message) -> str | None:
    """Return the text for the user in an assistant message: text next to a tool call never reaches the user."""
    if message.requests:
        answers = [_answer_argument(request) for request in message.requests if is_answer_tool(request.name)]
        return answers[0] if len(answers) == len(message.requests) else None
    return message.text or None


def _answer_argument(request: CallRequest) -> str | None:
    texts = [value for value in (request.arguments or {}).values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def last_answer(messages: Sequence[Message] | None) -> tuple[str | None, bool] | None:
    """Return (text, captured) of the last assistant message if it is an answer, else None."""
    for message in reversed(messages or ()):
        if message.role != "assistant":
            continue
        if message.redacted:
            return None, False
        answer = answer_in(message)
        return (answer, True) if answer is not None else None
    return None


def last_query(messages: Sequence[Message]) -> tuple[str | None, bool]:
    """Return the user's newest text in a list of messages, and whether it was captured.

    Only the messages after the last answer are new; a user message with nothing but tool results is not a query.
    """
    new_messages = after_last_assistant(messages)
    for message in reversed(new_messages):
        if message.role == "user" and message.text is not None:
            return message.text, True
        if message.role == "user" and message.redacted:
            return None, False
    offset = len(messages) - len(new_messages)
    return None, not any(_is_wordless(messages, offset + index) for index in range(len(new_messages)))


def answered_query(messages: Sequence[Message]) -> str | None:
    """Return the user's last text that was answered before the newest one; None if nothing was answered before it."""
    new_messages = after_last_assistant(messages)
    answer_index = len(messages) - len(new_messages) - 1
    if answer_index < 1 or answer_in(messages[answer_index]) is None:
        return None
    for message in reversed(messages[:answer_index]):
        if message.role == "user" and message.text and not message.results:
            return message.text
    return None


def after_last_assistant(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last assistant message."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[index + 1 :]
    return messages


def after_last_query(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Return the messages after the user's last text; None if there is no text of a user."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role != "user":
            continue
        if (message.text is not None and not message.results) or (index and _is_wordless(messages, index)):
            return messages[index + 1 :]
    return None


def _is_wordless(messages: Sequence[Message], index: int) -> bool:
    """Return whether a message is a query without any known text: an image, or a redacted text.

    After calls, such a message contains their results, in a part of unknown type.
    """
    message = messages[index]
    if message.role != "user" or any(not isinstance(part, Redacted) for part in message.parts):
        return False
    return not index or not messages[index - 1].requests


def without_history(query: str, model_input: Sequence[Message]) -> str:
    """Return the user's last text if a run's input is a transcript of its model's complete input (agno), else the query."""
    last, _ = last_query(model_input)
    if last is None or last == query.strip() or last not in query:
        return query
    history_texts = [message.text for message in model_input if message.role in {"user", "assistant"} and message.text]
    return last if len(history_texts) > 1 and all(text in query for text in history_texts) else query


def is_old(query: str | None, model_input: Sequence[Message]) -> bool:
    """Return whether the model's input contains the query with its answer: a run's recorded input may be cut (OpenLIT)."""
    indices = [index for index, message in enumerate(model_input) if message.role == "user" and message.text == query]
    if query is None or not indices:
        return False
    after = model_input[indices[-1] + 1 :]
    return any(message.role == "user" and message.text for message in after) and any(
        message.role == "assistant" and message.text and not message.requests for message in after
    )


if TYPE_CHECKING:
    #: The runs around a node, the topmost first, each with the child that contains the node.
    _Line = tuple[tuple[Node, Node], ...]

#: Minimum number of user inputs of a run that contains several turns.
_SEVERAL: Final = 2
#: Maximum number of runs around a span, from the root down, that are examined: more would make deep traces expensive.
_MOST_AROUND: Final = 8
#: Number of responses before an input that are compared with it, and the minimum length of a text that is searched in
#: another: a shorter one may occur by chance.
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
    """Return whether a trace has several runs, or a model call whose history contains another's query; few do."""
    runs = [node.event for node in ordered if isinstance(node.event, AgentRun)]
    if not runs:
        return False
    if sum(run.certain for run in runs) >= _SEVERAL and len(runs) > _SEVERAL:
        return True
    inputs = [messages for node in ordered if (messages := _input_of(node))]
    if len(inputs) < _SEVERAL:
        return False
    answered = {answered_query(messages) for messages in inputs} - {None}
    return bool(answered) and not answered.isdisjoint(last_query(messages)[0] for messages in inputs)


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
    calls.sort(key=by_time)
    runs_with_calls = {id(run) for node in calls for run, branch in lines[id(node)] if branch is node}
    sessions: set[int] = set()
    by_query: dict[str, Node] = {}
    first_queries: dict[int, str] = {}
    for index, node in enumerate(calls):
        messages = _input_of(node)
        query = last_query(messages)[0]
        if query is None or any(message.results for message in after_last_assistant(messages)):
            continue
        for run, _ in lines[id(node)]:
            first_queries.setdefault(id(run), query)
        answered = answered_query(messages)
        earlier = by_query.get(answered) if answered is not None else None
        by_query[query] = node
        # A call with an input of the same length is an earlier try of the same call.
        if earlier is None or len(_input_of(earlier)) >= len(messages):
            continue
        if _is_written(query, messages, calls[max(index - _MOST_RESPONSES, 0) : index]):
            continue
        common_runs = _around_both(lines[id(earlier)], lines[id(node)])
        sessions.update(
            id(run)
            for run in common_runs
            if not _is_one_run(run, first_queries[id(run)], query, has_calls=id(run) in runs_with_calls)
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


def _is_one_run(run: Node, first_query: str, query: str, *, has_calls: bool) -> bool:
    """Return whether a run is a single turn although a model call below it got a new query after an answer.

    Args:
        run: the run.
        first_query: the first query below it.
        query: the new query.
        has_calls: whether it has model calls of its own, directly below it.
    """
    assert isinstance(run.event, AgentRun)  # noqa: S101 — lines contain nothing else
    own_query = _own_query(run.event)
    if own_query is None:
        return has_calls and run.event.certain
    if has_calls:
        return True
    return (own_query in first_query or first_query in own_query) and query not in own_query


def _own_query(event: AgentRun) -> str | None:
    """Return the input that the span of a run itself records, or None."""
    if event.query is not None:
        return event.query.strip()
    return (last_query(event.messages_in)[0] or "").strip() if event.messages_in else None


def _is_written(query: str, messages: Sequence[Message], earlier_calls: Sequence[Node]) -> bool:
    """Return whether a model wrote the query; answers in its own history do not count, since a user may quote them."""
    answers = {message.text for message in messages if message.role == "assistant"}
    for node in earlier_calls:
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


def _is_part(part: str, text: str) -> bool:
    return part == text or (len(part) >= _LEAST_DELEGATED and part in text)


def _by_inputs(ordered: Sequence[Node], lines: dict[int, _Line]) -> set[int]:
    """Return the runs without an input below which one agent runs several times in a row, each time with another input."""
    runs_below: dict[int, list[tuple[Node, AgentRun]]] = defaultdict(list)
    lacks_input: dict[int, bool] = {}
    first_queries: dict[int, str] = {}
    for node in ordered:
        line = lines.get(id(node))
        if not line:
            continue
        run = line[-1][0]
        if isinstance(node.event, ModelCall):
            lacks_input[id(run)] = False
            first_queries.setdefault(id(run), (last_query(_input_of(node))[0] or "").strip())
        elif isinstance(node.event, AgentRun) and node.event.certain and isinstance(run.event, AgentRun):
            runs_below[id(run)].append((node, node.event))
            lacks_input.setdefault(id(run), _own_query(run.event) is None)
    return {run for run, runs in runs_below.items() if lacks_input[run] and _take_turns(runs, first_queries, ordered)}


def _take_turns(
    runs: Sequence[tuple[Node, AgentRun]], first_queries: Mapping[int, str], ordered: Sequence[Node]
) -> bool:
    """Return whether runs are turns of one agent: it receives different queries in sequence, none from its last answer.

    Args:
        runs: the runs.
        first_queries: the query of the first model call directly below each run, by the run's `id()`.
        ordered: all nodes of the trace in depth-first order.
    """
    if len({event.header.agent_name or node.span.name for node, event in runs}) > 1:
        return False
    queries = [(node, query) for node, event in runs if (query := _own_query(event) or first_queries.get(id(node)))]
    queries.sort(key=lambda item: item[0].at)
    changes = 0
    for (run, previous_query), (following, query) in pairwise(queries):
        if following.span.start_ns < run.span.end_ns or _is_written_by(run, query, ordered):
            return False
        changes += query != previous_query
    return changes > 0


def _is_written_by(run: Node, query: str, ordered: Sequence[Node]) -> bool:
    """Return whether a query contains the answer of a run, or of the last model call below it."""
    answer = run.event.answer if isinstance(run.event, AgentRun) else None
    if answer is None:
        events = [node.event for node in run.subtree(ordered)]
        outputs = [event.messages_out for event in events if isinstance(event, (AgentRun, ModelCall))]
        answers = (last_answer(messages) for messages in reversed(outputs))
        answer = next((found_answer[0] for found_answer in answers if found_answer is not None), None)
    return bool(answer and answer.strip() in query)


#: The history length of a tool call without a request, which orders it after the model calls that start at the same
#: time.
_UNKNOWN: Final = 1 << 31


def build_tree(readings: Sequence[Reading]) -> list[Node]:
    """Return all nodes of one trace in depth-first order.

    Orphans become roots; a parent cycle is cut at its earliest span. The result does not depend on the order of the readings.
    """
    nodes = [Node.of(reading) for reading in readings]
    nodes.sort(key=_sibling_order)
    by_id = {node.span.span_id: node for node in nodes}
    for node in nodes:
        parent = by_id.get(node.span.parent_span_id or "")
        node.parent = parent if parent is not node else None
    _cut_cycles(nodes)
    children: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.parent is not None:
            children[id(node.parent)].append(node)
    roots = [node for node in nodes if node.parent is None]
    ordered = _depth_first(roots, children)
    if _settle_ties(ordered, children):
        ordered = _depth_first(roots, children)
    for order, node in enumerate(ordered):
        node.put_at(order)
    for node in reversed(ordered):
        if node.parent is not None:
            node.parent.last = max(node.parent.last, node.last)
    merge_duplicates(ordered)
    drop_repetitions(ordered)
    mark_runs(ordered)
    return ordered


def _depth_first(roots: Sequence[Node], children: Mapping[int, Sequence[Node]]) -> list[Node]:
    ordered: list[Node] = []
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        ordered.append(node)
        stack.extend(reversed(children.get(id(node), ())))
    return ordered


def _sibling_order(node: Node) -> tuple[int, int, int, str]:
    """Return the sort key of siblings.

    With a clock of milliseconds, a tool may start at the same time as the model call that requested it and the next
    model call. Then the model calls come first, in the order of the lengths of their histories.
    """
    span, event = node.span, node.event
    is_model_call = isinstance(event, ModelCall)
    history_length = len(event.messages_in or ()) if isinstance(event, ModelCall) else sys.maxsize
    return (span.start_ns, history_length, span.end_ns if is_model_call else -span.end_ns, span.span_id)


def _settle_ties(ordered: Sequence[Node], children: Mapping[int, list[Node]]) -> bool:
    """Order siblings that start at the same tick of a coarse clock by their inputs; return whether there are any.

    Of two model calls the one with the shorter history is the earlier; a tool call follows the model call that requested it.
    """
    histories: dict[int, int] = {}
    has_ties = False
    for node in reversed(ordered):  # from the leaves up, so that deep traces cost no more than wide ones
        if isinstance(node.event, ModelCall):
            histories[id(node)] = len(node.event.messages_in or ())
        siblings = children.get(id(node))
        if siblings is None:
            continue
        if len({child.span.start_ns for child in siblings}) < len(siblings):
            _order_siblings(siblings, histories)
            has_ties = True
        child_histories = [histories[id(child)] for child in siblings if id(child) in histories]
        if child_histories:
            histories.setdefault(id(node), min(child_histories))
    return has_ties


def _order_siblings(siblings: list[Node], histories: Mapping[int, int]) -> None:
    histories_by_call = {
        request.call_id: histories[id(node)]
        for node in siblings
        if isinstance(node.event, ModelCall)
        for message in node.event.messages_out or ()
        for request in message.requests
        if request.call_id is not None
    }

    def start_and_history(node: Node) -> tuple[int, int, bool]:
        if isinstance(node.event, ToolCall):
            return (node.span.start_ns, histories_by_call.get(node.event.call_id or "", _UNKNOWN), True)
        return (node.span.start_ns, histories.get(id(node), 0), False)

    siblings.sort(key=start_and_history)


def mark_runs(ordered: Sequence[Node]) -> None:
    """Decide which `AgentRun` events count as runs.

    A certain run does. An uncertain run does if it is the topmost one or was started by a tool call, and if it has
    content of its own or no certain run below it. A run that contains a whole conversation does not (see
    `find_sessions`).
    """
    below = _contents(ordered)
    sessions = find_sessions(ordered)
    starts: dict[int, bool] = {}  # whether a run may begin right below the node: nothing above it is one already
    for node in ordered:  # depth first: the nodes above are decided already
        parent = node.parent
        holder = parent.same_as or parent if parent is not None else None
        in_call = holder is not None and isinstance(holder.event, ToolCall)
        free = parent is None or in_call or (starts[id(parent)] and not parent.is_run)
        starts[id(node)] = free
        if parent is not None:
            node.run = parent if parent.is_run else parent.run
            node.holding_call = holder if in_call else parent.holding_call
        event = node.event
        if isinstance(event, AgentRun) and not (id(node) in sessions and node.run is None):
            node.is_run = event.certain or (free and _may_be_run(event, below[id(node)]))
    for node in reversed(ordered):
        if node.is_run or node.holds_run:
            for above in filter(None, (node.parent, node.same_as)):
                above.holds_run = above.holds_run or node.holds_run or (node.is_run and above is node.parent)


@dataclass(slots=True, kw_only=True)
class _Contents:
    """Whether a node has any nodes below it (`some`), model or tool calls (`works`), and certain runs (`runs`)."""

    some: bool = False
    works: bool = False
    runs: bool = False


def _contents(ordered: Sequence[Node]) -> dict[int, _Contents]:
    contents = {id(node): _Contents() for node in ordered}
    for node in reversed(ordered):  # from the leaves up, so that deep traces cost no more than wide ones
        if node.parent is None:
            continue
        own, parent_contents, event = contents[id(node)], contents[id(node.parent)], node.event
        parent_contents.some = True
        parent_contents.works = parent_contents.works or own.works or isinstance(event, (ModelCall, ToolCall))
        parent_contents.runs = parent_contents.runs or own.runs or (isinstance(event, AgentRun) and event.certain)
    return contents


def _may_be_run(event: AgentRun, below: _Contents) -> bool:
    has_content = bool(event.query or event.messages_in)
    return (has_content and (below.works or below.runs or not below.some)) or (below.works and not below.runs)


def _cut_cycles(nodes: Sequence[Node]) -> None:
    checked: set[int] = set()
    for node in nodes:  # in time order, so that a cycle is cut at its earliest span
        if node.parent is None or id(node.parent) in checked:
            checked.add(id(node))
            continue
        path: dict[int, Node] = {}
        current: Node | None = node
        while current is not None and id(current) not in checked and id(current) not in path:
            path[id(current)] = current
            current = current.parent
        if current is not None and id(current) in path:
            first = min(_cycle(current), key=lambda member: (member.span.start_ns, member.span.span_id))
            first.parent = None
        checked.update(path)


def _cycle(node: Node) -> list[Node]:
    members = [node]
    current = node.parent
    while current is not None and current is not node:
        members.append(current)
        current = current.parent
    return members
