"""What counts as a failure, and how bad it is: one rule for the report, the gate and the groups.

A score that a metric gave is a failure where its label is one of the failing ones, or its value does not meet the threshold
in force. Of a conversation that failed, each thing found wrong in it is one: see `core`. A score that is not there is none,
whatever the reason: "no data" and a judge that failed are never the agent's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.config import Threshold
from otel_agentic.errors import ConfigError
from otel_agentic.evaluators.core import CORE_METRICS, TOOL, core_scores
from otel_agentic.evaluators.operations.names import TOOL_FAILURE, TURN_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_agentic.config import EvaluatorSettings, Severity
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Metric, MetricScore, Subject

#: From the least bad one.
SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
#: Names told in a message that lists what is allowed.
_TOLD: Final = 60


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
    """One thing that went wrong, in one place.

    `label` is the failing label, None where the value does not meet `threshold`. Of a conversation that failed, `metric` is
    `agentic.tool`, `agentic.answer` or `agentic.conversation`, and `label` the kind of fault or the reason.
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
    """What the settings and the metrics say: which scores are failures, and of what severity.

    `metrics` are those of the core and all that were given, by name.
    """

    def __init__(self, metrics: Iterable[Metric], settings: EvaluatorSettings) -> None:
        """Read the settings against the metrics there are.

        Args:
            metrics: of all evaluators whose scores may be met; those of the core are added.
            settings: `thresholds` and `severities`; a metric may be named by its last parts, as in `agentest.helpfulness`.

        Raises:
            ConfigError: a threshold or a severity names a metric that is not there, or several, or a label that its metric
                does not give; names what is allowed.
        """
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in (*CORE_METRICS, *metrics)}
        #: By name, the values that are good; metrics of which no value is a failure by itself are absent.
        self.thresholds: Mapping[str, Threshold] = dict(self._thresholds(settings.thresholds))
        self._severities = self._severities_of(settings.severities)

    def severity(self, metric: str, label: str | None = None) -> Severity:
        """Return how bad a failure is: as the settings say of the label, or of the metric, else as the metric does."""
        given = self._severities.get((metric, label)) or self._severities.get((metric, None))
        if given is not None:
            return given
        found = self.metrics[metric]
        return found.severities.get(label, found.severity) if label is not None else found.severity

    def failure(self, place: Place, score: MetricScore) -> Failure | None:
        """Return a score as a failure, None where it is none; a score is one failure at most."""
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
            place=place,
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

    def failures(self, place: Place, scores: Iterable[MetricScore]) -> list[Failure]:
        """Return the failures among the scores of one conversation, in their order."""
        found = (self.failure(place, score) for score in scores)
        return [failure for failure in found if failure is not None]

    def _thresholds(self, given: Mapping[str, Threshold]) -> Iterator[tuple[str, Threshold]]:
        for metric in self.metrics.values():
            default = threshold_of(metric)
            if default is not None:
                yield metric.name, default
        for name in sorted(given, key=len):  # the more exact name comes later, and wins
            yield self._named(name, "thresholds").name, given[name]

    def _severities_of(self, given: Mapping[str, Severity]) -> dict[tuple[str, str | None], Severity]:
        found: dict[tuple[str, str | None], Severity] = {}
        for key in sorted(given, key=len):
            name, equals, label = key.partition("=")
            metric = self._named(name, "severities")
            if equals and label not in metric.labels:
                allowed = ", ".join(metric.labels) or "none: it gives values"
                raise ConfigError(f"evaluators.severities: {metric.name} has no label {label!r}; it has {allowed}")
            found[metric.name, label if equals else None] = given[key]
        return found

    def _named(self, name: str, setting: str) -> Metric:
        fitting = [metric for metric in self.metrics if metric == name or metric.endswith(f".{name}")]
        if name in fitting:
            fitting = [name]
        if len(fitting) != 1:
            told = ", ".join([*self.metrics][:_TOLD]) + (" …" if len(self.metrics) > _TOLD else "")
            problem = f"names no metric (one of your own needs its file in evaluators.files); there are {told}"
            if fitting:
                problem = f"may mean {' or '.join(fitting)}; give more of the name"
            raise ConfigError(f"evaluators.{setting}: {name!r} {problem}")
        return self.metrics[fitting[0]]


def threshold_of(metric: Metric) -> Threshold | None:
    """Return which values of a metric are good unless the settings say otherwise, None where no value is bad by itself."""
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
        (each.place, each.tool_name) for each in every if each.metric in {TOOL_FAILURE, TURN_END} and each.tool_name
    }
    return [
        each
        for each in every
        if (each.metric, each.label) != (TOOL, "errored") or (each.place, each.tool_name) not in listed
    ]
