"""The outcome of a conversation: its turns, its tools, its outputs, and the verdict that may stand above them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.answers import ask
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore
from otel_agentic.scoring.outputs import missing_outputs, outputs_part
from otel_agentic.scoring.parts import Part, combine, failed, not_evaluated
from otel_agentic.scoring.plan import MatchedConversation, Plan
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.tools import score_tools
from otel_agentic.scoring.turns import TurnRule, decide_turn
from otel_agentic.scoring.verdict import given_verdict, under_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.judges.base import Judge
    from otel_agentic.truth.labels import Label
    from otel_agentic.truth.match import Match
    from otel_agentic.truth.model import Case

#: Conversations whose questions go to the judge together: enough to keep a slow one busy, few enough to hold.
BATCH: Final = 256


def score_conversation(
    conversation: Conversation, match: Match, label: Label | None = None, *, judge: Judge, settings: ScoringSettings
) -> ConversationScore:
    """Return the score of one conversation; many are scored faster by `score_conversations`."""
    matched = MatchedConversation(conversation=conversation, match=match, label=label)
    return score_conversations([matched], judge=judge, settings=settings)[0]


def score_conversations(
    matched: Sequence[MatchedConversation], *, judge: Judge, settings: ScoringSettings
) -> list[ConversationScore]:
    """Return the scores of conversations, in their order; the judge is asked once for each `BATCH` of them."""
    scores: list[ConversationScore] = []
    for start in range(0, len(matched), BATCH):
        plans = [Plan.of(one, settings) for one in matched[start : start + BATCH]]
        verdicts = iter(ask(judge, [question for plan in plans for question in plan.questions()]))
        scores += [_score(plan, plan.answers(verdicts), settings) for plan in plans]
    return scores


def _score(plan: Plan, answers: Mapping[int, Part | None], settings: ScoringSettings) -> ConversationScore:
    conversation, match = plan.matched.conversation, plan.matched.match
    if not conversation.turns:
        return _finish(plan, _Computed.nothing(not_evaluated("empty", "the conversation has no turn")), settings)
    if plan.case is None:
        reason = match.reason or "unmatched"
        told = "no case belongs to it" if reason == "unmatched" else f"fits {', '.join(match.candidates)} equally"
        return _finish(plan, _Computed.nothing(not_evaluated(reason, told), conversation.turns), settings)
    computed = _compute(plan, plan.case, answers, settings)
    return _finish(plan, computed if plan.case.reviewed else computed.as_draft(plan.case.case_id), settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """What the conversation itself says, given verdicts aside: the outcome under each rule, and the rows."""

    by_rule: Mapping[TurnRule, Part]
    turns: tuple[TurnScore, ...] = ()
    tools: tuple[ToolScore, ...] = ()
    missing_outputs: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, part: Part, turns: Sequence[Turn] = ()) -> _Computed:
        """Return that nothing could be evaluated, and why."""
        return cls(
            by_rule={"answer": part, "tools": part, "both": part},
            turns=tuple(_unjudged(turn, part) for turn in turns),
        )

    def as_draft(self, case_id: str) -> _Computed:
        """Return the same rows without an outcome: a draft repeats what the agent did, right or wrong."""
        part = not_evaluated("unreviewed", f"case {case_id!r} is a draft that nobody has reviewed")
        return replace(self, by_rule=dict.fromkeys(self.by_rule, part))


def _compute(plan: Plan, case: Case, answers: Mapping[int, Part | None], settings: ScoringSettings) -> _Computed:
    turns = plan.matched.conversation.turns
    rules = ToolRules.of(case, settings)
    turn_tools = _turn_tools(plan, case, rules)
    missing = missing_outputs(turns, case.outputs)
    whole_tools = None if case.tools is None else score_tools(case.tools, scope_of(turns, turn_index=None), rules)
    absent = [index for index in range(len(case.turns)) if index not in plan.aligned.values()]
    incomplete = bool(absent) and not (plan.matched.conversation.ended or settings.strict_turns)
    if whole_tools is not None and incomplete:
        whole_tools = _await_missing_calls(whole_tools)
    shared = [*_presence_parts(plan, case, absent, settings, incomplete=incomplete)]
    shared += [] if whole_tools is None else [_tool_part(whole_tools)]
    if case.outputs:
        shared.append(_await_missing_outputs(outputs_part(turns, missing), incomplete=incomplete))
    needed = [index for index, place in sorted(plan.aligned.items()) if case.turns[place].annotated]
    parts = {index: (answers.get(index), _part_of(turn_tools.get(index))) for index in needed}
    by_rule: dict[TurnRule, Part] = {
        rule: combine([*(decide_turn(rule, *parts[index]) for index in needed), *shared])
        for rule in ("answer", "tools", "both")
    }
    return _Computed(
        by_rule=by_rule,
        turns=tuple(_turn_score(turn, plan, parts.get(turn.index), settings) for turn in turns),
        tools=(*turn_tools.values(), *(() if whole_tools is None else (whole_tools,))),
        missing_outputs=missing,
    )


def _turn_tools(plan: Plan, case: Case, rules: ToolRules) -> dict[int, ToolScore]:
    found: dict[int, ToolScore] = {}
    for turn in plan.matched.conversation.turns:
        place = plan.aligned.get(turn.index)
        expectation = None if place is None else case.turns[place].tools
        if expectation is not None:
            found[turn.index] = score_tools(expectation, scope_of([turn], turn_index=turn.index), rules)
    return found


def _presence_parts(
    plan: Plan, case: Case, absent: Sequence[int], settings: ScoringSettings, *, incomplete: bool
) -> Iterator[Part]:
    """Yield a part for turns that never came, and one for turns that nobody expected where that matters."""
    if absent:
        names = ", ".join(f"{index + 1} ({case.turns[index].query or 'no query'})" for index in absent)
        told = f"expected turn {names} never came"
        yield (
            not_evaluated("incomplete", f"{told}; the conversation went quiet")
            if incomplete
            else failed("missing_turn", told)
        )
    beyond = [turn.index + 1 for turn in plan.matched.conversation.turns if turn.index not in plan.aligned]
    if settings.strict_turns and case.turns and beyond:
        yield failed("extra_turn", f"turn {', '.join(map(str, beyond))} is not in the case")


def _await_missing_calls(score: ToolScore) -> ToolScore:
    """Return the score of an incomplete conversation: what is missing may have come in the turns that did not."""
    settled = any(fault.kind in {"spurious", "forbidden"} for fault in score.faults)
    if score.outcome != "fail" or settled:
        return score
    return replace(score, outcome="not_evaluated", reason="incomplete")


def _await_missing_outputs(part: Part, *, incomplete: bool) -> Part:
    return not_evaluated("incomplete", part.explanation) if incomplete and part.outcome == "fail" else part


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
        tool_outcome=None,
        explanation=part.explanation,
    )


def _finish(plan: Plan, computed: _Computed, settings: ScoringSettings) -> ConversationScore:
    conversation, match, case = plan.matched.conversation, plan.matched.match, plan.case
    own, given = computed.by_rule[settings.turn_rule], given_verdict(plan, settings)
    final = under_verdict(own, given)
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
        outcome_source="computed" if given is None else given[0],
        computed_outcome=own.outcome,
        computed_reason=own.reason,
        answer_outcome=computed.by_rule["answer"].outcome,
        tool_outcome=computed.by_rule["tools"].outcome,
        both_outcome=computed.by_rule["both"].outcome,
        turns=computed.turns,
        tools=computed.tools,
        missing_outputs=computed.missing_outputs,
        explanation=final.explanation,
    )
