"""Candidate definitions of utilization, each computed for a conversation; None if there is nothing to measure.

`bench_utilization` measures whether they separate conversations labelled as successes, by people or by a simulator, from
failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.recovery import Recovery
from otel_agentic.scoring.scope import effect_of, scope_of
from otel_agentic.scoring.utilization import use_of
from otel_agentic.scoring.values import Texts, values_of
from otel_agentic.truth.values import leaves, normalise

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.truth.model import Case

#: A value that rarely occurs by chance: a word that contains a digit, or a number of two or more digits.
_SPECIFIC: Final = re.compile(r"\b\w*\d\w*\b(?:[.,]\d+)*")
_LEAST_CHARACTERS: Final = 2
#: Computed from the expected arguments, as the dimension `parameters` is.
FROM_EXPECTED: Final = "expected arguments that a result held and that were passed on / all"
#: For comparison.
PARAMETERS: Final = "dimension parameters (comparison)"
CONTROL: Final = "number of calls, negative (control)"


def candidates(subject: Subject, case: Case) -> dict[str, float | None]:
    """Return the value of each candidate; a higher value means better use."""
    conversation = subject.conversation
    scope = scope_of(conversation.turns, turn_index=None)
    texts = Texts(scope)
    worked = [call for call in scope.calls if call.call.error is None]
    uses = [use_of(call, [other for other in worked if other.location > call.location], texts) for call in worked]
    reads = [
        use.score for call, use in zip(worked, uses, strict=True) if effect_of(call.call.name, [case.effects]) == "read"
    ]
    calls = [call for turn in conversation.turns for call in turn.calls]
    failures = [
        score.label for score in Recovery().evaluate(subject) if score.name.endswith(".tool_failure") and score.label
    ]
    return {
        "results known as used / known (as scored)": _mean(use.score for use in uses if use.score is not None),
        "results used / all": _mean(use.score == 1 for use in uses),
        "results of reads used / all": _mean(score == 1 for score in reads),
        "results passed on as an argument / all": _mean(use.how == "argument" for use in uses),
        "values of results stated or passed on / all": _values_used(conversation),
        "values of answers that a result or query holds": _values_grounded(conversation),
        "tool failures recovered, reported or worked around": _mean(label != "unhandled" for label in failures),
        "number of failed calls, negative": -float(sum(call.error is not None for call in calls)),
        FROM_EXPECTED: _needed_used(conversation, case),
        PARAMETERS: next((tools.dimensions["parameters"] for tools in subject.score.tools), None)
        if subject.score
        else None,
        CONTROL: -float(len(calls)),
    }


def _mean(values: Iterable[float | bool]) -> float | None:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else None


def _specific_values(*texts: str | None) -> set[str]:
    values = (match.replace(",", "") for text in texts for match in _SPECIFIC.findall(normalise(text or "")))
    return {value for value in values if len(value) >= _LEAST_CHARACTERS}


def _inside(value: Any) -> set[str]:
    """Return the distinctive values in a result or in arguments."""
    return _specific_values(*(str(leaf) for _, leaf in leaves(value, limit=5_000)))


def _after(conversation: Conversation, call: ToolCall, turn_index: int) -> set[str]:
    """Return the values in answers, and in arguments of calls, after a call."""
    turns = [turn for turn in conversation.turns if turn.index >= turn_index]
    later_values = _specific_values(*(turn.answer for turn in turns))
    for turn in turns:
        for later in turn.calls:
            if (turn.index, later.position) > (turn_index, call.position) and later.error is None:
                later_values |= _inside(later.arguments)
    return later_values


def _values_used(conversation: Conversation) -> float | None:
    used = total = 0
    for turn in conversation.turns:
        for call in turn.calls:
            values = set() if call.error is not None else _inside(call.result) - _inside(call.arguments)
            total += len(values)
            used += len(values & _after(conversation, call, turn.index)) if values else 0
    return used / total if total else None


def _values_grounded(conversation: Conversation) -> float | None:
    known: set[str] = set()
    grounded: list[bool] = []
    for turn in conversation.turns:
        known |= _specific_values(turn.query)
        for call in turn.calls:
            known |= _inside(call.arguments) | _inside(call.result) | _specific_values(call.error)
        stated = _specific_values(turn.answer)
        grounded += [value in known for value in stated]
        known |= stated
    return _mean(grounded)


def _needed_used(conversation: Conversation, case: Case) -> float | None:
    """Return the share of expected arguments passed on to a later call, among those that only a result contains."""
    tools = [case.tools, *(turn.tools for turn in case.turns)]
    expected = [call.parameters for expectation in tools if expectation is not None for call in expectation.calls]
    expected_values: set[str] = set().union(*map(_values_in, expected))
    used: list[bool] = []
    queries = ""
    for turn in conversation.turns:
        queries += f" {normalise(turn.query or '')}"
        for call in turn.calls:
            if call.error is None:
                only_here = (_values_in(call.result) & expected_values) - _values_in(call.arguments)
                needed = {value for value in only_here if value not in queries}
                passed = _passed_on(conversation, call, turn.index) if needed else set()
                used += [value in passed for value in needed]
                expected_values -= needed  # counted once
    return _mean(used)


def _values_in(value: Any) -> set[str]:
    """Return the values in a result or in arguments, each as one text."""
    values = (nested.plain for nested in values_of(value).values if not nested.in_sentence)
    return {plain for plain in values if len(plain) > _LEAST_CHARACTERS}


def _passed_on(conversation: Conversation, call: ToolCall, turn_index: int) -> set[str]:
    passed: set[str] = set()
    for turn in conversation.turns:
        for later in turn.calls:
            if (turn.index, later.position) > (turn_index, call.position) and later.error is None:
                passed |= _values_in(later.arguments)
    return passed
