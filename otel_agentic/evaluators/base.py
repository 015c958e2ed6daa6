"""The plug-in point `Evaluator`: metrics of conversations, turns and calls.

An evaluator declares its metrics and the data that it needs, and returns scores. If it cannot compute a score, it
abstains with a reason: missing data is never scored as 0, and a failure of the judge never counts against the agent.

The metrics of the built-in evaluators are declared in `metrics/*.yaml`. The checks for required data return the reason
why an input is missing, and a sentence that states the remedy. The arithmetic at the end is shared with the
compatibility modes (`otel_agentic.compat`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    get_args,
    runtime_checkable,
)

import yaml

from otel_agentic.judges.dialogue import Dialogue
from otel_agentic.scoring.scope import SameObject
from otel_agentic.scoring.state import CAPTURE, NO_STATE, RECORD_STATE

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings, ScoringSettings, Severity
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.scoring.scope import NotEvaluatedReason, Outcome
    from otel_agentic.truth.model import Case, CaseTurn, ToolExpectation

T = TypeVar("T")

#: The name of the evaluator that provides outcomes, answers, tool dimensions and faulty calls.
CORE: Final = "core"
#: The kind of object that a score describes.
Target = Literal["conversation", "turn", "call", "group"]
#: Data that an evaluator may need. If the case or one of its annotations is missing, the reason is one such as
#: `unmatched` or `no_data`; if the instrumentation did not record the data, it is one such as `content_not_captured` or
#: `tokens_not_recorded`. Needs are checked in this order: the case first, because without it the others do not matter.
Need = Literal[
    "case",
    "expected_tools",
    "expected_answer",
    "expected_state",
    "expected_plan",
    "goal",
    "minimum_steps",
    "reference_topics",
    "turns",
    "queries",
    "answers",
    "calls",
    "arguments",
    "results",
    "definitions",
    "plan",
    "usage",
    "state",
    "score",
    "prices",
    "judge",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of an evaluator, as described on the reference page.

    `name` is the name of its scores everywhere (`agentic.<family>.<metric>` for built-in ones); on the command line the
    leading parts may be omitted. `low` and `high` bound its values (None: no bound), in `unit` (UCUM; `1` is
    dimensionless). `higher_is_better` is None if neither direction is better. If a metric has `labels`, each of its
    scores has one of them; `failing` are the labels that count as failures, of severity `severity` unless `severities`
    sets another. `threshold` is the smallest good value (the largest, if lower is better) unless the settings override
    it, None if no value is a failure by itself. `needs` are the needs of this metric beyond its evaluator's, listed on
    the reference page: the evaluator itself abstains if they are missing.
    """

    name: str
    title: str
    definition: str
    source: str
    target: Target
    limits: str = ""
    low: float | None = 0.0
    high: float | None = 1.0
    unit: str = "1"
    higher_is_better: bool | None = True
    labels: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()
    threshold: float | None = None
    severity: Severity = "medium"
    severities: Mapping[str, Severity] = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScore:
    """The score of a metric for a conversation, one of its turns (`turn_index`), or one call of a turn (`position`).

    A score has a `value`, a `label`, or both; without either, `reason` states why the evaluator abstained. `tool_name`
    and `parameter` name the tool and parameter that it concerns, if any. `details` is stored as JSON.
    """

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str = ""
    reason: NotEvaluatedReason | None = None
    turn_index: int | None = None
    position: int | None = None
    tool_name: str | None = None
    parameter: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def abstained(self) -> bool:
        """Whether there is no score."""
        return self.value is None and self.label is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The input of an evaluator: a conversation, its reviewed case (or None), and its score (None before it is scored).

    `score` contains outcomes, faults and turn scores of the current evaluation. `aligned` maps turn indices to indices
    of case turns. `settings` are the scoring settings, such as effects of tools and thresholds.
    """

    conversation: Conversation
    case: Case | None
    score: ConversationScore | None
    aligned: Mapping[int, int]
    settings: ScoringSettings


@runtime_checkable
class Evaluator(Protocol):
    """An evaluator (entry-point group `otel_agentic.evaluators`) that computes scores without a judge.

    `name` is the name of its entry point; `version` increases with every change that may change a score: conversations
    are then evaluated again, and the old scores are marked as superseded. `needs` is the data that it requires: if a
    conversation lacks it, the evaluator is not called and abstains. `default` states whether it runs unless metrics are
    chosen by name.
    """

    name: str
    version: str
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Evaluator:
        """Return the evaluator, configured by the settings.

        Raises:
            ConfigError: the evaluator cannot work with the settings.
        """
        ...

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the scores of a conversation in the metrics of this evaluator and no others."""
        ...


#: A generator that yields questions, is sent one answer to each of them in the same order, and returns the scores.
JudgeDialogue: TypeAlias = Dialogue[Sequence[MetricScore]]


@runtime_checkable
class AskingEvaluator(Protocol):
    """An evaluator that asks a judge; `Evaluator` documents the attributes that both have.

    `needs` contains `judge`, and `default` is False. `rubrics` are all the prompts that it may use: their text is part
    of its version.
    """

    name: str
    version: str
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool
    rubrics: tuple[Rubric, ...]

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> AskingEvaluator:
        """Return the evaluator, configured by the settings.

        Raises:
            ConfigError: the evaluator cannot work with the settings.
        """
        ...

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the questions about a conversation, independent ones together in one list, and return its scores."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One conversation of a group: its outcome (None if it has no score) and its scores by metric name."""

    outcome: Outcome | None
    scores: Mapping[str, Sequence[MetricScore]]


@runtime_checkable
class GroupEvaluator(Protocol):
    """An evaluator of a group of conversations; `reads` names the metrics of other evaluators that it is computed from.

    Its scores are computed on request, in reports and gates, and are not stored.
    """

    name: str
    version: str
    metrics: tuple[Metric, ...]
    reads: tuple[str, ...]
    default: bool

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> GroupEvaluator:
        """Return the evaluator, configured by the settings.

        Raises:
            ConfigError: the evaluator cannot work with the settings.
        """
        ...

    def evaluate_group(self, members: Sequence[Member]) -> Iterable[MetricScore]:
        """Return the scores of a group of conversations."""
        ...


AnyEvaluator: TypeAlias = Evaluator | AskingEvaluator | GroupEvaluator


def asks(evaluator: AnyEvaluator) -> TypeGuard[AskingEvaluator]:
    """Return whether an evaluator asks a judge."""
    return hasattr(evaluator, "ask")


def is_of_groups(evaluator: AnyEvaluator) -> TypeGuard[GroupEvaluator]:
    """Return whether an evaluator scores groups of conversations."""
    return hasattr(evaluator, "evaluate_group")


def is_plain(evaluator: AnyEvaluator) -> TypeGuard[Evaluator]:
    """Return whether an evaluator computes the scores of single conversations."""
    return hasattr(evaluator, "evaluate")


#: Number of cached results of `none_of_all`.
_CACHED_ABSTENTIONS: Final = 1024
#: Number of names listed in a sentence; the others are only counted.
_LISTED: Final = 5


def listed(names_or_counts: Mapping[str, int] | Sequence[str]) -> str:
    """Return names as part of a sentence; from a mapping of names to counts, with each count above 1.

    >>> listed({"book": 1, "pay": 2}), listed(["a", "b", "c", "d", "e", "f", "g"])
    ('book, pay (2 times)', 'a, b, c, d, e and 2 more')
    """
    if isinstance(names_or_counts, Mapping):
        names_or_counts = [name if times == 1 else f"{name} ({times} times)" for name, times in names_or_counts.items()]
    names = list(names_or_counts)
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def none_of(name: str, reason: NotEvaluatedReason, explanation: str, *, turn_index: int | None = None) -> MetricScore:
    """Return the abstention of a metric."""
    return MetricScore(name=name, reason=reason, explanation=explanation, turn_index=turn_index)


def none_of_all(metrics: Sequence[Metric], reason: NotEvaluatedReason, explanation: str) -> tuple[MetricScore, ...]:
    """Return the abstentions of several metrics; cached, because most conversations of an agent lack the same data."""
    return _none_of_all(SameObject(metrics), reason, explanation)


@lru_cache(maxsize=_CACHED_ABSTENTIONS)
def _none_of_all(
    metrics: SameObject[Sequence[Metric]], reason: NotEvaluatedReason, explanation: str
) -> tuple[MetricScore, ...]:
    return tuple([none_of(metric.name, reason, explanation) for metric in metrics.item])


_IN_ORDER: Final = attrgetter("step", "position")
_PACKAGE: Final = "otel_agentic.evaluators"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is optional, and eight times as fast


def metrics_of(evaluator: str) -> tuple[Metric, ...]:
    """Return the metrics of a built-in evaluator, such as `ragas.tool_calls`, in the order of their file."""
    return _metrics_of_family(evaluator.partition(".")[0])[evaluator]


@cache
def _metrics_of_family(family: str) -> Mapping[str, tuple[Metric, ...]]:
    text = files(_PACKAGE).joinpath(f"metrics/{family}.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=_LOADER)  # noqa: S506 — a safe loader
    defaults = document["defaults"]
    return {
        evaluator: tuple(_metric({**defaults, **fields}) for fields in entries)
        for evaluator, entries in document["evaluators"].items()
    }


def _metric(fields: dict[str, Any]) -> Metric:
    limits = fields.get("limits", "")
    fields["limits"] = limits if isinstance(limits, str) else " ".join(limits)
    for name, kind in (("labels", tuple), ("failing", frozenset), ("needs", frozenset)):
        fields[name] = kind(fields.get(name, ()))
    return Metric(**fields)


class BuiltInEvaluator:
    """Base class of the built-in evaluators: metrics are declared in `metrics/*.yaml`, settings are ignored by default.

    All of them run by default, except those that ask a judge, and those that set `default`.
    """

    name: str
    version: str = "1"
    metrics: tuple[Metric, ...]
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool

    def __init_subclass__(cls) -> None:
        """Load the metrics by the name of the evaluator; a base class of several evaluators has neither."""
        super().__init_subclass__()
        if "default" not in cls.__dict__:
            cls.default = "judge" not in cls.needs
        if hasattr(cls, "name"):
            cls.metrics = metrics_of(cls.name)

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        """Return the evaluator."""
        del settings
        return cls()


#: The reason why there is no score, and an explanation.
Missing: TypeAlias = "tuple[NotEvaluatedReason, str]"

RECORD_MODEL_CALLS: Final = "let the instrumentation of the model client export its spans, too"
RECORD_TOKENS: Final = "let these spans carry `gen_ai.usage.input_tokens` and `gen_ai.usage.output_tokens`"
NO_DEFINITIONS: Final = "no span records which tools the agent was given (`gen_ai.tool.definitions`)"
_UNMATCHED: Final = "no case belongs to the conversation; annotate one, or see `otel-agentic truth matches`"
#: Explanations of why no case applies, by the reason in the score.
_NO_CASE: Final[Mapping[NotEvaluatedReason, str]] = {
    "ambiguous": "several cases fit the conversation equally; `otel-agentic truth matches` lists them",
    "unreviewed": "the case of the conversation is a draft; look at it and set `reviewed` to true",
    "content_not_captured": f"no query was recorded by which its case could be found; {CAPTURE}",
    "empty": "the conversation has no turn",
}


def missing(subject: Subject, need: Need) -> Missing | None:
    """Return the reason and explanation why a conversation lacks some data, or None if it has it.

    Data of turns (queries, answers, calls, arguments, results, usage) is present if one turn has it; `turn_missing`
    checks single turns. `prices` and `judge` are not part of a conversation, so they are never missing from it.
    """
    if need in _OF_CASE or need == "case":
        return _case_missing(subject, need)
    if not subject.conversation.turns and need not in {"definitions", "state", "score", "prices", "judge"}:
        return "empty", "the conversation has no turn"
    if need in _OF_TURN:
        lacks_by_turn = [turn_missing(turn, need) for turn in subject.conversation.turns]
        return None if None in lacks_by_turn else _most_fixable(lacks_by_turn)
    check = _OF_CONVERSATION.get(need)
    return None if check is None else check(subject)


def first_missing(
    subject: Subject, needs: Iterable[Need], known: dict[Need, Missing | None] | None = None
) -> Missing | None:
    """Return the first missing need, in the order of their definition, or None; `known` caches the checks of the subject."""
    known = {} if known is None else known
    for need in _in_order(frozenset(needs)):
        if need not in known:
            known[need] = missing(subject, need)
        if (lack := known[need]) is not None:
            return lack
    return None


@cache
def _in_order(needs: frozenset[Need]) -> tuple[Need, ...]:
    return tuple(need for need in _NEEDS if need in needs)


def turn_missing(turn: Turn, need: Need) -> Missing | None:
    """Return the reason and explanation why a turn lacks some data, or None if it has it.

    >>> from otel_agentic.testing import conversation, turn
    >>> turn_missing(conversation(turn("hi", answer=None)).turns[0], "answers")
    ('no_data', 'turn 1 has no answer')
    """
    check = _OF_TURN.get(need)
    return None if check is None else check(turn)


def calls_in_order(turn: Turn) -> list[ToolCall]:
    """Return the calls of a turn, sorted by step and position."""
    return sorted(turn.calls, key=_IN_ORDER) if len(turn.calls) > 1 else list(turn.calls)


def case_turn_of(subject: Subject, turn: Turn) -> CaseTurn | None:
    """Return the case turn of a turn; None if the case has no such turn, or there is no case."""
    index = subject.aligned.get(turn.index)
    return None if subject.case is None or index is None else subject.case.turns[index]


def expectations_of(case: Case) -> tuple[ToolExpectation, ...]:
    """Return the expectations of tool calls: that of the conversation first, then those of its turns."""
    expectations = (case.tools, *(turn.tools for turn in case.turns))
    return tuple(tools for tools in expectations if tools is not None)


def _query(turn: Turn) -> Missing | None:
    return _text(turn, turn.query, "query", captured=turn.query_captured)


def _answer(turn: Turn) -> Missing | None:
    return _text(turn, turn.answer, "answer", captured=turn.answer_captured)


def _text(turn: Turn, text: str | None, noun: str, *, captured: bool) -> Missing | None:
    if text is not None:
        return None
    if captured:
        return "no_data", f"turn {turn.index + 1} has no {noun}"
    return "content_not_captured", f"the {noun} of turn {turn.index + 1} was not recorded; {CAPTURE}"


def _calls(turn: Turn) -> Missing | None:
    return None if turn.calls else ("no_data", f"no tool was called in turn {turn.index + 1}")


def _arguments(turn: Turn) -> Missing | None:
    return _missing_in_all(turn, turn.calls, lambda call: call.arguments is not None, "arguments")


def _results(turn: Turn) -> Missing | None:
    successful_calls = tuple(call for call in turn.calls if call.error is None)
    if turn.calls and not successful_calls:
        return "no_data", f"every call of turn {turn.index + 1} ended in an error"
    return _missing_in_all(turn, successful_calls, lambda call: call.result_captured, "results")


def _missing_in_all(
    turn: Turn, calls: tuple[ToolCall, ...], captured: Callable[[ToolCall], bool], noun: str
) -> Missing | None:
    if not calls:
        return _calls(turn)
    if any(map(captured, calls)):
        return None
    return "content_not_captured", f"the {noun} of the calls of turn {turn.index + 1} were not recorded; {CAPTURE}"


def _usage(turn: Turn) -> Missing | None:
    # Requests that failed without reporting tokens used no tokens, so nothing is missing for them.
    if any(use.input_tokens is not None or use.output_tokens is not None or use.priced_calls for use in turn.models):
        return None
    if not turn.models:
        return "model_calls_not_recorded", f"no model call of turn {turn.index + 1} was recorded; {RECORD_MODEL_CALLS}"
    return (
        "tokens_not_recorded",
        f"token usage is missing for the model calls of turn {turn.index + 1}; {RECORD_TOKENS}",
    )


def _plan(turn: Turn) -> Missing | None:
    return None if turn.plans else ("no_data", f"the agent wrote down no plan in turn {turn.index + 1}")


def _most_fixable(lacks_by_turn: list[Missing | None]) -> Missing:
    """Return the reason of one turn, preferably a missing recording, because that can be fixed."""
    lacks = [lack for lack in lacks_by_turn if lack is not None]
    fixable = next((lack for lack in lacks if lack[0] != "no_data"), lacks[0])
    more = f" (and of {len(lacks) - 1:,} more turns)" if len(lacks) > 1 else ""
    return fixable[0], fixable[1] + more


def _definitions(subject: Subject) -> Missing | None:
    if subject.conversation.tool_definitions is not None:
        return None
    return "tool_definitions_not_recorded", NO_DEFINITIONS


def _state(subject: Subject) -> Missing | None:
    if subject.conversation.final_state is not None:
        return None
    return "state_not_recorded", f"{NO_STATE}; {RECORD_STATE}"


def _score(subject: Subject) -> Missing | None:
    return (
        None if subject.score is not None else ("no_data", "the conversation has no score yet; `otel-agentic evaluate`")
    )


def without_case(subject: Subject) -> Missing:
    """Return the reason why a conversation has no reviewed case."""
    # An annotated verdict overrides `reason`; `computed_reason` explains the missing case.
    computed = subject.score.computed_reason if subject.score is not None else None
    return next(((reason, text) for reason, text in _NO_CASE.items() if reason == computed), ("unmatched", _UNMATCHED))


def _case_missing(subject: Subject, need: Need) -> Missing | None:
    case = subject.case
    if case is None:
        return without_case(subject)
    if need == "case":
        return None
    is_annotated, description = _OF_CASE[need]
    return None if is_annotated(case) else ("no_data", f"case {case.case_id!r} does not annotate {description}")


_OF_TURN: Final[Mapping[str, Callable[[Turn], Missing | None]]] = {
    "queries": _query,
    "answers": _answer,
    "calls": _calls,
    "arguments": _arguments,
    "results": _results,
    "plan": _plan,
    "usage": _usage,
}
_OF_CONVERSATION: Final[Mapping[str, Callable[[Subject], Missing | None]]] = {
    "definitions": _definitions,
    "state": _state,
    "score": _score,
}
#: By need: whether a case annotates it, and its description in messages.
_OF_CASE: Final[Mapping[str, tuple[Callable[[Case], bool], str]]] = {
    "expected_tools": (lambda case: bool(expectations_of(case)), "the expected tool calls (`tools`)"),
    "expected_answer": (
        lambda case: any(turn.answer is not None for turn in case.turns),
        "an answer (`turns[].answer`)",
    ),
    "expected_state": (lambda case: case.expected_state is not None, "a state at the end (`expected_state`)"),
    "expected_plan": (lambda case: case.plan is not None, "a plan (`plan`)"),
    "goal": (lambda case: case.goal is not None, "a goal (`goal`)"),
    "minimum_steps": (lambda case: case.minimum_steps is not None, "the minimum number of steps (`minimum_steps`)"),
    "reference_topics": (
        lambda case: any(turn.reference_topics for turn in case.turns),
        "topics (`turns[].reference_topics`)",
    ),
}
_NEEDS: Final[tuple[Need, ...]] = get_args(Need)

#: The value of 0/0: this and an added epsilon are parameters, because systems differ in nothing else.
EmptyT = TypeVar("EmptyT", float, None)


class Overlap(NamedTuple):
    """The number of items that two sets or multisets have in common, and the size of both.

    `empty` is the value of a ratio of 0/0.
    """

    common: int
    actual: int
    expected: int

    def precision(self, *, empty: EmptyT, epsilon: float = 0.0) -> float | EmptyT:
        """Return the share of actual items that are expected; `epsilon` is added to the denominator.

        >>> Overlap(common=1, actual=2, expected=4).precision(empty=0.0), Overlap(0, 0, 4).precision(empty=None)
        (0.5, None)
        """
        return self.common / (self.actual + epsilon) if self.actual or epsilon else empty

    def recall(self, *, empty: EmptyT, epsilon: float = 0.0) -> float | EmptyT:
        """Return the share of expected items that are actual; `epsilon` is added to the denominator.

        >>> Overlap(common=1, actual=2, expected=4).recall(empty=0.0)
        0.25
        """
        return self.common / (self.expected + epsilon) if self.expected or epsilon else empty

    def f1(self, *, empty: EmptyT) -> float | EmptyT:
        """Return twice the common items over all items: 0 if only one side is empty, `empty` if both are.

        >>> Overlap(common=1, actual=2, expected=4).f1(empty=1.0), Overlap(0, 0, 4).f1(empty=1.0)
        (0.3333333333333333, 0.0)
        """
        total = self.actual + self.expected
        return 2 * self.common / total if total else empty

    def jaccard(self, *, empty: EmptyT) -> float | EmptyT:
        """Return the common items over the items of either side.

        >>> Overlap(common=1, actual=2, expected=4).jaccard(empty=1.0)
        0.2
        """
        union = self.actual + self.expected - self.common
        return self.common / union if union else empty


def harmonic_mean(precision: float, recall: float, *, epsilon: float = 0.0) -> float:
    """Return F1 by the formula over precision and recall, 0 if both are 0; `epsilon` is added to the denominator.

    It may differ from `Overlap.f1` in the last digit, and differs by more if an empty side counts as a share of 1.

    >>> harmonic_mean(0.5, 0.25), harmonic_mean(0.0, 0.0)
    (0.3333333333333333, 0.0)
    """
    denominator = precision + recall + epsilon
    return 2 * (precision * recall) / denominator if denominator else 0.0


def is_subsequence(names: Iterable[str], of: Iterable[str]) -> bool:
    """Return whether names occur in a sequence in this order, possibly with other names between them.

    >>> is_subsequence(["a", "c"], ["a", "b", "c"]), is_subsequence(["c", "a"], ["a", "b", "c"])
    (True, False)
    """
    remaining = iter(of)
    return all(name in remaining for name in names)


def step_ratio(actual: float, minimum: float) -> float | None:
    """Return the minimum number of steps divided by the actual number, above 1 if that is lower; None without steps.

    >>> step_ratio(4, 2), step_ratio(1, 2), step_ratio(0, 2)
    (0.5, 2.0, None)
    """
    return minimum / actual if actual > 0 else None


def failure_runs(worked: Sequence[bool]) -> Iterator[tuple[int, int | None]]:
    """Yield for each run of failures the index of the first one, and of the success that ends it, or None without one.

    >>> list(failure_runs([False, False, True, True, False]))
    [(0, 2), (4, None)]
    """
    start: int | None = None
    for index, success in enumerate(worked):
        if not success:
            start = index if start is None else start
        elif start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, None
