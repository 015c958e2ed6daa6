"""The reply of the scripted model to a request, computed from the messages before it, without memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.capture_generators.story import keyed_turns

if TYPE_CHECKING:
    from tools.capture_generators.shapes import Call, Conversation, Turn

MODEL = "scripted-1"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One response of the model: calls with their ids, or the answer."""

    calls: tuple[tuple[str, Call], ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message before the reply: `user`, `assistant` or `tool`, and its text."""

    role: str
    text: str


class Script:
    """The model's part of some conversations.

    `now` sets the turn that is being played. Without it the turn is the one with the query; among turns with equal
    queries, the number of times that the query occurs in the history decides. `now(..., count=True)` counts replies
    instead of the tool results in the request, for frameworks that rewrite the history.
    """

    def __init__(self, conversations: Iterable[Conversation]) -> None:
        self._turns = tuple(keyed_turns(conversations))
        self._key: str | None = None
        self._counted: dict[str, int] | None = None
        self._called: set[str] = set()

    def now(self, conversation: int, turn: int, *, count: bool = False) -> None:
        """Set the turn that is played, by indices from 0."""
        self._key = f"{conversation + 1}_{turn + 1}"
        self._counted = {} if count else None

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the reply to these messages; a call that is made a second time is warned of: the truth has it once.

        Raises:
            LookupError: no turn of the story is asked.
        """
        reply = self._next(messages)
        again = [call_id for call_id, _ in reply.calls if call_id in self._called]
        if again:
            _LOG.warning("made again, so the truth is wrong: %s", again)
        self._called |= {call_id for call_id, _ in reply.calls}
        return reply

    def _next(self, messages: Sequence[Message]) -> Reply:
        key, turn, start = self._find(messages)
        results = sum(1 for message in messages[start:] if message.role == "tool")
        if self._counted is None:
            return reply_after(key, turn, results)
        step = self._counted.get(key, 0)
        self._counted[key] = step + 1
        return reply_at(key, turn, step)

    def _find(self, messages: Sequence[Message]) -> tuple[str, Turn, int]:
        """Return key and turn of the query, and its index in the messages (0 if they do not contain it)."""
        user_positions = [i for i, message in enumerate(messages) if message.role == "user"]
        for i in reversed(user_positions):
            candidates = [(key, turn) for key, turn in self._turns if turn.query in messages[i].text]
            if candidates:
                key, turn = self._chosen(candidates, [messages[j] for j in user_positions if j <= i])
                return key, turn, i
        for key, turn in self._turns:
            if key == self._key:
                return key, turn, 0
        raise LookupError(f"no query of the story in {messages}")

    def _chosen(self, candidates: list[tuple[str, Turn]], user_messages: list[Message]) -> tuple[str, Turn]:
        """Return the turn that is played, a sub-agent's turn, or the nth of those with the same query."""
        # A prompt may quote the whole conversation: the last query in it is the current one.
        last = max(candidates, key=lambda item: user_messages[-1].text.rfind(item[1].query))[1].query
        same = [item for item in candidates if item[1].query == last]
        for item in same:
            if item[0] == self._key:
                return item
        count = sum(message.text.count(last) for message in user_messages)
        return same[min(count, len(same)) - 1]


def reply_after(key: str, turn: Turn, results: int) -> Reply:
    """Return the reply when so many tool results are known in this turn."""
    step = 0
    while step < len(turn.steps) and results >= len(turn.steps[step]):
        results -= len(turn.steps[step])
        step += 1
    return reply_at(key, turn, step)


def reply_at(key: str, turn: Turn, step: int) -> Reply:
    """Return the model's response number `step` (from 0) of a turn, with ids `call_<key>_<step>_<index>`."""
    if step >= len(turn.steps):
        return Reply(text=turn.answer)
    calls = ((f"call_{key}_{step + 1}_{i}", call) for i, call in enumerate(turn.steps[step], 1))
    return Reply(calls=tuple(calls))
