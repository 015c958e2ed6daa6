"""What a judge is shown of a turn: what came before it, the turn itself, what was wanted, and which tools there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.needs import case_turn_of
from otel_agentic.evaluators.transcript import Transcript, transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.truth.model import ExpectedCall, ToolExpectation

#: Turns before a turn that are shown: enough for what a mistake hangs together with, and a long conversation stays cheap.
_EARLIER: Final = 30
_EARLIER_CHARACTERS: Final = 8_000
_TURN_CHARACTERS: Final = 12_000
#: Characters of one tool or expected call, and of all of them; of one that is shortened, names and characters of each.
_LINE_CHARACTERS: Final = 800
_ALL_CHARACTERS: Final = 10_000
_NAMES: Final = 20
_NAME_CHARACTERS: Final = 60


class Material:
    """Texts by name for a question about a turn.

    `note` says what was shortened. `whole`: every line of the turn is shown, though a text in it may be cut.
    """

    def __init__(self, subject: Subject, turn: Turn) -> None:
        self.texts: dict[str, str] = {}
        turns = subject.conversation.turns
        before = [one for one in turns if one.index < turn.index]
        shown = transcript(before[-_EARLIER:], max_characters=_EARLIER_CHARACTERS)
        this = transcript([turn], max_characters=_TURN_CHARACTERS)
        if before:
            self.texts["earlier"] = shown.text
        if len(before) > _EARLIER:
            self.texts["earlier_turns_left_out"] = str(len(before) - _EARLIER)
        if subject.case is not None and subject.case.goal:
            self.texts["goal"] = subject.case.goal
        self.texts["turn"] = this.text
        self.whole = not this.left_out
        self.note = Transcript(text="", cut=this.cut + shown.cut, left_out=this.left_out + shown.left_out).note
        if len(before) > _EARLIER:
            self.note += f" ({len(before) - _EARLIER} earlier turns were not shown)"

    def add(self, **texts: str | None) -> None:
        """Show further texts, those that there are."""
        self.texts |= {name: text for name, text in texts.items() if text is not None}


def tools_shown(subject: Subject) -> str | None:
    """Return the tools that the agent was given, one JSON object a line; None where that was not recorded."""
    definitions = subject.conversation.tool_definitions
    if definitions is None:
        return None
    return _within(_bounded({"tool": name, "parameters": definitions[name]}) for name in sorted(definitions))


def expected_here(subject: Subject, turn: Turn) -> str | None:
    """Return the calls that the case expects in a turn, or somewhere in the conversation, one JSON object a line.

    None where it expects none: it has no expectation, or one without required calls.
    """
    case, wanted = subject.case, case_turn_of(subject, turn)
    records = [*_expected(None if wanted is None else wanted.tools, "in this turn")]
    records += _expected(None if case is None else case.tools, "somewhere in the conversation")
    return _within(map(_bounded, records)) or None


def later_calls(subject: Subject, turn: Turn) -> str | None:
    """Return which tools the agent calls in later turns without errors, one JSON object a turn; None where it calls none."""
    called = [
        (one.index + 1, [call.name for call in one.calls if call.error is None])
        for one in subject.conversation.turns
        if one.index > turn.index
    ]
    return _within(_bounded({"turn": number, "calls": names}) for number, names in called if names) or None


def _expected(tools: ToolExpectation | None, where: str) -> Iterator[dict[str, Any]]:
    if tools is None:
        return
    ways: Sequence[Sequence[ExpectedCall]] = [tools.calls, *(one.calls for one in tools.alternatives)]
    for number, calls in enumerate(ways, 1):
        for call in calls:
            if call.required:
                told: dict[str, Any] = {"tool": call.tool_name, "parameters": call.parameters, "expected": where}
                yield {**told, "alternative": number} if len(ways) > 1 else told


def _within(lines: Iterable[str]) -> str:
    """Return as many lines as there is room for, and how many were left out."""
    every = list(lines)
    room, kept = _ALL_CHARACTERS, 0
    for line in every:
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    told = every[:kept]
    return "\n".join([*told, _line({"left_out": len(every) - kept})] if kept < len(every) else told)


def _bounded(record: Mapping[str, Any]) -> str:
    """Return a record as a line; one that is too long has the beginnings of its texts, and names instead of values."""
    line = _line(record)
    if len(line) <= _LINE_CHARACTERS:
        return line
    return _line({**{key: _shortened(value) for key, value in record.items()}, "shortened": True})


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        properties = value.get("properties")
        names = properties if isinstance(properties, Mapping) else value
        return [_first(str(name)) for name in list(names)[:_NAMES]]
    if isinstance(value, list):
        return [_first(str(one)) for one in value[:_NAMES]]
    return value if isinstance(value, int | float) else _first(str(value))


def _line(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, numbers of thousands of digits, too deep
        return json.dumps({"shortened": True})


def _first(text: str) -> str:
    return text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 1]}…"
