"""Selects the dialect that reads a span, with the reason; and the dialect that a user defines in the settings.

The first that claims the span reads it, in this order: `[dialects.scopes]` and `[dialects.custom]` of the settings, plug-ins,
built-in dialects.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from otel_agentic import plugins
from otel_agentic.config import DialectSettings
from otel_agentic.dialects.base import Dialect, Table, TableDialect
from otel_agentic.dialects.events import Ignored
from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import LogRecord, Span

#: The dialect's name in `[dialects.scopes]`, in the store and in `doctor`.
CUSTOM: Final = "custom"
#: Its section of the settings.
_SECTION: Final = "dialects.custom"
#: The meanings that a value of the `kind` attribute may have.
_KINDS: Final = ("agent", "maybe_agent", "model", "tool", "plan", "ignore")
_IGNORED: Final = "ignored by [dialects.custom.kinds]"


class Custom(TableDialect):
    """A dialect with the user's own table. Its scopes are globs; its marks may end in an asterisk."""

    name = CUSTOM
    asks_names_only = True

    def __init__(self, settings: ConversationSettings, table: Table) -> None:
        self.table = table
        super().__init__(settings)

    def claims(self, span: Span) -> str | None:
        """Return the setting by which this dialect reads the span; None if it does not."""
        for glob in self.table.scopes:
            if fnmatchcase(span.scope.name, glob):
                return f"chosen by [{_SECTION}] scopes {glob}"
        for mark in self.table.marks:
            if any(key.startswith(mark.rstrip("*")) for key in span.attributes):
                return f"chosen by [{_SECTION}] marks {mark}"
        return None


def custom_dialect(section: Mapping[str, Any], settings: ConversationSettings) -> Custom | None:
    """Return the dialect that a section of the settings describes, or None if it is empty.

    Raises:
        ConfigError: a meaning or kind is unknown, a value has the wrong type, or the table selects no spans or gives them no
            meaning; contains the setting and the allowed values.
    """
    if not section:
        return None
    meanings = [field.name for field in fields(Table)]
    for name in section:
        if name not in meanings:
            raise ConfigError(f"setting {_SECTION}.{name}: there is no such meaning; allowed: {', '.join(meanings)}")
    paths = {name: _paths(name, value) for name, value in section.items() if name != "kinds"}
    table = Table(kinds=_kinds(section.get("kinds", {})), **paths)
    _require_use(table)
    return Custom(settings, table)


def _paths(name: str, value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(item, str) and item for item in listed):
        raise ConfigError(f'setting {_SECTION}.{name}: give a list of names, such as ["acme.text"], got {value!r}')
    return tuple(listed)


def _kinds(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f'setting {_SECTION}.kinds: give a table, such as {{ agent_loop = "agent" }}, got {value!r}')
    for name, meaning in value.items():
        if meaning not in _KINDS:
            raise ConfigError(
                f"setting {_SECTION}.kinds.{name}: there is no kind {meaning!r}; allowed: {', '.join(_KINDS)}"
            )
    return {str(name): _IGNORED if meaning == "ignore" else meaning for name, meaning in value.items()}


def _require_use(table: Table) -> None:
    if not table.scopes and not table.marks:
        raise ConfigError(
            f"setting {_SECTION}: it selects no spans; set scopes (globs of instrumentation scopes) or marks (prefixes "
            "of attribute names)"
        )
    if not table.tool_name and not (table.kind and table.kinds):
        raise ConfigError(
            f"setting {_SECTION}: spans have no meaning; set kind (the attribute with the kind of a span) and kinds (the "
            "meanings of its values), or tool_name"
        )


_log = logging.getLogger(__name__)
#: Built-in dialects in the order of selection: the most specific first, the fallback last. Plug-ins come before.
_ORDER: Final = (
    "openinference",
    "openllmetry",
    "vercel",
    "langsmith",
    "langfuse",
    "mlflow",
    "logfire",
    "adk",
    "pydantic-ai",
    "openai-agents",
    "semantic-kernel",
    "autogen",
    "genai",
    "generic",
)

#: (name of the scope, names of the attributes): shared by the spans of one kind from one instrumentation.
_Names = tuple[str, tuple[str, ...]]
#: The largest number of these that are cached with their dialect.
_MOST_KEPT: Final = 4096
#: The dialect name of spans that no dialect claims.
UNKNOWN: Final = "none"


class _Unknown(TableDialect):
    """A span that no dialect claims; it may still have a session, a case id, a verdict or the end mark."""

    name = UNKNOWN
    table = Table(kinds={}, conversation_id=("session.id", "conversation.id"))

    def meaning(self, span: Span) -> str:  # noqa: ARG002 — the signature is the base class's
        return "no dialect knows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The event of a span, and the reason why its dialect was selected."""

    event: AgentEvent
    why: str


class Reader:
    """Reads spans with the installed dialects."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        settings: ConversationSettings,
        overrides: Mapping[str, Dialect | None] | None = None,
    ) -> None:
        """Bind the dialects.

        Args:
            dialects: the dialects in the order of selection.
            settings: the user's own attribute names.
            overrides: the dialect of an instrumentation scope, by glob, regardless of its spans; None ignores them.
        """
        self._dialects = tuple(dialects)
        self._unknown = _Unknown(settings)
        self._overrides = {glob: dialect or self._unknown for glob, dialect in (overrides or {}).items()}
        self._faults: dict[str, str] = {}
        self._by_names: dict[_Names, tuple[Dialect, str]] = {}

    @classmethod
    def from_settings(cls, settings: ConversationSettings, dialects: DialectSettings | None = None) -> Reader:
        """Return a reader with every installed dialect and their settings.

        Raises:
            PluginError: two plug-ins share a name, or one fails to load.
            ConfigError: a setting names an unknown dialect, meaning or kind; contains the known ones.
        """
        chosen = dialects or DialectSettings()
        installed = plugins.find("dialects")
        names = sorted(installed, key=lambda name: (_ORDER.index(name) if name in _ORDER else -1, name))
        loaded = [installed[name].load().from_settings(settings) for name in names]
        own = custom_dialect(chosen.custom, settings)
        known: dict[str, Dialect | None] = {dialect.name: dialect for dialect in (*loaded, *([own] if own else []))}
        known[UNKNOWN] = None
        return cls([*([own] if own else []), *loaded], settings, _overrides(chosen.scopes, known))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dialects, in the order of selection."""
        return tuple(dialect.name for dialect in self._dialects)

    @property
    def faults(self) -> tuple[str, ...]:
        """The errors inside dialects, one sentence per dialect."""
        return tuple(self._faults.values())

    def dialect_of(self, span: Span) -> tuple[Dialect, str]:
        """Return the dialect that reads the span, and the reason."""
        for glob, chosen in self._overrides.items():
            if fnmatchcase(span.scope.name, glob):
                return chosen, f"chosen by [dialects.scopes] {glob}"
        names = (span.scope.name, tuple(span.attributes))
        known = self._by_names.get(names)
        if known is not None:
            return known
        by_names = True
        for dialect in self._dialects:
            by_names = by_names and _asks_names_only(dialect)
            try:
                why = dialect.claims(span)
            except Exception:  # noqa: BLE001 — logged; a plug-in's fault must not keep spans from being stored
                self._complain(dialect.name)
                continue
            if why is not None:
                if by_names:
                    self._keep(names, (dialect, why))
                return dialect, why
        return self._unknown, "no dialect claims it"

    def _keep(self, names: _Names, selection: tuple[Dialect, str]) -> None:
        if len(self._by_names) >= _MOST_KEPT:
            self._by_names.clear()
        self._by_names[names] = selection

    def _complain(self, name: str) -> None:
        """Log the fault of a dialect once, because it would occur for every span."""
        if name not in self._faults:
            message = f"dialect {name!r} failed to decide which spans it reads; it is skipped for these spans"
            self._faults[name] = message
            _log.exception(message)

    def read(self, span: Span, logs: Sequence[LogRecord] = ()) -> Reading:
        """Return the reading of a span with its log records."""
        dialect, why = self.dialect_of(span)
        try:
            return Reading(event=dialect.read(span, logs), why=why)
        except Exception as error:  # noqa: BLE001 — one plug-in's fault on one span must not cost all others
            reason = f"dialect {dialect.name!r} failed: {type(error).__name__}: {error}"
            self._faults.setdefault(dialect.name, reason)
            return Reading(event=Ignored(header=self._unknown.header(span, logs), reason=reason), why=why)

    def read_all(self, spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Reading]:
        """Return the readings of spans, joined with log records by (trace id, span id)."""
        return [self.read(span, logs.get((span.trace_id, span.span_id), ())) for span in spans]


def _asks_names_only(dialect: Dialect) -> bool:
    """Return whether the dialect is selected by scope and attribute names alone."""
    return getattr(dialect, "asks_names_only", False) or type(dialect).claims is TableDialect.claims


def _overrides(scopes: Mapping[str, str], known: Mapping[str, Dialect | None]) -> dict[str, Dialect | None]:
    for glob, name in scopes.items():
        if name not in known:
            raise ConfigError(
                f"setting dialects.scopes: unknown dialect {name!r} for {glob!r}; allowed: {', '.join(known)}"
            )
    return {glob: known[name] for glob, name in scopes.items()}
