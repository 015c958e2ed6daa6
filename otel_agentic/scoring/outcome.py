"""The outcome of a conversation: turns, tools and outputs combined, unless an annotated verdict takes precedence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from otel_agentic.judges.asking_judge import ask
from otel_agentic.judges.base import Judge, JudgeFailure, Question, QuestionKind, Verdict, is_calibrated, kinds_of
from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore
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
    question_of,
    tool_scores,
    wants_opinions,
)
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

TurnRule = Literal["answer", "tools", "both"]

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


def decide_turn(rule: TurnRule, answer: Part | None, tools: Part | None) -> Part:
    """Return the outcome of a turn under a rule; a part without an annotation is None.

    >>> from otel_agentic.scoring.parts import failed, passed
    >>> [decide_turn(rule, passed(""), failed("tool_fault", "")).outcome for rule in ("answer", "tools", "both")]
    ['pass', 'fail', 'fail']
    """
    return combine(deciding_parts(rule, answer, tools))


def deciding_parts(rule: TurnRule, answer: Part | None, tools: Part | None) -> list[Part]:
    """Return the parts that decide a turn under a rule.

    Under `answer`, the tools decide only if no answer is annotated; under `tools`, the answer decides only if no tools
    are.
    """
    order = (tools, answer) if rule == "tools" else (answer, tools)
    annotated = [part for part in order if part is not None]
    return annotated if rule == "both" else annotated[:1]


_ANSWERS_ONLY: frozenset[QuestionKind] = frozenset({"answer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedConversation:
    """A conversation with its match and its label, if it has one."""

    conversation: Conversation
    match: Match
    label: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversation aligned with its case turns, before the judge's verdicts.

    `aligned` maps a turn index to a case turn index. `answer_questions` maps a turn index to its question, to its
    outcome if no judge is needed, or to None if no answer is annotated. `tools` are the tool scores as far as the data
    decide them. `judge` is None if no judge is asked about tools.
    """

    matched: MatchedConversation
    case: Case | None
    settings: ScoringSettings
    threshold: float = 0.0
    aligned: Mapping[int, int] = field(default_factory=dict)
    answer_questions: Mapping[int, Question | Part | None] = field(default_factory=dict)
    judge: ToolJudge | None = None
    tools: ToolScores = field(default_factory=lambda: ToolScores(turns={}, conversation=None))

    @classmethod
    def of(
        cls,
        matched: MatchedConversation,
        settings: ScoringSettings,
        kinds: frozenset[QuestionKind] = _ANSWERS_ONLY,
    ) -> Plan:
        """Return the plan of a conversation; `kinds` are the questions that the judge is asked."""
        case, turns = matched.match.case, matched.conversation.turns
        if case is None or not turns:
            return cls(matched=matched, case=case, settings=settings)
        threshold = settings.answer_threshold if case.answer_threshold is None else case.answer_threshold
        aligned = aligned_turns(case, turns)
        tool_judge = ToolJudge(kinds=kinds, threshold=threshold) if wants_opinions(case, kinds) else None
        return cls(
            matched=matched,
            case=case,
            settings=settings,
            threshold=threshold,
            aligned=aligned,
            answer_questions={
                turn.index: question_of(case.turns[aligned[turn.index]], turn, threshold)
                for turn in turns
                if turn.index in aligned
            },
            judge=tool_judge,
            tools=tool_scores(case, turns, aligned, settings, tool_judge),
        )

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions for the judge: about answers first, then about tools."""
        answers = (question for question in self.answer_questions.values() if isinstance(question, Question))
        return (*answers, *self.tools.questions)

    @property
    def answers_asked(self) -> int:
        """The number of questions about answers; they come first in `questions`."""
        return sum(isinstance(question, Question) for question in self.answer_questions.values())

    def answers(self, verdicts: Sequence[Verdict | JudgeFailure]) -> dict[int, Part | None]:
        """Return the outcome of the answer by turn index, given the verdicts on `questions`."""
        turns = {turn.index: turn for turn in self.matched.conversation.turns}
        remaining_verdicts = iter(verdicts)
        return {
            index: answer_part(turns[index], next(remaining_verdicts), self.threshold)
            if isinstance(question, Question)
            else question
            for index, question in self.answer_questions.items()
        }

    def judged_tools(self, verdicts: Sequence[Verdict | JudgeFailure]) -> ToolScores:
        """Return the tool scores, given the verdicts on `questions`."""
        if self.case is None or self.judge is None or not self.tools.questions:
            return self.tools
        tool_verdicts = dict(
            zip(self.tools.questions, verdicts[len(verdicts) - len(self.tools.questions) :], strict=True)
        )
        tool_judge = ToolJudge(kinds=self.judge.kinds, threshold=self.threshold, verdicts=tool_verdicts)
        return tool_scores(self.case, self.matched.conversation.turns, self.aligned, self.settings, tool_judge)


VerdictSource = Literal["adjudication", "labels", "case", "annotators", "event"]


def given_verdict(plan: Plan) -> tuple[VerdictSource, bool] | None:
    """Return the annotated verdict that overrides the computed outcome, with its source; the first source wins."""
    label, conversation, settings = plan.matched.label, plan.matched.conversation, plan.settings
    annotated = None if label is None or label.verdict is None else (label.source, label.verdict)
    if annotated is not None and annotated[0] != "annotators":
        return annotated
    case_verdict = None if plan.case is None else plan.case.given_verdict(settings.reward_threshold)
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


_RULES: Final[tuple[TurnRule, ...]] = ("answer", "tools", "both")
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
    matched: Sequence[MatchedConversation], *, judge: Judge, settings: ScoringSettings
) -> list[ConversationScore]:
    """Return the scores of conversations, in their order; the judge is asked once for each `BATCH` of them."""
    scores: list[ConversationScore] = []
    for start in range(0, len(matched), BATCH):
        scores += _score_batch(matched[start : start + BATCH], judge, settings)
    return scores


def _score_batch(
    matched: Sequence[MatchedConversation], judge: Judge, settings: ScoringSettings
) -> Iterator[ConversationScore]:
    kinds = kinds_wanted(kinds_of(judge), settings)
    plans = [Plan.of(conversation, settings, kinds) for conversation in matched]
    verdicts = iter(ask(judge, [question for plan in plans for question in plan.questions]))
    calibrated = is_calibrated(judge)
    return (_score(plan, [next(verdicts) for _ in plan.questions], calibrated=calibrated) for plan in plans)


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


def _score(plan: Plan, verdicts: Sequence[Verdict | JudgeFailure], *, calibrated: bool) -> ConversationScore:
    """Return the score of a planned conversation, given one verdict or failure for each of `plan.questions`."""
    conversation, match = plan.matched.conversation, plan.matched.match
    if not conversation.turns:
        return _finish(plan, _Computed.nothing(not_evaluated("empty", "the conversation has no turn")))
    if plan.case is None:
        return _finish(plan, _Computed.nothing(without_case(conversation, match), conversation.turns))
    computed = _compute(plan, plan.case, verdicts, calibrated=calibrated)
    return _finish(plan, computed if plan.case.reviewed else computed.as_draft(plan.case.case_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """The computed result, without annotated verdicts: the outcome under each rule, and the scores of turns and tools.

    `open_rules` are the rules under which a needed part could not be evaluated. `answers_probability` is the
    probability that all judged answers are correct, assuming independence; None without a calibrated judge.
    """

    by_rule: Mapping[TurnRule, Part]
    open_rules: frozenset[TurnRule] = frozenset()
    turns: tuple[TurnScore, ...] = ()
    tools: tuple[ToolScore, ...] = ()
    missing_outputs: tuple[str, ...] = ()
    answers_probability: float | None = None

    @classmethod
    def nothing(cls, part: Part, turns: Sequence[Turn] = ()) -> _Computed:
        """Return a result in which nothing was evaluated; `part` has the reason."""
        return cls(by_rule=dict.fromkeys(_RULES, part), turns=tuple(_unjudged(turn, part) for turn in turns))

    def as_draft(self, case_id: str) -> _Computed:
        """Return the same scores without an outcome, because a draft case repeats what the agent did, even if wrong."""
        part = not_evaluated("unreviewed", f"case {case_id!r} is a draft that has not been reviewed")
        return replace(self, by_rule=dict.fromkeys(_RULES, part))


def _compute(plan: Plan, case: Case, verdicts: Sequence[Verdict | JudgeFailure], *, calibrated: bool) -> _Computed:
    turns, settings = plan.matched.conversation.turns, plan.settings
    absent = [index for index in range(len(case.turns)) if index not in plan.aligned.values()]
    awaited = unproven_absence(plan.matched.conversation, settings) if absent else None
    tools = plan.judged_tools(verdicts)
    whole_score = tools.conversation
    if whole_score is not None and awaited is not None:
        whole_score = await_missing_calls(whole_score, case, settings, awaited)
    missing = missing_outputs(turns, case.outputs)
    shared = [*_presence_parts(plan, case, absent, awaited)]
    shared += [] if whole_score is None else [_tool_part(whole_score)]
    if case.outputs:
        shared.append(_await_missing_outputs(outputs_part(turns, missing), awaited))
    answers = plan.answers(verdicts)
    answer_scores = [verdict.score for verdict in verdicts[: plan.answers_asked] if isinstance(verdict, Verdict)]
    needed = [index for index, case_index in sorted(plan.aligned.items()) if case.turns[case_index].annotated]
    parts = {index: (answers.get(index), _part_of(tools.turns.get(index))) for index in needed}
    parts_by_rule = {rule: [*(decide_turn(rule, *parts[index]) for index in needed), *shared] for rule in _RULES}
    return _Computed(
        by_rule={rule: combine(rule_parts) for rule, rule_parts in parts_by_rule.items()},
        open_rules=frozenset(rule for rule in _RULES if _is_open(rule, list(parts.values()), shared)),
        turns=tuple(_turn_score(turn, plan, parts.get(turn.index), settings) for turn in turns),
        tools=(*tools.turns.values(), *(() if whole_score is None else (whole_score,))),
        missing_outputs=missing,
        answers_probability=prod(answer_scores) if calibrated and answer_scores else None,
    )


def _is_open(rule: TurnRule, turns: Sequence[tuple[Part | None, Part | None]], shared: Sequence[Part]) -> bool:
    """Return whether a part needed under a rule could not be evaluated."""
    needed = [part for answer, tools in turns for part in deciding_parts(rule, answer, tools)]
    return any(part.outcome == "not_evaluated" for part in (*needed, *shared))


def _presence_parts(plan: Plan, case: Case, absent: Sequence[int], awaited: Awaited) -> Iterator[Part]:
    """Yield a part for missing turns, and one for unexpected turns under `strict_turns`."""
    if absent:
        names = ", ".join(f"{index + 1} ({case.turns[index].query or 'no query'})" for index in absent)
        if awaited is None:
            yield failed("missing_turn", f"expected turn {names} never came")
        else:
            reason, explanation = awaited
            yield not_evaluated(reason, f"expected turn {names} is missing; {explanation}")
    unexpected = [turn.index + 1 for turn in plan.matched.conversation.turns if turn.index not in plan.aligned]
    if plan.settings.strict_turns and case.turns and unexpected:
        yield failed("extra_turn", f"turn {', '.join(map(str, unexpected))} is not in the case")


def _await_missing_outputs(part: Part, awaited: Awaited) -> Part:
    return not_evaluated(awaited[0], part.explanation) if awaited is not None and part.outcome == "fail" else part


def _part_of(score: ToolScore | None) -> Part | None:
    return None if score is None else _tool_part(score)


def _tool_part(score: ToolScore) -> Part:
    return Part(outcome=score.outcome, reason=score.reason, explanation=score.explanation, score=score.overall)


def _turn_score(
    turn: Turn, plan: Plan, parts: tuple[Part | None, Part | None] | None, settings: ScoringSettings
) -> TurnScore:
    if parts is None:
        strict = settings.strict_turns and plan.case is not None and plan.case.turns and turn.index not in plan.aligned
        part = failed("extra_turn", "not in the case") if strict else not_evaluated("no_data", "nothing is annotated")
        return replace(_unjudged(turn, part), case_turn_index=plan.aligned.get(turn.index))
    answer, tools = parts
    decided = decide_turn(settings.turn_rule, answer, tools)
    return TurnScore(
        turn_index=turn.index,
        case_turn_index=plan.aligned[turn.index],
        outcome=decided.outcome,
        reason=decided.reason,
        answer_score=None if answer is None else answer.score,
        answer_outcome="not_evaluated" if answer is None else answer.outcome,
        answer_reason="no_data" if answer is None else answer.reason,
        tool_outcome=None if tools is None else tools.outcome,
        explanation="; ".join(part.explanation for part in (answer, tools) if part is not None),
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


def _finish(plan: Plan, computed: _Computed) -> ConversationScore:
    conversation, match, case = plan.matched.conversation, plan.matched.match, plan.case
    rule = plan.settings.turn_rule
    computed_part, annotated_verdict = computed.by_rule[rule], given_verdict(plan)
    final = under_verdict(computed_part, annotated_verdict)
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
        answer_outcome=computed.by_rule["answer"].outcome,
        tool_outcome=computed.by_rule["tools"].outcome,
        both_outcome=computed.by_rule["both"].outcome,
        turns=computed.turns,
        tools=computed.tools,
        missing_outputs=computed.missing_outputs,
        explanation=final.explanation,
        partial=annotated_verdict is None
        and (computed_part.outcome == "fail" or computed_part.known_failure is not None)
        and rule in computed.open_rules,
        known_failure=computed_part.known_failure,
        pass_probability=None
        if annotated_verdict is not None
        else _pass_probability(computed_part, computed.answers_probability),
    )


def _pass_probability(computed_part: Part, answers: float | None) -> float | None:
    """Return the probability that a conversation passes; None if more than its answers is undecided."""
    if answers is None or (computed_part.outcome == "not_evaluated" and computed_part.reason != "judge_unsure"):
        return None
    failure = computed_part.reason if computed_part.outcome == "fail" else computed_part.known_failure
    return answers if failure in {None, "wrong_answer"} else 0.0
