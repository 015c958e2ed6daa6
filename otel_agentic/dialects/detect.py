"""Which dialect reads a span, and why."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic import plugins
from otel_agentic.dialects.base import Dialect, TableDialect
from otel_agentic.dialects.base import Table as _Table
from otel_agentic.dialects.events import Ignored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import LogRecord, Span

_log = logging.getLogger(__name__)
#: Built-in dialects in the order they are asked: the most particular first, the fallback last. Plug-ins come before.
_ORDER: Final = ("openinference", "genai", "generic")


#: The dialect name of spans that no dialect claims.
UNKNOWN: Final = "none"


class _Unknown(TableDialect):
    """A span that no dialect knows: it may still carry a session, a case id, a verdict or the end mark."""

    name = UNKNOWN
    table = _Table(kinds={}, conversation_id=("session.id",))

    def meaning(self, span: Span) -> str:  # noqa: ARG002 — the signature is the base class's
        return "no dialect knows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A span as a dialect read it, and why that dialect."""

    event: AgentEvent
    why: str


class Reader:
    """Reads spans with the installed dialects."""

    def __init__(self, dialects: Sequence[Dialect], settings: ConversationSettings) -> None:
        self._dialects = tuple(dialects)
        self._unknown = _Unknown(settings)
        self._faulty: set[str] = set()

    @classmethod
    def from_settings(cls, settings: ConversationSettings) -> Reader:
        """Return a reader with every installed dialect.

        Raises:
            PluginError: two plug-ins share a name, or one fails to load.
        """
        found = plugins.find("dialects")
        names = sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else -1, name))
        return cls([found[name].load().from_settings(settings) for name in names], settings)

    def dialect_of(self, span: Span) -> tuple[Dialect, str]:
        """Return the dialect that reads the span, and why."""
        for dialect in self._dialects:
            try:
                why = dialect.claims(span)
            except Exception:  # noqa: BLE001 — logged; a plug-in's fault must not keep spans from being stored
                self._complain(dialect.name)
                continue
            if why is not None:
                return dialect, why
        return self._unknown, "no dialect claims it"

    def _complain(self, name: str) -> None:
        """Log the fault of a dialect once: it would come with every span."""
        if name not in self._faulty:
            self._faulty.add(name)
            _log.exception("dialect %r cannot say which spans are its own and is passed over for those", name)

    def read(self, span: Span, logs: Sequence[LogRecord] = ()) -> Reading:
        """Return what a span with its log records means."""
        dialect, why = self.dialect_of(span)
        try:
            return Reading(event=dialect.read(span, logs), why=why)
        except Exception as error:  # noqa: BLE001 — one plug-in's fault on one span must not cost all others
            reason = f"dialect {dialect.name!r} failed: {type(error).__name__}: {error}"
            return Reading(event=Ignored(header=self._unknown.header(span, logs), reason=reason), why=why)

    def read_all(self, spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Reading]:
        """Return the readings of spans, joined with log records by (trace id, span id)."""
        return [self.read(span, logs.get((span.trace_id, span.span_id), ())) for span in spans]
