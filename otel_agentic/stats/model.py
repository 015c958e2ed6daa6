"""Inputs and results of estimators, and the tiers that are based on them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, runtime_checkable

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import StatsSettings

Tier = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row"]
#: The identity of a case: dataset and case id.
CaseKey = tuple[str, str]
TIERS: Final[tuple[Tier, ...]] = (
    "ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row",
)  # fmt: skip


#: A case, whether the attempt is correct and, where attempts are sampled, its weight.
Outcome = tuple[str | CaseKey, bool] | tuple[str | CaseKey, bool, float]


class CaseWeights(NamedTuple):
    """Sums over the attempts of a case; a weight is 1 / the probability that the attempt was sampled.

    Attributes:
        total: of the weights.
        correct: of the weights of the correct ones.
        squares: of the squared weights.
    """

    total: float
    correct: float
    squares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCount:
    """Attempts of one case: `n` evaluated, `c` of them correct. Equal case ids of two datasets are two cases.

    `dataset` is "" if the case has no dataset; `weights` is None if every attempt has the weight 1.
    """

    dataset: str = ""
    case_id: str
    n: int
    c: int
    weights: CaseWeights | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The evaluated attempts of a group, by case, sorted by dataset and case id.

    A conversation scored without a case (by a given label alone) is a case of its own.
    """

    cases: tuple[CaseCount, ...] = ()

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Attempts:
        """Return the counts of `(case, correct)` or `(case, correct, weight)`.

        A case is `(dataset, case_id)`, or a case id of no dataset. A weight is 1 / the probability that the attempt was
        sampled; without one it is 1.

        Raises:
            UsageError: a weight is not a number above 0; names the case.

        >>> Attempts.of([("b", True), ("a", False), ("b", False)]).cases[1]
        CaseCount(dataset='', case_id='b', n=2, c=1, weights=None)
        >>> [case.n for case in Attempts.of([(("old", "a"), True), (("new", "a"), True)]).cases]
        [1, 1]
        >>> Attempts.of([("a", True, 5.0), ("a", False)]).cases[0].weights
        CaseWeights(total=6.0, correct=5.0, squares=26.0)
        """
        n: Counter[CaseKey] = Counter()
        c: Counter[CaseKey] = Counter()
        weighted: dict[CaseKey, tuple[float, float, float]] = defaultdict(lambda: (0.0, 0.0, 0.0))
        for case, correct, *optional in outcomes:
            key = ("", case) if isinstance(case, str) else case
            n[key] += 1
            c[key] += correct
            weight = _checked(optional[0], key) if optional else 1.0
            total, right, squares = weighted[key]
            weighted[key] = (total + weight, right + weight * correct, squares + weight * weight)
        return cls(cases=tuple(case_count(key, n[key], c[key], CaseWeights(*weighted[key])) for key in sorted(n)))

    @property
    def n(self) -> int:
        """Evaluated attempts."""
        return sum(case.n for case in self.cases)

    @property
    def c(self) -> int:
        """Correct attempts."""
        return sum(case.c for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A point and its interval; all None if the estimator is undefined."""

    value: float | None
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def of(cls, known: tuple[float, float, float] | None) -> Estimate:
        """Return the estimate of (value, lower, upper), or the undefined one, which is never 0."""
        return cls(value=None) if known is None else cls(value=known[0], lower=known[1], upper=known[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """pass@k and pass^k by k, with how they were made.

    `cases_left_out`: k -> cases that had fewer than k attempts (per-case estimators only).
    """

    estimator: str
    interval_method: str
    level: float
    pass_at_k: Mapping[int, Estimate]
    pass_pow_k: Mapping[int, Estimate]
    cases_left_out: Mapping[int, int] = field(default_factory=dict)


@runtime_checkable
class Estimator(Protocol):
    """A way to estimate pass@k and pass^k (entry-point group `otel_agentic.estimators`)."""

    @property
    def name(self) -> str:
        """The plug-in name, as in the entry point and in reports; a plain class attribute will do."""
        ...

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> Estimator:
        """Return the estimator with level and prior of the settings."""
        ...

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; an undefined one has value None, never 0."""
        ...


def case_count(key: CaseKey, n: int, c: int, weights: CaseWeights) -> CaseCount:
    """Return the counts of a case; sums that come of weights of 1 alone are left out.

    >>> case_count(("", "a"), 3, 2, CaseWeights(3.0, 2.0, 3.0)).weights is None
    True
    """
    of_ones = (n, c, n)  # sum w = sum w^2 = n: no weight is apart from 1
    return CaseCount(dataset=key[0], case_id=key[1], n=n, c=c, weights=None if weights == of_ones else weights)


def _checked(weight: float, key: CaseKey) -> float:
    if not (isfinite(weight) and weight > 0):
        raise UsageError(f"weight {weight!r} of an attempt of case {key!r}: a weight is a number above 0, 1 / ratio")
    return weight
