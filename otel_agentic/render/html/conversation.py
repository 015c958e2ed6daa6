"""A conversation of the page: its outcome and what decided it, its turns, and expected vs. actual calls and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.render.expectations import aligned_turns, counted_calls, pairs_of
from otel_agentic.render.html.difference import Difference, differences
from otel_agentic.render.html.filters import paragraph, words
from otel_agentic.render.text import WITHOUT_CASE, moment, safe, short

if TYPE_CHECKING:
    from otel_agentic.results import JsonObject
    from otel_agentic.results.conversations import (
        CallPair,
        ConversationDetails,
        ConversationScore,
        DecidingCriterion,
        ShownCall,
        ShownTurn,
        ToolFault,
        TurnScore,
    )

#: The largest number of turns of a page, of calls of a turn and of arguments of a call.
MAX_TURNS: Final = 30
MAX_CALLS: Final = 20
_MAX_ARGUMENTS: Final = 20
#: The largest number of characters of a query, an answer, an argument, and a result or an error.
_QUERY: Final = 500
_ANSWER: Final = 800
_ARGUMENT: Final = 80
_RESULT: Final = 160
_SUMMARY: Final = 160
#: Statuses of `call_pairs` with their presentation; a pair with a fault of its parameters or order differs.
_STATUSES: Final = {
    "paired": ("as expected", "pass"),
    "excused": ("as expected", "pass"),
    "allowed": ("extra, allowed", "neutral"),
    "missing": ("not called", "fail"),
    "spurious": ("not expected", "fail"),
    "forbidden": ("forbidden", "fail"),
    "errored": ("error", "fail"),
}
_DIFFERS: Final = ("differs", "fail")
_NOT_SCORED: Final = ("not scored", "neutral")
#: Faults in a few words; other kinds are named as they are.
_FAULTS: Final = {
    "missing": "not called",
    "spurious": "not expected",
    "wrong_order": "out of order",
    "unused_result": "result not used",
    "errored": "returned an error",
}
#: Faults that are visible in the status and the differences of a call.
_OF_STATUS: Final = frozenset({"missing", "spurious", "forbidden", "wrong_parameters"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a call; `differs` is whether it is wrong."""

    name: str
    value: str
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The name and the arguments of a call; the arguments are None if they were not recorded."""

    name: str
    arguments: Sequence[Argument] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """An actual call next to the expected one that it was scored with; one of both may be missing."""

    status: str
    css: str
    actual: Call | None
    expected: Call | None
    differences: Sequence[Difference]
    notes: Sequence[str]
    result: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn; expected texts are empty if nothing is expected, or for the query if it is the same."""

    anchor: str
    number: int
    outcome: str | None
    explanation: str | None
    query: str | None
    expected_query: str | None
    calls: Sequence[CallRow]
    #: Whether a call has a result of a comparison: without a case, none has.
    is_compared: bool
    calls_left_out: int
    answer: str | None
    expected_answers: Sequence[str]
    forbidden_answer: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultChip:
    """A fault of a tool call in a few words, and the link to its turn."""

    tool: str
    parameter: str | None
    fault: str
    difference: Difference | None
    #: Whether the tools of the conversation failed by it.
    failed: bool
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation with its score."""

    anchor: str
    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    case_id: str | None
    outcome: str
    ended: str
    summary: str
    explanation: str | None
    criteria: Sequence[DecidingCriterion]
    faults: Sequence[FaultChip]
    turns: Sequence[Turn]
    #: The number of turns before those of this page, and of all turns.
    turns_before: int
    turn_count: int
    #: The links to the turns before and after those of this page; None without any, or without other pages.
    earlier_turns: str | None
    later_turns: str | None
    #: Calls that any turn may make, and that none made.
    not_called: Sequence[CallRow]
    missing_outputs: Sequence[str]

    @classmethod
    def of(
        cls, details: ConversationDetails, anchor: str, *, first: int = 0, page: Callable[[int], str] | None = None
    ) -> Conversation:
        """Return a conversation with at most `MAX_TURNS` turns.

        Args:
            details: the conversation.
            anchor: the text that the ids of its elements begin with.
            first: the number of turns before the first one.
            page: returns the link to the page with a value of `first`; None if there are no other pages.
        """
        conversation, score = details.conversation, details.score
        count = len(conversation.turns)
        turns = [_turn(turn, score, anchor) for turn in conversation.turns[first : first + MAX_TURNS]]
        anchors = {turn.anchor for turn in turns}
        faults = [_chip(fault, anchor, anchors, page) for fault in _deciding_faults(score)]
        explanation = score.explanation if score else None
        return cls(
            anchor=anchor,
            environment=conversation.environment,
            conversation_id=conversation.conversation_id,
            agent=conversation.agent_name,
            agent_version=conversation.agent_version,
            case_id=score.case_id if score else None,
            outcome=score.outcome if score else "not_evaluated",
            ended=moment(conversation.ended_at, 19),
            summary=_summary([fault for fault in faults if fault.failed], explanation),
            explanation=explanation,
            criteria=[criterion for criterion in (score.criteria if score else ()) if criterion.name != WITHOUT_CASE],
            faults=faults,
            turns=turns,
            turns_before=first,
            turn_count=count,
            earlier_turns=page(_page_of(min(first, count) - 1)) if page and first and count else None,
            later_turns=page(first + MAX_TURNS) if page and first + MAX_TURNS < count else None,
            not_called=[] if score is None else list(_not_called(score, None)),
            missing_outputs=[short(output, _ARGUMENT) for output in (score.missing_outputs or ()) if output]
            if score
            else [],
        )


def _summary(faults: Sequence[FaultChip], explanation: str | None) -> str:
    """Return the failure in one line: the first fault by which tools failed, else the explanation of the outcome."""
    if not faults:
        return short(explanation or "", _SUMMARY)
    first = faults[0]
    subject = ".".join(
        filter(None, (first.tool, first.parameter if first.difference is None else first.difference.path))
    )
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    if first.difference is not None:
        values = (first.difference.actual, first.difference.expected)
        return " ≠ ".join("nothing" if value is None else value for value in values).join((f"{subject}: ", more))
    return f"{subject}: {first.fault}{more}"


def _deciding_faults(score: ConversationScore | None) -> list[ToolFault]:
    """Return the faults by which tools failed, each kind of a call and parameter once; all faults if none is marked."""
    faults = list(score.tool_faults) if score else []
    failed = [fault for fault in faults if fault.failed] or faults
    return list(
        {
            (fault.turn_index, fault.actual_position, fault.fault, fault.parameter, fault.expected_index): fault
            for fault in failed
        }.values()
    )


def _turn_link(index: int, anchor: str, anchors: AbstractSet[str], page: Callable[[int], str] | None) -> str:
    """Return the link to a turn: on this page if its anchor is in `anchors`, else on its own page, if there are any."""
    turn = f"{anchor}-t{index + 1}"
    if turn in anchors:
        return f"#{turn}"
    return f"#{anchor}" if page is None else f"{page(_page_of(index))}#{turn}"


def _page_of(index: int) -> int:
    """Return the first turn of the page with a turn."""
    return index // MAX_TURNS * MAX_TURNS


def _chip(fault: ToolFault, anchor: str, anchors: set[str], page: Callable[[int], str] | None) -> FaultChip:
    items = _differences(fault)
    return FaultChip(
        tool=fault.tool_name or "a call",
        parameter=fault.parameter,
        fault=_FAULTS.get(fault.fault, words(fault.fault)),
        difference=items[0] if items else None,
        failed=fault.failed,
        href=f"#{anchor}" if fault.turn_index is None else _turn_link(fault.turn_index, anchor, anchors, page),
    )


def _differences(fault: ToolFault) -> list[Difference]:
    if fault.fault != "wrong_parameters":
        return []
    return differences(fault.expected, fault.actual, fault.parameter or "")


def _turn(turn: ShownTurn, score: ConversationScore | None, anchor: str) -> Turn:
    case = (score.case if score else None) or {}
    expected = aligned_turns(case, score).get(turn.index) or {}
    turn_score = _score_of(turn, score)
    rows = [*_actual_rows(turn, score), *([] if score is None else _not_called(score, turn.index))]
    query, expected_query = _text(turn.query, _QUERY), _text(expected.get("query"), _QUERY)
    return Turn(
        anchor=f"{anchor}-t{turn.index + 1}",
        number=turn.index + 1,
        outcome=turn_score.outcome if turn_score and _is_annotated(expected) else None,
        explanation=turn_score.explanation if turn_score and _is_annotated(expected) else None,
        query=query,
        expected_query=expected_query if expected_query != query else None,
        calls=rows[:MAX_CALLS],
        is_compared=any(row.status != _NOT_SCORED[0] for row in rows),
        calls_left_out=max(0, len(rows) - MAX_CALLS),
        answer=_text(turn.answer, _ANSWER),
        expected_answers=[text for answer in _listed(expected.get("answer")) if (text := _text(answer, _ANSWER))],
        forbidden_answer=_text(expected.get("not_answer"), _ANSWER),
        error=_text(turn.error, _RESULT),
    )


def _is_annotated(expected: JsonObject) -> bool:
    return any(expected.get(name) for name in ("answer", "not_answer", "tools"))


def _score_of(turn: ShownTurn, score: ConversationScore | None) -> TurnScore | None:
    return next((row for row in (score.turn_scores if score else ()) if row.turn_index == turn.index), None)


def _actual_rows(turn: ShownTurn, score: ConversationScore | None) -> Iterator[CallRow]:
    """Yield the calls of a turn, each with the call that its own expectation or that of the conversation has for it."""
    for position, call in enumerate(turn.tools):
        pairs = [
            pair
            for pair in (score.call_pairs if score else ())
            if (pair.actual_turn_index, pair.actual_position) == (turn.index, position)
        ]
        pair = next((pair for pair in pairs if pair.expected_index is not None), pairs[0] if pairs else None)
        yield _row(call, pair, score, turn.index, position)


def _row(call: ShownCall, pair: CallPair | None, score: ConversationScore | None, turn: int, position: int) -> CallRow:
    faults = [
        fault
        for fault in (score.tool_faults if score else ())
        if (fault.turn_index, fault.actual_position) == (turn, position)
    ]
    faulty = {fault.parameter for fault in faults if fault.fault == "wrong_parameters"}
    is_wrong = any(fault.fault in {"wrong_parameters", "wrong_order"} for fault in faults)
    status, css = _NOT_SCORED if pair is None else _STATUSES.get(pair.status, (pair.status, "neutral"))
    if is_wrong and css == "pass":
        status, css = _DIFFERS
    expected = None if pair is None or score is None else _expected_record(pair, score)
    return CallRow(
        status=status,
        css=css,
        actual=Call(name=call.name, arguments=_arguments(call.arguments, faulty)),
        expected=None if expected is None else expected_call(expected, faulty),
        differences=[item for fault in faults for item in _differences(fault)],
        notes=[short(fault.explanation, _RESULT) for fault in faults if fault.fault not in _OF_STATUS],
        result=None if call.error or call.result is None else short(call.result, _RESULT),
        error=_text(call.error, _RESULT),
    )


def _not_called(score: ConversationScore, turn_index: int | None) -> Iterator[CallRow]:
    """Yield the required calls of a turn, or of the whole conversation (None), that have no actual call."""
    status, css = _STATUSES["missing"]
    for pair in pairs_of(score, turn_index):
        record = _expected_record(pair, score) if pair.status == "missing" else None
        if record is not None:
            yield CallRow(
                status=status,
                css=css,
                actual=None,
                expected=expected_call(record),
                differences=(),
                notes=(),
                result=None,
                error=None,
            )


def _expected_record(pair: CallPair, score: ConversationScore) -> JsonObject | None:
    """Return the expected call of a pair as the record of its case, or None if the case is not in the store."""
    case = score.case or {}
    expectation = case if pair.turn_index is None else aligned_turns(case, score).get(pair.turn_index) or {}
    calls = counted_calls(expectation.get("tools") or {}, pairs_of(score, pair.turn_index))
    index = pair.expected_index
    return calls[index] if index is not None and index < len(calls) else None


def expected_call(record: JsonObject, faulty: AbstractSet[str | None] = frozenset()) -> Call:
    """Return an expected call of a case; `faulty` are the parameters in which the actual call differs."""
    return Call(name=safe(record["tool_name"]), arguments=_arguments(record.get("parameters") or {}, faulty))


def _arguments(arguments: JsonObject | None, faulty: AbstractSet[str | None]) -> list[Argument] | None:
    if arguments is None:
        return None
    return [
        Argument(name=short(name, _ARGUMENT), value=short(value, _ARGUMENT), differs=name in faulty)
        for name, value in sorted(arguments.items(), key=lambda item: item[0] not in faulty)[:_MAX_ARGUMENTS]
    ]


def _listed(value: Any) -> list[Any]:
    """Return the accepted answers: one, or several alternatives."""
    return value if isinstance(value, list) else [value]


def _text(value: Any, limit: int) -> str | None:
    return None if value in (None, "") else paragraph(value, limit)
