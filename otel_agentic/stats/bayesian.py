"""The Beta-binomial estimator, in closed form: no sampling, so the same counts always give the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from scipy.special import ndtr

from otel_agentic.stats.beta import beta_pass_at_mean, beta_pass_pow_mean, beta_quantiles
from otel_agentic.stats.cluster import methods, pooled_samples
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates
from otel_agentic.stats.interval import bounded, critical_values
from otel_agentic.stats.pass_k import all_of, any_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.cluster import Design, EffectiveSamples
    from otel_agentic.stats.model import Attempts, Estimates

    FloatArray = npt.NDArray[np.float64]

INTERVAL_METHODS: Final[dict[Design, str]] = {
    "independent": "beta_equal_tailed",
    "one_case": "beta_equal_tailed_one_case",
    "clustered": "beta_equal_tailed_effective_n",
}

#: A probability no larger is 0: of smaller ones scipy has no quantile, and with a degree or less an interval is all of [0, 1].
_NO_TAIL: Final = 1e-100


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesianEstimator:
    """Posterior means under a Beta prior, with equal-tailed intervals: transforms of the Beta quantiles.

    The mean is that of the counts and the prior, whatever the design. The interval assumes independent conversations;
    where a case has several attempts, it is that of a posterior with the effective attempts of `cluster`, read as far out as
    Student's t says: between the quantiles at the probabilities Phi(-t) and Phi(t), which are .025 and .975 for the normal
    quantile. Intervals are then about new cases like those seen.
    The mean is not a quantile: for a large k and few attempts the posterior of pass^k is so skewed that its mean lies
    above the interval, which is then stretched to hold it.

    Ref: Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 6, of which this is the exact form; Korn and
    Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts estimated from
    survey data" (effective sample size adjusted for degrees of freedom).

    >>> from otel_agentic.stats.model import Attempts
    >>> ten = Attempts.of((f"case {i}", i < 7) for i in range(10))
    >>> third = BayesianEstimator().estimate(ten, [3]).pass_at_k[3]
    >>> round(third.value, 4), round(third.lower, 4), round(third.upper, 4)
    (0.9451, 0.7733, 0.9987)
    """

    name: ClassVar[str] = "bayesian"
    level: float = 0.95
    prior: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> BayesianEstimator:
        """Return the estimator with the level and the prior of the settings."""
        return cls(level=settings.level, prior=settings.prior)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts: the prior alone is no finding."""
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN without attempts."""
        pass_at, pass_pow = self.of_samples(pooled_samples(grouped), k)
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=methods(grouped, INTERVAL_METHODS),
            pass_at_k=pass_at,
            pass_pow_k=pass_pow,
        )

    def of_samples(self, samples: EffectiveSamples, k: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k of pooled samples: (groups, len(k), 3) value, lower, upper."""
        a, b = self._posterior(samples.observed, samples.attempts)
        rates = self._rates(samples)
        ks = np.asarray(k)
        at_mean = beta_pass_at_mean(a[:, None], b[:, None], ks)
        pow_mean = beta_pass_pow_mean(a[:, None], b[:, None], ks)
        return (
            bounded(at_mean, any_of(rates[:, None, :], ks[:, None])),
            bounded(pow_mean, all_of(rates[:, None, :], ks[:, None])),
        )

    def _posterior(self, p: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a and b after n attempts at the rate p."""
        a, b = self.prior
        return a + p * n, b + (1.0 - p) * n

    def _rates(self, samples: EffectiveSamples) -> FloatArray:
        """Return the interval of the rate of each sample: (groups, 2)."""
        tail = ndtr(-critical_values(self.level, samples.degrees))
        beyond = np.where(tail < _NO_TAIL, 0.0, tail)
        return beta_quantiles(*self._posterior(samples.p, samples.n), beyond)
