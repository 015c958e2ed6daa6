"""The conversations of the story: turns, and the calls in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A query and its answer. Each step is one response of the model: the calls that it makes side by side."""

    query: str
    steps: tuple[tuple[Call, ...], ...] = ()
    answer: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model makes it, and what the tool returns or raises.

    `agent` makes it, the conversation's own when None. `kind` is `handoff` or `sub_agent` for calls that reach another
    agent; `inner` is what a sub-agent then does.
    """

    name: str
    arguments: dict[str, Any]
    result: Any = None
    error: str | None = None
    agent: str | None = None
    kind: str | None = None
    inner: Turn | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that share a history."""

    id: str
    turns: tuple[Turn, ...] = field(default=())
