"""The output of `otel-agentic doctor`: the event read from each span of a file, and the state of the installation."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic import plugins
from otel_agentic.conversations import assemble, link_segments
from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS, Conversation
from otel_agentic.conversations.segments import Linked, Segment, segments_of
from otel_agentic.conversations.tree import build_tree
from otel_agentic.dialects import Reader
from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall, Plan, ToolCall
from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.dialects.values import parsed, text_of
from otel_agentic.errors import OtelAgenticError, PluginError
from otel_agentic.redaction.engine import CountingRedactor
from otel_agentic.reports.conversations import id_reuse_counted, shown_turn, wrong_clock_note
from otel_agentic.results.doctor import (
    AgentRunReading,
    ConversationReading,
    IgnoredReading,
    InstallationCheck,
    ModelCallReading,
    PlanReading,
    SpanReading,
    ToolCallReading,
    TraceReading,
)
from otel_agentic.results.reports import IdReuse, WrongClock

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.conversations.merge import Node
    from otel_agentic.spans import LogRecord, Span

_DISTRIBUTIONS: Final = ("duckdb", "opentelemetry-sdk", "pydantic", "numpy", "scipy", "langchain-core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A conversation as it would be stored, with the parts of traces that it was assembled from."""

    linked: Linked
    conversation: Conversation

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of traces that it contains, and those that duplicate a part."""
        return (*self.linked.segments, *self.linked.echoes)

    @property
    def traces(self) -> frozenset[str]:
        """The traces that contain or duplicate a part of it."""
        return frozenset(segment.trace_id for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The traces of files as trees of events, in order of arrival, and the conversations rebuilt from them.

    `held_by` contains for each trace the conversations that it is a part of. `problems` are sentences about data that could
    not be read or rebuilt.
    """

    traces: Mapping[str, Sequence[Node]]
    conversations: tuple[Rebuilt, ...]
    held_by: Mapping[str, Sequence[Rebuilt]]
    problems: tuple[str, ...]

    def wrong_clocks(self, now_ns: int) -> list[WrongClock]:
        """Return, by service, the number of conversations that end after a time in ns."""
        ahead = Counter(
            rebuilt.conversation.service
            for rebuilt in self.conversations
            if rebuilt.conversation.ended_ns > now_ns + CLOCK_TOLERANCE_NS
        )
        return [
            WrongClock(service=service, conversations=count, note=wrong_clock_note(service, count))
            for service, count in ahead.most_common()
        ]

    @property
    def id_reuse(self) -> IdReuse | None:
        """How often conversation ids were reused, None if they were not."""
        linked = [rebuilt.linked for rebuilt in self.conversations]
        counts = Counter((item.environment, item.explicit_id) for item in linked if item.explicit_id is not None)
        shared = [count for count in counts.values() if count > 1]
        return id_reuse_counted(len(shared), sum(shared), sum(item.possible_reuse for item in linked))


def read_traces(settings: Settings, paths: Sequence[str]) -> Inspected:
    """Return the events and conversations read from the spans of files, redacted as in a store.

    Raises:
        BadInputError: a path does not exist or is not a file.
        ConfigError: the settings name an unknown dialect or meaning.
    """
    reader = Reader.from_settings(settings.conversations, settings.dialects)
    spans: dict[str, list[Span]] = defaultdict(list)
    logs: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    problems = []
    redacting = CountingRedactor(settings.redaction)
    for chunk in plugins.get("collectors", "files").load().from_settings(settings).read(paths):
        if chunk.problem is not None:
            problems.append(chunk.problem)
        clean = redacting.batch(chunk.batch)
        for span in clean.spans:
            spans[span.trace_id].append(span)
        for log in clean.logs:
            logs[log.trace_id, log.span_id].append(log)
    traces: dict[str, Sequence[Node]] = {}
    segments: dict[str, Sequence[Segment]] = {}
    for trace_id, trace_spans in spans.items():
        try:
            traces[trace_id] = build_tree(reader.read_all(_without_duplicates(trace_spans), logs))
            segments[trace_id] = segments_of(traces[trace_id])
        except Exception as error:  # noqa: BLE001 — reported; the other traces are still read
            problems.append(_not_rebuilt(f"trace {trace_id!r}", error))
    in_order = [segment for _, own_segments in sorted(segments.items()) for segment in own_segments]
    rebuilt = tuple(_rebuilt(in_order, settings, problems))
    held_by: dict[str, list[Rebuilt]] = defaultdict(list)
    for conversation in rebuilt:
        for trace_id in conversation.traces:
            held_by[trace_id].append(conversation)
    return Inspected(traces=traces, conversations=rebuilt, held_by=dict(held_by), problems=tuple(problems))


def _rebuilt(segments: Sequence[Segment], settings: Settings, problems: list[str]) -> Iterator[Rebuilt]:
    for linked in link_segments(segments, settings.conversations):
        try:
            conversation = assemble(linked, settings.conversations, closed_by="end_of_input")
        except Exception as error:  # noqa: BLE001 — reported; the other conversations are still read
            problems.append(_not_rebuilt(f"conversation {linked.conversation_id!r}", error))
        else:
            yield Rebuilt(linked=linked, conversation=conversation)


def _not_rebuilt(name: str, error: Exception) -> str:
    return f"{name} cannot be rebuilt ({type(error).__name__}: {error}); please report it"


def installation(settings: Settings) -> Iterator[InstallationCheck]:
    """Yield the checks of this installation: versions, plug-ins, and the origin of the package `collectors`."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield InstallationCheck(what="Python", ok=sys.version_info >= (3, 11), found=version)
    for name in _DISTRIBUTIONS:
        yield InstallationCheck(what=name, ok=True, found=metadata.version(name))
    yield _collectors_package()
    for group in plugins.GROUPS:
        for plugin in plugins.find(group).values():
            try:
                plugin.load()
            except PluginError as error:
                yield InstallationCheck(what=f"{group} plug-in {plugin.name}", ok=False, found=str(error))
    yield _dialects(settings)


def _dialects(settings: Settings) -> InstallationCheck:
    """Return the dialects in the order in which they are tried."""
    try:
        names = Reader.from_settings(settings.conversations, settings.dialects).names
    except OtelAgenticError as error:
        return InstallationCheck(what="dialects", ok=False, found=str(error))
    return InstallationCheck(what="dialects", ok=True, found=", ".join(names))


def _collectors_package() -> InstallationCheck:
    """Return whether `collectors` is the package of this distribution: another one may shadow this common name."""
    specs = (find_spec(name) for name in ("collectors", "otel_agentic"))
    actual, expected = (Path(spec.origin or "").parent.parent if spec else None for spec in specs)
    return InstallationCheck(what="package collectors", ok=actual == expected, found=str(actual))


def _without_duplicates(spans: Sequence[Span]) -> list[Span]:
    return list({span.span_id: span for span in reversed(spans)}.values())


def trace_reading(inspected: Inspected, trace_id: str) -> TraceReading:
    """Return the reading of a trace: its spans depth first, and its conversations with the turns that begin in it."""
    nodes = inspected.traces[trace_id]
    return TraceReading(
        trace_id=trace_id,
        service=next((text_of(node.span.resource.attributes.get("service.name")) for node in nodes), None),
        frameworks=sorted({_framework(node) for node in nodes if not isinstance(node.event, Ignored)}),
        spans=[_span(node) for node in nodes],
        conversations=[_conversation(rebuilt, trace_id) for rebuilt in inspected.held_by.get(trace_id, ())],
    )


def _framework(node: Node) -> str:
    return framework_of(node.span.scope.name, node.event.header.dialect).title


def _span(node: Node) -> SpanReading:
    header, event = node.event.header, node.event
    common: dict[str, Any] = {
        "span_id": node.span.span_id,
        "parent_span_id": node.parent.span.span_id if node.parent is not None else None,
        "name": node.span.name,
        "scope": node.span.scope.name,
        "dialect": header.dialect,
        "because_of": node.why,
        "same_as": node.same_as.span.span_id if node.same_as is not None else None,
        "conversation_id": header.conversation_id,
        "agent": node.agent_name,
        "error": header.error,
    }
    match event:
        case AgentRun():
            content = {"query": event.query, "answer": event.answer, **_messages(event)}
            return AgentRunReading(event="agent_run", counts=node.is_run, **common, **content)
        case ModelCall():
            return ModelCallReading(event="model_call", model=event.model, **common, **_messages(event))
        case ToolCall():
            return ToolCallReading(
                event="tool_call",
                tool=event.name,
                call_id=event.call_id,
                arguments=dict(event.arguments) if event.arguments is not None else None,
                result=event.result,
                result_captured=event.result_captured,
                handoff_to=event.handoff_to,
                **common,
            )
        case Plan():
            return PlanReading(event="plan", plan=event.text, **common)
        case Ignored():
            return IgnoredReading(event="ignored", reason=event.reason, **common)


def _messages(event: AgentRun | ModelCall) -> dict[str, Any]:
    return {"messages_in": _count(event.messages_in), "messages_out": _count(event.messages_out)}


def _count(messages: Sequence[Message] | None) -> int | None:
    return None if messages is None else len(messages)


def _conversation(rebuilt: Rebuilt, trace_id: str) -> ConversationReading:
    conversation, turns = rebuilt.conversation, rebuilt.conversation.turns
    segment = next(segment for segment in rebuilt.segments if segment.trace_id == trace_id)
    begun_turns = [turn.index for turn in turns if turn.started_ns <= segment.start_ns]
    return ConversationReading(
        conversation_id=str(conversation.conversation_id),
        environment=conversation.environment,
        agent_name=conversation.agent_name,
        id_from=_id_source(rebuilt, segment),
        turns=[shown_turn(turn, with_source=True) for turn in turns if turn.trace_id == trace_id],
        goes_on_with=max(begun_turns, default=0) if turns else None,
        repeats=_duplicated_trace(rebuilt, segment),
    )


def _duplicated_trace(rebuilt: Rebuilt, segment: Segment) -> str | None:
    """Return the trace of another instrumentation that a trace duplicates, or None."""
    if all(segment is not echo for echo in rebuilt.linked.echoes):
        return None
    return min(rebuilt.linked.segments, key=lambda candidate: abs(candidate.start_ns - segment.start_ns)).trace_id


def _id_source(rebuilt: Rebuilt, segment: Segment) -> str:
    """Return a description of the source of a conversation's id in this trace."""
    linked, trace_id = rebuilt.linked, segment.trace_id
    twin = _duplicated_trace(rebuilt, segment)
    if twin is not None:
        return f"trace {twin}, which this one duplicates: another instrumentation recorded it"
    if segment.explicit_id is not None:
        split_by = f"; a conversation of its own because of {linked.split_by}" if linked.split_by else ""
        return _id_span(segment.explicit_id, segment.nodes) + split_by
    first = linked.segments[0].trace_id
    if first != trace_id or linked.method == "explicit":
        linking = (segment.linked_traces - {trace_id}) & rebuilt.traces
        return f"trace {first}, joined by {'a span link' if linking else 'its message history'}"
    ambiguous = (
        "; its history matches two conversations equally, so it is a conversation of its own"
        if linked.ambiguous
        else ""
    )
    return f"the trace itself, because no span has a conversation id{ambiguous}"


def _id_span(name: str, nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.event.header.conversation_id == name:
            key = _attribute(node.span.attributes, name)
            return f"{key} of span {node.span.name}" if key else f"span {node.span.name}"
    return "the spans around it"


def _attribute(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the attribute that contains an id, directly or in its JSON; None if a log record or a merge provided it."""
    for key, value in attributes.items():
        if text_of(value) == name:
            return key
    for key, value in attributes.items():
        inner = parsed(value)
        fields = [field for field, value in inner.items() if text_of(value) == name] if isinstance(inner, dict) else []
        if fields:
            return f"{key}~.{fields[0]}"
    return None
