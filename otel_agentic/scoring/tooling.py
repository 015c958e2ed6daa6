"""The tool scores of a conversation: of each turn that expects calls, and of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from otel_agentic.scoring.asked import ROUNDING, AskedOpinions
from otel_agentic.scoring.dimensions import overall_score
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.opinions import NO_OPINIONS
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.tools import score_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.base import JudgeFailure, Question, QuestionKind, Verdict
    from otel_agentic.scoring.made import MadeCall, Scope
    from otel_agentic.scoring.model import Dimension, NotEvaluatedReason, ToolScore
    from otel_agentic.truth.model import Case, ToolExpectation

#: Turn, step and position of a call.
Place: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A judge that may be asked about tools: the questions that it takes, and what it has said."""

    kinds: frozenset[QuestionKind]
    threshold: float
    verdicts: Mapping[Question, Verdict | JudgeFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScores:
    """The tool scores of a conversation: by turn index, and of the whole. `asked` is what a judge is still to say."""

    turns: Mapping[int, ToolScore]
    whole: ToolScore | None
    asked: tuple[Question, ...] = ()


def tool_scores(
    case: Case,
    turns: Sequence[Turn],
    aligned: Mapping[int, int],
    settings: ScoringSettings,
    asking: Asking | None = None,
) -> ToolScores:
    """Return the tool scores of a conversation.

    What a turn expects is no extra call to the conversation, and the other way round.

    Args:
        case: its case.
        turns: its turns.
        aligned: turn index -> case turn index.
        settings: what holds where the case says nothing.
        asking: the judge that may be asked; None: the data alone decide.
    """
    scorer = _Scorer(rules=ToolRules.of(case, settings), asking=asking, turns=turns)
    wanted = dict(_wanted(case, turns, aligned))
    found = {index: scorer.score(*those) for index, those in wanted.items()}
    if case.tools is None:
        return ToolScores(turns=found, whole=None, asked=tuple(scorer.asked))
    scope = scope_of(turns, turn_index=None)
    whole = scorer.score(case.tools, scope)
    of_whole, of_turns = _asked_for(whole), frozenset[Place]().union(*map(_asked_for, found.values()))
    return ToolScores(
        turns={index: scorer.without(of_whole, found[index], *those) for index, those in wanted.items()},
        whole=scorer.without(of_turns, whole, case.tools, scope),
        asked=tuple(scorer.asked),
    )


def _wanted(
    case: Case, turns: Sequence[Turn], aligned: Mapping[int, int]
) -> Iterator[tuple[int, tuple[ToolExpectation, Scope]]]:
    """Yield the index of each turn that has an expectation of its own, with it and what it is held against."""
    for number, turn in enumerate(turns):
        place = aligned.get(turn.index)
        expectation = None if place is None else case.turns[place].tools
        if expectation is not None:
            yield turn.index, (expectation, scope_of([turn], turn_index=turn.index, earlier=turns[:number]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scorer:
    """Scores expectations; what a judge is to be asked for them gathers in `asked`."""

    rules: ToolRules
    asking: Asking | None
    turns: Sequence[Turn]
    asked: dict[Question, None] = field(default_factory=dict)

    def score(self, expectation: ToolExpectation, scope: Scope) -> ToolScore:
        """Return the score of an expectation."""
        if self.asking is None:
            return score_tools(expectation, scope, self.rules, NO_OPINIONS)
        opinions = AskedOpinions(self.asking.kinds, self.asking.threshold, self.asking.verdicts)
        score = score_tools(expectation, scope, self.rules, opinions)
        self.asked.update(opinions.asked)
        judged = [] if score.calls is None else opinions.evidence(score.calls)
        return score._replace(judged=judged) if judged else score

    def without(
        self, places: frozenset[Place], score: ToolScore, expectation: ToolExpectation, scope: Scope
    ) -> ToolScore:
        """Return the score, made anew where calls of these places were extra to it."""
        beyond = [made for made in _extra(score) if made.place in places]
        return self.score(expectation, self._aside(scope, beyond)) if beyond else score

    def _aside(self, scope: Scope, beyond: Sequence[MadeCall]) -> Scope:
        """Return a scope without some calls, which may still explain what an answer states, as earlier turns may."""
        places = {made.place for made in beyond}
        known = (
            replace(
                turn,
                query=None,
                answer=None,
                calls=tuple(made.call for made in beyond if made.turn_index == turn.index),
            )
            for turn in self.turns
        )
        kept = tuple(made for made in scope.calls if made.place not in places)
        return replace(scope, calls=kept, earlier=(*scope.earlier, *known))


def _asked_for(score: ToolScore) -> frozenset[Place]:
    """Return the places of the calls that an expectation asked for."""
    calls = score.calls
    if calls is None:
        return frozenset()
    return frozenset(calls.made[pair.place].place for pair in (*calls.pairs, *calls.excused))


def _extra(score: ToolScore) -> list[MadeCall]:
    """Return the calls that an expectation neither asked for nor forbids by name."""
    calls = score.calls
    return [] if calls is None else [calls.made[place] for place, _ in calls.extra if place not in calls.forbidden]


def await_missing_calls(
    score: ToolScore, case: Case, settings: ScoringSettings, awaited: tuple[NotEvaluatedReason, str]
) -> ToolScore:
    """Return the score of a whole conversation whose missing turns may still exist: they may hold the missing calls.

    A fail stays one only where no further call could mend it. `awaited` is (reason, explanation) of `unproven_absence`.
    """
    if score.outcome != "fail" or case.tools is None or _is_settled(score, case.tools, ToolRules.of(case, settings)):
        return score
    reason, explanation = awaited
    return score._replace(outcome="not_evaluated", reason=reason, note=explanation)


def _is_settled(score: ToolScore, expectation: ToolExpectation, rules: ToolRules) -> bool:
    """Return whether a score stays a fail even if all that is missing comes, and comes right."""
    if expectation.alternatives:
        return False
    beyond = [fault for fault in score.faults if fault.kind in {"spurious", "forbidden"}]
    if any(fault.kind == "forbidden" or fault.note == "forbid" for fault in beyond):
        return True
    required = sum(call.required for call in expectation.calls)
    selection = required / (required + len(beyond)) if required else float(not beyond)
    ordered = expectation.order != "any" and required > 1
    best: dict[Dimension, float | None] = {
        "selection": selection,
        "parameters": 1.0 if required else None,
        "sequence": 1.0 if ordered else None,
    }
    overall = overall_score(best, rules.weights)
    return overall is not None and overall < rules.threshold - ROUNDING
