"""Agentest's judged metrics: answers on a scale of 1 to 5, goal completion, and failures of behaviour and tool calls.

The definitions are Agentest's; the prompts, and the material that they show a judge, are our own. Agentest's arithmetic
of thresholds is in `otel_agentic.compat.agentest`.

Ref: Agentest 0.0.17, evaluation metrics.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    JudgeDialogue,
    MetricScore,
    Missing,
    Subject,
    calls_in_order,
    case_turn_of,
    metrics_of,
    turn_missing,
)
from otel_agentic.evaluators.transcript import Transcript, call_line, transcript
from otel_agentic.judges.base import JsonLines, JudgeFailure, Question, ReplyForm, Rubric, Verdict, rubric_question
from otel_agentic.judges.exact.facts import extract
from otel_agentic.judges.prompts import load_rubric

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.scoring.scope import NotEvaluatedReason
    from otel_agentic.truth.model import ExpectedCall, ToolExpectation

#: Number of earlier turns shown with a turn: enough context to judge it, without making long conversations expensive.
#: Each of their texts and results is cut at `_EARLIER_TEXT` characters, which keeps identifiers and the main values.
_EARLIER: Final = 30
_EARLIER_CHARACTERS: Final = 6_000
_EARLIER_TEXT: Final = 1_000
_TURN_CHARACTERS: Final = 12_000
#: Limits in characters of one tool or expected call, and of all together. A shortened record contains at most this many
#: names, each with at most this many characters.
_LINE_CHARACTERS: Final = 800
_ALL_CHARACTERS: Final = 10_000
_NAMES: Final = 20
_NAME_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The texts of a question about a turn or a conversation, by name.

    `note` describes the shortened texts. `complete` is True if every line of the turn is included, even if texts in it
    are cut; that of a conversation is False if it was too long, see `Transcript.fits`.
    """

    texts: Mapping[str, str]
    note: str = ""
    complete: bool = True

    def plus(self, **texts: str | None) -> Material:
        """Return the material with further texts, except those that are None."""
        added = {name: text for name, text in texts.items() if text is not None}
        return replace(self, texts={**self.texts, **added})


def turn_material(subject: Subject, turn: Turn) -> Material:
    """Return a turn with the turns before it."""
    earlier_turns = [other_turn for other_turn in subject.conversation.turns if other_turn.index < turn.index]
    earlier = transcript(earlier_turns[-_EARLIER:], max_characters=_EARLIER_CHARACTERS, max_text=_EARLIER_TEXT)
    current = transcript([turn], max_characters=_TURN_CHARACTERS)
    left_out = max(0, len(earlier_turns) - _EARLIER)
    note = Transcript(
        text=JsonLines(), cut=current.cut + earlier.cut, left_out=current.left_out + earlier.left_out
    ).note
    material = Material(
        texts={"turn": current.text},
        note=f"{note} ({left_out} earlier turns were not shown)" if left_out else note,
        complete=not current.left_out,
    )
    return material.plus(
        earlier=earlier.text if earlier_turns else None,
        earlier_turns_left_out=str(left_out) if left_out else None,
        goal=_goal(subject),
    )


def conversation_material(subject: Subject) -> Material:
    """Return the entire conversation."""
    conversation = transcript(subject.conversation.turns)
    return Material(texts=conversation.material, note=conversation.note, complete=conversation.fits).plus(
        goal=_goal(subject)
    )


def _goal(subject: Subject) -> str | None:
    """Return the goal of the case, None without one."""
    return (subject.case.goal or None) if subject.case is not None else None


def tools_shown(subject: Subject) -> str | None:
    """Return the tools available to the agent, one JSON object per line; None if they were not recorded."""
    definitions = subject.conversation.tool_definitions
    if definitions is None:
        return None
    return _bounded_lines(
        _bounded_line({"tool": name, "parameters": definitions[name]}) for name in sorted(definitions)
    )


def expected_in(subject: Subject, turns: Iterable[Turn]) -> str | None:
    """Return the calls that the case expects in turns, or somewhere in the conversation, one JSON object per line.

    Return None if it requires no calls.
    """
    records: list[dict[str, Any]] = []
    for turn in turns:
        expected = case_turn_of(subject, turn)
        records += _expected(None if expected is None else expected.tools, f"in turn {turn.index + 1}")
    records += _expected(None if subject.case is None else subject.case.tools, "somewhere in the conversation")
    return _bounded_lines(map(_bounded_line, records)) or None


def later_calls(subject: Subject, turn: Turn) -> str | None:
    """Return the tools that later turns call without errors, one JSON object per turn; None without such calls."""
    called = [
        (other_turn.index + 1, [call.name for call in other_turn.calls if call.error is None])
        for other_turn in subject.conversation.turns
        if other_turn.index > turn.index
    ]
    return _bounded_lines(_bounded_line({"turn": number, "calls": names}) for number, names in called if names) or None


def _expected(tools: ToolExpectation | None, where: str) -> Iterator[dict[str, Any]]:
    if tools is None:
        return
    call_lists: Sequence[Sequence[ExpectedCall]] = [
        tools.calls,
        *(alternative.calls for alternative in tools.alternatives),
    ]
    for number, calls in enumerate(call_lists, 1):
        for call in calls:
            if call.required:
                payload: dict[str, Any] = {"tool": call.tool_name, "parameters": call.parameters, "expected": where}
                yield {**payload, "alternative": number} if len(call_lists) > 1 else payload


def _bounded_lines(lines: Iterable[str]) -> JsonLines:
    """Return as many lines as fit, with a last line that counts the omitted ones."""
    all_lines = list(lines)
    room, fitting = _ALL_CHARACTERS, 0
    for line in all_lines:
        room -= len(line) + 1
        if room < 0:
            break
        fitting += 1
    omitted = [_line({"left_out": len(all_lines) - fitting})] if fitting < len(all_lines) else []
    return JsonLines("\n".join([*all_lines[:fitting], *omitted]))


def _bounded_line(record: Mapping[str, Any]) -> str:
    """Return a record as a line of JSON; if it is too long, cut its texts and replace its values by their names."""
    line = _line(record)
    if len(line) <= _LINE_CHARACTERS:
        return line
    return _line({**{key: _shortened(value) for key, value in record.items()}, "shortened": True})


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        properties = value.get("properties")
        names = properties if isinstance(properties, Mapping) else value
        return [_truncated(str(name)) for name in list(names)[:_NAMES]]
    if isinstance(value, list):
        return [_truncated(str(item)) for item in value[:_NAMES]]
    return value if isinstance(value, int | float) else _truncated(str(value))


def _line(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # keys that are not strings, integers with thousands of digits, deep nesting
        return json.dumps({"shortened": True})


def _truncated(text: str) -> str:
    return text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A pending score and the question that decides it; without a question, the score is an abstention."""

    score: MetricScore
    question: Question | None = None
    note: str = ""


class JudgedEvaluator(BuiltInEvaluator, ABC):
    """An evaluator that asks one question per item.

    Subclasses implement `items` and declare everything else as data. `values` maps labels to values, if they have any.
    """

    needs = frozenset({"turns", "judge"})
    rubrics: tuple[Rubric, ...]
    values: Mapping[str, float] = MappingProxyType({})

    @abstractmethod
    def items(self, subject: Subject) -> Iterable[Item]:
        """Yield the pending scores, in order."""

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield all questions about a conversation together, and return its scores."""
        items = list(self.items(subject))
        questions = [item.question for item in items if item.question is not None]
        replies = iter((yield questions) if questions else ())
        return [item.score if item.question is None else self._scored(item, next(replies)) for item in items]

    def _scored(self, item: Item, reply: Verdict | JudgeFailure) -> MetricScore:
        form = None if item.question is None or item.question.rubric is None else item.question.rubric.form
        where = place_of(item.score)
        if isinstance(reply, JudgeFailure):
            return replace(item.score, reason=reply.reason, explanation=f"{where} was not judged: {reply.message}")
        if form is not None and form.kind == "label" and reply.label not in form.labels:
            return replace(item.score, reason="judge_error", explanation=f"{where}: the judge gave no label")
        return replace(
            item.score,
            value=reply.score if reply.label is None else self.values.get(reply.label),
            label=reply.label,
            explanation=f"{where}: {reply.reasoning.strip()}{item.note}",
        )


def rubric(file: str, form: ReplyForm, *asides: str) -> Rubric:
    """Return one of the rubrics of this family; see `Rubric` for its asides."""
    return replace(load_rubric("otel_agentic.evaluators", f"prompts/agentest/{file}.md", form), asides=asides)


def question_item(score: MetricScore, about: Rubric, texts: Mapping[str, str], note: str = "") -> Item:
    """Return a pending score with its question."""
    return Item(score=score, question=rubric_question(about, **texts), note=note)


def abstention_item(score: MetricScore, reason: NotEvaluatedReason, explanation: str) -> Item:
    """Return an abstention with its reason."""
    return Item(score=replace(score, reason=reason, explanation=explanation))


def place_of(score: MetricScore) -> str:
    """Return the location of a score in words; turns and calls are counted from 1.

    >>> from otel_agentic.evaluators.base import MetricScore
    >>> place_of(MetricScore(name="m", turn_index=1, position=0, tool_name="book"))
    'turn 2, call 1 (book)'
    """
    if score.turn_index is None:
        return "the conversation"
    call = "" if score.position is None else f", call {score.position + 1} ({score.tool_name})"
    return f"turn {score.turn_index + 1}{call}"


class TurnEvaluator(JudgedEvaluator):
    """An evaluator with one metric, which asks one question about each turn."""

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield one score for each turn."""
        for turn in subject.conversation.turns:
            score = MetricScore(name=self.metrics[0].name, turn_index=turn.index)
            missing = self.lacking(subject, turn)
            if missing is not None:
                yield abstention_item(score, *missing)
            else:
                material = turn_material(subject, turn)
                yield question_item(score, self.rubrics[0], material.texts, material.note)

    @abstractmethod
    def lacking(self, subject: Subject, turn: Turn) -> Missing | None:
        """Return the reason why a turn is not judged, or None."""


_FORM: Final = ReplyForm(kind="score", low=1.0, high=5.0)


class TurnScale(TurnEvaluator):
    """A scale of 1 to 5 for each turn that has a query and an answer."""

    needs = frozenset({"turns", "answers", "judge"})

    def lacking(self, subject: Subject, turn: Turn) -> Missing | None:
        """Return the reason why a turn is not judged, or None."""
        del subject
        return turn_missing(turn, "queries") or turn_missing(turn, "answers")


class Helpfulness(TurnScale):
    """Whether an answer moves the user closer to the goal."""

    name = "agentest.helpfulness"
    rubrics: tuple[Rubric, ...] = (rubric("helpfulness", _FORM),)


class Coherence(TurnScale):
    """Whether an answer is consistent in itself and with earlier turns."""

    name = "agentest.coherence"
    rubrics: tuple[Rubric, ...] = (rubric("coherence", _FORM),)


class Relevance(TurnScale):
    """Whether all of an answer addresses the query."""

    name = "agentest.relevance"
    rubrics: tuple[Rubric, ...] = (rubric("relevance", _FORM),)


class Verbosity(TurnScale):
    """Whether an answer is as long as it needs to be."""

    name = "agentest.verbosity"
    rubrics: tuple[Rubric, ...] = (rubric("verbosity", _FORM),)


class Faithfulness(TurnScale):
    """Whether an answer agrees with tools and user, and claims no action that was not taken.

    An answer can be checked once a call has a recorded result or error, once the user provided a number, a date or an
    identifier, or if the agent has tools: claimed actions are then compared with its calls.
    """

    name = "agentest.faithfulness"
    rubrics: tuple[Rubric, ...] = (rubric("faithfulness", _FORM),)

    def lacking(self, subject: Subject, turn: Turn) -> Missing | None:
        """Return the reason why a turn is not judged: no answer, or nothing to compare it with."""
        missing = super().lacking(subject, turn)
        if missing is not None:
            return missing
        turns_so_far = [other_turn for other_turn in subject.conversation.turns if other_turn.index <= turn.index]
        calls = [call for earlier_turn in turns_so_far for call in earlier_turn.calls]
        where = f"turn {turn.index + 1}"
        if any(call.error is not None or call.result_captured for call in calls):
            return None
        if calls:
            return "content_not_captured", f"{where}: no result of the calls so far was recorded"
        has_tools = bool(subject.conversation.tool_definitions) or any(
            turn.calls for turn in subject.conversation.turns
        )
        if has_tools or any(extract(earlier_turn.query or "").all for earlier_turn in turns_so_far):
            return None
        return (
            "no_data",
            f"{where} has nothing to be faithful to: no tools, and no number, date or identifier of the user",
        )


GOAL_COMPLETION: Final = "agentic.agentest.goal_completion"
_VALUES: Final[Mapping[str, float]] = {"completed": 1.0, "not_completed": 0.0}


class GoalCompletion(JudgedEvaluator):
    """Whether the agent reached the goal of the case, or without one the user's explicit request.

    `details` of its score records which: `{"goal": "case"}` or `{"goal": "user"}`.
    """

    name = "agentest.goal_completion"
    needs = frozenset({"turns", "queries", "answers", "judge"})
    rubrics: tuple[Rubric, ...] = (rubric("goal_completion", ReplyForm(kind="label", labels=tuple(_VALUES))),)
    values: Mapping[str, float] = _VALUES

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield the only score."""
        material = conversation_material(subject)
        score = MetricScore(name=GOAL_COMPLETION, details={"goal": "case" if "goal" in material.texts else "user"})
        yield question_item(score, self.rubrics[0], material.texts, material.note)


NO_FAILURE: Final = "no_failure"
_AGENT_METRICS: Final = metrics_of("agentest.agent_behavior_failure")


class AgentBehaviorFailure(TurnEvaluator):
    """A label for each turn that has an answer or calls, so also for turns without tool calls."""

    name = "agentest.agent_behavior_failure"
    rubrics: tuple[Rubric, ...] = (
        rubric("agent_behavior_failure", ReplyForm(kind="label", labels=_AGENT_METRICS[0].labels)),
    )

    def lacking(self, subject: Subject, turn: Turn) -> Missing | None:
        """Return the reason why a turn is not judged: no answer, and no calls with more than their names recorded."""
        del subject
        # A turn with calls may lack an answer, but tool names alone do not show that the turn is free of failures.
        has_calls = bool(turn.calls) and (turn.query_captured or turn.answer_captured)
        return None if has_calls else turn_missing(turn, "answers")


TOOL_CALL_BEHAVIOR: Final = "agentic.agentest.tool_call_behavior_failure"
MISSING: Final = "missing_tool_call"
_TOOL_CALL_METRICS: Final = metrics_of("agentest.tool_call_behavior_failure")
_RECORD: Final = "have the instrumentation record content"

_CALL: Final = rubric(
    "tool_call",
    ReplyForm(kind="label", labels=tuple(label for label in _TOOL_CALL_METRICS[0].labels if label != MISSING)),
    "call",
    "call_line",
    "tools",
)
_MISSING: Final = rubric(
    "missing_tool_call", ReplyForm(kind="label", labels=(NO_FAILURE, MISSING)), "called_later", "judged_turn", "tools"
)


class ToolCallBehaviorFailure(JudgedEvaluator):
    """A label for each call, and one for each turn that may lack a call.

    A turn without calls is checked, too, if the case expects a call in it or in the conversation, if the tools of the
    agent are recorded, or if the agent calls tools in other turns.

    The questions of all turns show the same conversation, and therefore share a call. If that is too long, each turn is
    shown with the turns before it, and with the names of later calls.
    """

    name = "agentest.tool_call_behavior_failure"
    version = "2"
    rubrics: tuple[Rubric, ...] = (_CALL, _MISSING)

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield, turn by turn, one score for each call and one for the turn."""
        turns, tools = subject.conversation.turns, tools_shown(subject)
        has_calls = any(turn.calls for turn in turns)
        shared = conversation_material(subject).plus(tools=tools, expected=expected_in(subject, turns))
        for turn in turns:
            later, material = None, shared
            if not shared.complete:
                later = later_calls(subject, turn)
                material = turn_material(subject, turn).plus(tools=tools, expected=expected_in(subject, [turn]))
            for call in turn.calls:
                yield _call_item(turn, call, material)
            missing = _lacking(turn, with_tools=bool(has_calls or tools or expected_in(subject, [turn])))
            score = MetricScore(name=TOOL_CALL_BEHAVIOR, turn_index=turn.index)
            if missing is None:
                about = material.plus(judged_turn=str(turn.index + 1), called_later=later)
                yield question_item(score, _MISSING, about.texts, about.note)
            else:
                yield abstention_item(score, *missing)


def _call_item(turn: Turn, call: ToolCall, material: Material) -> Item:
    ordered = calls_in_order(turn)
    number = 1 + next(index for index, other_call in enumerate(ordered) if other_call is call)
    score = MetricScore(name=TOOL_CALL_BEHAVIOR, turn_index=turn.index, position=call.position, tool_name=call.name)
    missing = _call_missing(turn, call, number)
    if missing is not None:
        return abstention_item(score, *missing)
    # The call may be among the omitted lines.
    line = None if material.complete else call_line(turn, call)
    about = material.plus(call=f"turn {turn.index + 1}, {number} of {len(ordered)}: {call.name}", call_line=line)
    return question_item(score, _CALL, about.texts, about.note)


def _call_missing(turn: Turn, call: ToolCall, number: int) -> Missing | None:
    """Return the reason why a call cannot be judged, or None."""
    if not turn.query_captured and not turn.answer_captured:
        return turn_missing(turn, "queries")
    if call.arguments is None:
        message = f"turn {turn.index + 1}, call {number} ({call.name}): its arguments were not recorded; {_RECORD}"
        return "content_not_captured", message
    return None


def _lacking(turn: Turn, *, with_tools: bool) -> Missing | None:
    """Return the reason why a turn is not checked for a missing call, or None."""
    where = f"turn {turn.index + 1}"
    if not with_tools:
        return "no_data", f"{where}: neither the case nor any span shows that there is a tool to call"
    # Without the query and the answer it is unknown which calls were necessary.
    return turn_missing(turn, "queries") if turn.answer is None else None
