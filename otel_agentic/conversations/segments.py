"""The part of a trace that belongs to one conversation, and what it contains to find the other parts.

A framework sends history in one of three ways, the most reliable first: the messages with their calls, the texts alone (calls
are rewritten), and a transcript pasted into one message of the user. Digests of that history identify continued runs.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.merge import Node, agent_of, by_time, inherited_ids, short
from otel_agentic.conversations.tree import answer_in, last_answer, last_query
from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ConversationId, LinkMethod
    from otel_agentic.conversations.requests import TurnSpans

#: Minimum number of messages of a history: a user's message and an answer. A shorter one proves nothing.
_LEAST: Final = 2
#: `Guest: …`: the speaker in a transcript.
_SPEAKER: Final = re.compile(r"^\s*[\w *#<>-]{1,32}:\s+")
#: The same on a line of its own.
_LABEL: Final = re.compile(r"^[\w *#<>-]{1,32}:$")
#: The number of last lines of a pasted transcript that are examined, and the length below which a line proves nothing.
_MOST_LINES: Final = 64
_LEAST_LINE: Final = 8


def digests_before(messages: Sequence[Message], queries: Iterable[str]) -> tuple[str, ...]:
    """Return digests of the messages before a run, the weakest evidence first.

    Args:
        messages: the input of its first model call.
        queries: the user's text that it answers, from the run and from the model's input.
    """
    before = [message for message in messages if message.role != "system"][:-1]  # the last message is the run's own
    earlier = (*_prefixes("texts", _texts(before)), *_prefixes("messages", _texts_and_calls(before)))
    return (*dict.fromkeys(digest for query in queries for digest in _transcript(query)), *earlier)


def digests_after(messages: Sequence[Message], answer: str | None) -> tuple[str, ...]:
    """Return digests of a run as history; a run that continues it has one of them among its `digests_before`.

    Args:
        messages: the input and output of its last model call.
        answer: the answer of the run.
    """
    last_digests = []
    for kind, contents in (("texts", _texts(messages)), ("messages", _texts_and_calls(messages))):
        digests = _prefixes(kind, contents)
        # Messages without an answer are continued, however short they are.
        if len(digests) >= _LEAST or (digests and messages[-1].role != "assistant"):
            last_digests.append(digests[-1])
    line = _last_line(answer)
    return (*([line] if line is not None else []), *last_digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The form of a query and its answer in a transcript that a later query may contain.

    `lines` are the last lines of the query, each with and without the speaker, `answer` those of the answer. `digest` is the
    digest of the answer's last line, which is among the `digests_after`.
    """

    lines: tuple[frozenset[str], ...] = ()
    answer: tuple[frozenset[str], ...] = ()
    digest: str | None = None

    def shows(self, earlier: Transcript) -> bool:
        """Return whether the query contains an earlier answer, and the earlier query directly before it.

        An answer alone proves nothing: people paste answers, and many answers end with the same line.
        """
        if not earlier.answer:
            return False
        query, size = frozenset().union(*earlier.lines), len(earlier.answer)
        return any(
            self.lines[index] & earlier.answer[-1] and self.lines[index - size] & query
            for index in range(size, len(self.lines) - 1)  # the last one is the user's own
        )


def transcript_of(queries: Iterable[str], answer: str | None) -> Transcript:
    """Return the form of a query and its answer in a transcript."""
    lines = tuple(line for query in queries for line in _plain_lines(query))
    return Transcript(lines=lines, answer=_plain_lines(answer), digest=_last_line(answer))


def _plain_lines(text: str | None) -> tuple[frozenset[str], ...]:
    lines = (_spaced(line) for line in (text or "").strip().split("\n")[-_MOST_LINES:])
    return tuple(frozenset({line, _plain(line)}) for line in lines if line and not _LABEL.match(line))


def _plain(line: str) -> str:
    return _spaced(_SPEAKER.sub("", line))


def _last_line(answer: str | None) -> str | None:
    last = _spaced(answer.strip().rsplit("\n", 1)[-1]) if answer else ""
    return _digest("line", last) if len(last) >= _LEAST_LINE else None


def text_digest(text: str) -> str:
    """Return a digest of a text with normalised white space."""
    return _digest("text", _spaced(text))


def _transcript(query: str) -> Iterator[str]:
    lines = [_spaced(line) for line in query.strip().split("\n")][:-1]  # the last one is the user's own
    for line in lines[-_MOST_LINES:]:
        for text in dict.fromkeys((line, _plain(line))):
            if len(text) >= _LEAST_LINE:
                yield _digest("line", text)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(messages: Iterable[Message]) -> Iterator[object]:
    for message in messages:
        text = answer_in(message) if message.role == "assistant" else message.text if message.role == "user" else None
        if text and text.strip():
            yield [message.role, " ".join(text.split())]


def _texts_and_calls(messages: Iterable[Message]) -> Iterator[object]:
    """Yield the text and calls of each message except system prompts."""
    for message in messages:
        if message.role == "system":
            continue
        text = " ".join((message.text or "").split())
        requests = [(request.call_id, request.name) for request in message.requests]
        result_ids = [result.call_id for result in message.results]
        if text or requests or result_ids:
            yield [message.role, text, requests, result_ids]


def _prefixes(kind: str, contents: Iterable[object]) -> list[str]:
    """Return the digest of every prefix of a sequence."""
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    digests = []
    for content in contents:
        digest.update(repr(content).encode("utf-8", "surrogatepass"))
        digests.append(digest.copy().hexdigest())
    return digests


def _digest(kind: str, text: str) -> str:
    """Return the digest of a sequence with one text; see `_prefixes`."""
    content = f"{kind}{text!r}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of one trace that belongs to one conversation: mostly the whole trace.

    `nodes` are in depth-first order, at least one of them an event. `history_in` and `history_out` are digests of the
    messages before and after it, the weakest evidence first. `query_digest`, `moments` (start and end of each model
    call, ns), `answer_digest`, `scopes` and `substance` (how many messages were captured) decide whether it repeats
    another segment (`echoes_of`). `transcript` is its form in a later query, `agents` are the agents in it. `services`
    are the services of its events, `units` its parts that are divided into turns, once these were computed (see `cut`), `case_id` and `attempt_id` those nearest its root, and `end_mark_ns` is the end of the
    last span that marks the end of the conversation.
    """

    trace_id: str
    environment: str
    service: str | None
    agent_name: str | None
    explicit_id: str | None
    nodes: tuple[Node, ...]
    start_ns: int
    end_ns: int
    linked_traces: frozenset[str]
    history_in: tuple[str, ...]
    history_out: tuple[str, ...]
    query_digest: str | None = None
    answer_digest: str | None = None
    transcript: Transcript | None = None
    moments: tuple[tuple[int, int], ...] = ()
    scopes: frozenset[str] = frozenset()
    substance: int = 0
    agents: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    case_id: str | None = None
    attempt_id: str | None = None
    end_mark_ns: int | None = None
    units: list[TurnSpans] = field(default_factory=list, init=False, repr=False, compare=False)


def segments_of(nodes: Sequence[Node]) -> list[Segment]:
    """Return the segments of one trace: one for each explicit conversation id, or one without an id.

    A trace without a conversation id that names a case and an attempt belongs to the conversation of this attempt.

    Args:
        nodes: all nodes of the trace in depth-first order (`build_tree`).
    """
    groups: dict[str | None, list[Node]] = defaultdict(list)
    ids = [None if conversation_id is None else short(conversation_id) for conversation_id in inherited_ids(nodes)]
    if not any(ids):
        ids = [_attempt_at_case(nodes)] * len(nodes)
    several = len(set(ids)) > 1
    for node, conversation_id in zip(nodes, ids, strict=True):
        if conversation_id is not None or not several:
            groups[conversation_id].append(node)
    return [
        _segment(members, conversation_id)
        for conversation_id, members in groups.items()
        if any(not isinstance(member.event, Ignored) for member in members)
    ]


def _attempt_at_case(nodes: Sequence[Node]) -> str | None:
    """Return an id for the attempt at a case that a trace names; one attempt is one conversation, even without an id."""
    headers = [node.event.header for node in nodes]
    case_id = next((header.case_id for header in headers if header.case_id), None)
    attempt_id = next((header.attempt_id for header in headers if header.attempt_id), None)
    return short(f"{case_id}/{attempt_id}") if case_id and attempt_id else None


def _segment(nodes: Sequence[Node], explicit_id: str | None) -> Segment:
    events = [node for node in nodes if not isinstance(node.event, Ignored)]
    lead = events[0]
    resource = lead.span.resource.attributes
    calls = sorted((node for node in events if isinstance(node.event, ModelCall)), key=by_time)
    environment = short(next((str(resource[key]) for key in _ENVIRONMENT_KEYS if resource.get(key)), ""))
    service = _service(lead)
    headers = [node.event.header for node in nodes]
    context = _context(events, calls)
    return Segment(
        trace_id=lead.span.trace_id,
        environment=environment,
        service=service,
        agent_name=_agent_name(events),
        explicit_id=explicit_id,
        nodes=tuple(nodes),
        start_ns=min(node.span.start_ns for node in events),
        end_ns=max(node.span.end_ns for node in events),
        linked_traces=frozenset(link.trace_id for node in nodes for link in node.span.links),
        history_in=digests_before(context.before, context.queries) if explicit_id is None else (),
        history_out=digests_after(context.after, context.answer) if explicit_id is None else (),
        query_digest=text_digest(context.query) if context.query else None,
        answer_digest=text_digest(context.answer) if context.answer else None,
        transcript=transcript_of(context.queries, context.answer) if explicit_id is None else None,
        moments=tuple((node.span.start_ns, node.span.end_ns) for node in calls),
        scopes=frozenset(node.span.scope.name for node in events),
        agents=frozenset(name for node in events if (name := node.agent_name)),
        substance=sum(len(_output_messages(node) or ()) for node in calls),
        services=_services(events),
        case_id=next((header.case_id for header in headers if header.case_id), None),
        attempt_id=next((header.attempt_id for header in headers if header.attempt_id), None),
        end_mark_ns=max((header.span.end_ns for header in headers if header.ends_conversation), default=None),
    )


def _service(node: Node) -> str | None:
    service = node.span.resource.attributes.get("service.name")
    return None if service is None else short(str(service))


def _services(events: Sequence[Node]) -> frozenset[str]:
    resources = {id(node.span.resource): node for node in events}
    return frozenset(service for node in resources.values() if (service := _service(node)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageContext:
    """The messages before and after a segment, its queries and its answer; empty if not captured."""

    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    queries: tuple[str, ...] = ()
    answer: str | None = None

    @property
    def query(self) -> str | None:
        """The query from the run, else from the model's input."""
        return self.queries[0] if self.queries else None


def _context(events: Sequence[Node], calls: Sequence[Node]) -> _MessageContext:
    """Return the messages of a segment's own model calls; those of agents used as tools have histories of their own."""
    own_calls = [node for node in calls if node.holding_call is None] or calls
    captured_calls = [node for node in own_calls if _input_messages(node) is not None]
    run = next((node.event for node in events if node.is_run and isinstance(node.event, AgentRun)), None)
    if not captured_calls:
        before = run.messages_in or () if run is not None else ()
        last = run.messages_out or () if run is not None else ()
        after = (*before, *last) if run is not None else ()
    else:
        before = _input_messages(captured_calls[0]) or ()
        # If the response was not recorded, the end is the input without it: the next trace's history contains both.
        last = _output_messages(captured_calls[-1]) or ()
        unrecorded = _output_messages(captured_calls[-1]) is None and captured_calls[-1].event.header.error is None
        after = (
            (*(_input_messages(captured_calls[-1]) or ()), *(_output_messages(captured_calls[-1]) or ()))
            if unrecorded or _output_messages(captured_calls[-1])
            else ()
        )
    queries = (run.query if run is not None else None, last_query(before)[0])
    model_answer = last_answer(last)
    answer = (run.answer if run is not None else None) or (model_answer[0] if model_answer else None)
    return _MessageContext(
        before=tuple(before), after=tuple(after), queries=tuple(filter(None, queries)), answer=answer
    )


def _input_messages(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_in if isinstance(node.event, ModelCall) else None


def _output_messages(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_out if isinstance(node.event, ModelCall) else None


def _agent_name(events: Sequence[Node]) -> str | None:
    return agent_of(events) or next((node.agent_name for node in events if node.agent_name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The segments of one conversation, in time order, and how they were linked.

    `echoes` are segments that repeat some of these, recorded by another instrumentation: they add nothing. `explicit_id` is
    the id in the spans, which other conversations may share; `split_by` is the reason why this one is separate from the one
    before it with this id, `possible_reuse` whether it may itself be several conversations.
    """

    environment: str
    conversation_id: ConversationId
    method: LinkMethod
    ambiguous: bool
    segments: tuple[Segment, ...]
    echoes: tuple[Segment, ...] = ()
    explicit_id: str | None = None
    split_by: str | None = None
    possible_reuse: bool = False
