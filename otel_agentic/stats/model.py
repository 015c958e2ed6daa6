"""What estimators take and give, and the tiers that rest on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import StatsSettings

Tier = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence"]
#: What tells cases apart: dataset and case id.
CaseKey = tuple[str, str]
TIERS: Final[tuple[Tier, ...]] = ("ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCount:
    """Attempts of one case: `n` evaluated, `c` of them correct. Equal case ids of two datasets are two cases.

    `dataset` is "" where the case is of none.
    """

    dataset: str = ""
    case_id: str
    n: int
    c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The evaluated attempts of a group, by case, sorted by dataset and case id.

    A conversation scored without a case (by a given label alone) is a case of its own.
    """

    cases: tuple[CaseCount, ...] = ()

    @classmethod
    def of(cls, outcomes: Iterable[tuple[str | CaseKey, bool]]) -> Attempts:
        """Return the counts of `(case, correct)` pairs; a case is `(dataset, case_id)`, or a case id of no dataset.

        >>> Attempts.of([("b", True), ("a", False), ("b", False)]).cases[1]
        CaseCount(dataset='', case_id='b', n=2, c=1)
        >>> [case.n for case in Attempts.of([(("old", "a"), True), (("new", "a"), True)]).cases]
        [1, 1]
        """
        n: Counter[CaseKey] = Counter()
        c: Counter[CaseKey] = Counter()
        for case, correct in outcomes:
            key = ("", case) if isinstance(case, str) else case
            n[key] += 1
            c[key] += correct
        return cls(
            cases=tuple(CaseCount(dataset=key[0], case_id=key[1], n=n[key], c=c[key]) for key in sorted(n)),
        )

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
    """A point and its interval; all None where the estimator is undefined."""

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
