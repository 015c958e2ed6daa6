"""Steps shared by the scorers of all systems: prepare a conversation, request verdicts on answers, build the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges import JudgeFailure, Question, Verdict
from otel_agentic.judges.asking_judge import ask
from otel_agentic.scoring.align import ToolRules
from otel_agentic.scoring.answers import Part, answer_part, combine, not_evaluated, question_of
from otel_agentic.scoring.model import DIMENSIONS, ConversationScore, Dimension, ToolScore, TurnScore
from otel_agentic.scoring.outcome import align_turns, decide_turn, without_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.judges import Judge
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.scoring.outcome import TurnRule
    from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

Sentence = Verdict | JudgeFailure

#: Conversations whose questions go to the judge together.
_BATCH: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A conversation with its case; `aligned` is turn index -> case turn index, `threshold` that of answers."""

    matched: MatchedConversation
    case: Case
    settings: ScoringSettings
    aligned: Mapping[int, int]
    threshold: float
    rules: ToolRules

    @classmethod
    def of(cls, matched: MatchedConversation, case: Case, settings: ScoringSettings) -> Prepared:
        """Return a conversation made ready."""
        turns = matched.conversation.turns
        indices = align_turns([turn.query for turn in case.turns], [turn.query for turn in turns])
        return cls(
            matched=matched,
            case=case,
            settings=settings,
            aligned={turns[item].index: index for item, index in indices.items()},
            threshold=settings.answer_threshold if case.answer_threshold is None else case.answer_threshold,
            rules=ToolRules.of(case, settings),
        )

    def turns(self) -> Iterator[tuple[Turn, CaseTurn]]:
        """Yield the turns that are in the case, with their case turns."""
        for turn in self.matched.conversation.turns:
            if turn.index in self.aligned:
                yield turn, self.case.turns[self.aligned[turn.index]]

    def answers(self) -> Iterator[tuple[Turn, Question | Part]]:
        """Yield the turns with an annotated answer: the question for the judge, or the outcome if no judge is needed.

        The other systems do not know answers that must *not* be given.
        """
        for turn, expected in self.turns():
            plain = expected.model_copy(update={"not_answer": None})
            requested = question_of(plain, turn, self.threshold)
            if requested is not None:
                yield turn, requested

    def questions(self) -> Iterator[Question]:
        """Yield a question for each answer that a judge must see."""
        return (requested for _, requested in self.answers() if isinstance(requested, Question))

    def answer_parts(self, message: Iterator[Sentence]) -> dict[int, Part]:
        """Return turn index -> outcome of its answer; takes as many verdicts as there are questions."""
        return {
            turn.index: answer_part(turn, next(message), self.threshold)
            if isinstance(requested, Question)
            else requested
            for turn, requested in self.answers()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The result of another system for a conversation.

    `answers` is turn index -> outcome; `decided` is the conversation's outcome, `needed` the parts that it depends on;
    the other two outcomes are those by tools and by both.
    """

    decided: Part
    needed: tuple[Part, ...]
    answers: Mapping[int, Part]
    tools: tuple[ToolScore, ...]
    by_tools: Part
    by_both: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Another system: its name in explanations, its questions for a judge, and its arithmetic.

    `numbers` takes as many verdicts as `questions` yields, in that order.
    """

    title: str
    questions: Callable[[Prepared], Iterator[Question]]
    numbers: Callable[[Prepared, Iterator[Sentence]], Numbers]


def score_as(
    system: System, matched: Sequence[MatchedConversation], *, judge: Judge, settings: ScoringSettings
) -> list[ConversationScore]:
    """Return the scores of conversations in their order, by the system's arithmetic."""
    scores: list[ConversationScore] = []
    for start in range(0, len(matched), _BATCH):
        batch = matched[start : start + _BATCH]
        ready = [_ready(item, settings) for item in batch]
        message = iter(ask(judge, [q for item in ready if isinstance(item, Prepared) for q in system.questions(item)]))
        scores += [_score(system, item, prepared, message) for item, prepared in zip(batch, ready, strict=True)]
    return scores


def _ready(matched: MatchedConversation, settings: ScoringSettings) -> Prepared | Part:
    case = matched.match.case
    if not matched.conversation.turns:
        return not_evaluated("empty", "the conversation has no turn")
    if case is None:
        return without_case(matched.conversation, matched.match)
    if not case.reviewed:
        return not_evaluated("unreviewed", f"case {case.case_id!r} is a draft that has not been reviewed")
    return Prepared.of(matched, case, settings)


def _score(
    system: System, matched: MatchedConversation, prepared: Prepared | Part, message: Iterator[Sentence]
) -> ConversationScore:
    if isinstance(prepared, Part):
        nothing = Numbers(decided=prepared, needed=(), answers={}, tools=(), by_tools=prepared, by_both=prepared)
        return _written(system, matched, nothing, prepared, {})
    numbers = system.numbers(prepared, message)
    return _written(system, matched, numbers, combine([*numbers.answers.values()]), prepared.aligned)


def _written(
    system: System, matched: MatchedConversation, numbers: Numbers, by_answers: Part, aligned: Mapping[int, int]
) -> ConversationScore:
    conversation, case, decided = matched.conversation, matched.match.case, numbers.decided
    return ConversationScore(
        environment=conversation.environment,
        conversation_id=conversation.conversation_id,
        revision=conversation.revision,
        case_id=None if case is None else case.case_id,
        dataset=None if case is None else case.dataset,
        case_version=None if case is None else case.version,
        match_method=matched.match.method,
        match_confidence=matched.match.confidence,
        warning=matched.match.warning,
        outcome=decided.outcome,
        reason=decided.reason,
        outcome_source="computed",
        computed_outcome=decided.outcome,
        computed_reason=decided.reason,
        answer_outcome=by_answers.outcome,
        tool_outcome=numbers.by_tools.outcome,
        both_outcome=numbers.by_both.outcome,
        turns=tuple(_turn_score(turn, numbers, aligned) for turn in conversation.turns),
        tools=numbers.tools,
        missing_outputs=(),
        explanation=f"by the arithmetic of {system.title}: {decided.explanation}",
        partial=(decided.outcome == "fail" or decided.known_failure is not None)
        and any(part.outcome == "not_evaluated" for part in numbers.needed),
        known_failure=decided.known_failure,
    )


def _turn_score(turn: Turn, numbers: Numbers, aligned: Mapping[int, int]) -> TurnScore:
    answer = numbers.answers.get(turn.index)
    tools = next((score for score in numbers.tools if score.turn_index == turn.index), None)
    visible = answer or not_evaluated("no_data", "no answer is annotated")
    return TurnScore(
        turn_index=turn.index,
        case_turn_index=aligned.get(turn.index),
        outcome=visible.outcome,
        reason=visible.reason,
        answer_score=visible.score,
        answer_outcome=visible.outcome,
        answer_reason=visible.reason,
        tool_outcome=None if tools is None else tools.outcome,
        explanation=visible.explanation,
    )


def tool_part(score: ToolScore) -> Part:
    """Return a tool score as a part of an outcome."""
    return Part(outcome=score.outcome, reason=score.reason, explanation=score.note, score=score.overall)


def tool_score(
    part: Part, *, turn_index: int | None = None, dimensions: Mapping[Dimension, float] | None = None
) -> ToolScore:
    """Return a part as a tool score; a dimension that the system does not have is None. Faults are not its business."""
    known = dimensions or {}
    return ToolScore(
        turn_index=turn_index,
        outcome=part.outcome,
        reason=part.reason,
        overall=part.score,
        dimensions={name: known.get(name) for name in DIMENSIONS},
        faults=(),
        note=part.explanation,
    )


def counted(calls: Sequence[ToolCall], named: AbstractSet[str]) -> list[ToolCall]:
    """Return the calls that another system is shown: tools, and transfers and agents that an expectation names.

    Also those that answered with an error: none of the systems knows errors.
    """
    return [call for call in calls if call.kind == "tool" or call.name in named]


def all_captured(turns: Sequence[Turn], calls: Sequence[ToolCall]) -> bool:
    """Return whether the arguments of all calls were recorded, and anything at all, so that no call is overlooked."""
    anything = any(turn.query_captured or turn.answer_captured or turn.calls for turn in turns)
    return anything and all(call.arguments is not None for call in calls)


NOT_CAPTURED: Final = not_evaluated("content_not_captured", "arguments of calls were not captured")
NOTHING_TO_SCORE: Final = not_evaluated("no_data", "the case annotates nothing that this system scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """All actual calls, in order, and all expected calls: turn by turn by their steps, then those of the conversation.

    `ordered`: some expectation has an order. `extras_allowed`: every expectation allows extra calls.
    """

    actual: tuple[ToolCall, ...]
    expected: tuple[ExpectedCall, ...]
    forbidden: tuple[str, ...]
    ordered: bool
    extras_allowed: bool

    @property
    def required(self) -> tuple[ExpectedCall, ...]:
        """The calls that must be made."""
        return tuple(call for call in self.expected if call.required)


def whole_conversation(prepared: Prepared) -> WholeConversation | ToolScore | None:
    """Return both sides, the score if arguments were not captured, or None if no calls are expected."""
    expectations = [*_expectations(prepared)]
    if not expectations:
        return None
    turns = prepared.matched.conversation.turns
    joined = [call for expectation in expectations for call in _in_steps(expectation)]
    actual = counted([call for turn in turns for call in turn.calls], {call.tool_name for call in joined})
    if not all_captured(turns, actual):
        return tool_score(NOT_CAPTURED)
    return WholeConversation(
        actual=tuple(actual),
        expected=tuple(joined),
        forbidden=tuple(name for expectation in expectations for name in expectation.forbidden),
        ordered=any(expectation.order != "any" for expectation in expectations),
        extras_allowed=all(expectation.extra_calls == "allow" for expectation in expectations),
    )


def whole_numbers(
    prepared: Prepared, answers: Mapping[int, Part], score: Callable[[WholeConversation], ToolScore]
) -> Numbers:
    """Return the numbers of a system that scores answers turn by turn (where it does) and tools over the conversation."""
    total = whole_conversation(prepared)
    tools = score(total) if isinstance(total, WholeConversation) else total
    of_answers = combine([*answers.values()]) if answers else None
    of_tools = None if tools is None else tool_part(tools)
    rule = prepared.settings.turn_rule
    return Numbers(
        decided=decide_turn(rule, of_answers, of_tools) if answers or tools else NOTHING_TO_SCORE,
        needed=_needed(rule, [*answers.values()], [] if of_tools is None else [of_tools]),
        answers=answers,
        tools=() if tools is None else (tools,),
        by_tools=decide_turn("tools", None, of_tools),
        by_both=decide_turn("both", of_answers, of_tools),
    )


def _needed(rule: TurnRule, answers: list[Part], tools: list[Part]) -> tuple[Part, ...]:
    if rule == "both":
        return (*answers, *tools)
    return tuple(answers or tools) if rule == "answer" else tuple(tools or answers)


def _expectations(prepared: Prepared) -> Iterator[ToolExpectation]:
    for turn in prepared.case.turns:
        if turn.tools is not None:
            yield turn.tools
    if prepared.case.tools is not None:
        yield prepared.case.tools


def _in_steps(expectation: ToolExpectation) -> list[ExpectedCall]:
    placed = enumerate(expectation.calls, start=1)
    return [call for _, call in sorted(placed, key=lambda item: item[0] if item[1].step is None else item[1].step)]
