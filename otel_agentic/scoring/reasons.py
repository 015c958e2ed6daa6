"""Explanations of faults: deterministic sentences, built only on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.scoring.checks import agrees
from otel_agentic.truth.model import EXACT
from otel_agentic.truth.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.scoring.model import FaultKind, ToolFault, ToolScore

#: Arguments of a call are shown up to here together.
_CALL_CHARACTERS: Final = 120
_SHORT_CHARACTERS: Final = 40


def fault_sentence(fault: ToolFault) -> str:
    """Return a fault as a sentence: the call, its turn, and the problem."""
    return _SENTENCES[fault.kind](fault)


def score_sentence(score: ToolScore) -> str:
    """Return a tool score as a sentence: its faults, before them what went well where it passed."""
    faults = "; ".join(fault_sentence(fault) for fault in score.faults)
    if score.note:
        return f"{score.note}; {faults}" if faults else score.note
    if score.outcome == "fail" and faults:
        return faults
    if not score.required:
        message = (
            "no call was required, and none was made that is not allowed" if not faults else "no call was required"
        )
    else:
        message = f"{score.paired} of {score.required} required {_calls(score.required)} made"
    return f"{message}; {faults}" if faults else message


def shown_call(tool_name: str, arguments: Any) -> str:
    """Return a call with its arguments as text, short ones first; without arguments if they were not captured.

    >>> shown_call("book", {"seats": 2, "city": "Rome"}), shown_call("book", None)
    ('book(city="Rome", seats=2)', 'book')
    """
    if not isinstance(arguments, Mapping):
        return tool_name
    parts = [f"{key}={json_text(arguments[key])}" for key in sorted(arguments, key=str)]
    parts.sort(key=lambda item: len(item) > _SHORT_CHARACTERS)
    while len(", ".join(parts)) > _CALL_CHARACTERS and len(parts) > 1:
        parts = [*parts[: -2 if parts[-1] == "…" else -1], "…"]
    return f"{tool_name}({', '.join(parts)})"


class Difference(NamedTuple):
    """The first difference of two values: its path, and both values; `is_expected` and `is_made` state which side has one."""

    path: str
    expected: Any
    actual: Any
    is_expected: bool = True
    is_made: bool = True


def first_difference(expected: Any, actual: Any, path: str = "") -> Difference:
    """Return where a made value differs first from the expected one: inside, where both are objects or both lists.

    >>> first_difference([{"to": "Rome"}, {"to": "Oslo"}], [{"to": "Rome"}, {"to": "Bern"}], "legs")[:3]
    ('legs[1].to', 'Oslo', 'Bern')
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        inside = [(f"{path}.{key}", key) for key in sorted({*expected, *actual}, key=str)]
    elif isinstance(expected, list) and isinstance(actual, list):
        inside = [(f"{path}[{index}]", index) for index in range(max(len(expected), len(actual)))]
        expected, actual = dict(enumerate(expected)), dict(enumerate(actual))
    else:
        return Difference(path, expected, actual)
    for position, key in inside:
        if key not in actual:
            return Difference(position, expected[key], None, is_made=False)
        if key not in expected:
            return Difference(position, None, actual[key], is_expected=False)
        if not agrees(expected[key], actual[key], EXACT):
            return first_difference(expected[key], actual[key], position)
    return Difference(path, expected, actual)


def _missing(fault: ToolFault) -> str:
    number = "" if fault.expected_index is None else f"expected call {fault.expected_index + 1}"
    turn = "" if fault.turn_index is None else f" of turn {fault.turn_index + 1}"
    return f"{number}{turn}, {shown_call(fault.tool_name, fault.expected)}, was not made"


def _spurious(fault: ToolFault) -> str:
    message = f"{shown_call(fault.tool_name, fault.actual)} {_where(fault)}"
    if fault.expected:
        message += f" was one too many, {fault.expected} {_calls(fault.expected)} expected"
    else:
        message += " was not asked for"
    return f"{message}; extra calls like it are forbidden" if fault.note == "forbid" else message


def _forbidden(fault: ToolFault) -> str:
    rule = "" if fault.note in {"", fault.tool_name} else f" by {fault.note!r}"
    return f"{shown_call(fault.tool_name, fault.actual)} {_where(fault)} is forbidden{rule}"


def _wrong_parameters(fault: ToolFault) -> str:
    if fault.mode is None:
        result = Difference(f"{fault.parameter}", None, fault.actual, is_expected=False)
    elif fault.given and fault.mode == "exact":
        result = _difference(fault)
    else:
        result = Difference(f"{fault.parameter}", fault.expected, fault.actual, is_made=fault.given)
    message = f"{fault.tool_name} {_where(fault)}: parameter {result.path}"
    if not result.is_expected:
        return f"{message} = {json_text(result.actual)} was not expected"
    expected = _EXPECTATIONS.get(fault.mode or "exact", "{}").format(json_text(result.expected))
    was = f"was {json_text(result.actual)}" if result.is_made else "was not given"
    return f"{message} {was}, expected {expected}"


def _difference(fault: ToolFault) -> Difference:
    try:
        return first_difference(fault.expected, fault.actual, f"{fault.parameter}")
    except RecursionError:
        return Difference(f"{fault.parameter}", fault.expected, fault.actual)


def _wrong_order(fault: ToolFault) -> str:
    belongs = fault.expected if isinstance(fault.expected, str) else f"as number {fault.expected}"
    present = "" if fault.actual is None else f", came as number {fault.actual}"
    return f"{fault.tool_name} {_where(fault)} is out of order: expected {belongs}{present}"


def _unused_result(fault: ToolFault) -> str:
    return f"the result of {fault.tool_name} {_where(fault)} was not used: {fault.note}"


def _errored(fault: ToolFault) -> str:
    stated = f": {json_text(fault.note)}" if fault.note else ""
    return f"{fault.tool_name} {_where(fault)} answered with an error{stated}"


def _where(fault: ToolFault) -> str:
    indices = [
        f"{name} {number}"
        for name, number in (
            ("turn", None if fault.turn_index is None else fault.turn_index + 1),
            ("step", fault.step),
        )
        if number is not None
    ]
    return f"in {', '.join(indices)}" if indices else "somewhere"


def _calls(number: int) -> str:
    return "call was" if number == 1 else "calls were"


#: How the expected value of a match mode reads; of a mode that is not here, as it is.
_EXPECTATIONS: Final[Mapping[str, str]] = {
    "unordered": "{} in any order",
    "casefold": "{} in upper or lower case",
    "number": "a number near {}",
    "regex": "a text or number of the pattern {}",
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
