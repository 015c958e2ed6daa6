"""The outcome of a conversation: the criteria that decide, evaluated on its scores, unless a verdict takes precedence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from otel_agentic.judges.base import Judge, Question, QuestionKind, Verdict, is_calibrated, kinds_of
from otel_agentic.judges.dialogue import Answer, Dialogue, ask_of, run_dialogues
from otel_agentic.scoring.criteria import ANNOTATED, CASE_CRITERIA, Criterion, parsed
from otel_agentic.scoring.model import ConversationScore, CriterionScore, ToolScore, TurnScore
from otel_agentic.scoring.parts import (
    Part,
    ToolJudge,
    ToolScores,
    answer_part,
    await_missing_calls,
    combine,
    failed,
    kinds_wanted,
    missing_outputs,
    not_evaluated,
    outputs_part,
    passed,
    question_of,
    tool_scores,
    wants_opinions,
)
from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.scoring.state import state_part
from otel_agentic.truth.values import Bag

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.scoring.scope import NotEvaluatedReason
    from otel_agentic.truth.load import Label
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Case

    #: Reason and explanation why missing turns may still exist; None if none is missing or none can exist.
    Awaited: TypeAlias = tuple[NotEvaluatedReason, str] | None

#: Value of a pair in addition to its similarity. People word the same question differently, so dissimilar turns still
#: belong together by their order. The value is one half, so that an equal query elsewhere outweighs one dissimilar
#: pair.
PAIR_WORTH: Final = 0.5
#: Sums of similarities are floating-point: totals this close are equal.
_ROUNDING: Final = 1e-9


def unproven_absence(conversation: Conversation, settings: ScoringSettings) -> tuple[NotEvaluatedReason, str] | None:
    """Return the reason and explanation why a missing expected turn may still exist, or None.

    Only an end mark, or `strict_turns`, proves that a turn is absent. The end of a file and idleness prove nothing, and
    if no span carries a conversation id, the turn may be stored as another conversation.
    """
    if conversation.ended or settings.strict_turns:
        return None
    if conversation.link_method != "explicit":
        return "no_conversation_id", "no span carries a conversation id, so it may be stored as another conversation"
    if conversation.closed_by == "end_of_input":
        return "incomplete", "no end mark proves that the conversation was over at the end of the input"
    return "incomplete", "the conversation went quiet"


def agent_error(conversation: Conversation) -> Part | None:
    """Return the failure of an agent whose program ended with an error, None if it did not."""
    if conversation.closed_by != "agent_error":
        return None
    return failed("agent_error", f"the agent ended with an error: {conversation.turns[-1].error or 'no message'}")


def align_turns(expected: Sequence[str | None], actual: Sequence[str | None]) -> Mapping[int, int]:
    """Return the best alignment in order, as a mapping from actual turn index to case turn index.

    The value of a pair is the similarity of its queries plus `PAIR_WORTH`; the alignment maximises the sum. Therefore
    turns pair in their order regardless of their wording, and a turn remains unpaired only if that gives other turns a
    clearly better partner: a greeting before the first question, or a case turn that did not occur. A query that is
    None (not annotated, or not captured) has similarity 0 to every query. Among equal alignments, earlier turns are
    paired.

    >>> dict(align_turns(["book a table", "cancel it"], ["hello", "book a table", "please cancel it"]))
    {1: 0, 2: 1}
    >>> dict(align_turns(["book a table", "cancel it"], ["hello", "book a table"]))
    {1: 0}
    """
    if list(expected) == list(actual):
        return {index: index for index in range(len(actual))}
    similarities = _similarities(expected, actual)
    return _pairs(_best_values(similarities, len(expected), len(actual)), similarities)


def aligned_turns(case: Case, turns: Sequence[Turn]) -> Mapping[int, int]:
    """Return the case turn index by turn index, see `align_turns`."""
    indices = align_turns([turn.query for turn in case.turns], [turn.query for turn in turns])
    return {turns[position].index: index for position, index in indices.items()}


def _similarities(expected: Sequence[str | None], actual: Sequence[str | None]) -> list[list[float]]:
    rows, columns = ([None if query is None else Bag.of(query) for query in queries] for queries in (expected, actual))
    return [[0.0 if row is None or column is None else row.similarity(column) for column in columns] for row in rows]


def _best_values(similarities: list[list[float]], rows: int, columns: int) -> list[list[float]]:
    """Return best[i][j]: the maximum total value of pairs among expected[i:] and actual[j:]."""
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            best[i][j] = max(similarities[i][j] + PAIR_WORTH + best[i + 1][j + 1], best[i][j + 1], best[i + 1][j])
    return best


def _pairs(best: list[list[float]], similarities: list[list[float]]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    i = j = 0
    while i < len(best) - 1 and j < len(best[0]) - 1:
        optimum = best[i][j] - _ROUNDING
        if similarities[i][j] + PAIR_WORTH + best[i + 1][j + 1] >= optimum:
            pairs[j] = i
            i, j = i + 1, j + 1
        elif best[i][j + 1] >= optimum:
            j += 1
        else:
            i += 1
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedConversation:
    """A conversation with its match and its label, if it has one."""

    conversation: Conversation
    match: Match
    label: Label | None = None


VerdictSource = Literal["adjudication", "labels", "case", "annotators", "event"]


def given_verdict(matched: MatchedConversation, settings: ScoringSettings) -> tuple[VerdictSource, bool] | None:
    """Return the annotated verdict that overrides the computed outcome, with its source; the first source wins."""
    label, case, conversation = matched.label, matched.match.case, matched.conversation
    annotated = None if label is None or label.verdict is None else (label.source, label.verdict)
    if annotated is not None and annotated[0] != "annotators":
        return annotated
    case_verdict = None if case is None else case.given_verdict(settings.reward_threshold)
    if case_verdict is not None:
        return "case", case_verdict
    if annotated is not None:
        return annotated
    if settings.trust_verdict_events and conversation.verdict is not None:
        return "event", conversation.verdict
    return None


def under_verdict(computed: Part, provided: tuple[VerdictSource, bool] | None) -> Part:
    """Return the computed outcome, overridden by an annotated verdict if there is one; the explanation names both."""
    if provided is None:
        return computed
    source, passes = provided
    explanation = f"verdict of {source}: {'pass' if passes else 'fail'}; computed: {computed.outcome}"
    if computed.explanation:
        explanation += f" ({computed.explanation})"
    return Part(outcome="pass", explanation=explanation) if passes else failed("verdict", explanation)


#: Number of conversations whose questions are sent to the judge together: enough to keep a slow judge busy, few enough
#: to keep in memory.
BATCH: Final = 256


def score_conversation(
    conversation: Conversation, match: Match, label: Label | None = None, *, judge: Judge, settings: ScoringSettings
) -> ConversationScore:
    """Return the score of one conversation; use `score_conversations` for many, which is faster."""
    matched = MatchedConversation(conversation=conversation, match=match, label=label)
    return score_conversations([matched], judge=judge, settings=settings)[0]


def score_conversations(
    matched: Sequence[MatchedConversation],
    *,
    judge: Judge,
    settings: ScoringSettings,
    score: Callable[[MatchedConversation, Judge, ScoringSettings], Dialogue[ConversationScore]] | None = None,
) -> list[ConversationScore]:
    """Return the scores of conversations, in their order; the judge is asked once for each `BATCH` of them.

    `score` scores one conversation, see `compat.scorer`; None for `scoring`. Criteria on metrics of evaluators are left
    out, so that they decide nothing.
    """
    scores: dict[int, ConversationScore] = {}
    for start in range(0, len(matched), BATCH):
        dialogues = [(score or scoring)(item, judge, settings) for item in matched[start : start + BATCH]]
        scores |= {start + index: result for index, result in run_dialogues(dialogues, ask_of(judge))}
    return [scores[index] for index in range(len(matched))]


#: Returns the outcomes of criteria on metrics of evaluators, by the text of the criterion, given the preliminary score.
Measure: TypeAlias = Callable[["ConversationScore"], Dialogue[Mapping[str, "Part | None"]]]


def scoring(
    matched: MatchedConversation, judge: Judge, settings: ScoringSettings, measure: Measure | None = None
) -> Dialogue[ConversationScore]:
    """Return the dialogue that scores a conversation.

    Args:
        matched: the conversation with its case.
        judge: only its attributes are read: the kinds of questions that it accepts, and whether it is calibrated.
        settings: the scoring settings.
        measure: evaluates the criteria on metrics; None without such criteria.
    """
    computed = yield from _computed(matched, judge, settings)
    score = _finish(matched, settings, computed)
    if measure is None:
        return score
    return _finish(matched, settings, computed, (yield from measure(score)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """The computed result, without annotated verdicts.

    `parts` are the parts of each annotated criterion by name; `blocked` is the reason why none could be evaluated.
    `answers_probability` is the probability that all judged answers are correct, assuming independence; None without a
    calibrated judge.
    """

    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    blocked: Part | None = None
    turns: tuple[TurnScore, ...] = ()
    tools: tuple[ToolScore, ...] = ()
    missing_outputs: tuple[str, ...] = ()
    answers_probability: float | None = None


def _computed(matched: MatchedConversation, judge: Judge, settings: ScoringSettings) -> Dialogue[_Computed]:
    conversation, match, case = matched.conversation, matched.match, matched.match.case
    if not conversation.turns:
        return _Computed(blocked=not_evaluated("empty", "the conversation has no turn"))
    if case is None:
        blocked = without_case(conversation, match)
        return _Computed(blocked=blocked, turns=tuple(_unjudged(turn, blocked) for turn in conversation.turns))
    computed = yield from _compute(_Aligned.of(matched, case, settings), judge)
    if case.reviewed:
        return computed
    # A draft repeats what the agent did, even if that was wrong, so it decides nothing.
    return replace(
        computed,
        blocked=not_evaluated("unreviewed", f"case {case.case_id!r} is a draft that has not been reviewed"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aligned:
    """A conversation aligned with its case: `turns` maps turn indices to case turn indices.

    `absent` are the case turns that did not occur, `awaited` is the reason why they may still do. `threshold` is the
    minimum score of an answer, in [0, 1].
    """

    matched: MatchedConversation
    case: Case
    settings: ScoringSettings
    turns: Mapping[int, int]
    absent: Sequence[int]
    awaited: Awaited
    threshold: float

    @classmethod
    def of(cls, matched: MatchedConversation, case: Case, settings: ScoringSettings) -> _Aligned:
        """Return the alignment of a conversation."""
        turns = aligned_turns(case, matched.conversation.turns)
        absent = [index for index in range(len(case.turns)) if index not in turns.values()]
        return cls(
            matched=matched,
            case=case,
            settings=settings,
            turns=turns,
            absent=absent,
            awaited=unproven_absence(matched.conversation, settings) if absent else None,
            threshold=settings.answer_threshold if case.answer_threshold is None else case.answer_threshold,
        )


def _compute(plan: _Aligned, judge: Judge) -> Dialogue[_Computed]:
    case, turns, settings = plan.case, plan.matched.conversation.turns, plan.settings
    questions = {
        turn.index: question_of(case.turns[plan.turns[turn.index]], turn, plan.threshold)
        for turn in turns
        if turn.index in plan.turns
    }
    answer_questions = [question for question in questions.values() if isinstance(question, Question)]
    verdicts, tools = yield from _verdicts_and_tools(plan, answer_questions, kinds_wanted(kinds_of(judge), settings))
    answers = {
        turn.index: answer_part(turn, verdicts[question], plan.threshold)
        if isinstance(question, Question)
        else question
        for turn in turns
        if (question := questions.get(turn.index)) is not None
    }
    whole_score = tools.conversation
    if whole_score is not None and plan.awaited is not None:
        whole_score = await_missing_calls(whole_score, case, settings, plan.awaited)
    all_tools = (*tools.turns.values(), *(() if whole_score is None else (whole_score,)))
    missing = missing_outputs(turns, case.outputs)
    scores = [verdict.score for question in answer_questions if isinstance(verdict := verdicts[question], Verdict)]
    return _Computed(
        parts=_parts(plan, answers, all_tools, missing),
        turns=tuple(_turn_score(turn, plan, answers.get(turn.index), tools.turns.get(turn.index)) for turn in turns),
        tools=all_tools,
        missing_outputs=missing,
        answers_probability=prod(scores) if is_calibrated(judge) and scores else None,
    )


def _parts(
    plan: _Aligned, answers: Mapping[int, Part], tools: Sequence[ToolScore], missing: Sequence[str]
) -> dict[str, Sequence[Part]]:
    """Return the parts of each annotated criterion, and of each dimension of tools that applies, by name."""
    case, conversation = plan.case, plan.matched.conversation
    presence = list(_presence_parts(plan))
    state = state_part(case, conversation, plan.settings)
    parts: dict[str, Sequence[Part]] = {}
    if any(turn.answer is not None or turn.not_answer is not None for turn in case.turns):
        parts["answer"] = [*answers.values(), *presence]
    if case.tools is not None or any(turn.tools is not None for turn in case.turns):
        parts["tools"] = [*map(_tool_part, tools), *presence]
    if case.outputs:
        parts["outputs"] = [_if_awaited(outputs_part(conversation.turns, missing), plan.awaited)]
    if state is not None:
        parts["state"] = [_if_awaited(state, plan.awaited)]
    if presence:
        parts["turns"] = presence
    return parts | {name: applicable for name in DIMENSIONS if (applicable := _dimension_parts(name, tools))}


def _verdicts_and_tools(
    plan: _Aligned, answer_questions: Sequence[Question], kinds: frozenset[QuestionKind]
) -> Dialogue[tuple[Mapping[Question, Answer], ToolScores]]:
    """Ask about the answers and the tools; a verdict about a tool may raise further questions about other tools."""
    judge = ToolJudge(kinds=kinds, threshold=plan.threshold) if wants_opinions(plan.case, kinds) else None
    turns = plan.matched.conversation.turns
    tools = tool_scores(plan.case, turns, plan.turns, plan.settings, judge)
    verdicts: dict[Question, Answer] = {}
    questions = (*answer_questions, *tools.questions)
    while questions:
        verdicts |= zip(questions, (yield questions), strict=True)
        if judge is None or not tools.questions:
            break
        tools = tool_scores(plan.case, turns, plan.turns, plan.settings, replace(judge, verdicts=verdicts))
        questions = tools.questions
    return verdicts, tools


def without_case(conversation: Conversation, match: Match) -> Part:
    """Return the reason why a conversation with turns has no case.

    If a query was not captured that could identify the case, or distinguish candidates, the reason is the missing
    content. A warning, such as an unknown case id, takes precedence over that.
    """
    uncaptured_turns = [turn for turn in conversation.turns if not turn.query_captured]
    if (
        uncaptured_turns
        and not match.warning
        and (match.reason == "ambiguous" or uncaptured_turns[0] is conversation.turns[0])
    ):
        return not_evaluated(
            "content_not_captured",
            f"the query of turn {uncaptured_turns[0].index + 1} was not recorded, so no case can be found",
        )
    if match.reason == "ambiguous":
        return not_evaluated("ambiguous", f"fits {', '.join(match.candidates)} equally")
    return not_evaluated("unmatched", "no case belongs to it")


def _presence_parts(plan: _Aligned) -> Iterator[Part]:
    """Yield a part for missing turns, and one for unexpected turns under `strict_turns`."""
    case = plan.case
    if plan.absent:
        names = ", ".join(f"{index + 1} ({case.turns[index].query or 'no query'})" for index in plan.absent)
        if plan.awaited is None:
            yield failed("missing_turn", f"expected turn {names} never came")
        else:
            reason, explanation = plan.awaited
            yield not_evaluated(reason, f"expected turn {names} is missing; {explanation}")
    unexpected = [turn.index + 1 for turn in plan.matched.conversation.turns if turn.index not in plan.turns]
    if plan.settings.strict_turns and case.turns and unexpected:
        yield failed("extra_turn", f"turn {', '.join(map(str, unexpected))} is not in the case")


def _if_awaited(part: Part, awaited: Awaited) -> Part:
    """Return the part, but no failure while missing turns may still exist."""
    return not_evaluated(awaited[0], part.explanation) if awaited is not None and part.outcome == "fail" else part


def _tool_part(score: ToolScore) -> Part:
    return Part(outcome=score.outcome, reason=score.reason, explanation=score.explanation, score=score.overall)


def _dimension_parts(name: str, scores: Sequence[ToolScore]) -> list[Part]:
    """Return a part for each tool score in which a dimension applies."""
    parts = []
    for score in scores:
        value = score.dimensions.get(name)  # type: ignore[call-overload]  # a name of a dimension
        if value is None:
            continue
        explanation = f"{name} {value:.2f}: {score.explanation}"
        if score.outcome == "not_evaluated":
            parts.append(Part(outcome="not_evaluated", reason=score.reason, explanation=explanation, score=value))
        else:
            is_right = value >= 1.0 - _ROUNDING
            parts.append(passed(explanation, value) if is_right else failed("tool_fault", explanation, value))
    return parts


def _turn_score(turn: Turn, plan: _Aligned, answer: Part | None, tools: ToolScore | None) -> TurnScore:
    case, case_turn_index = plan.case, plan.turns.get(turn.index)
    if case_turn_index is None or not case.turns[case_turn_index].annotated:
        is_extra = plan.settings.strict_turns and case.turns and case_turn_index is None
        part = failed("extra_turn", "not in the case") if is_extra else not_evaluated("no_data", "nothing is annotated")
        return replace(_unjudged(turn, part), case_turn_index=case_turn_index)
    parts = {"answer": answer, "tools": None if tools is None else _tool_part(tools)}
    annotated = {name: part for name, part in parts.items() if part is not None}
    deciding = {criterion.name for criterion in criteria_of(case, plan.settings)}
    outcome = combine([part for name, part in annotated.items() if deciding & {name, ANNOTATED}])
    return TurnScore(
        turn_index=turn.index,
        case_turn_index=case_turn_index,
        outcome=outcome.outcome,
        reason=outcome.reason,
        answer_score=None if answer is None else answer.score,
        answer_outcome="not_evaluated" if answer is None else answer.outcome,
        answer_reason="no_data" if answer is None else answer.reason,
        tool_outcome=None if tools is None else tools.outcome,
        explanation="; ".join(part.explanation for part in annotated.values()),
    )


def _unjudged(turn: Turn, part: Part) -> TurnScore:
    return TurnScore(
        turn_index=turn.index,
        case_turn_index=None,
        outcome=part.outcome,
        reason=part.reason,
        answer_score=None,
        answer_outcome="not_evaluated",
        answer_reason=part.reason if part.outcome == "not_evaluated" else "no_data",
        tool_outcome=None,
        explanation=part.explanation,
    )


def criteria_of(case: Case | None, settings: ScoringSettings) -> tuple[Criterion, ...]:
    """Return the deciding criteria of a conversation: those of its case, else those of the settings."""
    return parsed(settings.criteria if case is None or case.criteria is None else case.criteria)


def _deciding(
    criteria: Iterable[Criterion],
    parts: Mapping[str, Sequence[Part]],
    blocked: Part | None,
    metric_parts: Mapping[str, Part | None],
) -> dict[str, Sequence[Part]]:
    """Return the parts of each deciding criterion, by its name or text."""
    deciding: dict[str, Sequence[Part]] = {}
    for criterion in criteria:
        if criterion.name == ANNOTATED:
            deciding |= (
                {ANNOTATED: [blocked]}
                if blocked is not None
                else {name: parts[name] for name in CASE_CRITERIA if name in parts}
            )
        elif criterion.of_case:
            missing = blocked or not_evaluated("no_data", f"the case annotates no {criterion.name}")
            deciding[criterion.name] = [missing] if blocked is not None else parts.get(criterion.name, [missing])
        elif (part := metric_parts.get(criterion.text)) is not None:
            deciding[criterion.text] = [part]
    return deciding


def _finish(
    matched: MatchedConversation,
    settings: ScoringSettings,
    computed: _Computed,
    metric_parts: Mapping[str, Part | None] | None = None,
) -> ConversationScore:
    conversation, match, case = matched.conversation, matched.match, matched.match.case
    criteria = criteria_of(case, settings)
    deciding = _deciding(criteria, computed.parts, computed.blocked, metric_parts or {})
    crash = None if computed.blocked is not None else agent_error(conversation)
    if crash is not None:
        deciding = {"completion": [crash], **deciding}
    atoms = list({id(part): part for parts in deciding.values() for part in parts}.values())
    # An agent that ended with an error has failed, even if a judge is unsure about an answer.
    computed_part = combine(atoms if crash is None else [crash])
    annotated_verdict = given_verdict(matched, settings)
    final = under_verdict(computed_part, annotated_verdict)

    def alone(*names: str) -> Part:
        if computed.blocked is not None:
            return computed.blocked
        return combine([part for name in names for part in computed.parts.get(name, ())])

    return ConversationScore(
        environment=conversation.environment,
        conversation_id=conversation.conversation_id,
        revision=conversation.revision,
        case_id=None if case is None else case.case_id,
        dataset=None if case is None else case.dataset,
        case_version=None if case is None else case.version,
        match_method=match.method,
        match_confidence=match.confidence,
        warning=match.warning,
        outcome=final.outcome,
        reason=final.reason,
        outcome_source="computed" if annotated_verdict is None else annotated_verdict[0],
        computed_outcome=computed_part.outcome,
        computed_reason=computed_part.reason,
        answer_outcome=alone("answer").outcome,
        tool_outcome=alone("tools").outcome,
        both_outcome=alone("answer", "tools").outcome,
        criteria=tuple(_criterion_score(name, parts) for name, parts in deciding.items()),
        annotated=()
        if computed.blocked is not None
        else tuple(_criterion_score(name, computed.parts[name]) for name in computed.parts),
        turns=computed.turns,
        tools=computed.tools,
        missing_outputs=computed.missing_outputs,
        explanation=final.explanation,
        partial=annotated_verdict is None
        and (computed_part.outcome == "fail" or computed_part.known_failure is not None)
        and any(part.outcome == "not_evaluated" for part in atoms),
        known_failure=computed_part.known_failure,
        pass_probability=None
        if annotated_verdict is not None
        else _pass_probability(computed_part, computed.answers_probability),
    )


def _criterion_score(name: str, parts: Sequence[Part]) -> CriterionScore:
    part = combine(parts)
    return CriterionScore(name, part.outcome, part.reason, part.explanation)


def _pass_probability(computed_part: Part, answers: float | None) -> float | None:
    """Return the probability that a conversation passes; None if more than its answers is undecided."""
    if answers is None or (computed_part.outcome == "not_evaluated" and computed_part.reason != "judge_unsure"):
        return None
    failure = computed_part.reason if computed_part.outcome == "fail" else computed_part.known_failure
    return answers if failure in {None, "wrong_answer"} else 0.0
