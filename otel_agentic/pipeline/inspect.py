"""How spans are read, without a store: what `doctor` shows."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic import plugins
from otel_agentic.conversations import assemble, link_segments
from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS
from otel_agentic.conversations.segments import segments_of
from otel_agentic.conversations.tree import build_tree
from otel_agentic.dialects import Reader
from otel_agentic.errors import OtelAgenticError, PluginError
from otel_agentic.pipeline.coverage import wrong_clock_note
from otel_agentic.spans.redacting import CountingRedactor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import Settings
    from otel_agentic.conversations.link import Linked
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.spans import LogRecord, Span

_TOLD: Final = ("duckdb", "opentelemetry-sdk", "pydantic", "numpy", "scipy", "langchain-core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A conversation as it would be stored, with the parts of traces that it was put together from."""

    linked: Linked
    conversation: Conversation

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of traces that it holds, and those that only tell it again."""
        return (*self.linked.segments, *self.linked.echoes)

    @property
    def traces(self) -> frozenset[str]:
        """The traces that hold a part of it, or tell one again."""
        return frozenset(segment.trace_id for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The traces of some files as trees of events, in order of arrival, and the conversations that they come to.

    `held_by` has the conversations that each trace holds a part of. `problems` tells what could not be read or rebuilt,
    one sentence each.
    """

    traces: Mapping[str, Sequence[Node]]
    conversations: tuple[Rebuilt, ...]
    held_by: Mapping[str, Sequence[Rebuilt]]
    problems: tuple[str, ...]

    def wrong_clocks(self, now_ns: int) -> list[dict[str, Any]]:
        """Return, by service, the conversations that end in the future of a clock, ns, as a report has them."""
        ahead = Counter(
            one.conversation.service
            for one in self.conversations
            if one.conversation.ended_ns > now_ns + CLOCK_TOLERANCE_NS
        )
        return [
            {"service": service, "conversations": count, "note": wrong_clock_note(service, count)}
            for service, count in ahead.most_common()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing about this installation."""

    what: str
    ok: bool
    found: str


def read_traces(settings: Settings, paths: Sequence[str]) -> Inspected:
    """Return how the spans of files would be read, and what they would come to; secrets are taken out as in a store.

    Raises:
        BadInputError: a path does not exist or is no file.
        ConfigError: the settings name a dialect or a meaning that is not there.
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
    for trace_id, found in spans.items():
        try:
            traces[trace_id] = build_tree(reader.read_all(_once(found), logs))
            segments[trace_id] = segments_of(traces[trace_id])
        except Exception as error:  # noqa: BLE001 — reported; the other traces must not wait for it
            problems.append(_not_rebuilt(f"trace {trace_id!r}", error))
    in_order = [segment for _, found in sorted(segments.items()) for segment in found]
    rebuilt = tuple(_rebuilt(in_order, settings, problems))
    held_by: dict[str, list[Rebuilt]] = defaultdict(list)
    for each in rebuilt:
        for trace_id in each.traces:
            held_by[trace_id].append(each)
    return Inspected(traces=traces, conversations=rebuilt, held_by=dict(held_by), problems=tuple(problems))


def _rebuilt(segments: Sequence[Segment], settings: Settings, problems: list[str]) -> Iterator[Rebuilt]:
    for linked in link_segments(segments, settings.conversations):
        try:
            conversation = assemble(linked, settings.conversations, closed_by="end_of_input")
        except Exception as error:  # noqa: BLE001 — reported; the other conversations must not wait for it
            problems.append(_not_rebuilt(f"conversation {linked.conversation_id!r}", error))
        else:
            yield Rebuilt(linked=linked, conversation=conversation)


def _not_rebuilt(name: str, error: Exception) -> str:
    return f"{name} cannot be rebuilt ({type(error).__name__}: {error}); please report it"


def installation(settings: Settings) -> Iterator[Check]:
    """Yield what is to be known of this installation: versions, plug-ins, whether `collectors` is ours."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Check(what="Python", ok=sys.version_info >= (3, 11), found=version)
    for name in _TOLD:
        yield Check(what=name, ok=True, found=metadata.version(name))
    yield _collectors_are_ours()
    for group in plugins.GROUPS:
        for plugin in plugins.find(group).values():
            try:
                plugin.load()
            except PluginError as error:
                yield Check(what=f"{group} plug-in {plugin.name}", ok=False, found=str(error))
    yield _dialects(settings)


def _dialects(settings: Settings) -> Check:
    """Say in which order the dialects are asked."""
    try:
        found = Reader.from_settings(settings.conversations, settings.dialects).names
    except OtelAgenticError as error:
        return Check(what="dialects", ok=False, found=str(error))
    return Check(what="dialects", ok=True, found=", ".join(found))


def _collectors_are_ours() -> Check:
    """The top-level name `collectors` is a common word: another distribution may shadow it."""
    found, own = (find_spec(name) for name in ("collectors", "otel_agentic"))
    theirs, ours = (Path(spec.origin or "").parent.parent if spec else None for spec in (found, own))
    return Check(what="package collectors", ok=theirs == ours, found=str(theirs))


def _once(spans: Sequence[Span]) -> list[Span]:
    return list({span.span_id: span for span in reversed(spans)}.values())
