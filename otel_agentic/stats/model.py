"""Attempts per case with their sampling weights, estimates from them, and both for many groups at once, as arrays.

Every estimate of a group depends only on how many of its cases have a certain number of attempts and of correct
attempts. A row of `GroupedAttempts` is such a *kind* of case with its multiplicity: conversations without a case need
two rows, whether there are ten or a thousand.

An attempt that was evaluated with probability 1/5 represents five. Rates are weighted accordingly, and an effective
number of attempts measures the precision of such a rate (see `cluster`). Weights matter only if they differ within a
group: if all are equal, every number is exactly the unweighted one.

Ref: Horvitz and Thompson 1952, "A generalization of sampling without replacement from a finite universe"; Kish 1965,
"Survey Sampling", section 11.7 (effective sample size of unequal weights).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config import StatsSettings

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

Tier = Literal["ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row"]
#: The identity of a case: dataset and case id.
CaseKey = tuple[str, str]
TIERS: Final[tuple[Tier, ...]] = (
    "ready", "needs_improvement", "inconsistent", "not_ready", "insufficient_evidence", "no_row",
)  # fmt: skip


#: A case, whether the attempt is correct and, where attempts are sampled, its weight.
Outcome = tuple[str | CaseKey, bool] | tuple[str | CaseKey, bool, float] | tuple[str | CaseKey, bool, float, int]


class CaseWeights(NamedTuple):
    """Sums over the attempts of a case; a weight is 1 / the probability that the attempt was sampled.

    Attributes:
        total: sum of the weights.
        correct: sum of the weights of the correct attempts.
        squares: sum of the squared weights.
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

    A conversation scored without a case (by a label alone) is a case of its own.
    """

    cases: tuple[CaseCount, ...] = ()

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Attempts:
        """Return the attempts of tuples `(case, correct[, weight[, number]])`, counted by case.

        A case is `(dataset, case_id)`, or a case id without a dataset. A weight is 1 / the probability that the attempt
        was sampled; without one it is 1. A tuple represents a number of equal attempts, 1 by default.

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
            number = int(optional[1]) if len(optional) > 1 else 1
            n[key] += number
            c[key] += number * correct
            weight = _checked_weight(optional[0], key) if optional else 1.0
            total, correct_weight, squares = weighted[key]
            weighted[key] = (
                total + number * weight,
                correct_weight + number * weight * correct,
                squares + number * weight * weight,
            )
        return cls(cases=tuple(case_count(key, n[key], c[key], CaseWeights(*weighted[key])) for key in sorted(n)))

    @property
    def n(self) -> int:
        """The number of evaluated attempts."""
        return sum(case.n for case in self.cases)

    @property
    def c(self) -> int:
        """The number of correct attempts."""
        return sum(case.c for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A point estimate and its interval; all None if the estimate is undefined."""

    value: float | None
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def of(cls, known: tuple[float, float, float] | None) -> Estimate:
        """Return the estimate (value, lower, upper), or for None the undefined estimate, which is never 0."""
        return cls(value=None) if known is None else cls(value=known[0], lower=known[1], upper=known[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """pass@k and pass^k by k, and the methods that computed them.

    `cases_left_out` counts, by k, the cases with fewer than k attempts (per-case estimators only).
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
        """The plug-in name, as in the entry point and in reports; a class attribute is sufficient."""
        ...

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> Estimator:
        """Return the estimator with the level and the prior of the settings."""
        ...

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; an undefined one has value None, never 0."""
        ...


def case_count(key: CaseKey, n: int, c: int, weights: CaseWeights) -> CaseCount:
    """Return the counts of a case; `weights` is None if all weights are 1.

    >>> case_count(("", "a"), 3, 2, CaseWeights(3.0, 2.0, 3.0)).weights is None
    True
    """
    unit_sums = (n, c, n)  # sum w = sum w^2 = n: all weights are 1
    return CaseCount(dataset=key[0], case_id=key[1], n=n, c=c, weights=None if weights == unit_sums else weights)


def _checked_weight(weight: float, key: CaseKey) -> float:
    if not (isfinite(weight) and weight > 0):
        raise UsageError(f"weight {weight!r} of an attempt of case {key!r}: a weight is a number above 0, 1 / ratio")
    return weight


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedAttempts:
    """The evaluated attempts of `size` groups: `cases` cases of group `group` have `n` attempts each, `c` correct.

    Attributes:
        size: number of groups; a group without a row has no attempts.
        group: (rows,) index of the group, ascending.
        n: (rows,) attempts per case, 1 or more.
        c: (rows,) correct attempts per case.
        cases: (rows,) number of cases of this kind.
        weights: (rows, 3) sums over the attempts of a case: weights, weights of the correct ones, squared weights. A
            weight is 1 / the probability that the attempt was sampled; None if all are 1.
    """

    size: int
    group: IntArray
    n: IntArray
    c: IntArray
    cases: IntArray
    weights: FloatArray | None = None

    @classmethod
    def of(cls, groups: Sequence[Attempts]) -> GroupedAttempts:
        """Return the counts of a sequence of groups.

        >>> from otel_agentic.stats.model import Attempts
        >>> grouped = GroupedAttempts.of([Attempts(), Attempts.of([("a", True), ("b", True), ("c", False)])])
        >>> grouped.group.tolist(), grouped.c.tolist(), grouped.cases.tolist()
        ([1, 1], [0, 1], [1, 2])
        """
        kinds = Counter(
            (index, case.n, case.c, *(case.weights or (case.n, case.c, case.n)))
            for index, group in enumerate(groups)
            for case in group.cases
        )
        rows = np.array([(*kind, kinds[kind]) for kind in sorted(kinds)], dtype=np.float64).reshape(-1, 7)
        group, n, c, cases = rows[:, [0, 1, 2, 6]].astype(np.int64).T
        weighted = any(case.weights for item in groups for case in item.cases)
        return cls(size=len(groups), group=group, n=n, c=c, cases=cases, weights=rows[:, 3:6] if weighted else None)

    def where(self, rows: BoolArray) -> GroupedAttempts:
        """Return the counts of the selected rows; the number of groups does not change.

        >>> grouped = GroupedAttempts.of([Attempts.of([("a", True), ("a", True), ("b", True)])])
        >>> grouped.where(grouped.n > 1).n.tolist()
        [2]
        """
        return GroupedAttempts(
            size=self.size,
            group=self.group[rows],
            n=self.n[rows],
            c=self.c[rows],
            cases=self.cases[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def total(self, values: npt.ArrayLike) -> FloatArray:
        """Return the sum of values per case over the cases of each group: (size, ...) from (rows, ...)."""
        columns = np.asarray(values, dtype=np.float64)
        if columns.ndim > 1:
            return np.stack([self.total(columns[:, index]) for index in range(columns.shape[1])], axis=1)
        summed = np.bincount(self.group, weights=columns * self.cases, minlength=self.size)
        return np.asarray(summed, dtype=np.float64)

    def attempts(self, group: int) -> Attempts:
        """Return the attempts of one group; its cases are named by numbers.

        >>> GroupedAttempts.of([Attempts.of([("a", True), ("b", True)])]).attempts(0).n
        2
        """
        start, end = np.searchsorted(self.group, [group, group + 1])
        weights = np.stack((self.n, self.c, self.n), axis=1) if self.weights is None else self.weights
        kinds = [row for row in range(start, end) for _ in range(self.cases[row])]
        return Attempts(
            cases=tuple(
                case_count(("", f"{index:09}"), int(self.n[row]), int(self.c[row]), CaseWeights(*weights[row].tolist()))
                for index, row in enumerate(kinds)
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedEstimates:
    """pass@k and pass^k of many groups by one estimator; NaN where they are undefined.

    Attributes:
        estimator: name of the estimator.
        level: level of the intervals.
        k: the k, ascending.
        interval_methods: interval method of each group.
        pass_at_k: (groups, len(k), 3) value, lower, upper.
        pass_pow_k: (groups, len(k), 3) the same.
        cases_left_out: (groups, len(k)) cases with fewer than k attempts; None if the estimator includes all cases.
    """

    estimator: str
    level: float
    k: tuple[int, ...]
    interval_methods: Sequence[str]
    pass_at_k: FloatArray
    pass_pow_k: FloatArray
    cases_left_out: IntArray | None = None

    @classmethod
    def stacked(cls, estimates: Sequence[Estimates], k: Sequence[int]) -> GroupedEstimates:
        """Return the combined estimates of single groups, of which there must be at least one.

        Args:
            estimates: estimates by one estimator, each for every k.
            k: the k, ascending.
        """
        left_out = [[result.cases_left_out.get(each_k, 0) for each_k in k] for result in estimates]
        return cls(
            estimator=estimates[0].estimator,
            level=estimates[0].level,
            k=tuple(k),
            interval_methods=[result.interval_method for result in estimates],
            pass_at_k=np.array([[_numbers(result.pass_at_k[each_k]) for each_k in k] for result in estimates]),
            pass_pow_k=np.array([[_numbers(result.pass_pow_k[each_k]) for each_k in k] for result in estimates]),
            cases_left_out=np.array(left_out) if any(result.cases_left_out for result in estimates) else None,
        )

    def of(self, group: int) -> Estimates:
        """Return the estimates of one group."""
        left_out = (
            {} if self.cases_left_out is None else dict(zip(self.k, self.cases_left_out[group].tolist(), strict=True))
        )
        return Estimates(
            estimator=self.estimator,
            interval_method=self.interval_methods[group],
            level=self.level,
            pass_at_k=_by_k(self.k, self.pass_at_k[group]),
            pass_pow_k=_by_k(self.k, self.pass_pow_k[group]),
            cases_left_out=left_out,
        )


@runtime_checkable
class GroupEstimator(Protocol):
    """An estimator that computes many groups at once; others are called group by group."""

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k, ascending."""
        ...


def estimate_groups(estimator: Estimator, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
    """Return the estimates of every group, computed at once if the estimator supports it, otherwise group by group.

    Args:
        estimator: any estimator.
        grouped: the counts of at least one group.
        k: the k, ascending.
    """
    if isinstance(estimator, GroupEstimator):
        return estimator.estimate_groups(grouped, k)
    return GroupedEstimates.stacked(
        [estimator.estimate(grouped.attempts(group), k) for group in range(grouped.size)], k
    )


def _numbers(estimate: Estimate) -> tuple[float, float, float]:
    return tuple(np.nan if number is None else number for number in (estimate.value, estimate.lower, estimate.upper))  # type: ignore[return-value]  # three values


def _by_k(k: Sequence[int], numbers: FloatArray) -> dict[int, Estimate]:
    return {
        each_k: Estimate(value=None) if np.isnan(row[0]) else Estimate(value=row[0], lower=row[1], upper=row[2])
        for each_k, row in zip(k, numbers.tolist(), strict=True)
    }


#: Weights with at most this relative variance are equal: they differ only by the rounding of their sums.
_EQUAL: Final = 1e-10


def row_weights(grouped: GroupedAttempts) -> FloatArray:
    """Return sums over the attempts of a case, by row: (rows, 3), weights, weights of correct ones, squared weights.

    In a group with equal weights each counts as 1, so the columns are n, c and n.

    >>> from otel_agentic.stats.model import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> equal, unequal = [("a", True, 5.0), ("b", False, 5.0)], [("a", True, 5.0), ("b", False, 1.0)]
    >>> row_weights(GroupedAttempts.of([Attempts.of(equal), Attempts.of(unequal)])).tolist()
    [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [5.0, 5.0, 25.0]]
    """
    plain = np.stack((grouped.n, grouped.c, grouped.n), axis=1).astype(np.float64)
    if grouped.weights is None:
        return plain
    return np.where(unequal_weights(grouped)[grouped.group, None], grouped.weights, plain)


def unequal_weights(grouped: GroupedAttempts) -> BoolArray:
    """Return whether the weights of the attempts of each group differ: (size,).

    They differ if their relative variance, `n sum w^2 / (sum w)^2 - 1`, is above 0; Kish's effective number of attempts
    is then smaller than their number.

    >>> from otel_agentic.stats.model import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> unequal_weights(GroupedAttempts.of([Attempts.of([("a", True, 1.0), ("b", True, 3.0)]), Attempts()])).tolist()
    [True, False]
    """
    if grouped.weights is None:
        return np.zeros(grouped.size, dtype=np.bool_)
    attempts, (total, _, squares) = grouped.total(grouped.n), grouped.total(grouped.weights).T
    return np.asarray(attempts * squares > (1.0 + _EQUAL) * total * total)


def correct_counts(grouped: GroupedAttempts) -> FloatArray:
    """Return the correct attempts per case, by row: c, or the weighted rate of the case times its attempts.

    >>> from otel_agentic.stats.model import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> correct_counts(GroupedAttempts.of([Attempts.of([("a", True, 3.0), ("a", False, 1.0)])])).tolist()
    [1.5]
    """
    total, correct, _ = row_weights(grouped).T
    return np.asarray(np.minimum(correct * (grouped.n / total), grouped.n))


def pooled_correct(grouped: GroupedAttempts) -> FloatArray:
    """Return the correct attempts of each group: their number, or the weighted rate times the attempts.

    >>> from otel_agentic.stats.model import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> pooled_correct(GroupedAttempts.of([Attempts.of([("a", True, 3.0), ("b", False, 1.0)]), Attempts()])).tolist()
    [1.5, 0.0]
    """
    total, correct, _ = grouped.total(row_weights(grouped)).T
    attempts = grouped.total(grouped.n)
    share = np.divide(attempts, total, out=np.zeros(grouped.size), where=total > 0)
    return np.asarray(np.minimum(correct * share, attempts))
