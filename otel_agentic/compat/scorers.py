"""Stored conversations scored with another system's arithmetic, in the form of our own scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_agentic.compat.agent_surface import (
    calculate_tool_f1,
    parameter_correctness,
    step_efficiency,
    tool_routing_accuracy,
)
from otel_agentic.compat.agentest import (
    CallAssertion,
    MadeToolCall,
    MatchMode,
    TrajectoryAssertions,
    TrajectoryResult,
    match_trajectory,
)
from otel_agentic.compat.fair_forge_tools import ToolCorrectnessScore, turn_tool_correctness
from otel_agentic.compat.ragas import RagasCall, tool_call_accuracy, tool_call_f1
from otel_agentic.config import DEFAULT_TOOL_WEIGHTS, ScoringSettings
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.judges import JudgeFailure, Question
from otel_agentic.scoring.dimensions import score_tools
from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore
from otel_agentic.scoring.outcome import aligned_turns, criteria_of, without_case
from otel_agentic.scoring.parts import (
    Part,
    answer_part,
    closest_accepted,
    combine,
    failed,
    not_evaluated,
    passed,
    question_of,
)
from otel_agentic.scoring.scope import DIMENSIONS, Dimension, ToolRules, scope_of
from otel_agentic.truth.model import VALUELESS_MODES, Case, CaseTurn, ExpectedCall, ToolExpectation

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.judges import Judge
    from otel_agentic.judges.dialogue import Answer, Dialogue
    from otel_agentic.scoring import MatchedConversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A conversation with its case; `aligned` maps turn to case turn indices, `threshold` is that of answers."""

    matched: MatchedConversation
    case: Case
    settings: ScoringSettings
    aligned: Mapping[int, int]
    threshold: float
    rules: ToolRules

    @classmethod
    def of(cls, matched: MatchedConversation, case: Case, settings: ScoringSettings) -> Prepared:
        """Return a conversation prepared for scoring."""
        return cls(
            matched=matched,
            case=case,
            settings=settings,
            aligned=aligned_turns(case, matched.conversation.turns),
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

        The other systems have no forbidden answers.
        """
        for turn, expected in self.turns():
            without_forbidden = expected.model_copy(update={"not_answer": None})
            question_or_part = question_of(without_forbidden, turn, self.threshold)
            if question_or_part is not None:
                yield turn, question_or_part

    def questions(self) -> Iterator[Question]:
        """Yield a question for each answer that a judge must see."""
        return (question for _, question in self.answers() if isinstance(question, Question))

    def answer_parts(self, message: Iterator[Answer]) -> dict[int, Part]:
        """Return turn index -> outcome of its answer; takes as many verdicts as there are questions."""
        return {
            turn.index: answer_part(turn, next(message), self.threshold)
            if isinstance(question_or_part, Question)
            else question_or_part
            for turn, question_or_part in self.answers()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The result of another system for a conversation.

    `answers` is turn index -> outcome; `decided` is the conversation's outcome, `needed` the parts that it depends on;
    `by_tools` and `by_both` are the outcomes by tools alone, and by answers and tools.
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
    numbers: Callable[[Prepared, Iterator[Answer]], Numbers]
    questions: Callable[[Prepared], Iterable[Question]] = lambda _: ()


def score_as(
    system: System, matched: MatchedConversation, judge: Judge, settings: ScoringSettings
) -> Dialogue[ConversationScore]:
    """Return the dialogue that scores a conversation by the system's arithmetic."""
    del judge
    prepared = _prepared(matched, settings)
    if isinstance(prepared, Part):
        nothing = Numbers(decided=prepared, needed=(), answers={}, tools=(), by_tools=prepared, by_both=prepared)
        return _written(system, matched, nothing, prepared, {})
    questions = list(system.questions(prepared))
    verdicts = (yield questions) if questions else ()
    numbers = system.numbers(prepared, iter(verdicts))
    return _written(system, matched, numbers, combine([*numbers.answers.values()]), prepared.aligned)


def _prepared(matched: MatchedConversation, settings: ScoringSettings) -> Prepared | Part:
    case = matched.match.case
    if not matched.conversation.turns:
        return not_evaluated("empty", "the conversation has no turn")
    if case is None:
        return without_case(matched.conversation, matched.match)
    if not case.reviewed:
        return not_evaluated("unreviewed", f"case {case.case_id!r} is a draft that has not been reviewed")
    return Prepared.of(matched, case, settings)


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
    scored_part = answer or not_evaluated("no_data", "no answer is annotated")
    return TurnScore(
        turn_index=turn.index,
        case_turn_index=aligned.get(turn.index),
        outcome=scored_part.outcome,
        reason=scored_part.reason,
        answer_score=scored_part.score,
        answer_outcome=scored_part.outcome,
        answer_reason=scored_part.reason,
        tool_outcome=None if tools is None else tools.outcome,
        explanation=scored_part.explanation,
    )


def tool_part(score: ToolScore) -> Part:
    """Return a tool score as a part of an outcome."""
    return Part(outcome=score.outcome, reason=score.reason, explanation=score.note, score=score.overall)


def tool_score(
    part: Part, *, turn_index: int | None = None, dimensions: Mapping[Dimension, float] | None = None
) -> ToolScore:
    """Return a part as a tool score; a dimension that the system does not have is None, and it reports no faults."""
    known_dimensions = dimensions or {}
    return ToolScore(
        turn_index=turn_index,
        outcome=part.outcome,
        reason=part.reason,
        overall=part.score,
        dimensions={name: known_dimensions.get(name) for name in DIMENSIONS},
        faults=(),
        note=part.explanation,
    )


def counted(calls: Sequence[ToolCall], named: AbstractSet[str]) -> list[ToolCall]:
    """Return the calls passed to another system: tools, and transfers and agents that an expectation names.

    They include calls that ended in an error, because none of the systems considers errors.
    """
    return [call for call in calls if call.kind == "tool" or call.name in named]


def all_captured(turns: Sequence[Turn], calls: Sequence[ToolCall]) -> bool:
    """Return whether content was recorded, including the arguments of all calls, so that no call is overlooked."""
    anything = any(turn.query_captured or turn.answer_captured or turn.calls for turn in turns)
    return anything and all(call.arguments is not None for call in calls)


NOT_CAPTURED: Final = not_evaluated("content_not_captured", "arguments of calls were not captured")
NOTHING_TO_SCORE: Final = not_evaluated("no_data", "the case annotates nothing that this system scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """All actual calls, in order, and all expected calls: turn by turn by their steps, then those of the conversation.

    It is used for systems without a notion of turns. `ordered` is True if any expectation has an order,
    `extras_allowed` if every expectation allows extra calls.
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
    expected_calls = [call for expectation in expectations for call in _in_steps(expectation)]
    actual = counted([call for turn in turns for call in turn.calls], {call.tool_name for call in expected_calls})
    if not all_captured(turns, actual):
        return tool_score(NOT_CAPTURED)
    return WholeConversation(
        actual=tuple(actual),
        expected=tuple(expected_calls),
        forbidden=tuple(name for expectation in expectations for name in expectation.forbidden),
        ordered=any(expectation.order != "any" for expectation in expectations),
        extras_allowed=all(expectation.extra_calls == "allow" for expectation in expectations),
    )


def whole_numbers(
    prepared: Prepared, answers: Mapping[int, Part], score: Callable[[WholeConversation], ToolScore]
) -> Numbers:
    """Return the numbers of a system that scores answers, if at all, by turn, and tools over the conversation."""
    calls = whole_conversation(prepared)
    tools = score(calls) if isinstance(calls, WholeConversation) else calls
    answers_part = combine([*answers.values()]) if answers else None
    tools_part = None if tools is None else tool_part(tools)
    annotated = {"answer": answers_part, "tools": tools_part}
    parts = {name: part for name, part in annotated.items() if part is not None}
    # These systems decide by answers, and by tools where no answer is annotated, unless the criteria name other parts.
    named = {criterion.name for criterion in criteria_of(prepared.case, prepared.settings)} & parts.keys()
    deciding = named or set(list(parts)[:1])
    by_part = {"answer": tuple(answers.values()), "tools": () if tools_part is None else (tools_part,)}
    return Numbers(
        decided=combine([parts[name] for name in parts if name in deciding]) if parts else NOTHING_TO_SCORE,
        needed=tuple(part for name in parts if name in deciding for part in by_part[name]),
        answers=answers,
        tools=() if tools is None else (tools,),
        by_tools=combine([] if tools_part is None else [tools_part]),
        by_both=combine([*parts.values()]),
    )


def _expectations(prepared: Prepared) -> Iterator[ToolExpectation]:
    for turn in prepared.case.turns:
        if turn.tools is not None:
            yield turn.tools
    if prepared.case.tools is not None:
        yield prepared.case.tools


def _in_steps(expectation: ToolExpectation) -> list[ExpectedCall]:
    numbered_calls = enumerate(expectation.calls, start=1)
    return [
        call
        for _, call in sorted(numbered_calls, key=lambda entry: entry[0] if entry[1].step is None else entry[1].step)
    ]


def _agent_surface_numbers(prepared: Prepared, _verdicts: Iterator[Answer]) -> Numbers:
    return whole_numbers(prepared, {}, lambda total: _agent_surface_tools(total, prepared))


def _agent_surface_tools(total: WholeConversation, prepared: Prepared) -> ToolScore:
    names, expected = [call.name for call in total.actual], [call.tool_name for call in total.required]
    routing, f1 = tool_routing_accuracy(names, expected), calculate_tool_f1(expected, names)
    parts = [
        f"Agent Surface's tool routing accuracy {routing:.2f}, threshold {prepared.rules.threshold:g}",
        f"tool F1 {f1.f1:.2f} (precision {f1.precision:.2f}, recall {f1.recall:.2f})",
    ]
    dimensions: dict[Dimension, float] = {"selection": f1.f1}
    if expected:
        dimensions["parameters"] = _parameters(total)
    if prepared.case.minimum_steps is not None:
        parts.append(f"step efficiency {step_efficiency(len(names), prepared.case.minimum_steps):.2f}")
    note = "; ".join(parts)
    right = routing >= prepared.rules.threshold
    part = passed(note, routing) if right else failed("tool_fault", note, routing)
    return tool_score(part, dimensions=dimensions)


def _parameters(total: WholeConversation) -> float:
    """Return the mean semantic score over the expected calls, each against the call at its index, 0 without one."""
    scores = [
        parameter_correctness(call.arguments or {}, {}, expected.parameters).semantic_score
        for call, expected in zip(total.actual, total.required, strict=False)
    ]
    return sum(scores) / len(total.required)


AGENT_SURFACE = System(title="the Agent Surface pages", numbers=_agent_surface_numbers)


def _agentest_numbers(prepared: Prepared, _verdicts: Iterator[Answer]) -> Numbers:
    return whole_numbers(prepared, {}, _agentest_tools)


def _agentest_tools(total: WholeConversation) -> ToolScore:
    mode = _match_mode(total)
    expected = total.expected if mode == "within" else total.required
    actual = [MadeToolCall(name=call.name, args=dict(call.arguments or {})) for call in total.actual]
    result = match_trajectory(
        actual,
        TrajectoryAssertions(
            match_mode=mode, expected=tuple(map(_assertion, expected)), forbidden=tuple(_forbidden(total))
        ),
    )
    note = f"Agentest's {mode} match: {_result_text(result)}"
    return tool_score(passed(note, 1.0) if result.matched else failed("tool_fault", note, 0.0))


def _match_mode(total: WholeConversation) -> MatchMode:
    """Return the closest mode: Agentest has no order with gaps, and no optional calls among others."""
    if total.expected and not total.required:
        return "within"
    if total.extras_allowed:
        return "contains"
    return "strict" if total.ordered else "unordered"


def _assertion(call: ExpectedCall) -> CallAssertion:
    args = {key: value for key, value in call.parameters.items() if call.rules[key].mode not in VALUELESS_MODES}
    loose = call.ignore_extra_parameters or len(args) < len(call.rules)
    return CallAssertion(name=call.tool_name, args=args, mode="partial" if loose else "exact")


def _forbidden(total: WholeConversation) -> Iterator[CallAssertion]:
    """Yield an assertion for each forbidden name among the actual calls, because Agentest has no globs."""
    for name in dict.fromkeys(call.name for call in total.actual):
        if any(fnmatchcase(name, pattern) for pattern in total.forbidden):
            yield CallAssertion(name=name)


def _result_text(result: TrajectoryResult) -> str:
    lists = {
        "missing": result.missing_calls,
        "extra": result.extra_calls,
        "ordering": result.ordering_issues,
        "forbidden": result.forbidden_calls,
    }
    parts = [f"{name}: {', '.join(entries)}" for name, entries in lists.items() if entries]
    return "; ".join(parts) or "every call is as asserted"


AGENTEST = System(title="Agentest 0.0.17", numbers=_agentest_numbers)


def _fair_forge_numbers(prepared: Prepared, verdicts: Iterator[Answer]) -> Numbers:
    answers = prepared.answer_parts(verdicts)
    tools = tuple(
        _fair_forge_tools(turn, expected.tools, prepared.rules)
        for turn, expected in prepared.turns()
        if expected.tools is not None
    )
    parts = [tool_part(score) for score in tools]
    return Numbers(
        # Tools do not affect the outcome, and a turn that never came is no interaction.
        decided=combine([*answers.values()]) if answers else NOTHING_TO_SCORE,
        needed=tuple(answers.values()),
        answers=answers,
        tools=tools,
        by_tools=combine(parts),
        by_both=combine([*answers.values(), *parts]),
    )


def _fair_forge_tools(turn: Turn, expectation: ToolExpectation, rules: ToolRules) -> ToolScore:
    calls = counted(turn.calls, {call.tool_name for call in expectation.calls})
    if not all_captured([turn], calls):
        return tool_score(NOT_CAPTURED, turn_index=turn.index)
    agentic = {"tools_used": [_tool_used(call) for call in calls]}
    try:
        score = turn_tool_correctness(
            agentic | {"final_answer_uses_tools": _answer_uses_tools(turn, calls, expectation, rules)},
            _ground_truth(expectation),
            weights=_weights(rules),
            threshold=rules.threshold,
        )
    except BadInputError as error:  # weights that Fair Forge rejects
        return tool_score(not_evaluated("no_data", str(error)), turn_index=turn.index)
    if score is None:
        part = not_evaluated("no_data", f"turn {turn.index + 1} called no tool; Fair Forge does not score that")
        return tool_score(part, turn_index=turn.index)
    return _converted_score(score, turn.index, rules.threshold)


def _weights(rules: ToolRules) -> dict[str, float] | None:
    """Return the configured weights, or None (Fair Forge's own, .25 each) if they are the defaults."""
    weights = {str(name): weight for name, weight in rules.weights.items()}
    return None if weights == DEFAULT_TOOL_WEIGHTS else weights


def _converted_score(score: ToolCorrectnessScore, turn_index: int, threshold: float) -> ToolScore:
    note = f"Fair Forge's tool score {score.overall_correctness:.2f}, threshold {threshold:g}: {score.reasoning}"
    part: Part = passed(note) if score.is_correct else failed("tool_fault", note)
    return tool_score(
        replace(part, score=score.overall_correctness),
        turn_index=turn_index,
        dimensions={
            "selection": score.tool_selection_correct,
            "parameters": score.parameter_accuracy,
            "sequence": score.sequence_correct,
            "utilization": score.result_utilization,
        },
    )


def _tool_used(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "parameters": dict(call.arguments or {}), "step": call.step}


def _ground_truth(expectation: ToolExpectation) -> dict[str, Any]:
    required = [call for call in expectation.calls if call.required]
    return {
        "expected_tools": [
            {
                "tool_name": call.tool_name,
                "parameters": dict(call.parameters),
                "step": index if call.step is None else call.step,
            }
            for index, call in enumerate(required, start=1)
        ],
        "tool_sequence_matters": expectation.order != "any",
    }


def _answer_uses_tools(turn: Turn, calls: list[ToolCall], expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return the flag of Fair Forge's datasets, by the flags of the spans or else by our utilization score."""
    flags = [call.used_flag for call in calls if call.used_flag is not None]
    if flags:
        return any(flags)
    utilization = score_tools(expectation, scope_of([turn], turn_index=turn.index), rules).dimensions["utilization"]
    return utilization is not None and utilization > 0


FAIR_FORGE = System(title="Fair Forge 3.0.0", questions=Prepared.questions, numbers=_fair_forge_numbers)


def _ragas_questions(prepared: Prepared) -> Iterator[Question]:
    for question in prepared.questions():
        reference = closest_accepted(question.answer, question.accepted_answers)  # RAGAS has one reference
        yield replace(question, expected=reference, also_accepted=())
        yield replace(question, expected=question.answer, answer=reference, also_accepted=())


def _ragas_numbers(prepared: Prepared, verdicts: Iterator[Answer]) -> Numbers:
    answers = {
        turn.index: _average(turn, next(verdicts), next(verdicts), prepared.threshold)
        if isinstance(question_or_part, Question)
        else question_or_part
        for turn, question_or_part in prepared.answers()
    }
    return whole_numbers(prepared, answers, lambda total: _ragas_tools(total, prepared.rules.threshold))


def _average(turn: Turn, first: Answer, second: Answer, threshold: float) -> Part:
    if isinstance(first, JudgeFailure) or isinstance(second, JudgeFailure):
        return answer_part(turn, first if isinstance(first, JudgeFailure) else second, threshold)
    score = (first.score + second.score) / 2
    reasoning = f"average of {first.score:.2f} and, compared the other way, {second.score:.2f}"
    averaged = replace(first, score=score, reasoning=reasoning, unsure=first.unsure or second.unsure)
    return answer_part(turn, averaged, threshold)


def _ragas_tools(total: WholeConversation, threshold: float) -> ToolScore:
    actual = [RagasCall(name=call.name, args=call.arguments or {}) for call in total.actual]
    expected = [RagasCall(name=call.tool_name, args=call.parameters) for call in total.required]
    accuracy = tool_call_accuracy(actual, expected, strict_order=total.ordered)
    order = "strict" if total.ordered else "unordered"
    note = f"RAGAS's tool call accuracy ({order}) {accuracy:.2f}, threshold {threshold:g}; tool call F1 {_f1(actual, expected)}"
    part = passed(note, accuracy) if accuracy >= threshold else failed("tool_fault", note, accuracy)
    return tool_score(part)


def _f1(actual: list[RagasCall], expected: list[RagasCall]) -> str:
    try:
        return f"{tool_call_f1(actual, expected):.4f}"
    except BadInputError as error:
        return f"unknown: {error}"


RAGAS = System(title="RAGAS 0.3.9", questions=_ragas_questions, numbers=_ragas_numbers)


_SYSTEMS: Final[Mapping[str, System]] = {
    "agent-surface": AGENT_SURFACE,
    "agentest": AGENTEST,
    "fair-forge": FAIR_FORGE,
    "ragas": RAGAS,
}
NAMES: Final = tuple(_SYSTEMS)


class Scorer(Protocol):
    """Returns the dialogue that scores a conversation, such as `otel_agentic.scoring.outcome.scoring`."""

    def __call__(
        self, matched: MatchedConversation, judge: Judge, settings: ScoringSettings
    ) -> Dialogue[ConversationScore]:
        """Return the dialogue; of the judge, only its attributes are read."""
        ...


def scorer(name: str) -> Scorer:
    """Return the scorer of a system, which replaces `otel_agentic.scoring.outcome.scoring`.

    Raises:
        UsageError: there is no such system.
    """
    system = _SYSTEMS.get(name)
    if system is None:
        raise UsageError(f"compat {name!r}; allowed: {', '.join(NAMES)}")
    return partial(score_as, system)
