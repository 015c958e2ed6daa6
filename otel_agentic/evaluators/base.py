"""The plug-in point `Evaluator`: metrics of conversations, turns and calls.

An evaluator names its metrics, declares what data it needs, and returns scores. Where it cannot compute one it abstains, with a
reason: missing data is never scored as 0, and a failure of the judge is never counted against the agent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from otel_agentic.judges.base import JudgeFailure, Question, Verdict

if TYPE_CHECKING:
    from otel_agentic.config import EvaluatorSettings, ScoringSettings, Severity
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.model import ConversationScore, NotEvaluatedReason, Outcome
    from otel_agentic.truth.model import Case

#: The name of the evaluator of outcomes, answers, tool dimensions and calls at fault.
CORE: Final = "core"
#: What a score is a score of.
Target = Literal["conversation", "turn", "call", "group"]
#: Data that an evaluator may need. Without `case` and what follows it of the annotation, `no_data` or `unmatched`; without
#: what the instrumentation did not record, a reason that names it, such as `content_not_captured` or `tokens_not_recorded`.
Need = Literal[
    "turns",
    "queries",
    "answers",
    "calls",
    "arguments",
    "results",
    "definitions",
    "plan",
    "usage",
    "prices",
    "state",
    "case",
    "expected_tools",
    "expected_answer",
    "expected_state",
    "expected_plan",
    "goal",
    "minimum_steps",
    "reference_topics",
    "score",
    "judge",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of an evaluator, as described on the reference page.

    `name` is the name of its scores everywhere (`agentic.<family>.<metric>` for built-in ones); on the command line the
    leading parts may be omitted. `low` and `high` bound its values (None: no bound), in `unit` (UCUM; `1` is
    dimensionless). `higher_is_better` is None if neither direction is better. A metric with `labels` has one of them as
    its label; `failing` are the labels that count as failures, each of severity `severity` unless `severities` sets
    another. `threshold` is the smallest good value (the largest, if lower is better) unless the settings override it,
    None if no value is a failure by itself. `needs` are the needs of this metric beyond its evaluator's, listed on the
    reference page: the evaluator itself abstains if they are missing.
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

    `score` holds outcomes, faults and turn scores under the current evaluation. `aligned` is turn index -> index of the
    case turn. `settings` are those of scoring: effects of tools, thresholds.
    """

    conversation: Conversation
    case: Case | None
    score: ConversationScore | None
    aligned: Mapping[int, int]
    settings: ScoringSettings


@runtime_checkable
class Evaluator(Protocol):
    """An evaluator (entry-point group `otel_agentic.evaluators`) that computes.

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
        """Return the evaluator as the settings want it.

        Raises:
            ConfigError: the settings hold something that it cannot work with.
        """
        ...

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the scores of a conversation, those of its own metrics and no others."""
        ...


#: An evaluation that asks: it yields questions, is sent one answer each, in their order, and returns its scores.
JudgeDialogue: TypeAlias = Generator[Sequence[Question], Sequence[Verdict | JudgeFailure], Sequence[MetricScore]]


@runtime_checkable
class AskingEvaluator(Protocol):
    """An evaluator that asks a judge; see `Evaluator` for what the two share. Its `needs` hold `judge`, `default` is False.

    `rubrics` are all the prompts that it may use: their text is part of its version.
    """

    name: str
    version: str
    metrics: tuple[Metric, ...]
    needs: frozenset[Need]
    default: bool
    rubrics: tuple[Rubric, ...]

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> AskingEvaluator:
        """Return the evaluator as the settings want it.

        Raises:
            ConfigError: the settings hold something that it cannot work with.
        """
        ...

    def ask(self, subject: Subject) -> JudgeDialogue:
        """Yield the questions about a conversation, all that can be asked at once together, and return its scores."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One conversation of a group: its outcome (None: it has no score) and its scores by name of the metric."""

    outcome: Outcome | None
    scores: Mapping[str, Sequence[MetricScore]]


@runtime_checkable
class GroupEvaluator(Protocol):
    """An evaluator of many conversations at once; it looks at the scores of other evaluators, named in `reads`.

    Its scores are made when they are asked for, in reports and gates, and not stored.
    """

    name: str
    version: str
    metrics: tuple[Metric, ...]
    reads: tuple[str, ...]
    default: bool

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> GroupEvaluator:
        """Return the evaluator as the settings want it.

        Raises:
            ConfigError: the settings hold something that it cannot work with.
        """
        ...

    def evaluate_group(self, members: Sequence[Member]) -> Iterable[MetricScore]:
        """Return the scores of a group of conversations."""
        ...


AnyEvaluator: TypeAlias = Evaluator | AskingEvaluator | GroupEvaluator


class WithoutSettings:
    """Base class of evaluators that take nothing from the settings."""

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Self:
        """Return the evaluator."""
        del settings
        return cls()


#: Things named in a sentence before the rest is counted.
_LISTED: Final = 5


def listed(names_or_counts: Mapping[str, int] | Sequence[str]) -> str:
    """Return some names as part of a sentence; of a mapping, each with how often.

    >>> listed({"book": 1, "pay": 2}), listed(["a", "b", "c", "d", "e", "f", "g"])
    ('book, pay (2 times)', 'a, b, c, d, e and 2 more')
    """
    if isinstance(names_or_counts, Mapping):
        names_or_counts = [name if times == 1 else f"{name} ({times} times)" for name, times in names_or_counts.items()]
    names = list(names_or_counts)
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def none_of(name: str, reason: NotEvaluatedReason, explanation: str) -> MetricScore:
    """Return the abstention of a metric."""
    return MetricScore(name=name, reason=reason, explanation=explanation)


def none_of_all(metrics: Iterable[Metric], reason: NotEvaluatedReason, explanation: str) -> list[MetricScore]:
    """Return the abstentions of several metrics."""
    return [none_of(metric.name, reason, explanation) for metric in metrics]
