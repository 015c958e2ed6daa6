"""Results of scoring: outcomes, faults and scores, the sentences that explain them, and the views derived from them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from otel_agentic.differences import around
from otel_agentic.scoring.compile import agrees
from otel_agentic.truth.model import EXACT, Case, ModeName
from otel_agentic.truth.values import json_text

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.judges.base import Judge
    from otel_agentic.scoring.align import RawCalls, SortedCalls
    from otel_agentic.scoring.scope import ActualCall, Dimension, FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.scoring.utilization import Use
    from otel_agentic.truth.match import MatchMethod

#: Maximum length of the arguments of a call in a message, all of them together.
_CALL_CHARACTERS: Final = 120
#: Maximum length of a value in a message, and of the part of a value in which a difference is located.
_VALUE_CHARACTERS: Final = 60
_WHOLE_TEXT: Final = 100_000
#: Arguments up to this length are shown first.
_SHORT_CHARACTERS: Final = 40


def fault_sentence(fault: ToolFault) -> str:
    """Return a fault as a sentence: the call, its turn, and the problem."""
    return _SENTENCES[fault.kind](fault)


def score_sentence(score: ToolScore) -> str:
    """Return a tool score as a sentence: its note or its number of calls, followed by its faults."""
    faults = "; ".join(fault_sentence(fault) for fault in score.faults)
    if score.note:
        return f"{score.note}; {faults}" if faults else score.note
    if score.outcome == "fail" and faults:
        return faults
    if not score.required:
        message = (
            "no call was required, and none was made that is not allowed" if not faults else "no call was required"
        )
    else:
        message = f"{score.paired} of {score.required} required {_calls(score.required)} made"
    return f"{message}; {faults}" if faults else message


def shown_call(tool_name: str, arguments: Any) -> str:
    """Return a call with its arguments as text, short ones first; without arguments if they were not captured.

    >>> shown_call("book", {"seats": 2, "city": "Rome"}), shown_call("book", None)
    ('book(city="Rome", seats=2)', 'book')
    """
    if not isinstance(arguments, Mapping):
        return tool_name
    parts = [f"{key}={json_text(arguments[key])}" for key in sorted(arguments, key=str)]
    parts.sort(key=lambda part: len(part) > _SHORT_CHARACTERS)
    while len(", ".join(parts)) > _CALL_CHARACTERS and len(parts) > 1:
        parts = [*parts[: -2 if parts[-1] == "…" else -1], "…"]
    return f"{tool_name}({', '.join(parts)})"


class Difference(NamedTuple):
    """The first difference between two values: its path, and the value on each side.

    `is_expected` and `is_made` state whether the expected and the actual side have a value there.
    """

    path: str
    expected: Any
    actual: Any
    is_expected: bool = True
    is_made: bool = True


def first_difference(expected: Any, actual: Any, path: str = "") -> Difference:
    """Return the first difference between an actual and the expected value; objects and lists are compared inside.

    >>> first_difference([{"to": "Rome"}, {"to": "Oslo"}], [{"to": "Rome"}, {"to": "Bern"}], "legs")[:3]
    ('legs[1].to', 'Oslo', 'Bern')
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        members = [(f"{path}.{key}", key) for key in sorted({*expected, *actual}, key=str)]
    elif isinstance(expected, list) and isinstance(actual, list):
        members = [(f"{path}[{index}]", index) for index in range(max(len(expected), len(actual)))]
        expected, actual = dict(enumerate(expected)), dict(enumerate(actual))
    else:
        return Difference(path, expected, actual)
    for member_path, key in members:
        if key not in actual:
            return Difference(member_path, expected[key], None, is_made=False)
        if key not in expected:
            return Difference(member_path, None, actual[key], is_expected=False)
        if not agrees(expected[key], actual[key], EXACT):
            return first_difference(expected[key], actual[key], member_path)
    return Difference(path, expected, actual)


def _missing_sentence(fault: ToolFault) -> str:
    number = "" if fault.expected_index is None else f"expected call {fault.expected_index + 1}"
    turn = "" if fault.turn_index is None else f" of turn {fault.turn_index + 1}"
    return f"{number}{turn}, {shown_call(fault.tool_name, fault.expected)}, was not made"


def _spurious(fault: ToolFault) -> str:
    message = f"{shown_call(fault.tool_name, fault.actual)} {_where(fault)}"
    if fault.expected:
        message += f" was one too many, {fault.expected} {_calls(fault.expected)} expected"
    else:
        message += " was not asked for"
    return f"{message}; extra calls like it are forbidden" if fault.note == "forbid" else message


def _forbidden(fault: ToolFault) -> str:
    rule = "" if fault.note in {"", fault.tool_name} else f" by {fault.note!r}"
    return f"{shown_call(fault.tool_name, fault.actual)} {_where(fault)} is forbidden{rule}"


def _wrong_parameters(fault: ToolFault) -> str:
    if fault.mode is None:
        difference = Difference(f"{fault.parameter}", None, fault.actual, is_expected=False)
    elif fault.provided and fault.mode == "exact":
        difference = _difference(fault)
    else:
        difference = Difference(f"{fault.parameter}", fault.expected, fault.actual, is_made=fault.provided)
    message = f"{fault.tool_name} {_where(fault)}: parameter {difference.path}"
    if not difference.is_expected:
        return f"{message} = {json_text(difference.actual)} was not expected"
    if not difference.is_made:
        expected_text, actual = json_text(difference.expected), "was not given"
    else:
        texts = [json_text(value, _WHOLE_TEXT) for value in (difference.expected, difference.actual)]
        expected_text, actual_text = around(texts[0], texts[1], _VALUE_CHARACTERS)
        actual = f"was {actual_text}"
    expected = _EXPECTATIONS.get(fault.mode or "exact", "{}").format(expected_text)
    return f"{message} {actual}, expected {expected}"


def _difference(fault: ToolFault) -> Difference:
    try:
        return first_difference(fault.expected, fault.actual, f"{fault.parameter}")
    except RecursionError:
        return Difference(f"{fault.parameter}", fault.expected, fault.actual)


def _wrong_order(fault: ToolFault) -> str:
    expected_position = fault.expected if isinstance(fault.expected, str) else f"as number {fault.expected}"
    actual_position = "" if fault.actual is None else f", came as number {fault.actual}"
    return f"{fault.tool_name} {_where(fault)} is out of order: expected {expected_position}{actual_position}"


def _unused_result(fault: ToolFault) -> str:
    return f"the result of {fault.tool_name} {_where(fault)} was not used: {fault.note}"


def _errored(fault: ToolFault) -> str:
    error = f": {json_text(fault.note)}" if fault.note else ""
    return f"{fault.tool_name} {_where(fault)} answered with an error{error}"


def _where(fault: ToolFault) -> str:
    coordinates = [
        f"{name} {number}"
        for name, number in (
            ("turn", None if fault.turn_index is None else fault.turn_index + 1),
            ("step", fault.step),
        )
        if number is not None
    ]
    return f"in {', '.join(coordinates)}" if coordinates else "somewhere"


def _calls(number: int) -> str:
    return "call was" if number == 1 else "calls were"


#: How a message describes the expected value by match mode; modes that are not listed show the value alone.
_EXPECTATIONS: Final[Mapping[str, str]] = {
    "unordered": "{} in any order",
    "casefold": "{} in upper or lower case",
    "number": "a number near {}",
    "regex": "a text or number of the pattern {}",
    "contains": "something that contains {}",
    "one_of": "one of {}",
    "any": "any value",
    "json_schema": "a value of the schema {}",
    "judge": "what means {}",
}
_SENTENCES: Final[Mapping[FaultKind, Callable[[ToolFault], str]]] = {
    "missing": _missing_sentence,
    "spurious": _spurious,
    "forbidden": _forbidden,
    "wrong_parameters": _wrong_parameters,
    "wrong_order": _wrong_order,
    "unused_result": _unused_result,
    "errored": _errored,
}


#: Incremented with every code change that may change a score. Old scores are kept, but superseded.
SCORING_VERSION: Final = "4"


def truth_version(cases: Iterable[Case]) -> str:
    """Return the content hash of cases, independent of their order."""
    return _hash(sorted((*case.key, case.version) for case in cases))


def evaluator_version(judge: Judge, settings: ScoringSettings, truth: str) -> str:
    """Return the hash of everything that a score depends on besides the conversation: code, judge, settings, truth.

    Two evaluations with the same version compute the same scores for the same conversation.
    """
    content = settings.model_dump(mode="json")
    return _hash([SCORING_VERSION, judge.name, judge.version, content, truth])


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


FaultKind = Literal["missing", "spurious", "wrong_parameters", "wrong_order", "unused_result", "errored", "forbidden"]


class ToolFault(NamedTuple):
    """One fault of one call, as data; its sentence is built on demand.

    `expected_index` and `actual_position` are the indices of the expected and the actual call, or None. `step` is the
    step of the actual call. The content of `expected` and `actual` depends on `kind`:

    - `missing`: the expected parameters, and None.
    - `spurious`: the number of expected calls of the tool, and the arguments; `note` is "forbid" if extra calls are
    forbidden.
    - `forbidden`: None, and the arguments; `note` is the name or glob that forbids it.
    - `wrong_parameters`: the expected value of `parameter`, compared by `mode` (None: no such parameter is expected),
    and the actual value; `provided` is False if the call has no such parameter.
    - `wrong_order`: its expected and its actual position, see `align.Misplaced`.
    - `unused_result`, `errored`: both None; `note` is the evidence, or the error.

    A named tuple, because a turn may have many faults and creating a frozen dataclass takes three times as long.
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
    provided: bool = True
    note: str = ""

    @property
    def explanation(self) -> str:
        """The fault as a sentence; the same fault always has the same sentence."""
        return fault_sentence(self)


class ToolScore(NamedTuple):
    """Tool correctness of one expectation, in a turn (`turn_index`) or in the whole conversation (None).

    The value of a dimension is None if it does not apply or is unknown. `uses` records the use of the results of calls.
    `paired` of `required` calls occurred; `note` states why the score was not evaluated. `judge_results` holds a
    judge's verdicts on parameters, one record each. `raw` is the input of the score, None without calls.

    A named tuple, like `ToolFault` and with the same reason; `_replace` returns a changed copy.
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
    judge_results: Sequence[Mapping[str, Any]] = ()
    raw: RawCalls | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether the scores are equal, ignoring their input."""
        return isinstance(other, ToolScore) and self[:-1] == other[:-1]

    def __hash__(self) -> int:
        """Return a hash of the hashable fields."""
        return hash(self[:4])

    def __reduce__(self) -> tuple[type[ToolScore], tuple[object, ...]]:
        """Return the state for copying and pickling, which excludes the input."""
        return ToolScore, self[:-1]

    @property
    def explanation(self) -> str:
        """The score as a sentence; the same score always has the same sentence."""
        return score_sentence(self)

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The evidence of the score, by dimension."""
        from otel_agentic.scoring.utilization import evidence_of  # noqa: PLC0415 — records load without the judges

        return evidence_of(self.uses, self.judge_results)

    @property
    def calls(self) -> SortedCalls | None:
        """The calls of the score, classified under the expectation; None without calls."""
        from otel_agentic.scoring.align import SortedCalls  # noqa: PLC0415 — as above

        return None if self.raw is None else SortedCalls.of(self.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScore:
    """The outcome of one turn.

    `answer_score` is in [0, 1], or None if no answer was judged; it is kept if the judge is unsure. `answer_reason` is
    the reason if `answer_outcome` is not a pass.
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


class CriterionScore(NamedTuple):
    """The outcome of a conversation by one criterion; `explanation` is empty for a stored one."""

    name: str
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationScore:
    """The outcome of one conversation revision under one evaluation.

    `outcome` is the annotated verdict if there is one (`outcome_source` is its source), else
    `computed_outcome`. `criteria` are the deciding criteria, `annotated` all that the case annotates, whether they decide
    or not. `answer_outcome`, `tool_outcome` and `both_outcome` are the outcomes by answers alone, by tools
    alone, and by both. `partial` is True for a computed fail although other needed parts could not be evaluated.
    `known_failure` is the reason why a computed `not_evaluated: judge_unsure` fails regardless of the judge's decision;
    `partial` is then also True. `pass_probability` is the probability of a pass according to a calibrated judge of the
    answers: 0 if another part failed, None if no such judge decided.
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
    outcome_source: Literal["computed", "adjudication", "labels", "case", "annotators", "event"]
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
    criteria: tuple[CriterionScore, ...] = ()
    annotated: tuple[CriterionScore, ...] = ()


Band = Literal["perfect", "good", "moderate", "poor"]
#: All bands, best first.
BANDS: Final[tuple[Band, ...]] = get_args(Band)

#: The minimum score of each band except the last.
_MIN_SCORES: Final[tuple[tuple[Band, float], ...]] = (("perfect", 1.0), ("good", 0.75), ("moderate", 0.5))
#: Scores are sums of floating-point shares: a score this close to a minimum reaches it.
_ROUNDING: Final = 1e-9


def band_of(score: float) -> Band:
    """Return the band of a score in [0, 1].

    >>> [band_of(score) for score in (1.0, 0.999, 0.75, 0.74, 0.5, 0.49, 0.0)]
    ['perfect', 'good', 'good', 'moderate', 'moderate', 'poor', 'poor']
    """
    return next((band for band, min_score in _MIN_SCORES if score >= min_score - _ROUNDING), "poor")


def banded(scores: Iterable[float]) -> dict[Band, int]:
    """Return the number of scores in each band, including zeros.

    >>> banded([1.0, 0.2, 1.0])
    {'perfect': 2, 'good': 0, 'moderate': 0, 'poor': 1}
    """
    counts = dict.fromkeys(BANDS, 0)
    for score in scores:
        counts[band_of(score)] += 1
    return counts


class Impact(NamedTuple):
    """The effect of a fault on its score.

    `failed` is True if the tool score failed and the agent did not recover from the fault. It recovers from an error if
    a later call of the same tool succeeds and no expected call of that tool is missing. `tried` is the number of
    times that the tool of a missing call returned an error in the same scope; None for other faults.
    """

    failed: bool
    tried: int | None


def impacts_of(score: ToolScore) -> Iterator[Impact]:
    """Yield the impact of each fault of a score, in the order of the faults."""
    if not score.faults:
        return
    missing = {fault.tool_name for fault in score.faults if fault.kind == "missing"}
    errors = Counter(fault.tool_name for fault in score.faults if fault.kind == "errored")
    actual = () if score.calls is None else score.calls.actual
    # The calls are in order, so the last successful call of each tool remains.
    last_success = {
        actual_call.call.name: actual_call.location for actual_call in actual if actual_call.call.error is None
    }
    for fault in score.faults:
        name = fault.tool_name
        recovered = (
            fault.kind == "errored" and name not in missing and _position(fault) < last_success.get(name, (-1, 0, 0))
        )
        yield Impact(
            failed=score.outcome == "fail" and not recovered, tried=errors[name] if fault.kind == "missing" else None
        )


def _position(fault: ToolFault) -> tuple[int, int, int]:
    return (fault.turn_index or 0, fault.step or 0, fault.actual_position or 0)


#: A call with several faults is represented by the kind that comes first here.
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
    `trace_id` and `span_id` identify the span of the call, else the span of its turn, or are empty.
    """

    tool_name: str
    turn_index: int | None
    actual_position: int | None
    faults: tuple[ToolFault, ...]
    trace_id: str
    span_id: str

    @property
    def fault(self) -> ToolFault | None:
        """The most severe fault, or None."""
        return self.faults[0] if self.faults else None

    def score_key(self, fault: ToolFault) -> tuple[int | str | None, ...]:
        """Return a key of this call and one of its faults that is unique among the calls of the conversation."""
        return (self.turn_index, self.actual_position, fault.expected_index, fault.kind, self.tool_name)


def judged_calls(conversation: Conversation, score: ConversationScore) -> tuple[JudgedCall, ...]:
    """Return the actual calls that an expectation covers, in order, followed by the missing calls.

    A call whose kind is not `tool` counts only if it has a fault.
    """
    faults = _faults_by_call(score)
    turns = {turn.index: turn for turn in conversation.turns}
    actual = [
        _judged_call(turn, call, faults.pop((turn.index, call.position), []))
        for turn in conversation.turns
        for call in turn.calls
        if (turn.index, call.position) in faults or (call.kind == "tool" and _is_covered(turn, score))
    ]
    missing = [_missing_call(turns, key, fault) for key, call_faults in faults.items() for fault in call_faults]
    return (*actual, *missing)


def _faults_by_call(score: ConversationScore) -> dict[_CallKey, list[ToolFault]]:
    faults: dict[_CallKey, list[ToolFault]] = defaultdict(list)
    for tool in score.tools:
        for fault in tool.faults:
            turn_index = tool.turn_index if fault.turn_index is None else fault.turn_index
            faults[turn_index, fault.actual_position].append(fault)
    return faults


def _is_covered(turn: Turn, score: ConversationScore) -> bool:
    return any(tool.outcome != "not_evaluated" and tool.turn_index in {None, turn.index} for tool in score.tools)


def _judged_call(turn: Turn, call: ToolCall, faults: list[ToolFault]) -> JudgedCall:
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


def _missing_call(turns: dict[int, Turn], key: _CallKey, fault: ToolFault) -> JudgedCall:
    turn_index, actual_position = key
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
    """Return each call that has a fault, with its most severe fault."""
    return ((call, call.fault) for call in calls if call.fault is not None)
