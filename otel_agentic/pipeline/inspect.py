"""How spans are read, without a store: what `doctor` shows."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_agentic import plugins
from otel_agentic.conversations import tree
from otel_agentic.dialects import Reader
from otel_agentic.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import Settings
    from otel_agentic.conversations.tree import Node
    from otel_agentic.spans import LogRecord, Span

_TOLD: Final = ("duckdb", "opentelemetry-sdk", "pydantic", "numpy", "scipy", "langchain-core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The traces of some files as trees of events, in order of arrival, and what could not be read."""

    traces: Mapping[str, Sequence[Node]]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing about this installation."""

    what: str
    ok: bool
    found: str


def read_traces(settings: Settings, paths: Sequence[str]) -> Inspected:
    """Return how the spans of files are read.

    Raises:
        BadInputError: a path does not exist or is no file.
    """
    reader = Reader.from_settings(settings.conversations)
    spans: dict[str, list[Span]] = defaultdict(list)
    logs: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    problems = []
    for chunk in plugins.get("collectors", "files").load().from_settings(settings).read(paths):
        if chunk.problem is not None:
            problems.append(chunk.problem)
        for span in chunk.batch.spans:
            spans[span.trace_id].append(span)
        for log in chunk.batch.logs:
            logs[log.trace_id, log.span_id].append(log)
    traces = {trace_id: tree.build(reader.read_all(_once(found), logs)) for trace_id, found in spans.items()}
    return Inspected(traces=traces, problems=tuple(problems))


def installation() -> Iterator[Check]:
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


def _collectors_are_ours() -> Check:
    """The top-level name `collectors` is a common word: another distribution may shadow it."""
    found, own = (find_spec(name) for name in ("collectors", "otel_agentic"))
    theirs, ours = (Path(spec.origin or "").parent.parent if spec else None for spec in (found, own))
    return Check(what="package collectors", ok=theirs == ours, found=str(theirs))


def _once(spans: Sequence[Span]) -> list[Span]:
    return list({span.span_id: span for span in reversed(spans)}.values())
