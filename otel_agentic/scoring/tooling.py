"""The tool scores of a conversation: of each turn that expects calls, and of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_agentic.scoring.asked import ROUNDING, AskedOpinions
from otel_agentic.scoring.dimensions import overall_score
from otel_agentic.scoring.made import scope_of
from otel_agentic.scoring.opinions import NO_OPINIONS
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.tools import score_tools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Turn
    from otel_agentic.judges.base import JudgeFailure, Question, QuestionKind, Verdict
    from otel_agentic.scoring.made import Scope
    from otel_agentic.scoring.model import Dimension, ToolScore
    from otel_agentic.truth.model import Case, ToolExpectation


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

    Args:
        case: its case.
        turns: its turns.
        aligned: turn index -> case turn index.
        settings: what holds where the case says nothing.
        asking: the judge that may be asked; None: the data alone decide.
    """
    rules = ToolRules.of(case, settings)
    asked: dict[Question, None] = {}
    found: dict[int, ToolScore] = {}
    for number, turn in enumerate(turns):
        place = aligned.get(turn.index)
        expectation = None if place is None else case.turns[place].tools
        if expectation is not None:
            scope = scope_of([turn], turn_index=turn.index, earlier=turns[:number])
            found[turn.index] = _score(expectation, scope, rules, asking, asked)
    whole = None if case.tools is None else _score(case.tools, scope_of(turns, turn_index=None), rules, asking, asked)
    return ToolScores(turns=found, whole=whole, asked=tuple(asked))


def _score(
    expectation: ToolExpectation,
    scope: Scope,
    rules: ToolRules,
    asking: Asking | None,
    asked: dict[Question, None],
) -> ToolScore:
    """Return a score; what a judge is to be asked for it is added to `asked`."""
    if asking is None:
        return score_tools(expectation, scope, rules, NO_OPINIONS)
    opinions = AskedOpinions(asking.kinds, asking.threshold, asking.verdicts)
    score = score_tools(expectation, scope, rules, opinions)
    asked.update(opinions.asked)
    judged = [] if score.calls is None else opinions.evidence(score.calls)
    return replace(score, judged=judged) if judged else score


def await_missing_calls(score: ToolScore, case: Case, settings: ScoringSettings) -> ToolScore:
    """Return the score of a whole conversation that went quiet: what is missing may come in the turns that did not.

    A fail stays one only where no further call could mend it.
    """
    if score.outcome != "fail" or case.tools is None or _is_settled(score, case.tools, ToolRules.of(case, settings)):
        return score
    return replace(score, outcome="not_evaluated", reason="incomplete", note="the conversation went quiet")


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
