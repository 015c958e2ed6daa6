"""An estimator: the rule of three."""

from collections.abc import Sequence

from otel_agentic.config import StatsSettings
from otel_agentic.stats import Attempts, Estimate, Estimates


class RuleOfThree:
    """If nothing failed, the failure rate is below 3 / n, at a level of 95 %."""

    name = "rule_of_three"

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> "RuleOfThree":
        return cls()

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        n = sum(case.n for case in attempts.cases)
        c = sum(case.c for case in attempts.cases)
        known = n > 3 and c == n
        rate = 1 - 3 / n if known else 0.0
        return Estimates(
            estimator=self.name,
            interval_method="rule_of_three",
            level=0.95,
            pass_at_k={size: Estimate.of((1.0, 1 - (1 - rate) ** size, 1.0) if known else None) for size in k},
            pass_pow_k={size: Estimate.of((1.0, rate**size, 1.0) if known else None) for size in k},
        )
