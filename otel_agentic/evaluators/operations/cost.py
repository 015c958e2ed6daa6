"""What a conversation costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.operations.names import COST
from otel_agentic.evaluators.operations.prices import cost_usd, price_of
from otel_agentic.evaluators.operations.use import named, tokens_lacking, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.config import EvaluatorSettings, Price
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.operations.use import ModelTotal


class Cost:
    """What a conversation costs."""

    name: str = "operations.cost"
    version: str = "2"
    metrics: tuple[Metric, ...] = metrics_of("operations.cost")
    needs: frozenset[Need] = frozenset({"turns", "usage", "prices"})
    default: bool = True

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Cost:
        """Return the evaluator with the prices of the settings."""
        return cls(settings.prices)

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the cost of a conversation."""
        totals = totals_of(subject.conversation)
        lacking = tokens_lacking(totals)
        if lacking is not None:
            return [MetricScore(name=COST, reason=lacking[0], explanation=lacking[1])]
        priced = [(total, price_of(total.model, self._prices)) for total in totals if _takes_tokens(total)]
        priceless = [named(total.model) for total, price in priced if price is None]
        if priceless:
            told = f"[evaluators.prices] has no price for {', '.join(priceless)}; add it by name or glob"
            return [MetricScore(name=COST, reason="price_not_set", explanation=told)]
        costs = {
            total.model or "": cost_usd(price, total.input_tokens, total.output_tokens)
            for total, price in priced
            if price is not None
        }
        return [
            MetricScore(name=COST, value=math.fsum(costs.values()), explanation=_told(costs), details={"usd": costs})
        ]


def _takes_tokens(total: ModelTotal) -> bool:
    return bool(total.input_tokens or total.output_tokens)


def _told(costs: Mapping[str, float]) -> str:
    if not costs:
        return "no call took any tokens"
    return ", ".join(f"{named(model or None)} {usd:.6f} USD" for model, usd in costs.items())
