"""Whether a result was used, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from otel_agentic.scoring.made import MadeCall

How = Literal["flag", "argument", "answer", "contradiction", "judge"]

_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows that a result was used, or was not.

    `key` and `value` are of the result, `key` "" where it has none. `found` is what was said, as text: in the answer of
    turn `turn_index` (0-based), or in the argument `argument` of `call`.
    """

    key: str
    value: str | float
    found: str
    turn_index: int
    call: MadeCall | None = None
    argument: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Whether one result was used: `score` in [0, 1], None where unknown.

    `how` says by what it is known, None where it is not. `shown` is the evidence; where there is none to be shown, `note`
    tells what a flag or a judge says, or why it is unknown.
    """

    score: float | None
    how: How | None = None
    shown: Evidence | None = None
    note: str = ""

    @property
    def inferred(self) -> bool:
        """Whether it was found out, not given by a flag."""
        return self.how != "flag"

    @property
    def evidence(self) -> str:
        """The evidence as a part of a sentence."""
        shown = self.shown
        if shown is None:
            return self.note
        value = short(shown.value)
        named = f"{shown.key} {value}" if shown.key else value
        if shown.call is not None:
            where = f"in turn {shown.call.turn_index + 1}, step {shown.call.call.step}"
            return f"{named} is in argument {shown.argument!r} of the later call {shown.call.call.name} {where}"
        said = f"the answer of turn {shown.turn_index + 1} says {shown.found!r}"
        return f"{said}, the result {value}" if self.how == "contradiction" else f"{said}, as the result does: {named}"

    def record(self, made: MadeCall) -> dict[str, Any]:
        """Return what is known of a call's result as one flat record; what does not apply is left out."""
        fields: dict[str, Any] = {
            "tool": made.call.name,
            "turn_index": made.turn_index,
            "position": made.call.position,
            "span_id": made.call.span_id,
            "score": self.score,
            "how": self.how,
            "explanation": self.evidence,
        }
        if self.shown is not None:
            fields |= _shown(self.shown)
        return {name: value for name, value in fields.items() if value is not None}


def _shown(shown: Evidence) -> dict[str, Any]:
    fields = {
        "key": shown.key or None,
        "value": cut(shown.value),
        "found_text": shown.found,
        "found_turn_index": shown.turn_index,
    }
    if shown.call is None:
        return fields
    call = shown.call.call
    return fields | {
        "found_tool": call.name,
        "found_argument": shown.argument,
        "found_position": call.position,
        "found_span_id": call.span_id,
    }


def cut(value: str | float) -> str | float:
    """Return a value, a long text cut."""
    if not isinstance(value, str) or len(value) <= _SHOWN_CHARACTERS:
        return value
    return f"{value[: _SHOWN_CHARACTERS - 1]}\u2026"


def short(value: str | float) -> str:
    """Return a value as it stands in a sentence."""
    return repr(cut(value))
