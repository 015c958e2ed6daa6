"""What scoring gives: outcomes, dimensions, faults and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from otel_agentic.scoring.reasons import fault_sentence, score_sentence
from otel_agentic.truth.match import MatchMethod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.sorting import RawCalls, SortedCalls
    from otel_agentic.scoring.use import Use
    from otel_agentic.truth.model import ModeName

__all__ = [
    "DIMENSIONS",
    "OPEN_REASONS",
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
    "judge_unsure",
    "incomplete",
    "no_conversation_id",
    "not_scored",
    "sampled_out",
    "budget_exhausted",
    "empty",
    "no_data",
    "model_calls_not_recorded",
    "tokens_not_recorded",
    "price_not_set",
    "tool_definitions_not_recorded",
    "state_not_recorded",
    "times_not_recorded",
]
#: Reasons for which a conversation is looked at again: the judge failed or was not asked, or sampling left it out.
OPEN_REASONS: Final[tuple[NotEvaluatedReason, ...]] = ("judge_error", "budget_exhausted", "sampled_out")
Dimension = Literal["selection", "parameters", "sequence", "utilization"]
DIMENSIONS: tuple[Dimension, ...] = ("selection", "parameters", "sequence", "utilization")
FaultKind = Literal["missing", "spurious", "wrong_parameters", "wrong_order", "unused_result", "errored", "forbidden"]


class ToolFault(NamedTuple):
    """One thing wrong with one call, as data; its sentence is made when it is asked for.

    `expected_index` and `made_position` point at the expectation's call and the made call, None where there is none.
    `step` is that of the made call. What `expected` and `made` hold depends on `kind`:

    - `missing`: the expected parameters, and None.
    - `spurious`: how many calls of the name are expected, and the arguments; `note` is "forbid" where extra calls are
      forbidden.
    - `forbidden`: None, and the arguments; `note` is the name or glob that forbids it.
    - `wrong_parameters`: the value expected of `parameter`, compared by `mode` (None: no such parameter is expected), and
      the made one; `given` is False where the call has no such parameter.
    - `wrong_order`: where it belongs, and where it came, see `sequence.Misplaced`.
    - `unused_result`, `errored`: None; `note` is the evidence, or the error.

    A named tuple: a turn may have many, and one is made in a third of the time that a frozen dataclass takes.
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
    step: int | None = None
    mode: ModeName | None = None
    given: bool = True
    note: str = ""

    @property
    def explanation(self) -> str:
        """The fault as a sentence, the same every time."""
        return fault_sentence(self)


class ToolScore(NamedTuple):
    """Tool correctness of one expectation, for a turn (`turn_index`) or for the whole conversation (None).

    A dimension that does not apply, or is unknown, is None. `uses` are the results of calls with what is known of their
    use. `paired` of `required` calls were made; `note` says why the score was not evaluated. `judged` is what a judge said
    of parameters, one record an opinion. `raw` is what it was made from, None where it was not made from calls.

    A named tuple, as `ToolFault` is; `_replace` gives a changed copy.
    """

    turn_index: int | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    dimensions: Mapping[Dimension, float | None]
    faults: tuple[ToolFault, ...]
    uses: Sequence[tuple[MadeCall, Use]] = ()
    required: int = 0
    paired: int = 0
    note: str = ""
    judged: Sequence[Mapping[str, Any]] = ()
    raw: RawCalls | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether the scores say the same; what they were made from takes no part."""
        return isinstance(other, ToolScore) and self[:-1] == other[:-1]

    def __hash__(self) -> int:
        """Return a hash of what can be hashed."""
        return hash(self[:4])

    def __reduce__(self) -> tuple[type[ToolScore], tuple[object, ...]]:
        """Return how it is copied and pickled: without what it was made from."""
        return ToolScore, self[:-1]

    @property
    def explanation(self) -> str:
        """The score in words, the same every time."""
        return score_sentence(self)

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What the score rests on, by dimension."""
        from otel_agentic.scoring.utilization import evidence_of  # noqa: PLC0415 — it knows the judges, these records do not

        return evidence_of(self.uses, self.judged)

    @property
    def calls(self) -> SortedCalls | None:
        """The calls that it was made from, sorted out under the expectation; None where it was not made from calls."""
        from otel_agentic.scoring.sorting import SortedCalls  # noqa: PLC0415 — it knows expectations, these records do not

        return None if self.raw is None else SortedCalls.of(self.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScore:
    """The outcome of one turn.

    `answer_score` is in [0, 1], None when no answer was judged; it is kept where the judge is unsure. `answer_reason` is why
    `answer_outcome` is no pass.
    """

    turn_index: int
    case_turn_index: int | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    answer_score: float | None
    answer_outcome: Outcome
    tool_outcome: Outcome | None
    explanation: str
    answer_reason: FailReason | NotEvaluatedReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationScore:
    """The outcome of one conversation revision under one evaluation.

    `outcome` follows a given verdict where there is one (`outcome_source` says which: `labels`, `case`, `event`),
    else `computed_outcome`. The three `*_outcome` below it are the rates by answers, by tools, by both. `partial`: it
    is a computed fail although other needed parts could not be evaluated. `known_failure`: of a computed
    `not_evaluated: judge_unsure`, why it fails however the judge would have decided; `partial` is then True, too.
    `pass_probability` is that of passing, by a calibrated judge of its answers: 0 where something else failed, None where no
    such judge decided.
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
    partial: bool = False
    known_failure: FailReason | None = None
    pass_probability: float | None = None
