"""The calls that the agent made, as tool scoring sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.conversations.model import ToolCall, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A call and the turn it belongs to; `turn_index` is 0-based in the conversation."""

    turn_index: int
    call: ToolCall

    @property
    def step(self) -> tuple[int, int]:
        """Which model response asked for it: calls of one response share a step."""
        return (self.turn_index, self.call.step)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in the conversation."""
        return (self.turn_index, self.call.step, self.call.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one expectation is held against: a turn (`turn_index`), or the whole conversation (None).

    `calls` are in order of their place. `answers` are (turn index, text). `queries` are the texts of the user,
    `query_turns` the turn index of each (empty: all of them came before any call). `earlier` are the turns before it.
    `captured` is False where the instrumentation recorded no content at all: then a call may be missing from `calls`.
    """

    turn_index: int | None
    calls: tuple[MadeCall, ...]
    answers: tuple[tuple[int, str], ...]
    queries: tuple[str, ...]
    captured: bool
    query_turns: tuple[int, ...] = ()
    earlier: tuple[Turn, ...] = ()


def scope_of(turns: Iterable[Turn], *, turn_index: int | None, earlier: Iterable[Turn] = ()) -> Scope:
    """Return the scope of some turns; `earlier` are those before them."""
    turns = tuple(turns)
    calls = (MadeCall(turn_index=turn.index, call=call) for turn in turns for call in turn.calls)
    return Scope(
        turn_index=turn_index,
        calls=tuple(sorted(calls, key=lambda made: made.place)),
        answers=tuple((turn.index, turn.answer) for turn in turns if turn.answer is not None),
        queries=tuple(turn.query for turn in turns if turn.query is not None),
        captured=any(_any_content(turn) for turn in turns),
        query_turns=tuple(turn.index for turn in turns if turn.query is not None),
        earlier=tuple(earlier),
    )


def _any_content(turn: Turn) -> bool:
    return (
        turn.query_captured
        or turn.answer_captured
        or any(call.arguments is not None or call.result_captured for call in turn.calls)
    )
