"""What scoring gives: outcomes, dimensions, faults and scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from otel_agentic.truth.match import MatchMethod

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DIMENSIONS",
    "ConversationScore",
    "Dimension",
    "FailReason",
    "FaultKind",
    "MatchMethod",  # owned by the room that matches
    "NotEvaluatedReason",
    "Outcome",
    "ToolFault",
    "ToolScore",
    "TurnScore",
]

Outcome = Literal["pass", "fail", "not_evaluated"]
FailReason = Literal[
    "wrong_answer", "forbidden_answer", "tool_fault", "missing_turn", "output_not_said", "extra_turn", "verdict"
]
NotEvaluatedReason = Literal[
    "unmatched",
    "ambiguous",
    "unreviewed",
    "content_not_captured",
    "judge_error",
    "incomplete",
    "sampled_out",
    "empty",
    "no_data",
]
Dimension = Literal["selection", "parameters", "sequence", "utilization"]
DIMENSIONS: tuple[Dimension, ...] = ("selection", "parameters", "sequence", "utilization")
FaultKind = Literal["missing", "spurious", "wrong_parameters", "wrong_order", "unused_result", "errored", "forbidden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFault:
    """One thing wrong with one call; keys and values only for `wrong_parameters`.

    `expected_index` and `made_position` point at the expectation's call and the made call, None where there is none.
    """

    kind: FaultKind
    tool_name: str
    parameter: str | None = None
    expected: Any = None
    made: Any = None
    expected_index: int | None = None
    turn_index: int | None = None
    made_position: int | None = None
    span_id: str | None = None
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScore:
    """Tool correctness of one expectation, for a turn (`turn_index`) or for the whole conversation (None).

    A dimension that does not apply, or is unknown, is None. `evidence` tells by dimension what the score rests on.
    """

    turn_index: int | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    dimensions: Mapping[Dimension, float | None]
    faults: tuple[ToolFault, ...]
    explanation: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScore:
    """The outcome of one turn. `answer_score` is in [0, 1], None when no answer was judged."""

    turn_index: int
    case_turn_index: int | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    answer_score: float | None
    answer_outcome: Outcome
    tool_outcome: Outcome | None
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationScore:
    """The outcome of one conversation revision under one evaluation.

    `outcome` follows a given verdict where there is one (`outcome_source` says which: `labels`, `case`, `event`),
    else `computed_outcome`. The three `*_outcome` below it are the rates by answers, by tools, by both.
    """

    environment: str
    conversation_id: str
    revision: int
    case_id: str | None
    dataset: str | None
    case_version: str | None
    match_method: MatchMethod | None
    match_confidence: float | None
    warning: str | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    outcome_source: Literal["computed", "labels", "case", "event"]
    computed_outcome: Outcome
    computed_reason: FailReason | NotEvaluatedReason | None
    answer_outcome: Outcome
    tool_outcome: Outcome
    both_outcome: Outcome
    turns: tuple[TurnScore, ...]
    tools: tuple[ToolScore, ...]
    missing_outputs: tuple[str, ...]
    explanation: str
