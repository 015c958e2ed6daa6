"""Results of scoring: outcomes, dimensions, faults and scores, and the views derived from them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from otel_agentic.scoring.reasons import fault_sentence, score_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.judges.base import Judge
    from otel_agentic.scoring.align import RawCalls, SortedCalls
    from otel_agentic.scoring.utilization import Use
    from otel_agentic.truth.match import MatchMethod
    from otel_agentic.truth.model import Case, Effect, ModeName

#: Raised with every change that may change a score; old scores are then kept, and superseded.
SCORING_VERSION: Final = "4"


def truth_version(cases: Iterable[Case]) -> str:
    """Return the content hash of some cases, independent of their order."""
    return _hash(sorted((*case.key, case.version) for case in cases))


def evaluator_version(judge: Judge, settings: ScoringSettings, truth: str) -> str:
    """Return the hash of everything a score depends on besides the conversation: code, judge, settings, truth."""
    content = settings.model_dump(mode="json")
    return _hash([SCORING_VERSION, judge.name, judge.version, content, truth])


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


#: What a glob leaves open: any text, any character, one character of several.
_OPEN: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")


def effect_of(tool_name: str, tables: Sequence[Mapping[str, Effect]]) -> Effect:
    """Return the effect of a tool: of the first table that knows it, by its most specific pattern; else `write`.

    An exact name is more specific than any pattern, a pattern the more so the more characters of the name it spells out.

    >>> effect_of("get_user", [{"*": "write", "get_*": "read"}]), effect_of("book", [])
    ('read', 'write')
    """
    for table in tables:
        if tool_name in table:
            return table[tool_name]
        fitting = [pattern for pattern in table if fnmatchcase(tool_name, pattern)]
        if fitting:
            # Of two patterns that are as specific, the careful reading: the tool may write.
            return table[max(fitting, key=lambda pattern: (spelled_out(pattern), table[pattern] == "write"))]
    # An undescribed tool may change something: again the cautious assumption.
    return "write"


def spelled_out(pattern: str) -> int:
    """Return how many characters of a name a glob spells out.

    >>> spelled_out("get_*"), spelled_out("get_[ab]*")
    (4, 4)
    """
    return len(_OPEN.sub("", pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualCall:
    """A call and the turn it belongs to; `turn_index` is 0-based in the conversation."""

    turn_index: int
    call: ToolCall

    @property
    def step(self) -> tuple[int, int]:
        """Which model response asked for it: calls of one response share a step."""
        return (self.turn_index, self.call.step)

    @property
    def place(self) -> tuple[int, int, int]:
        """Its location in the conversation."""
        return (self.turn_index, self.call.step, self.call.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of an expectation: a turn (`turn_index`), or the whole conversation (None).

    `calls` are in order. `answers` are (turn index, text). `queries` are the texts of the user, `query_turns` the turn
    index of each (empty: all before any call). `earlier` are the turns before it. `captured` is False if the
    instrumentation recorded no content at all: then a call may be missing from `calls`.
    """

    turn_index: int | None
    calls: tuple[ActualCall, ...]
    answers: tuple[tuple[int, str], ...]
    queries: tuple[str, ...]
    captured: bool
    query_turns: tuple[int, ...] = ()
    earlier: tuple[Turn, ...] = ()


def scope_of(turns: Iterable[Turn], *, turn_index: int | None, earlier: Iterable[Turn] = ()) -> Scope:
    """Return the scope of some turns; `earlier` are those before them."""
    turns = tuple(turns)
    calls = (ActualCall(turn_index=turn.index, call=call) for turn in turns for call in turn.calls)
    return Scope(
        turn_index=turn_index,
        calls=tuple(sorted(calls, key=lambda call: call.place)),
        answers=tuple((turn.index, turn.answer) for turn in turns if turn.answer is not None),
        queries=tuple(turn.query for turn in turns if turn.query is not None),
        captured=any(_any_content(turn) for turn in turns),
        query_turns=tuple(turn.index for turn in turns if turn.query is not None),
        earlier=tuple(earlier),
    )


def _any_content(turn: Turn) -> bool:
    return (
        turn.query_captured
        or turn.answer_captured
        or any(call.arguments is not None or call.result_captured for call in turn.calls)
    )


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
    """One fault of one call, as data; its sentence is built on demand.

    `expected_index` and `actual_position` are the indices of the expected and the actual call, or None. `step` is that of
    the actual call. The content of `expected` and `actual` depends on `kind`:

    - `missing`: the expected parameters, and None.
    - `spurious`: the number of expected calls of the tool, and the arguments; `note` is "forbid" if extra calls are
    forbidden.
    - `forbidden`: None, and the arguments; `note` is the name or glob that forbids it.
    - `wrong_parameters`: the expected value of `parameter`, compared by `mode` (None: no such parameter is expected),
    and the actual one; `given` is False if the call has no such parameter.
    - `wrong_order`: its expected and its actual position, see `sequence.Misplaced`.
    - `unused_result`, `errored`: None; `note` is the evidence, or the error.

    A named tuple, because a turn may have many and creating a frozen dataclass takes three times as long.
    """

    kind: FaultKind
    tool_name: str
    parameter: str | None = None
    expected: Any = None
    actual: Any = None
    expected_index: int | None = None
    turn_index: int | None = None
    actual_position: int | None = None
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
    """Tool correctness of one expectation, in a turn (`turn_index`) or in the whole conversation (None).

    A dimension that does not apply, or is unknown, is None. `uses` records the use of the results of calls. `paired` of
    `required` calls occurred; `note` states why the score was not evaluated. `judged` holds a judge's verdicts on
    parameters, one record each. `raw` is the input of the score, None without calls.

    A named tuple, as `ToolFault` is; `_replace` gives a changed copy.
    """

    turn_index: int | None
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    dimensions: Mapping[Dimension, float | None]
    faults: tuple[ToolFault, ...]
    uses: Sequence[tuple[ActualCall, Use]] = ()
    required: int = 0
    paired: int = 0
    note: str = ""
    judged: Sequence[Mapping[str, Any]] = ()
    raw: RawCalls | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether the scores are equal, ignoring their input."""
        return isinstance(other, ToolScore) and self[:-1] == other[:-1]

    def __hash__(self) -> int:
        """Return a hash of what can be hashed."""
        return hash(self[:4])

    def __reduce__(self) -> tuple[type[ToolScore], tuple[object, ...]]:
        """Return the form for copying and pickling: without the input."""
        return ToolScore, self[:-1]

    @property
    def explanation(self) -> str:
        """The score in words, the same every time."""
        return score_sentence(self)

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The evidence of the score, by dimension."""
        from otel_agentic.scoring.utilization import evidence_of  # noqa: PLC0415 — it knows the judges, these records do not

        return evidence_of(self.uses, self.judged)

    @property
    def calls(self) -> SortedCalls | None:
        """The calls of the score, sorted under the expectation; None without calls."""
        from otel_agentic.scoring.align import SortedCalls  # noqa: PLC0415 — it knows expectations, these records do not

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

    `outcome` follows an annotated verdict if there is one (`outcome_source` is `labels`, `case` or `event`), else
    `computed_outcome`. The three `*_outcome` below it are the rates by answers, by tools, by both. `partial`: a
    computed fail although other needed parts could not be evaluated. `known_failure`: the reason why a computed
    `not_evaluated: judge_unsure` fails regardless of the judge's decision; `partial` is then also True.
    `pass_probability` is that of passing, by a calibrated judge of its answers: 0 if another part failed, None if no
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


Band = Literal["perfect", "good", "moderate", "poor"]
#: From the best one.
BANDS: Final[tuple[Band, ...]] = get_args(Band)

#: The least score of each band but the last. Scores are sums of shares: the last bits of a sum are forgiven.
_LEAST: Final[tuple[tuple[Band, float], ...]] = (("perfect", 1.0), ("good", 0.75), ("moderate", 0.5))
_ROUNDING: Final = 1e-9


def band_of(score: float) -> Band:
    """Return the band of a score of 0 to 1.

    >>> [band_of(score) for score in (1.0, 0.999, 0.75, 0.74, 0.5, 0.49, 0.0)]
    ['perfect', 'good', 'good', 'moderate', 'moderate', 'poor', 'poor']
    """
    return next((band for band, least in _LEAST if score >= least - _ROUNDING), "poor")


def banded(scores: Iterable[float]) -> dict[Band, int]:
    """Return the number of scores in each band, including zeros.

    >>> banded([1.0, 0.2, 1.0])
    {'perfect': 2, 'good': 0, 'moderate': 0, 'poor': 1}
    """
    result = dict.fromkeys(BANDS, 0)
    for score in scores:
        result[band_of(score)] += 1
    return result


class Impact(NamedTuple):
    """What a fault meant for its score.

    `failed`: the tools failed, and this was not made good. An error is made good where a later call of the tool answered
    without one and no expected call of it is missing. `tried`: of a missing call, how often the tool answered with
    an error in the same scope; None for other faults.
    """

    failed: bool
    tried: int | None


def impacts_of(score: ToolScore) -> Iterator[Impact]:
    """Yield the impact of each fault of a score, in their order."""
    missing = {fault.tool_name for fault in score.faults if fault.kind == "missing"}
    errors = Counter(fault.tool_name for fault in score.faults if fault.kind == "errored")
    actual = () if score.calls is None else score.calls.actual
    # They are in order: of each name the last one stays.
    worked = {item.call.name: item.place for item in actual if item.call.error is None}
    for fault in score.faults:
        name = fault.tool_name
        made_good = fault.kind == "errored" and name not in missing and _position(fault) < worked.get(name, (-1, 0, 0))
        yield Impact(
            failed=score.outcome == "fail" and not made_good, tried=errors[name] if fault.kind == "missing" else None
        )


def _position(fault: ToolFault) -> tuple[int, int, int]:
    return (fault.turn_index or 0, fault.step or 0, fault.actual_position or 0)


#: Of several faults of one call, the first of these represents it.
_GRAVEST_FIRST: Final[tuple[FaultKind, ...]] = (
    "forbidden",
    "missing",
    "spurious",
    "wrong_parameters",
    "wrong_order",
    "errored",
    "unused_result",
)

#: Turn index and position of an actual call.
_CallKey: TypeAlias = "tuple[int | None, int | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """One judged actual call, or one expected call that is missing.

    `faults` are ordered by severity, empty if the call is as expected. `actual_position` is None for a missing call.
    `trace_id` and `span_id` identify its own span, else that of its turn, or are empty.
    """

    tool_name: str
    turn_index: int | None
    actual_position: int | None
    faults: tuple[ToolFault, ...]
    trace_id: str
    span_id: str

    @property
    def fault(self) -> ToolFault | None:
        """The gravest fault."""
        return self.faults[0] if self.faults else None

    def place(self, fault: ToolFault) -> tuple[int | str | None, ...]:
        """Return a key that distinguishes the score of this call, by one of its faults, from those of other calls."""
        return (self.turn_index, self.actual_position, fault.expected_index, fault.kind, self.tool_name)


def judged_calls(conversation: Conversation, score: ConversationScore) -> tuple[JudgedCall, ...]:
    """Return the actual calls that an expectation covers, in order, then the missing ones.

    A call of another kind than `tool` counts only if a fault names it.
    """
    faults = _faults_by_place(score)
    turns = {turn.index: turn for turn in conversation.turns}
    actual = [
        _actual_calls(turn, call, faults.pop((turn.index, call.position), []))
        for turn in conversation.turns
        for call in turn.calls
        if (turn.index, call.position) in faults or (call.kind == "tool" and _covered(turn, score))
    ]
    missing = [_missing(turns, index, fault) for index, named in faults.items() for fault in named]
    return (*actual, *missing)


def _faults_by_place(score: ConversationScore) -> dict[_CallKey, list[ToolFault]]:
    faults: dict[_CallKey, list[ToolFault]] = defaultdict(list)
    for tool in score.tools:
        for fault in tool.faults:
            turn_index = tool.turn_index if fault.turn_index is None else fault.turn_index
            faults[turn_index, fault.actual_position].append(fault)
    return faults


def _covered(turn: Turn, score: ConversationScore) -> bool:
    return any(tool.outcome != "not_evaluated" and tool.turn_index in {None, turn.index} for tool in score.tools)


def _actual_calls(turn: Turn, call: ToolCall, faults: list[ToolFault]) -> JudgedCall:
    ordered = tuple(sorted(faults, key=lambda fault: _GRAVEST_FIRST.index(fault.kind)))
    span_id = next((fault.span_id for fault in ordered if fault.span_id), None) or call.span_id
    return JudgedCall(
        tool_name=call.name,
        turn_index=turn.index,
        actual_position=call.position,
        faults=ordered,
        trace_id=call.trace_id if span_id else turn.trace_id,
        span_id=span_id or turn.span_id,
    )


def _missing(turns: dict[int, Turn], index: _CallKey, fault: ToolFault) -> JudgedCall:
    turn_index, actual_position = index
    turn = turns.get(turn_index) if turn_index is not None else None
    return JudgedCall(
        tool_name=fault.tool_name,
        turn_index=turn_index,
        actual_position=actual_position,
        faults=(fault,),
        trace_id=turn.trace_id if turn else "",
        span_id=turn.span_id if turn else "",
    )


def faulty(calls: tuple[JudgedCall, ...]) -> Iterator[tuple[JudgedCall, ToolFault]]:
    """Return each call at fault with its gravest fault."""
    return ((call, call.fault) for call in calls if call.fault is not None)
