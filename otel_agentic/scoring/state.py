"""The end state of a conversation, compared with the state that its case expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.dialects.values import is_redacted
from otel_agentic.scoring.compile import agrees
from otel_agentic.scoring.parts import Part, failed, not_evaluated, passed
from otel_agentic.scoring.scope import effect_of
from otel_agentic.scoring.values import read
from otel_agentic.truth.model import EXACT, Case
from otel_agentic.truth.values import json_text

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation

CAPTURE: Final = "enable content recording in the instrumentation (`otel-agentic doctor` lists the recorded content)"
NO_STATE: Final = "no span records the final state"
RECORD_STATE: Final = "set `agentic.final_state` on a span, or name your attribute in conversations.state_attributes"
#: Maximum number of differences in an explanation.
_EXPLAINED: Final = 3
#: An absent value; null is a value.
ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """The fields of a state, and their source as part of a sentence; `by_tool` maps names of tools to results.

    `unseen` are the tools whose last result was not recorded and is therefore missing from the fields.
    """

    fields: Mapping[str, Any]
    source: str
    by_tool: Mapping[str, Any]
    unseen: tuple[str, ...] = ()


class Differing(NamedTuple):
    """A difference between a state and the expected one: path, expected value, and actual value (or `ABSENT`)."""

    path: str
    expected: Any
    actual: Any

    @property
    def hidden(self) -> bool:
        """Whether the sender redacted the value, which may therefore equal the expected one.

        The marks of our own redaction do not count: cases are redacted the same way, so equal values have equal marks.
        """
        return is_redacted(self.actual)


def final_state(case: Case, conversation: Conversation, settings: ScoringSettings) -> FinalState | Part:
    """Return the state at the end of a conversation, or a part with the reason why it is unknown.

    It is the recorded state (`Conversation.final_state`) if there is one. Otherwise it combines the fields of the last
    result of each tool that writes (see `effects`), if that is a JSON object; later calls take precedence. A field that
    no result has is looked up among the names of the tools.
    """
    if conversation.final_state is not None:
        return FinalState(fields=conversation.final_state, source="the recorded state", by_tool={})
    tables = (case.effects, settings.effects)
    calls = [
        call for turn in conversation.turns for call in sorted(turn.calls, key=lambda call: (call.step, call.position))
    ]
    writing_calls = [call for call in calls if call.error is None and effect_of(call.name, tables) == "write"]
    message = f"{NO_STATE}, and no call that writes"
    if not writing_calls:
        return not_evaluated("state_not_recorded", f"{message} was made that worked; {RECORD_STATE}")
    last_calls = {call.name: call for call in writing_calls}
    if not any(call.result_captured for call in last_calls.values()):
        return not_evaluated("content_not_captured", f"{message} has a recorded result; {CAPTURE}")
    last_results = {name: read(call.result) for name, call in last_calls.items() if call.result_captured}
    order = dict.fromkeys(call.name for call in reversed(writing_calls) if call.name in last_results)
    fields: dict[str, Any] = {}
    for name in reversed(order):
        if isinstance(last_results[name], Mapping):
            fields |= last_results[name]
    unseen = tuple(name for name in last_calls if name not in last_results)
    if not fields and last_results.keys().isdisjoint(case.expected_state or ()):
        return not_evaluated("state_not_recorded", f"{message} has an object as its result; {RECORD_STATE}")
    source = f"the last results of {', '.join(reversed(order))}"
    return FinalState(fields=fields, source=source, by_tool=last_results, unseen=unseen)


def differing(expected: Mapping[str, Any], state: FinalState) -> list[Differing]:
    """Return the differences between a state and the expected state, in the order of the expected one.

    Actual objects may have more fields, at any depth. Lists must have the same length and are compared item by item.
    Other values are compared as in `exact` parameters: numbers by value, true is not 1, null is not absent.
    """
    differences: list[Differing] = []
    for key, expected_value in expected.items():
        actual_value = state.fields.get(key, state.by_tool.get(key, ABSENT))
        differences += _value_differences(key, expected_value, actual_value)
    return differences


def _value_differences(path: str, expected: Any, actual: Any) -> Iterator[Differing]:
    if actual is ABSENT:
        yield Differing(path, expected, actual)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, expected_value in expected.items():
            yield from _value_differences(f"{path}.{key}", expected_value, actual.get(key, ABSENT))
    elif isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)) and len(expected) == len(actual):
        for index, (expected_value, actual_value) in enumerate(zip(expected, actual, strict=True)):
            yield from _value_differences(f"{path}[{index}]", expected_value, actual_value)
    elif not agrees(expected, actual, EXACT):
        yield Differing(path, expected, actual)


def size_of(expected: Any) -> int:
    """Return the number of values in an expected state, at any depth.

    >>> size_of({"order": {"status": "sent", "items": [1, 2]}, "paid": True})
    4
    """
    if isinstance(expected, Mapping) and expected:
        return sum(map(size_of, expected.values()))
    if isinstance(expected, (list, tuple)) and expected:
        return sum(map(size_of, expected))
    return 1


def state_part(case: Case, conversation: Conversation, settings: ScoringSettings) -> Part | None:
    """Return the outcome of the expected end state; None if the case annotates none."""
    return None if case.expected_state is None else compare_state(case, conversation, settings).part


class StateComparison(NamedTuple):
    """The outcome of an expected end state, and the differences, none if the state is unknown."""

    part: Part
    differences: Sequence[Differing] = ()


def compare_state(case: Case, conversation: Conversation, settings: ScoringSettings) -> StateComparison:
    """Return the comparison of the state at the end of a conversation with the one that its case expects."""
    expected: Mapping[str, Any] = case.expected_state or {}
    state = final_state(case, conversation, settings)
    if isinstance(state, Part):
        return StateComparison(state)
    differences = differing(expected, state)
    if differences and state.unseen:
        unseen = ", ".join(state.unseen)
        explanation = (
            f"the last result of {unseen} was not recorded, and {_differences_text(differences[:1])} in the others"
        )
        return StateComparison(not_evaluated("content_not_captured", explanation))
    if differences and all(difference.hidden for difference in differences):
        paths = ", ".join(item.path for item in differences[:_EXPLAINED])
        explanation = f"in {state.source}, {paths} was redacted before it was recorded"
        return StateComparison(not_evaluated("content_not_captured", explanation))
    if differences:
        explanation = f"in {state.source}, {_differences_text(differences)}"
        return StateComparison(failed("state_mismatch", explanation, 0.0), differences)
    count = size_of(expected) if expected else 0
    return StateComparison(passed(f"in {state.source}, {count} of {count} expected values are there", 1.0))


def _differences_text(differences: Sequence[Differing]) -> str:
    parts = [
        f"{difference.path} is {'absent' if difference.actual is ABSENT else json_text(difference.actual)}, expected {json_text(difference.expected)}"
        for difference in differences[:_EXPLAINED]
    ]
    more = len(differences) - _EXPLAINED
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")
