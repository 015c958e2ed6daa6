"""How many tokens a conversation takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.operations.names import INPUT_TOKENS, OUTPUT_TOKENS
from otel_agentic.evaluators.operations.use import tokens_lacking, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.evaluators.base import Need, Subject


class Tokens(WithoutSettings):
    """How many tokens a conversation takes."""

    name: str = "operations.tokens"
    version: str = "2"
    metrics: tuple[Metric, ...] = metrics_of("operations.tokens")
    needs: frozenset[Need] = frozenset({"turns", "usage"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation."""
        totals = totals_of(subject.conversation)
        lacking = tokens_lacking(totals)
        if lacking is not None:
            reason, told = lacking
            return [MetricScore(name=metric.name, reason=reason, explanation=told) for metric in self.metrics]
        calls = sum(total.calls for total in totals)
        sums = (sum(total.input_tokens for total in totals), sum(total.output_tokens for total in totals))
        return [
            MetricScore(name=name, value=float(count), explanation=f"{count:,} tokens in {calls} calls of models")
            for name, count in zip((INPUT_TOKENS, OUTPUT_TOKENS), sums, strict=True)
        ]
