"""Which spans of frameworks nobody wrote a table for are agents', and what they are, by common words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.common_keys import common_keys
from otel_agentic.dialects.kinds import kind_meant, name_meant
from otel_agentic.dialects.paths import attribute_of, first
from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.common_keys import CommonKeys
    from otel_agentic.spans.model import Span

_NO_OPERATION: Final = "no operation"
#: How parallel calls are named that were merged into one span for display.
_MERGED: Final = "(merged"
_THREAD: Final = "thread.id"
#: How much a kind tells, the most first; the rest are reasons to ignore a span.
_TELLING: Final = {"tool": 0, "model": 1, "agent": 2, "maybe_agent": 3}


def claim_of(span: Span) -> str | None:
    """Return why a span looks like an agent's, in words for `doctor`; None when it does not.

    A request of a protocol (HTTP, a database, a queue) is one only where its kind says so beyond doubt.
    """
    keys = common_keys(span.attributes)
    kind, sure = _kind(span, keys)
    if kind in _TELLING and sure:
        return "names its kind"
    if keys.is_request:
        return None
    shape, named = name_meant(span.name)
    if tool_name_of(span, keys) is not None or named:
        return "names a tool" if not named else "is named like a call or a run"
    asked, answered = has_content(span, keys.asked), has_content(span, keys.answered)
    if (asked or answered) and (kind in _TELLING or shape is not None):
        return "names its kind and has content"
    return _claim_by_content(span, keys, both=asked and answered) if asked or answered else None


def _claim_by_content(span: Span, keys: CommonKeys, *, both: bool) -> str | None:
    """Return why a span with content looks like an agent's although nothing says what it is."""
    if first(span.attributes, conversation_paths(span, keys)) is not None:
        return "has a conversation id and content"
    if first(span.attributes, keys.table.model) is not None:
        return "names a model and has content"
    return "has input and output" if both and (keys.is_classified or keys.is_agentic) else None


def conversation_paths(span: Span, keys: CommonKeys) -> tuple[str, ...]:
    """Return the paths to a conversation's id; the operating system's thread, which is a number, is no conversation."""
    paths = keys.table.conversation_id
    is_number = isinstance(span.attributes.get(_THREAD), int)
    return tuple(path for path in paths if attribute_of(path) != _THREAD) if is_number else paths


def meaning_of(span: Span) -> str:
    """Return what a span means: `tool`, `model`, `agent`, `maybe_agent`, or the reason to ignore it."""
    keys = common_keys(span.attributes)
    kind, _ = _kind(span, keys)
    tool = tool_name_of(span, keys)
    if kind in {None, "tool", "agent", "maybe_agent"} and tool is not None:
        # Kinds lie: a tool with "agent" in its name may say that it is one.
        return "tool" if not tool.startswith(_MERGED) else "summary of parallel calls"
    kind = kind or name_meant(span.name)[0]
    if kind is not None:
        return kind
    if not has_content(span, keys.asked) and not has_content(span, keys.answered):
        return _NO_OPERATION
    return "model" if first(span.attributes, keys.table.model) is not None else "maybe_agent"


def tool_name_of(span: Span, keys: CommonKeys) -> str | None:
    """Return the name of the tool that a span is a call of, None where it names none."""
    found = first(span.attributes, keys.table.tool_name)
    return found if isinstance(found, str) and found else None


def has_content(span: Span, names: Sequence[str]) -> bool:
    """Return whether one of the attributes holds something that may be content; a prefix of several does."""
    return any(name not in span.attributes or is_content(span.attributes[name]) for name in names)


def _kind(span: Span, keys: CommonKeys) -> tuple[str | None, bool]:
    """Return the kind that the span gives itself: where it gives several, the certain word, then the most telling."""
    told = [kind_meant(parsed(span.attributes[key])) for key in keys.kinds]
    known = [(meaning, sure) for meaning, sure in told if meaning is not None]
    return min(known, key=lambda kind: (not kind[1], _TELLING.get(kind[0], len(_TELLING))), default=(None, False))


def is_content(value: Any) -> bool:
    """Return whether a value may hold what somebody said."""
    return bool(value) and isinstance(value, (str, list, Mapping))
