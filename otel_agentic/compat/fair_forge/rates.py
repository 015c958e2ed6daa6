"""pass@k and pass^k as Fair Forge computes them: plug-in, or from samples of a Beta posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

import numpy as np

from otel_agentic.compat.fair_forge.results import ConversationLevel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.compat.fair_forge.results import AgenticMetric

    FloatArray = npt.NDArray[np.float64]

ResultType = Literal["point_estimate", "distribution"]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return 1 - (1 - c/n)^k, 0 for c = 0 and 1 for c >= n.

    So no attempts at all give 0, and counts that cannot be give a number: where `stats` is undefined or refuses.

    >>> round(pass_at_k(3, 2, 3), 3), pass_at_k(0, 0, 3), pass_at_k(2, 3, 3)
    (0.963, 0.0, 1.0)
    """
    certain = _certain(n, c)
    return 1.0 - (1.0 - c / n) ** k if certain is None else certain


def pass_pow_k(n: int, c: int, k: int) -> float:
    """Return (c/n)^k, 0 for c = 0 and 1 for c >= n.

    >>> round(pass_pow_k(3, 2, 3), 3), pass_pow_k(0, 0, 3), pass_pow_k(3, 0, 0)
    (0.296, 0.0, 0.0)
    """
    certain = _certain(n, c)
    return float((c / n) ** k) if certain is None else certain


def _certain(n: int, c: int) -> float | None:
    if c == 0:
        return 0.0
    return 1.0 if c >= n else None


def conversation_level(results: Sequence[AgenticMetric], k: int) -> ConversationLevel:
    """Return pass@k and pass^k over conversations, which is what the paper defines and Fair Forge never reports."""
    n, c = len(results), sum(result.is_fully_correct for result in results)
    return ConversationLevel(n=n, c=c, pass_at_k=pass_at_k(n, c, k), pass_pow_k=pass_pow_k(n, c, k))


class RateSamples(TypedDict):
    """What a Bayesian mode says of a rate."""

    mean: float
    ci_low: float
    ci_high: float
    samples: FloatArray


class StatisticalMode(Protocol):
    """How a rate is estimated; Fair Forge's own modes fit too."""

    def rate_estimation(self, successes: int, trials: int) -> Any:
        """Return a number in [0, 1], or for a distribution a mapping with its `samples`."""
        ...

    def get_result_type(self) -> str:
        """Return `point_estimate` or `distribution`."""
        ...


class FrequentistMode:
    """Point estimates without bounds."""

    def rate_estimation(self, successes: int, trials: int) -> float:
        """Return the share of successes, 0 without trials."""
        return successes / trials if trials > 0 else 0.0

    def get_result_type(self) -> ResultType:
        """Return `point_estimate`."""
        return "point_estimate"


class BayesianMode:
    """Samples of the Beta posterior of a rate.

    The generator is made once and never reset: the same conversations give other numbers in a second run, or in another
    order. The closed form (`otel_agentic.stats.BetaPosterior`) has no such noise.
    """

    def __init__(  # noqa: PLR0917 — old calls may pass these by place
        self,
        mc_samples: int = 5000,
        ci_level: float = 0.95,
        dirichlet_prior: float = 1.0,
        beta_prior_a: float = 1.0,
        beta_prior_b: float = 1.0,
        rng_seed: int | None = 42,
    ) -> None:
        self.mc_samples = mc_samples
        self.ci_level = ci_level
        self.dirichlet_prior = dirichlet_prior
        self.beta_prior_a = beta_prior_a
        self.beta_prior_b = beta_prior_b
        self.rng = np.random.default_rng(rng_seed)

    def rate_estimation(self, successes: int, trials: int) -> RateSamples:
        """Return the posterior after the trials; zeros without trials."""
        if trials <= 0:
            return self._summary(np.zeros(self.mc_samples))
        a, b = self.beta_prior_a + successes, self.beta_prior_b + max(trials - successes, 0)
        return self._summary(self.rng.beta(a, b, size=self.mc_samples))

    def get_result_type(self) -> ResultType:
        """Return `distribution`."""
        return "distribution"

    def _summary(self, samples: FloatArray) -> RateSamples:
        if not samples.size:
            return {"mean": 0.0, "ci_low": 0.0, "ci_high": 0.0, "samples": samples}
        low, high = _bounds(samples, self.ci_level)
        return {"mean": float(samples.mean()), "ci_low": low, "ci_high": high, "samples": samples}


def rate_fields(mode: StatisticalMode, correct: int, total: int, k: int) -> dict[str, float]:
    """Return the `pass_*` fields of a conversation's result.

    >>> rate_fields(FrequentistMode(), 1, 2, 2)
    {'pass_at_k': 0.75, 'pass_pow_k': 0.25}
    """
    # Asked in either case: a Bayesian mode draws here, and what it draws next depends on it.
    rate = mode.rate_estimation(correct, total)
    if mode.get_result_type() == "point_estimate":
        return {"pass_at_k": pass_at_k(total, correct, k), "pass_pow_k": pass_pow_k(total, correct, k)}
    samples, level = rate["samples"], getattr(mode, "ci_level", 0.95)
    fields: dict[str, float] = {}
    for name, drawn in (("pass_at_k", 1.0 - (1.0 - samples) ** k), ("pass_pow_k", samples**k)):
        low, high = _bounds(drawn, level)
        fields |= {name: float(np.mean(drawn)), f"{name}_ci_low": low, f"{name}_ci_high": high}
    return fields


def _bounds(samples: FloatArray, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0
    return float(np.quantile(samples, tail)), float(np.quantile(samples, 1.0 - tail))
