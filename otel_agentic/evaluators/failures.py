"""Failures of conversations: which scores count as failures, grouped by cause, and merged by a judge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.config import Threshold
from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.core import ANSWER, CONVERSATION, CORE_METRICS, TOOL, core_scores
from otel_agentic.evaluators.operations import LOOPS, TOOL_FAILURE, TURN_END
from otel_agentic.judges.base import rubric_question
from otel_agentic.judges.prompts import MOST_CAUSES, merge_rubric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.config import EvaluatorSettings, Severity
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Metric, MetricScore, Subject
    from otel_agentic.judges.base import Question

#: From the least bad one.
SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
#: Names listed in a message about allowed ones.
_LISTED_FAILURES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose failure: a conversation revision, its agent, and when it ended (ns since the epoch)."""

    environment: str
    conversation_id: str
    revision: int
    agent: str | None
    agent_version: str | None
    ended_ns: int

    @classmethod
    def of(cls, conversation: Conversation) -> Place:
        """Return the place of what goes wrong in a conversation."""
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

    place: Place
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


class FailureRules:
    """The rules of settings and metrics: which scores are failures, and of what severity.

    `metrics` maps names to the core metrics and all that were passed.
    """

    def __init__(self, metrics: Iterable[Metric], settings: EvaluatorSettings) -> None:
        """Resolve the settings for the available metrics.

        Args:
            metrics: of all evaluators whose scores may occur; the core metrics are added.
            settings: `thresholds` and `severities`; a metric may be named by its last parts, as in `agentest.helpfulness`.

        Raises:
            ConfigError: a threshold or a severity names an unknown or ambiguous metric, or a label that its metric does
            not have; the message lists the allowed ones.
        """
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in (*CORE_METRICS, *metrics)}
        #: By name, the values that are good; metrics of which no value is a failure by itself are absent.
        self.thresholds: Mapping[str, Threshold] = dict(self._thresholds(settings.thresholds))
        self._severities = self._severities_of(settings.severities)

    def severity(self, metric: str, label: str | None = None) -> Severity:
        """Return the severity of a failure: the settings' for the label, else for the metric, else the metric's own."""
        overrides = self._severities.get((metric, label)) or self._severities.get((metric, None))
        if overrides is not None:
            return overrides
        result = self.metrics[metric]
        return result.severities.get(label, result.severity) if label is not None else result.severity

    def failure(self, position: Place, score: MetricScore) -> Failure | None:
        """Return the failure of a score, or None; a score is at most one failure."""
        metric = self.metrics.get(score.name)
        if metric is None or score.abstained:
            return None
        failing = score.label is not None and score.label in metric.failing
        threshold = self.thresholds.get(score.name)
        short = threshold is not None and score.value is not None and not threshold.met_by(score.value)
        if not failing and not short:
            return None
        label = score.label if failing else None
        return Failure(
            place=position,
            metric=score.name,
            severity=self.severity(score.name, label),
            explanation=score.explanation,
            label=label,
            value=score.value,
            threshold=None if failing else threshold,
            turn_index=score.turn_index,
            position=score.position,
            tool_name=score.tool_name,
            parameter=score.parameter,
        )

    def failures(self, position: Place, scores: Iterable[MetricScore]) -> list[Failure]:
        """Return the failures among the scores of one conversation, in their order."""
        failures_found = (self.failure(position, score) for score in scores)
        return [failure for failure in failures_found if failure is not None]

    def _thresholds(self, overrides: Mapping[str, Threshold]) -> Iterator[tuple[str, Threshold]]:
        for metric in self.metrics.values():
            default = threshold_of(metric)
            if default is not None:
                yield metric.name, default
        for name in sorted(overrides, key=len):  # the more exact name comes later, and wins
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
        fitting = [metric for metric in self.metrics if metric == name or metric.endswith(f".{name}")]
        if name in fitting:
            fitting = [name]
        if len(fitting) != 1:
            message = ", ".join([*self.metrics][:_LISTED_FAILURES]) + (
                " …" if len(self.metrics) > _LISTED_FAILURES else ""
            )
            problem = f"names no metric (one of your own needs its file in evaluators.files); there are {message}"
            if fitting:
                problem = f"may mean {' or '.join(fitting)}; give more of the name"
            raise ConfigError(f"evaluators.{setting}: {name!r} {problem}")
        return self.metrics[fitting[0]]


def threshold_of(metric: Metric) -> Threshold | None:
    """Return the default threshold of a metric, None if no value is bad by itself."""
    if metric.threshold is None or metric.higher_is_better is None:
        return None
    if metric.higher_is_better:
        return Threshold(min=metric.threshold)
    return Threshold(max=metric.threshold)


def at_least(severity: Severity, least: Severity) -> bool:
    """Return whether a severity is as bad as another one, or worse.

    >>> at_least("high", "medium"), at_least("low", "medium")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)


def failures_of(subject: Subject, scores: Iterable[MetricScore], rules: FailureRules) -> list[Failure]:
    """Return the failures of one conversation: first those of its outcome, then those among the scores of metrics."""
    return distinct(rules.failures(Place.of(subject.conversation), [*core_scores(subject), *scores]))


def distinct(failures: Iterable[Failure]) -> list[Failure]:
    """Return the failures without the `errored` faults of tools whose unhandled failure, or that of their turn, is listed."""
    every = list(failures)
    listed = {
        (item.place, item.tool_name) for item in every if item.metric in {TOOL_FAILURE, TURN_END} and item.tool_name
    }
    return [
        item
        for item in every
        if (item.metric, item.label) != (TOOL, "errored") or (item.place, item.tool_name) not in listed
    ]


class Cause(NamedTuple):
    """The common cause of the failures of a group; `label` is None if a value does not meet its threshold."""

    metric: str
    label: str | None
    tool_name: str | None
    parameter: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Failures of one cause, or of several that were joined.

    `severity` is the highest of its failures. `conversations` counts them once each, and `share` is its part of all failures.
    `example` is the newest failure of that severity. Times are the ends of conversations, ns since the epoch.
    """

    causes: tuple[Cause, ...]
    title: str
    severity: Severity
    failures: tuple[Failure, ...]
    conversations: int
    share: float
    example: Failure
    first_seen_ns: int
    last_seen_ns: int


def cause_of(failure: Failure) -> Cause:
    """Return the cause by which a failure is grouped."""
    return Cause(failure.metric, failure.label, failure.tool_name, failure.parameter)


def group_failures(failures: Iterable[Failure], metrics: Mapping[str, Metric]) -> list[ErrorGroup]:
    """Return failures grouped by cause: by severity, then by number of conversations, then by recency.

    Args:
        failures: of any conversations; their order does not matter.
        metrics: by name, used in titles.
    """
    by_cause: dict[Cause, list[Failure]] = {}
    for failure in sorted(failures, key=_recency, reverse=True):
        by_cause.setdefault(cause_of(failure), []).append(failure)
    total = sum(map(len, by_cause.values()))
    return ordered(
        _group((cause,), _title(cause, item[0], metrics), item, total=total) for cause, item in by_cause.items()
    )


def joined(groups: Sequence[ErrorGroup], title: str | None = None) -> ErrorGroup:
    """Return several groups as one, with all their causes and failures.

    Args:
        groups: at least one, of one list of groups.
        title: their common cause; by default that of the first of them in order.
    """
    first, *others = ordered(groups)
    failures = [failure for group in groups for failure in group.failures]
    share = sum(group.share for group in groups)
    causes = tuple(cause for group in (first, *others) for cause in group.causes)
    message = title or (f"{first.title}, and {len(others)} alike" if others else first.title)
    return _group(causes, message, failures, total=round(len(failures) / share))


def ordered(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    """Return groups in the order in which to investigate them."""
    return sorted(groups, key=_urgency)


def _urgency(group: ErrorGroup) -> tuple[object, ...]:
    causes = [tuple((part is not None, part or "") for part in cause) for cause in group.causes]
    often = (-group.conversations, -len(group.failures), -group.last_seen_ns)
    return (-SEVERITIES.index(group.severity), *often, causes)


def _group(causes: tuple[Cause, ...], title: str, failures: Sequence[Failure], *, total: int) -> ErrorGroup:
    newest_first = sorted(failures, key=_recency, reverse=True)
    worst = max((failure.severity for failure in failures), key=SEVERITIES.index)
    ends = [failure.place.ended_ns for failure in failures]
    return ErrorGroup(
        causes=causes,
        title=title,
        severity=worst,
        failures=tuple(newest_first),
        conversations=len({(failure.place.environment, failure.place.conversation_id) for failure in failures}),
        share=len(failures) / total,
        example=next(failure for failure in newest_first if failure.severity == worst),
        first_seen_ns=min(ends),
        last_seen_ns=max(ends),
    )


def _recency(failure: Failure) -> tuple[object, ...]:
    location = failure.place
    where = (location.ended_ns, location.environment, location.conversation_id)
    # Within a conversation the first thing that went wrong counts as the newest: it may have led to the rest.
    turn = -1 if failure.turn_index is None else failure.turn_index
    call = -1 if failure.position is None else failure.position
    # The rest is not a time, but makes the order independent of the input order.
    what = (failure.metric, failure.label, failure.tool_name, failure.parameter, failure.value, failure.threshold)
    return (*where, -turn, -call, failure.explanation, failure.severity, *map(repr, what))


def _title(cause: Cause, failure: Failure, metrics: Mapping[str, Metric]) -> str:
    message = _LISTED_GROUPS.get((cause.metric, cause.label or ""))
    if message is not None:
        where = f" ({cause.tool_name})" if cause.tool_name and "{tool}" not in message else ""
        return message.format(tool=cause.tool_name, parameter=cause.parameter) + where
    metric = metrics.get(cause.metric)
    title = metric.title if metric is not None else cause.metric
    message = f": {cause.label.replace('_', ' ')}" if cause.label is not None else f" {_bound(failure)}"
    where = " ".join(part for part in (cause.tool_name, cause.parameter) if part)
    return f"{title}{message} ({where})" if where else f"{title}{message}"


def _bound(failure: Failure) -> str:
    threshold = failure.threshold
    if threshold is None:
        return "does not meet its threshold"
    if threshold.min is None:
        return f"is above {threshold.max:g}"
    if threshold.max is None:
        return f"is below {threshold.min:g}"
    return f"is not within {threshold.min:g} to {threshold.max:g}"


_LISTED_GROUPS: Final = {
    (TOOL, "missing"): "{tool} was not called where it is expected",
    (TOOL, "spurious"): "{tool} was called although it was not expected",
    (TOOL, "forbidden"): "{tool} was called though it is forbidden",
    (TOOL, "wrong_parameters"): "{tool} was given a wrong {parameter}",
    (TOOL, "wrong_order"): "{tool} was called out of order",
    (TOOL, "unused_result"): "the result of {tool} was not used",
    (TOOL, "errored"): "{tool} answered with an error, and was not called again with success",
    (TOOL_FAILURE, "unhandled"): "{tool} failed, and was neither recovered nor reported",
    (TURN_END, "error"): "a turn ended in an error, without an answer",
    (TURN_END, "raw_output"): "the answer is the raw output of an interpreter, or a stack trace",
    (LOOPS, ""): "{tool} was called again with the same arguments and the same result",
    (ANSWER, "wrong_answer"): "the answer was wrong",
    (ANSWER, "forbidden_answer"): "the answer contains forbidden content",
    (CONVERSATION, "missing_turn"): "an expected turn never came",
    (CONVERSATION, "output_not_said"): "an expected output is missing from the answers",
    (CONVERSATION, "extra_turn"): "a turn came that is not in the case",
    (CONVERSATION, "no_fault_named"): "it failed, and this evaluation names no single fault",
    (CONVERSATION, "verdict"): "an annotated verdict is a fail, and no other fault was found",
}


#: Groups shown in one question: as many as a judge can distinguish.
LISTED_GROUPS: Final = 2 * MOST_CAUSES
#: Characters of a title and of an example, so that all of them are shown; and of a cause in the judge's words.
_TITLE: Final = 120
_EXAMPLE: Final = 160
_CAUSE: Final = 100
#: `2, 5 = a cause`.
_SET: Final = re.compile(r"\s*([0-9]+(?:\s*,\s*[0-9]+)*)\s*=\s*(.*)", re.DOTALL)


def merge_question(groups: Sequence[ErrorGroup]) -> Question | None:
    """Return the one question about groups: the first `LISTED_GROUPS` of them in order. None if there are no groups to merge."""
    listed = ordered(groups)[:LISTED_GROUPS]
    if len(listed) <= 1:
        return None
    return rubric_question(
        merge_rubric(), groups="\n".join(_line(number, item) for number, item in enumerate(listed, 1))
    )


def merged(groups: Sequence[ErrorGroup], texts: Sequence[str]) -> list[ErrorGroup]:
    """Return groups merged as a judge suggests; invalid suggestions are ignored.

    Args:
        groups: those that `merge_question` asked about.
        texts: its reply. Unknown and repeated group numbers are skipped.
    """
    listed = ordered(groups)
    groups_merged: list[ErrorGroup] = []
    used: set[int] = set()
    for numbers, cause in _sets(texts, min(len(listed), LISTED_GROUPS)):
        fresh = [number for number in numbers if number not in used]
        if len(fresh) > 1:
            used.update(fresh)
            groups_merged.append(joined([listed[number - 1] for number in fresh], cause or None))
    left = [group for number, group in enumerate(listed, 1) if number not in used]
    return ordered([*groups_merged, *left])


def _sets(texts: Sequence[str], most: int) -> Iterator[tuple[list[int], str]]:
    for text in texts:
        match = _SET.fullmatch(text)
        if match is not None:
            # Digits of a number that long are no group's; converting them could raise.
            named = [int(part) for part in match[1].replace(",", " ").split() if len(part) <= len(str(most))]
            numbers = list(dict.fromkeys(number for number in named if 1 <= number <= most))
            yield numbers, _short(match[2], _CAUSE)


def _line(number: int, group: ErrorGroup) -> str:
    often = f"{len(group.failures)} times in {group.conversations} conversations"
    return (
        f"{number}. {often}: {_short(group.title, _TITLE)}; for example: {_short(group.example.explanation, _EXAMPLE)}"
    )


def _short(text: str, most: int) -> str:
    message = " ".join(text.split())
    return message if len(message) <= most else f"{message[: most - 1]}…"
