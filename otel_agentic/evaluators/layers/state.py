"""The state that a conversation ended in, and whether an expected one is part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.dialects.values import is_redacted
from otel_agentic.evaluators.needs import CAPTURE, NO_STATE, RECORD_STATE
from otel_agentic.scoring.checks import agrees
from otel_agentic.scoring.effects import effect_of
from otel_agentic.scoring.results import read
from otel_agentic.truth.model import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.evaluators.base import Subject
    from otel_agentic.evaluators.needs import Missing

#: What is not there, where null would be something.
ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """The fields of a state, and where they are from, as part of a sentence; `by_tool` are results under the tool's name.

    `unseen` are tools whose last result was not recorded: what it told is not in the fields.
    """

    fields: Mapping[str, Any]
    source: str
    by_tool: Mapping[str, Any]
    unseen: tuple[str, ...] = ()


class Differing(NamedTuple):
    """A place where a state is not as expected: its path, what is expected, and what is there (`ABSENT`: nothing)."""

    path: str
    expected: Any
    found: Any

    @property
    def hidden(self) -> bool:
        """Whether what is there was taken out by the sender, so that it may be what is expected.

        Our own marks are none of these: cases are redacted alike, so that equal values have equal marks.
        """
        return is_redacted(self.found)


def final_state(subject: Subject) -> FinalState | Missing:
    """Return the state at the end of a conversation, or why it is not known, as (reason, explanation).

    It is the one that a span names (`Conversation.final_state`); else it is put together from the last result of each tool
    that writes (see `effects`), where that is a JSON object: the fields of all of them, those of the later call winning. A
    field that none of them has is looked for under the names of the tools.
    """
    conversation = subject.conversation
    if conversation.final_state is not None:
        return FinalState(fields=conversation.final_state, source="the recorded state", by_tool={})
    tables = (*(() if subject.case is None else (subject.case.effects,)), subject.settings.effects)
    calls = [
        call for turn in conversation.turns for call in sorted(turn.calls, key=lambda one: (one.step, one.position))
    ]
    wrote = [call for call in calls if call.error is None and effect_of(call.name, tables) == "write"]
    told = f"{NO_STATE}, and no call that writes"
    if not wrote:
        return "state_not_recorded", f"{told} was made that worked; {RECORD_STATE}"
    newest = {call.name: call for call in wrote}
    if not any(call.result_captured for call in newest.values()):
        return "content_not_captured", f"{told} has a recorded result; {CAPTURE}"
    last = {name: read(call.result) for name, call in newest.items() if call.result_captured}
    order = dict.fromkeys(call.name for call in reversed(wrote) if call.name in last)
    fields: dict[str, Any] = {}
    for name in reversed(order):
        if isinstance(last[name], Mapping):
            fields |= last[name]
    unseen = tuple(name for name in newest if name not in last)
    if not fields:
        return "state_not_recorded", f"{told} has an object as its result; {RECORD_STATE}"
    source = f"the last results of {', '.join(reversed(order))}"
    return FinalState(fields=fields, source=source, by_tool=last, unseen=unseen)


def differing(expected: Mapping[str, Any], state: FinalState) -> list[Differing]:
    """Return the places where an expected state is not part of a state, in the order of the expected one.

    Objects are part of objects with more fields, at any depth; lists have to be as long, item by item; other values equal as
    in `exact` parameters: numbers by value, true is not 1, null is not absent.
    """
    found: list[Differing] = []
    for key, wanted in expected.items():
        there = state.fields.get(key, state.by_tool.get(key, ABSENT))
        found += _inside(key, wanted, there)
    return found


def _inside(path: str, wanted: Any, there: Any) -> Iterator[Differing]:
    if there is ABSENT:
        yield Differing(path, wanted, there)
    elif isinstance(wanted, Mapping) and isinstance(there, Mapping):
        for key, held in wanted.items():
            yield from _inside(f"{path}.{key}", held, there.get(key, ABSENT))
    elif isinstance(wanted, (list, tuple)) and isinstance(there, (list, tuple)) and len(wanted) == len(there):
        for place, (held, other) in enumerate(zip(wanted, there, strict=True)):
            yield from _inside(f"{path}[{place}]", held, other)
    elif not agrees(wanted, there, EXACT):
        yield Differing(path, wanted, there)


def size_of(expected: Any) -> int:
    """Return how many values an expected state names, at any depth.

    >>> size_of({"order": {"status": "sent", "items": [1, 2]}, "paid": True})
    4
    """
    if isinstance(expected, Mapping) and expected:
        return sum(map(size_of, expected.values()))
    if isinstance(expected, (list, tuple)) and expected:
        return sum(map(size_of, expected))
    return 1
