"""Run evaluators on a conversation, as one dialogue with the judge.

A score that violates the contract of its evaluator becomes an abstention, with the fault as explanation. An evaluator
that raises does not affect the others. `FailureRules` determines which scores are failures.
"""

from __future__ import annotations

import math
import sys
from asyncio import CancelledError
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, cast, get_args

import orjson

from otel_agentic.config import EvaluatorSettings, Severity, Threshold
from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.base import (
    AnyEvaluator,
    AskingEvaluator,
    Evaluator,
    Metric,
    MetricScore,
    Missing,
    Need,
    Subject,
    asks,
    first_missing,
    is_plain,
    metrics_of,
    none_of_all,
)
from otel_agentic.judges.base import Question
from otel_agentic.judges.dialogue import Answer, Dialogue, together
from otel_agentic.scoring.scope import NotEvaluatedReason, by_identity

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.scope import Outcome

#: The key of an evaluator's fault in the `details` of an abstention; its prefix avoids clashes with a user's own keys.
FAULT: Final = "otel_agentic.fault"

_REASONS: Final = frozenset(get_args(NotEvaluatedReason))
#: Tolerance of bounds for rounding errors.
_TOLERANCE: Final = 1e-9
_TEXTS: Final = ("explanation", "tool_name", "parameter")
#: Number of evaluators whose ranges of values are cached.
_CACHED: Final = 256
#: Characters shown of an invalid value.
_VALUE_CHARACTERS: Final = 60


def checked_scores(
    evaluator: AnyEvaluator, conversation: Conversation | None, returned: Sequence[object]
) -> tuple[list[MetricScore], list[str]]:
    """Return the scores that can be stored, and the faults of the others, which become abstentions or are dropped.

    Args:
        evaluator: the evaluator that returned them.
        conversation: their conversation, None for a group.
        returned: the returned objects.
    """
    if _all_valid(returned, evaluator.metrics, _locations(conversation)):
        return [*returned], []
    metrics = {metric.name: metric for metric in evaluator.metrics}
    scores: list[MetricScore] = []
    faults: dict[str, None] = {}
    for candidate in returned:
        problem = _problem(candidate, metrics, conversation)
        if problem is not None:
            explanation = f"evaluator {evaluator.name}: {problem}"
            faults[explanation] = None
            candidate = _replacement(candidate, metrics, conversation, explanation)  # noqa: PLW2901 — same location, same metric
        if isinstance(candidate, MetricScore):
            scores.append(_encodable(candidate))
            if FAULT in candidate.details and candidate.abstained:  # the evaluator caught and reported its own fault
                faults[str(candidate.details[FAULT])] = None
    return scores, list(faults)


def _all_valid(  # noqa: C901, PLR0911, PLR0912 — one pass: a function for each check would take as long as the checks
    returned: Sequence[object], metrics: Sequence[Metric], locations: Container[tuple[int, int | None]] | None
) -> TypeGuard[Sequence[MetricScore]]:
    """Return whether scores certainly keep the contract; if not, `_problem` finds what each of them violates.

    Most evaluators always keep it. Their scores are checked together, because that takes a fraction of the time.
    """
    ranges = _ranges(metrics)
    texts: list[str | None] = []
    details: list[Mapping[str, Any]] = []
    for score in returned:
        if score.__class__ is not MetricScore:
            return False
        name, value, label = score.name, score.value, score.label
        if name.__class__ is not str or name not in ranges:
            return False
        low, high, labels = ranges[name]
        if value is not None:
            if not ((value.__class__ is float or value.__class__ is int) and low <= value <= high):
                return False
        elif label is None and (score.reason.__class__ is not str or score.reason not in _REASONS):
            return False
        if label is not None and label not in labels:
            return False
        turn_index, position = score.turn_index, score.position
        if locations is not None and (turn_index is not None or position is not None):
            if turn_index.__class__ is not int or not (position is None or position.__class__ is int):
                return False
            if (turn_index, position) not in locations:
                return False
        texts += score.explanation, score.tool_name, score.parameter
        if score.details.__class__ is not dict:
            return False
        if score.details:
            details.append(score.details)
            if FAULT in score.details:
                return False
    try:
        "".join([text for text in texts if text is not None]).encode()
        if details:
            orjson.dumps(details, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


@by_identity(_CACHED)
def _ranges(metrics: Sequence[Metric]) -> Mapping[str, tuple[float, float, Container[object]]]:
    """Return the smallest and the largest value of each metric, within the tolerance, and its labels."""
    return {
        metric.name: (
            -sys.float_info.max if metric.low is None else metric.low - _TOLERANCE,
            sys.float_info.max if metric.high is None else metric.high + _TOLERANCE,
            metric.labels,
        )
        for metric in metrics
    }


@by_identity(1)
def _locations(conversation: Conversation | None) -> AbstractSet[tuple[int, int | None]] | None:
    """Return the turns and calls of a conversation, None for a group."""
    if conversation is None:
        return None
    locations: set[tuple[int, int | None]] = {(turn.index, None) for turn in conversation.turns}
    return locations.union([(turn.index, call.position) for turn in conversation.turns for call in turn.calls])


def _encodable(score: MetricScore) -> MetricScore:
    """Return a score with texts that UTF-8 can encode: one lone surrogate would make the store reject the write."""
    if "".join(filter(None, (score.explanation, score.tool_name, score.parameter))).isascii():
        return score
    texts: dict[str, Any] = {name: text for name in _TEXTS if (text := getattr(score, name))}
    encodable_texts = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in texts.items()}
    return score if encodable_texts == texts else replace(score, **encodable_texts)


def _replacement(
    candidate: object, metrics: Mapping[str, Metric], conversation: Conversation | None, explanation: str
) -> MetricScore | None:
    """Return an abstention in place of a score that violates the contract, None if its metric is unknown."""
    name: Any = getattr(candidate, "name", None)
    if isinstance(candidate, MetricScore) and isinstance(name, str) and name in metrics:
        is_located = _place_problem(candidate, conversation) is None
        location = (candidate.turn_index, candidate.position) if is_located else (None, None)
        return MetricScore(
            name=candidate.name, reason="no_data", explanation=explanation, turn_index=location[0], position=location[1]
        )
    return None


def _problem(candidate: object, metrics: Mapping[str, Metric], conversation: Conversation | None) -> str | None:
    """Return the first violation of the contract, or None."""
    if not isinstance(candidate, MetricScore):
        return f"returned a {type(candidate).__name__} instead of a MetricScore"
    name: Any = candidate.name  # untrusted, like the other fields
    metric = metrics.get(name) if isinstance(name, str) else None
    if metric is None:
        return f"metric {name!r} is not one of its declared metrics"
    return _value_problem(candidate, metric) or _text_problem(candidate) or _place_problem(candidate, conversation)


def _value_problem(score: MetricScore, metric: Metric) -> str | None:
    value: Any = score.value  # untrusted
    if value is not None:
        if not _finite(value):
            return f"metric {score.name!r} has the value {_value_text(value)}, which is not a finite number"
        low, high = metric.low, metric.high
        if (low is not None and value < low - _TOLERANCE) or (high is not None and value > high + _TOLERANCE):
            low, high = -math.inf if low is None else low, math.inf if high is None else high
            return f"metric {score.name!r} has the value {value:g}, outside the range {low:g} to {high:g}"
    if score.label is not None:
        if score.label not in metric.labels:
            return f"metric {score.name!r} has the label {score.label!r}; allowed: {', '.join(metric.labels) or 'none'}"
    elif value is None and not (isinstance(score.reason, str) and score.reason in _REASONS):
        return f"metric {score.name!r} has neither a value nor a label, and no reason why"
    return None


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _value_text(value: object) -> str:
    message = f"{value:x}" if isinstance(value, int) else repr(value)  # Python writes no more than 4,300 decimal digits
    return message if len(message) <= _VALUE_CHARACTERS else f"{message[:_VALUE_CHARACTERS]}…"


def _text_problem(score: MetricScore) -> str | None:
    for name, text in zip(_TEXTS, (score.explanation, score.tool_name, score.parameter), strict=True):
        if text is not None and not isinstance(text, str):
            return f"metric {score.name!r} has {name} of type {type(text).__name__}; expected text"
    details: Any = score.details
    if not isinstance(details, (dict, Mapping)):  # dict first: the check of the protocol is slow
        return f"metric {score.name!r} has details of type {type(details).__name__}; expected a mapping"
    try:
        if details:
            orjson.dumps(details, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError) as error:
        return f"metric {score.name!r} has details that JSON cannot hold: {error}"
    return None


def _place_problem(score: MetricScore, conversation: Conversation | None) -> str | None:
    """Return the fault of a score's location, or None; scores of a group, without a conversation, have no location."""
    turn_index: Any = score.turn_index  # untrusted
    position: Any = score.position
    if conversation is None or (turn_index is None and position is None):
        return None
    for name, index in (("turn_index", turn_index), ("position", position)):
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            return f"metric {score.name!r} has the {name} {index!r}, which is not an integer"
    if turn_index is None:
        return f"metric {score.name!r} names a call (position {position}) without its turn"
    turn = next((turn for turn in conversation.turns if turn.index == turn_index), None)
    if turn is None:
        return f"metric {score.name!r} refers to turn {turn_index!r} (0-based), which does not exist"
    if position is not None and all(call.position != position for call in turn.calls):
        return f"metric {score.name!r} refers to call {position!r} (0-based) of turn {turn_index}, which does not exist"
    return None


#: Exceptions of third-party evaluators; exiting the process and cancelling their own task count as failures, too.
RAISED: Final = (Exception, SystemExit, CancelledError)
#: Maximum number of rounds of questions; an evaluator that still asks then is assumed never to end.
_ROUNDS: Final = 50


class Ran(NamedTuple):
    """The scores of an evaluator for one conversation; `faults` are its contract violations, one sentence each."""

    evaluator: Evaluator | AskingEvaluator
    scores: tuple[MetricScore, ...]
    faults: tuple[str, ...] = ()


def evaluating(evaluators: Sequence[Evaluator | AskingEvaluator], subject: Subject) -> Dialogue[list[Ran]]:
    """Return the dialogue that runs evaluators on a conversation: at least one score or abstention of each.

    The questions of all evaluators are asked together.
    """
    known: dict[Need, Missing | None] = {}
    lacking: dict[AbstractSet[Need], Missing | None] = {}
    results: list[Ran | None] = []
    dialogues = []
    for evaluator, needs, asks_judge in _needs_of(evaluators):
        if needs not in lacking:
            lacking[needs] = first_missing(subject, needs, known)
        if (lack := lacking[needs]) is not None:
            results.append(Ran(evaluator, abstentions(evaluator, *lack)))
        elif asks_judge:
            results.append(None)
            dialogues.append(_dialogue_with_judge(cast("AskingEvaluator", evaluator), subject))
        else:
            results.append(_evaluated(evaluator, subject))
    judge_results = iter((yield from together(dialogues)) if dialogues else ())
    return [next(judge_results) if ran is None else ran for ran in results]


@by_identity(_CACHED)
def _needs_of(
    evaluators: Sequence[Evaluator | AskingEvaluator],
) -> Sequence[tuple[Evaluator | AskingEvaluator, frozenset[Need], bool]]:
    """Return evaluators with their needs, and whether they ask a judge."""
    return [(evaluator, frozenset(evaluator.needs), asks(evaluator)) for evaluator in evaluators]


def abstentions(
    evaluator: Evaluator | AskingEvaluator, reason: NotEvaluatedReason, explanation: str
) -> tuple[MetricScore, ...]:
    """Return an abstention for each metric of an evaluator."""
    return none_of_all(evaluator.metrics, reason, explanation)


def _dialogue_with_judge(evaluator: AskingEvaluator, subject: Subject) -> Dialogue[Ran]:
    try:
        results = list((yield from _checked_dialogue(evaluator, subject)))
    except RAISED as error:
        return _failed(evaluator, error)
    return _checked(evaluator, subject, results)


def _evaluated(evaluator: Evaluator | AskingEvaluator, subject: Subject) -> Ran:
    try:
        results = list(evaluator.evaluate(subject)) if is_plain(evaluator) else []
    except RAISED as error:
        return _failed(evaluator, error)
    return _checked(evaluator, subject, results)


def _checked(evaluator: Evaluator | AskingEvaluator, subject: Subject, results: Sequence[object]) -> Ran:
    scores, faults = checked_scores(evaluator, subject.conversation, results)
    if scores:
        return Ran(evaluator, tuple(scores), tuple(faults))
    message = faults[0] if faults else f"evaluator {evaluator.name} returned no score for this conversation"
    return Ran(evaluator, abstentions(evaluator, "no_data", message), tuple(faults))


def _checked_dialogue(evaluator: AskingEvaluator, subject: Subject) -> Dialogue[Any]:
    """Return the dialogue of an evaluator with its questions checked."""
    dialogue = evaluator.ask(subject)
    answers: Sequence[Answer] | None = None
    try:
        for _ in range(_ROUNDS):
            try:
                yielded: Any = next(dialogue) if answers is None else dialogue.send(answers)
            except StopIteration as ended:
                if ended.value is None or isinstance(ended.value, str):
                    message = "ask(subject) must return its scores"
                    raise TypeError(message) from None
                return ended.value
            questions = list(yielded)
            invalid = next((question for question in questions if not isinstance(question, Question)), None)
            if invalid is not None:
                message = f"ask(subject) yields lists of Question, not of {type(invalid).__name__}"
                raise TypeError(message)
            answers = (yield questions) if questions else ()
        message = f"it asks on after {_ROUNDS} rounds"
        raise RuntimeError(message)
    finally:
        with suppress(*RAISED):  # an evaluation that did not finish has no result, even if closing it fails
            getattr(dialogue, "close", lambda: None)()


def _failed(evaluator: Evaluator | AskingEvaluator, error: BaseException) -> Ran:
    message = f"evaluator {evaluator.name} failed: {type(error).__name__}"
    detail = " ".join(str(error).split())[:300]
    explanation = f"{message}: {detail}" if detail else message
    return Ran(evaluator, abstentions(evaluator, "no_data", explanation), (message,))


CORE_METRICS: Final = metrics_of("core")


#: In increasing order.
SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")


#: Names listed in a message about allowed ones.
_MAX_LISTED_NAMES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The conversation of a failure: its revision, its agent, and its end (ns since the epoch).

    It may represent others that have the same failures, of the same agent: `count` is their number, itself included,
    and `oldest` the end and the id of the oldest one; itself is the newest.
    """

    environment: str
    conversation_id: str
    revision: int
    agent: str | None
    agent_version: str | None
    ended_ns: int
    count: int = 1
    oldest: tuple[int, str] | None = None

    @property
    def first(self) -> tuple[int, str, str]:
        """The end, the environment and the id of the oldest conversation: a sort key."""
        ended_ns, conversation_id = self.oldest or (self.ended_ns, self.conversation_id)
        return ended_ns, self.environment, conversation_id

    @classmethod
    def of(cls, conversation: Conversation) -> Location:
        """Return the location of failures in a conversation."""
        return cls(
            environment=conversation.environment,
            conversation_id=conversation.conversation_id,
            revision=conversation.revision,
            agent=conversation.agent_name,
            agent_version=conversation.agent_version,
            ended_ns=conversation.ended_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure at one location.

    `label` is the failing label, None if the value does not meet `threshold`. In a conversation that failed, `metric`
    is `agentic.tool`, `agentic.answer` or `agentic.conversation`, and `label` the kind of fault or the reason.
    """

    location: Location
    metric: str
    severity: Severity
    explanation: str
    label: str | None = None
    value: float | None = None
    threshold: Threshold | None = None
    turn_index: int | None = None
    position: int | None = None
    tool_name: str | None = None
    parameter: str | None = None
    #: Of a tool fault, the index of the expected call.
    expected_index: int | None = None


class ScoreStatus(NamedTuple):
    """The status of a score: its outcome and severity, and the threshold of its metric, as a number.

    `outcome` is None for an abstention, and for a metric of which no score is a failure.
    """

    outcome: Outcome | None = None
    severity: Severity | None = None
    threshold: float | None = None


_NO_STATUS: Final = ScoreStatus()


class FailureRules:
    """The rules of settings and metrics that decide which scores are failures, and their severity.

    `metrics` contains, by name, the core metrics and those passed to the constructor.
    """

    def __init__(self, metrics: Iterable[Metric], settings: EvaluatorSettings) -> None:
        """Resolve the settings for the available metrics.

        Args:
            metrics: the metrics of all evaluators whose scores may occur; the core metrics are added.
            settings: `thresholds` and `severities`; a metric may be named by its last parts, as in `agentest.helpfulness`.

        Raises:
            ConfigError: a threshold or a severity names an unknown or ambiguous metric, or a label that its metric does
            not have; the message lists the allowed ones.
        """
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in (*CORE_METRICS, *metrics)}
        #: The good values by metric name; metrics without a threshold are absent.
        self.thresholds: Mapping[str, Threshold] = dict(self._thresholds(settings.thresholds))
        self._severities = self._severities_of(settings.severities)
        #: The status of an abstention, and of a score that is no failure, by metric.
        self._unscored, self._passed = self._statuses()

    def severity(self, metric: str, label: str | None = None, *, reads: bool = False) -> Severity:
        """Return the severity of a failure: the settings' for the label, else for the metric, else the metric's own.

        The metric's own severity of a fault is at most medium if `reads`: its tool is declared to change nothing.
        """
        override = self._severities.get((metric, label)) or self._severities.get((metric, None))
        if override is not None:
            return override
        definition = self.metrics[metric]
        own = definition.severities.get(label, definition.severity) if label is not None else definition.severity
        return "medium" if reads and own == "high" else own

    def failure(self, location: Location, score: MetricScore) -> Failure | None:
        """Return the failure of a score, or None; a score is at most one failure."""
        if not self._fails(score):
            return None
        label = self._failing_label(score)
        expected_index = score.details.get("expected_index")
        return Failure(
            location=location,
            metric=score.name,
            severity=self._severity_of(score),
            explanation=score.explanation,
            label=label,
            value=score.value,
            threshold=self.thresholds.get(score.name) if label is None else None,
            turn_index=score.turn_index,
            position=score.position,
            tool_name=score.tool_name,
            parameter=score.parameter,
            expected_index=expected_index if isinstance(expected_index, int) else None,
        )

    def failures(self, location: Location, scores: Iterable[MetricScore]) -> list[Failure]:
        """Return the failures among the scores of one conversation, in their order."""
        results = (self.failure(location, score) for score in scores)
        return [failure for failure in results if failure is not None]

    def status(self, score: MetricScore) -> ScoreStatus:
        """Return the status of a score; that of an unknown metric has no outcome."""
        if self._fails(score):
            passed = self._passed[score.name]
            return ScoreStatus("fail", self._severity_of(score), passed.threshold)
        return (self._unscored if score.abstained else self._passed).get(score.name, _NO_STATUS)

    def _fails(self, score: MetricScore) -> bool:
        metric = self.metrics.get(score.name)
        if metric is None:
            return False
        if score.label is not None and score.label in metric.failing:
            return True
        threshold = self.thresholds.get(score.name) if score.value is not None else None
        return threshold is not None and not threshold.met_by(cast("float", score.value))

    def _failing_label(self, score: MetricScore) -> str | None:
        """Return the label by which a score fails; None if its value fails."""
        return score.label if score.label in self.metrics[score.name].failing else None

    def _severity_of(self, score: MetricScore) -> Severity:
        """Return the severity of a score that fails."""
        return self.severity(score.name, self._failing_label(score), reads=score.details.get("effect") == "read")

    def _statuses(self) -> tuple[dict[str, ScoreStatus], dict[str, ScoreStatus]]:
        unscored, passed = {}, {}
        for name, metric in self.metrics.items():
            threshold = self.thresholds.get(name)
            bound = None if threshold is None else threshold.max if threshold.min is None else threshold.min
            unscored[name] = ScoreStatus(threshold=bound)
            has_failures = threshold is not None or bool(metric.failing)
            passed[name] = ScoreStatus("pass" if has_failures else None, None, bound)
        return unscored, passed

    def _thresholds(self, overrides: Mapping[str, Threshold]) -> Iterator[tuple[str, Threshold]]:
        for metric in self.metrics.values():
            default = threshold_of(metric)
            if default is not None:
                yield metric.name, default
        for name in sorted(overrides, key=len):  # the longer, more specific name comes later and takes precedence
            yield self._named(name, "thresholds").name, overrides[name]

    def _severities_of(self, overrides: Mapping[str, Severity]) -> dict[tuple[str, str | None], Severity]:
        results: dict[tuple[str, str | None], Severity] = {}
        for key in sorted(overrides, key=len):
            name, equals, label = key.partition("=")
            metric = self._named(name, "severities")
            if equals and label not in metric.labels:
                allowed = ", ".join(metric.labels) or "none: it gives values"
                raise ConfigError(f"evaluators.severities: {metric.name} has no label {label!r}; it has {allowed}")
            results[metric.name, label if equals else None] = overrides[key]
        return results

    def _named(self, name: str, setting: str) -> Metric:
        matches = [metric for metric in self.metrics if metric == name or metric.endswith(f".{name}")]
        if name in matches:
            matches = [name]
        if len(matches) != 1:
            allowed = ", ".join([*self.metrics][:_MAX_LISTED_NAMES]) + (
                " …" if len(self.metrics) > _MAX_LISTED_NAMES else ""
            )
            problem = f"is not a metric (a custom one needs its file in evaluators.files); allowed: {allowed}"
            if matches:
                problem = f"may mean {' or '.join(matches)}; give more of the name"
            raise ConfigError(f"evaluators.{setting}: {name!r} {problem}")
        return self.metrics[matches[0]]


def threshold_of(metric: Metric) -> Threshold | None:
    """Return the default threshold of a metric, or None if no value is a failure by itself."""
    if metric.threshold is None or metric.higher_is_better is None:
        return None
    if metric.higher_is_better:
        return Threshold(min=metric.threshold)
    return Threshold(max=metric.threshold)


def at_least(severity: Severity, least: Severity) -> bool:
    """Return whether a severity is at least as high as another one.

    >>> at_least("high", "medium"), at_least("low", "medium")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)
