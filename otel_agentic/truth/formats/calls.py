"""Expected calls in formats that know a name and literal arguments only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

#: Modes whose expected value is itself a right value; of the others (a pattern, a list of choices) it is none.
_LITERAL_MODES: Final = frozenset({"exact", "unordered", "casefold", "number", "judge"})


def required_calls(tools: ToolExpectation) -> Iterator[ExpectedCall]:
    """Yield the calls that must be made: a format without optional calls would demand the others too."""
    return (call for call in tools.calls if call.required)


def calls_of_conversation(case: Case) -> list[ExpectedCall] | None:
    """Return the calls expected of the conversation, or else those of its turns one after the other; None for none."""
    if case.tools is not None:
        return list(case.tools.calls)
    expected = [turn.tools for turn in case.turns if turn.tools is not None]
    return [call for tools in expected for call in tools.calls] if expected else None


def tools_of_turn(case: Case, turn: CaseTurn) -> ToolExpectation | None:
    """Return what is expected of a turn, or else of the conversation where it is the only one."""
    return case.tools if turn.tools is None and len(case.turns) == 1 else turn.tools


def literal_arguments(call: ExpectedCall) -> dict[str, Any]:
    """Return the parameters whose expected value is one that an agent may pass."""
    return {key: value for key, value in call.parameters.items() if call.rules[key].mode in _LITERAL_MODES}


#: Why fields of an expectation are lost in formats that list calls with arguments.
_REASONS: Final = {
    "calls": "only required calls can be listed there",
    "calls.match": "arguments compare exactly there",
    "calls.parameters": "a pattern or a choice is no argument, so the parameter is left out",
    "calls.required": "whether a call is required follows from its name there",
    "calls.ignore_extra_parameters": "that further arguments do not matter cannot be said there",
    "calls.step": "calls have no steps there, only an order",
    "order": "the order that matters cannot be chosen there",
    "extra_calls": "what else may be called cannot be said there",
    "forbidden": "forbidden tools cannot be said there",
    "alternatives": "other ways to be right cannot be said there",
}


def call_reasons(prefix: str, **others: str) -> dict[str, str]:
    """Return why fields of the expectation at `prefix` are lost; `others` replace the usual reasons."""
    return {f"{prefix}.{name}": reason for name, reason in {**_REASONS, **others}.items()}
