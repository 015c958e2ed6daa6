"""Checks of the data that an evaluator needs; each missing input has a reason and a sentence that states the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.scoring.model import NotEvaluatedReason
    from otel_agentic.truth.model import Case, CaseTurn, ToolExpectation

#: Why there is no score, and a sentence.
Missing: TypeAlias = "tuple[NotEvaluatedReason, str]"

CAPTURE: Final = "enable content recording in the instrumentation (`otel-agentic doctor` lists the recorded content)"
RECORD_MODEL_CALLS: Final = "let the instrumentation of the model client export its spans, too"
RECORD_TOKENS: Final = "let these spans carry `gen_ai.usage.input_tokens` and `gen_ai.usage.output_tokens`"
NO_DEFINITIONS: Final = "no span records which tools the agent was given (`gen_ai.tool.definitions`)"
NO_STATE: Final = "no span records the final state"
RECORD_STATE: Final = "set `agentic.final_state` on a span, or name your attribute in conversations.state_attributes"
_UNMATCHED: Final = "no case belongs to the conversation; annotate one, or see `otel-agentic truth matches`"
#: Why no case counts, by the reason that the score gives.
_NO_CASE: Final[Mapping[NotEvaluatedReason, str]] = {
    "ambiguous": "several cases fit the conversation equally; `otel-agentic truth matches` lists them",
    "unreviewed": "the case of the conversation is a draft; look at it and set `reviewed` to true",
    "content_not_captured": f"no query was recorded by which its case could be found; {CAPTURE}",
    "empty": "the conversation has no turn",
}


def missing(subject: Subject, need: Need) -> Missing | None:
    """Return the reason and explanation why a conversation lacks some data, or None if it has it.

    Data of turns (queries, answers, calls, arguments, results, usage) is present if one turn has it; `turn_missing`
    checks single turns. `prices` and `judge` do not belong to the conversation: None.
    """
    if need in _OF_CASE or need == "case":
        return _case_missing(subject, need)
    if not subject.conversation.turns and need not in {"definitions", "state", "score", "prices", "judge"}:
        return "empty", "the conversation has no turn"
    if need in _OF_TURN:
        lacks_by_turn = [turn_missing(turn, need) for turn in subject.conversation.turns]
        return None if None in lacks_by_turn else _worst(lacks_by_turn)
    check = _OF_CONVERSATION.get(need)
    return None if check is None else check(subject)


def first_missing(subject: Subject, needs: Iterable[Need]) -> Missing | None:
    """Return the first missing need, in the order of their definition, or None."""
    required = frozenset(needs)
    return next((lack for need in _ORDER if need in required and (lack := missing(subject, need)) is not None), None)


def turn_missing(turn: Turn, need: Need) -> Missing | None:
    """Return the reason and explanation why a turn lacks some data, or None if it has it.

    >>> from otel_agentic.testing import conversation, turn
    >>> turn_missing(conversation(turn("hi", answer=None)).turns[0], "answers")
    ('no_data', 'turn 1 has no answer')
    """
    check = _OF_TURN.get(need)
    return None if check is None else check(turn)


def turns_with(subject: Subject, *needs: Need) -> tuple[Turn, ...]:
    """Return the turns that have all of this."""
    return tuple(turn for turn in subject.conversation.turns if not any(turn_missing(turn, need) for need in needs))


def case_turn_of(subject: Subject, turn: Turn) -> CaseTurn | None:
    """Return the case turn of a turn; None if the case has no such turn, or there is no case."""
    index = subject.aligned.get(turn.index)
    return None if subject.case is None or index is None else subject.case.turns[index]


def expectations_of(case: Case) -> tuple[ToolExpectation, ...]:
    """Return which calls are expected: of the conversation first, then of its turns."""
    expectations = (case.tools, *(turn.tools for turn in case.turns))
    return tuple(tools for tools in expectations if tools is not None)


def _query(turn: Turn) -> Missing | None:
    return _text(turn, turn.query, "query", captured=turn.query_captured)


def _answer(turn: Turn) -> Missing | None:
    return _text(turn, turn.answer, "answer", captured=turn.answer_captured)


def _text(turn: Turn, text: str | None, what: str, *, captured: bool) -> Missing | None:
    if text is not None:
        return None
    if captured:
        return "no_data", f"turn {turn.index + 1} has no {what}"
    return "content_not_captured", f"the {what} of turn {turn.index + 1} was not recorded; {CAPTURE}"


def _calls(turn: Turn) -> Missing | None:
    return None if turn.calls else ("no_data", f"no tool was called in turn {turn.index + 1}")


def _arguments(turn: Turn) -> Missing | None:
    return _some(turn, turn.calls, lambda call: call.arguments is not None, "arguments")


def _results(turn: Turn) -> Missing | None:
    worked = tuple(call for call in turn.calls if call.error is None)
    if turn.calls and not worked:
        return "no_data", f"every call of turn {turn.index + 1} ended in an error"
    return _some(turn, worked, lambda call: call.result_captured, "results")


def _some(turn: Turn, calls: tuple[ToolCall, ...], captured: Callable[[ToolCall], bool], what: str) -> Missing | None:
    if not calls:
        return _calls(turn)
    if any(map(captured, calls)):
        return None
    return "content_not_captured", f"the {what} of the calls of turn {turn.index + 1} were not recorded; {CAPTURE}"


def _usage(turn: Turn) -> Missing | None:
    # Requests that all failed without tokens took none: of these nothing is missing.
    if any(use.input_tokens is not None or use.output_tokens is not None or use.priced_calls for use in turn.models):
        return None
    if not turn.models:
        return "model_calls_not_recorded", f"no model call of turn {turn.index + 1} was recorded; {RECORD_MODEL_CALLS}"
    return (
        "tokens_not_recorded",
        f"token usage is missing for the model calls of turn {turn.index + 1}; {RECORD_TOKENS}",
    )


def _plan(turn: Turn) -> Missing | None:
    return None if turn.plans else ("no_data", f"the agent wrote down no plan in turn {turn.index + 1}")


def _worst(lacks_by_turn: list[Missing | None]) -> Missing:
    """Return one of the lacks of turns; missing recordings first, because they can be fixed."""
    lacks = [item for item in lacks_by_turn if item is not None]
    message = next((lack for lack in lacks if lack[0] != "no_data"), lacks[0])
    more = f" (and of {len(lacks) - 1:,} more turns)" if len(lacks) > 1 else ""
    return message[0], message[1] + more


def _definitions(subject: Subject) -> Missing | None:
    if subject.conversation.tool_definitions is not None:
        return None
    return "tool_definitions_not_recorded", NO_DEFINITIONS


def _state(subject: Subject) -> Missing | None:
    if subject.conversation.final_state is not None:
        return None
    return "state_not_recorded", f"{NO_STATE}; {RECORD_STATE}"


def _score(subject: Subject) -> Missing | None:
    return (
        None if subject.score is not None else ("no_data", "the conversation has no score yet; `otel-agentic evaluate`")
    )


def without_case(subject: Subject) -> Missing:
    """Return the reason why a conversation has no reviewed case."""
    # An annotated verdict sets the reason; the reason for the missing case is the computed one.
    computed = subject.score.computed_reason if subject.score is not None else None
    return next(((reason, item) for reason, item in _NO_CASE.items() if reason == computed), ("unmatched", _UNMATCHED))


def _case_missing(subject: Subject, need: Need) -> Missing | None:
    case = subject.case
    if case is None:
        return without_case(subject)
    if need == "case":
        return None
    there, what = _OF_CASE[need]
    return None if there(case) else ("no_data", f"case {case.case_id!r} does not annotate {what}")


_OF_TURN: Final[Mapping[str, Callable[[Turn], Missing | None]]] = {
    "queries": _query,
    "answers": _answer,
    "calls": _calls,
    "arguments": _arguments,
    "results": _results,
    "plan": _plan,
    "usage": _usage,
}
_OF_CONVERSATION: Final[Mapping[str, Callable[[Subject], Missing | None]]] = {
    "definitions": _definitions,
    "state": _state,
    "score": _score,
}
#: Whether a case annotates a need, and its name in messages.
_OF_CASE: Final[Mapping[str, tuple[Callable[[Case], bool], str]]] = {
    "expected_tools": (lambda case: bool(expectations_of(case)), "the expected tool calls (`tools`)"),
    "expected_answer": (
        lambda case: any(turn.answer is not None for turn in case.turns),
        "an answer (`turns[].answer`)",
    ),
    "expected_state": (lambda case: case.expected_state is not None, "a state at the end (`expected_state`)"),
    "expected_plan": (lambda case: case.plan is not None, "a plan (`plan`)"),
    "goal": (lambda case: case.goal is not None, "a goal (`goal`)"),
    "minimum_steps": (lambda case: case.minimum_steps is not None, "the fewest steps that do (`minimum_steps`)"),
    "reference_topics": (
        lambda case: any(turn.reference_topics for turn in case.turns),
        "topics (`turns[].reference_topics`)",
    ),
}
#: The case first: without it nothing else is worth a word.
_ORDER: Final[tuple[Need, ...]] = (
    "case",
    "expected_tools",
    "expected_answer",
    "expected_state",
    "expected_plan",
    "goal",
    "minimum_steps",
    "reference_topics",
    "turns",
    "queries",
    "answers",
    "calls",
    "arguments",
    "results",
    "definitions",
    "plan",
    "usage",
    "state",
    "score",
)
