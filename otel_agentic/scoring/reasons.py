"""What is wrong with calls in words: sentences that are the same every time, made only when somebody asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.scoring.model import FaultKind, ToolFault, ToolScore

_VALUE_CHARACTERS: Final = 60
#: Arguments of a call are shown up to here together.
_CALL_CHARACTERS: Final = 120


def fault_sentence(fault: ToolFault) -> str:
    """Return a fault as a sentence: which call of which turn, and what is wrong with it."""
    return _SENTENCES[fault.kind](fault)


def score_sentence(score: ToolScore) -> str:
    """Return a tool score as a sentence: its faults, before them what went well where it passed."""
    faults = "; ".join(fault_sentence(fault) for fault in score.faults)
    if score.note:
        return f"{score.note}; {faults}" if faults else score.note
    if score.outcome == "fail" and faults:
        return faults
    if not score.required:
        told = "no call was required, and none was made that is not allowed" if not faults else "no call was required"
    else:
        told = f"{score.paired} of {score.required} required {_calls(score.required)} made"
    return f"{told}; {faults}" if faults else told


def shown(value: Any, characters: int = _VALUE_CHARACTERS) -> str:
    """Return a JSON value as text of so many characters at most.

    >>> shown({"b": 1, "a": "Zürich"}), shown("x" * 10, characters=8)
    ('{"a": "Zürich", "b": 1}', '"xxxxxx…')
    """
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        text = "a value that cannot be shown"
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def shown_call(tool_name: str, arguments: Any) -> str:
    """Return a call with its arguments as text, without them where they were not captured.

    >>> shown_call("book", {"seats": 2, "city": "Rome"}), shown_call("book", None)
    ('book(city="Rome", seats=2)', 'book')
    """
    if not isinstance(arguments, Mapping):
        return tool_name
    told = ", ".join(f"{key}={shown(arguments[key])}" for key in sorted(arguments, key=str))
    return f"{tool_name}({told if len(told) <= _CALL_CHARACTERS else f'{told[: _CALL_CHARACTERS - 1]}…'})"


def _missing(fault: ToolFault) -> str:
    number = "" if fault.expected_index is None else f"expected call {fault.expected_index + 1}"
    turn = "" if fault.turn_index is None else f" of turn {fault.turn_index + 1}"
    return f"{number}{turn}, {shown_call(fault.tool_name, fault.expected)}, was not made"


def _spurious(fault: ToolFault) -> str:
    told = f"{shown_call(fault.tool_name, fault.made)} {_where(fault)}"
    if fault.expected:
        told += f" was one too many: {fault.expected} {_calls(fault.expected)} expected"
    else:
        told += " was not asked for"
    return f"{told}, and extra calls of its kind are forbidden here" if fault.note == "forbid" else told


def _forbidden(fault: ToolFault) -> str:
    rule = "" if fault.note in {"", fault.tool_name} else f" by {fault.note!r}"
    return f"{shown_call(fault.tool_name, fault.made)} {_where(fault)} is forbidden here{rule}"


def _wrong_parameters(fault: ToolFault) -> str:
    told = f"{fault.tool_name} {_where(fault)}: parameter {fault.parameter}"
    if fault.mode is None:
        return f"{told} = {shown(fault.made)} was not expected"
    wanted = _WANTED.get(fault.mode, "{}").format(shown(fault.expected))
    was = f"was {shown(fault.made)}" if fault.given else "was not given"
    return f"{told} {was}, expected {wanted}"


def _wrong_order(fault: ToolFault) -> str:
    belongs = fault.expected if isinstance(fault.expected, str) else f"as number {fault.expected}"
    came = "" if fault.made is None else f", came as number {fault.made}"
    return f"{fault.tool_name} {_where(fault)} is out of order: expected {belongs}{came}"


def _unused_result(fault: ToolFault) -> str:
    return f"the result of {fault.tool_name} {_where(fault)} was not used: {fault.note}"


def _errored(fault: ToolFault) -> str:
    said = f": {shown(fault.note)}" if fault.note else ""
    return f"{fault.tool_name} {_where(fault)} answered with an error{said}"


def _where(fault: ToolFault) -> str:
    places = [
        f"{name} {number}"
        for name, number in (
            ("turn", None if fault.turn_index is None else fault.turn_index + 1),
            ("step", fault.step),
        )
        if number is not None
    ]
    return f"in {', '.join(places)}" if places else "somewhere"


def _calls(number: int) -> str:
    return "call was" if number == 1 else "calls were"


#: How the expected value of a match mode reads; of a mode that is not here, as it is.
_WANTED: Final[Mapping[str, str]] = {
    "unordered": "{} in any order",
    "casefold": "{} in upper or lower case",
    "number": "a number near {}",
    "regex": "a text of the pattern {}",
    "contains": "something that contains {}",
    "one_of": "one of {}",
    "any": "any value",
    "json_schema": "a value of the schema {}",
    "judge": "what means {}",
}
_SENTENCES: Final[Mapping[FaultKind, Callable[[ToolFault], str]]] = {
    "missing": _missing,
    "spurious": _spurious,
    "forbidden": _forbidden,
    "wrong_parameters": _wrong_parameters,
    "wrong_order": _wrong_order,
    "unused_result": _unused_result,
    "errored": _errored,
}
