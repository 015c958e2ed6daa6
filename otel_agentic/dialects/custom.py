"""The dialect that a user writes into the settings: which attribute holds which meaning, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import TableDialect
from otel_agentic.dialects.table import Table
from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.spans.model import Span

#: The dialect's name in `[dialects.scopes]`, in the store and in `doctor`.
CUSTOM: Final = "custom"
#: Where it stands in the settings.
_SECTION: Final = "dialects.custom"
#: What a value of the `kind` attribute may mean.
_KINDS: Final = ("agent", "maybe_agent", "model", "tool", "plan", "ignore")
_IGNORED: Final = "ignored by [dialects.custom.kinds]"


class Custom(TableDialect):
    """A dialect by the user's own table. Its scopes are globs; its marks may end in an asterisk."""

    name = CUSTOM
    asks_names_only = True

    def __init__(self, settings: ConversationSettings, table: Table) -> None:
        self.table = table
        super().__init__(settings)

    def claims(self, span: Span) -> str | None:
        """Return which line of the settings makes the span this dialect's; None when none does."""
        for glob in self.table.scopes:
            if fnmatchcase(span.scope.name, glob):
                return f"chosen by [{_SECTION}] scopes {glob}"
        for mark in self.table.marks:
            if any(key.startswith(mark.rstrip("*")) for key in span.attributes):
                return f"chosen by [{_SECTION}] marks {mark}"
        return None


def custom_dialect(given: Mapping[str, Any], settings: ConversationSettings) -> Custom | None:
    """Return the dialect that a table of the settings describes, None where it is empty.

    Raises:
        ConfigError: a meaning or kind is unknown, a value is of the wrong shape, or the table claims or tells nothing;
            names the setting and what is allowed.
    """
    if not given:
        return None
    meanings = [field.name for field in fields(Table)]
    for name in given:
        if name not in meanings:
            raise ConfigError(f"setting {_SECTION}.{name}: there is no such meaning; allowed: {', '.join(meanings)}")
    paths = {name: _paths(name, value) for name, value in given.items() if name != "kinds"}
    table = Table(kinds=_kinds(given.get("kinds", {})), **paths)
    _require_use(table)
    return Custom(settings, table)


def _paths(name: str, value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(each, str) and each for each in listed):
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
            f"setting {_SECTION}: no span is its own; give scopes (globs of instrumentation scopes) or marks (beginnings "
            "of attribute names)"
        )
    if not table.tool_name and not (table.kind and table.kinds):
        raise ConfigError(
            f"setting {_SECTION}: nothing says what a span is; give kind (the attribute that does) with kinds (what its "
            "values mean), or tool_name"
        )
