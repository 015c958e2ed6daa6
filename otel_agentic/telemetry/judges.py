"""What judges cost, what the cache saved, and how far each agrees with people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from otel_agentic.judges.base import Verdict
from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import label
from otel_agentic.telemetry.metrics import counter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.metrics import CallbackOptions, Meter

    from otel_agentic.judges.base import JudgeFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far a judge agrees with people: Cohen's kappa of its newest calibration, None where it is undefined.

    `target` is what people judged: turns or conversations.
    """

    evaluator: str
    model: str | None
    target: str
    kappa: float | None


class JudgeMetrics:
    """Counts what judges are asked, on a meter. Thread-safe.

    A judge without a model, and a process that asks none, has no such series.
    """

    def __init__(self, meter: Meter) -> None:
        self._cost = counter(meter, names.JUDGE_COST)
        self._requests = counter(meter, names.JUDGE_CACHE_REQUESTS)
        self._agreement: tuple[Observation, ...] = ()
        gauge = names.JUDGE_AGREEMENT
        meter.create_observable_gauge(
            gauge.name, callbacks=[self._read], unit=gauge.unit, description=gauge.description
        )

    def record(self, answer: Verdict | JudgeFailure, evaluator: str) -> None:
        """Count the look-up of a verdict, and what it cost where a price is known; what was never asked is no look-up."""
        cached = isinstance(answer, Verdict) and answer.cached
        if not cached and not answer.tries:
            return
        attributes = _of(evaluator, answer.model)
        self._requests.add(1, {**attributes, names.RESULT: "hit" if cached else "miss"})
        if answer.cost_usd is not None and not cached:
            self._cost.add(max(answer.cost_usd, 0.0), attributes)

    def set_agreement(self, found: Iterable[Agreement]) -> None:
        """Replace all agreements; one that is undefined, or not given any more, has no point."""
        self._agreement = tuple(
            Observation(each.kappa, {**_of(each.evaluator, each.model), names.EVALUATION_TARGET: each.target})
            for each in found
            if each.kappa is not None
        )

    def _read(self, _options: CallbackOptions) -> Iterable[Observation]:
        return self._agreement


def _of(evaluator: str, model: str | None) -> dict[str, str]:
    attributes = {names.EVALUATOR: label(evaluator)}
    return attributes if model is None else {**attributes, names.GEN_AI_REQUEST_MODEL: label(model)}
