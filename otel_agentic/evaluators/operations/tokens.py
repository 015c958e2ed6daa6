"""How many tokens a conversation takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.operations.names import GENAI, INPUT_TOKENS, OUTPUT_TOKENS, TOKENS
from otel_agentic.evaluators.operations.use import tokens_lacking, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import Need, Subject

_LIMITS: Final = (
    "As the spans of model calls tell them: whether tokens read from a cache are among them differs by provider. No data where "
    "one call that did not fail tells none: a part of a sum is not shown as the sum. Sums on spans of agents are not used."
)

_METRICS: Final = (
    Metric(
        name=INPUT_TOKENS,
        title="input tokens",
        definition="Tokens sent to models in a conversation, over all its model calls, those of sub-agents included.",
        source=GENAI,
        target="conversation",
        limits=_LIMITS,
        high=None,
        unit=TOKENS,
        higher_is_better=False,
    ),
    Metric(
        name=OUTPUT_TOKENS,
        title="output tokens",
        definition="Tokens that models answered in a conversation, over all its model calls, those of sub-agents included.",
        source=GENAI,
        target="conversation",
        limits=_LIMITS,
        high=None,
        unit=TOKENS,
        higher_is_better=False,
    ),
)


class Tokens:
    """How many tokens a conversation takes."""

    name: str = "operations.tokens"
    version: str = "2"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns", "usage"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Tokens:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation."""
        totals = totals_of(subject.conversation)
        lacking = tokens_lacking(totals)
        if lacking is not None:
            reason, told = lacking
            return [MetricScore(name=metric.name, reason=reason, explanation=told) for metric in _METRICS]
        calls = sum(total.calls for total in totals)
        sums = (sum(total.input_tokens for total in totals), sum(total.output_tokens for total in totals))
        return [
            MetricScore(name=name, value=float(count), explanation=f"{count:,} tokens in {calls} calls of models")
            for name, count in zip((INPUT_TOKENS, OUTPUT_TOKENS), sums, strict=True)
        ]
