"""The hierarchical model by scipy alone, a single group: slow, and nothing shared with the estimator but the formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import betabinom, f

from otel_agentic.stats import Attempts, CaseCount

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    Functional = Callable[[npt.ArrayLike, npt.ArrayLike], FloatArray]

LOWEST, HIGHEST = log(0.1), log(1e4)


def attempts_of(kinds: Mapping[tuple[int, int], int]) -> Attempts:
    """Return attempts of so many cases of each kind (attempts, correct)."""
    counts = [kind for kind, cases in kinds.items() for _ in range(cases)]
    return Attempts(cases=tuple(CaseCount(case_id=f"{i:05}", n=n, c=c) for i, (n, c) in enumerate(counts)))


@dataclass(frozen=True)
class Oracle:
    """The posterior of (mu, log kappa) on a fine grid, and its its bounds on ever finer ones."""

    kinds: Mapping[tuple[int, int], int]

    def log_posterior(self, mu: npt.ArrayLike, log_kappa: npt.ArrayLike) -> FloatArray:
        """Return likelihood times prior, up to a factor."""
        kappa = np.exp(log_kappa)
        likelihood = sum(
            cases * betabinom.logpmf(c, n, np.multiply(mu, kappa), np.multiply(np.subtract(1, mu), kappa))
            for (n, c), cases in self.kinds.items()
        )
        return np.asarray(likelihood - ((np.asarray(log_kappa) - log(2)) / 2) ** 2 / 2)

    @cached_property
    def grid(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mu, log kappa and the log-posterior at the middles of small rectangles."""
        mu = (np.arange(800) + 0.5) / 800
        log_kappa = LOWEST + (HIGHEST - LOWEST) * (np.arange(120) + 0.5) / 120
        mus, log_kappas = np.meshgrid(mu, log_kappa)
        return mus, log_kappas, self.log_posterior(mus, log_kappas)

    def mean(self, functional: Functional) -> float:
        """Return the posterior mean."""
        mu, log_kappa, height = self.grid
        weight = np.exp(height - height.max())
        return float((functional(mu, log_kappa) * weight).sum() / weight.sum())

    def bound(self, functional: Functional, level: float, sign: int) -> float:
        """Return the smallest (sign 1) or largest (-1) value within the profile likelihood region of a level."""
        top = -self._least(lambda mu, log_kappa: -self.log_posterior(mu, log_kappa))
        cases = sum(self.kinds.values())
        floor = top - float(f.ppf(level, 1, max(1, cases - 1))) / 2

        def within(mu: npt.ArrayLike, log_kappa: npt.ArrayLike) -> FloatArray:
            inside = self.log_posterior(mu, log_kappa) >= floor
            return np.where(inside, sign * functional(mu, log_kappa), np.inf)

        return sign * self._least(within)

    def _least(self, of: Functional) -> float:
        """Return the least value of a function: the grid, and ever finer ones around the best point so far."""
        mu, log_kappa, _ = self.grid
        steps = 1 / 800, (HIGHEST - LOWEST) / 120
        for _ in range(14):
            values = of(mu, log_kappa)
            best = np.unravel_index(values.argmin(), values.shape)
            near = np.clip(mu[best] + steps[0] * np.linspace(-10, 10, 41), 1e-12, 1 - 1e-12)
            mu, log_kappa = np.meshgrid(
                near, np.clip(log_kappa[best] + steps[1] * np.linspace(-10, 10, 41), LOWEST, HIGHEST)
            )
            steps = steps[0] / 2, steps[1] / 2
        return float(of(mu, log_kappa).min())


def pass_pow(k: int) -> Functional:
    """Return E[p^k] as a product of k ratios: Polya's urn, one draw after the other."""

    def functional(mu: npt.ArrayLike, log_kappa: npt.ArrayLike) -> FloatArray:
        kappa = np.exp(log_kappa)
        return np.asarray(np.prod([(np.multiply(mu, kappa) + i) / (kappa + i) for i in range(k)], axis=0))

    return functional


def pass_at(k: int) -> Functional:
    """Return 1 - E[(1 - p)^k]."""

    def functional(mu: npt.ArrayLike, log_kappa: npt.ArrayLike) -> FloatArray:
        return np.asarray(1 - pass_pow(k)(np.subtract(1, mu), log_kappa))

    return functional
