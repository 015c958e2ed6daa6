"""Evidence that a pass rate is below its objective, valid at every look: e-processes and a Shiryaev-Roberts change detector.

A one-sided e-process measures the evidence that a pass rate is below its promised value. The e-value is the wealth of a
bettor who starts with 1 and bets, conversation by conversation, that the rate is below `p0`. As long as every
conversation passes with probability `p0` or more, independent of those before it, no betting system wins: the
probability that the e-value ever reaches 1/alpha is at most alpha, for any number of looks.

Ref: Ville (1939), Étude critique de la notion de collectif (the inequality); Robbins (1970), Ann. Math. Statist. 41(5)
(mixtures of likelihood ratios); Ramdas, Grünwald, Vovk and Shafer (2023), Statist. Sci. 38(4), arXiv:2210.01948.

A Shiryaev-Roberts e-detector detects that the pass rate has fallen below its promised value after it was good before.
The evidence of an e-process from the beginning decreases while an agent performs well, and a later fall must compensate
for that first. A change detector sums the evidence over every possible start, so a long good period costs nothing. In
return, its guarantee is weaker: the probability of a false alarm is not bounded, but false alarms are at least
`target_run_length` conversations apart on average, as long as every conversation passes with probability `p0` or more.

Ref: Shiryaev (1963), Theory Probab. Appl. 8(1); Roberts (1966), Technometrics 8(3); Pollak (1985), Ann. Statist. 13(1)
(the sum minus n is a martingale, which gives the run length); Shin, Ramdas and Rinaldo (2024), E-detectors, New England
J. Statist. Data Sci., doi:10.51387/23-NEJSDS51, arXiv:2203.03532 (under composite hypotheses).

Similar consecutive conversations can be combined into blocks with one outcome in [0, 1] each, on which the bets are
placed. Outages, and users with several conversations in a row, make neighbouring conversations similar. Then "each
conversation passes with p0 or more, independent of those before it" is false even for an agent that meets its
objective, and an e-process that counts each conversation raises false alarms. For blocks the assumption may hold: the
expected mean outcome of a block is p0 or more, independent of the blocks before it.

A bet on the rate p1 < p0 multiplies its stake by m p1/p0 + (1-m) (1-p1)/(1-p0) at a block of mean m. Its expectation is
at most 1, and for blocks of one conversation it is the likelihood ratio.

Ref: Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting, J. R. Statist. Soc. B 86(1),
arXiv:2010.09686.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: (a, b) of the Beta on [0, p0] over which the bets are spread: the fastest of the tested priors over 13 pairs of
#: promised and true rates; see docs/monitoring.md.
PRIOR: Final = (3.0, 0.5)
#: Bounds of an e-value that is reported as a number; beyond them its logarithm is reported.
LEAST, LARGEST = 1e-300, 1e300
#: Below this value the regularised incomplete beta is close to underflow, and a continued fraction is used instead.
_SMALL: Final = 1e-250
_MAX_TERMS: Final = 10_000
_CONVERGED: Final = 1e-15


def promised_rate(k: int, target: float) -> float:
    """Return the pass rate below which pass^k is below the target: target ** (1 / k).

    >>> round(promised_rate(3, 0.7), 4)
    0.8879
    """
    return float(target ** (1.0 / k))


def log_e_value(
    n: npt.ArrayLike, c: npt.ArrayLike, p0: npt.ArrayLike, prior: tuple[float, float] = PRIOR
) -> FloatArray:
    """Return the natural logarithm of the e-value against "p >= p0" after n conversations of which c are correct.

    e = B(a+c, b+n-c)/B(a,b) * I_p0(a+c, b+n-c)/I_p0(a,b) / (p0^c (1-p0)^(n-c)): the likelihood averaged over a
    Beta(a, b) truncated to [0, p0], divided by the likelihood at p0. Arguments broadcast.

    Raises:
        UsageError: c is not within 0..n, p0 not between 0 and 1, or a prior parameter not above 0.

    Ref: Robbins (1970); the truncation makes it one-sided.

    >>> log_e_value(0, 0, 0.9).item(), round(float(np.exp(log_e_value(10, 5, 0.9))), 1)
    (0.0, 54.9)
    """
    n, c, p0 = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (n, c, p0)))
    _require_counts(n, c, p0, prior)
    a, b = prior
    with np.errstate(divide="ignore"):
        share = scipy.special.betainc(a + c, b + n - c, p0)
        log_e = np.asarray(
            scipy.special.betaln(a + c, b + n - c) + np.log(share) - c * np.log(p0) - (n - c) * np.log1p(-p0)
        )
    small = share < _SMALL
    if small.any():
        # Powers of p0 and 1-p0 are cancelled in advance, so that the remainder neither underflows nor overflows.
        powers = a * np.log(p0[small]) + b * np.log1p(-p0[small])
        log_e[small] = powers + _log_tail(a + c[small], b + n[small] - c[small], p0[small])
    return np.asarray(
        np.where(n == 0, 0.0, log_e - scipy.special.betaln(a, b) - np.log(scipy.special.betainc(a, b, p0))),
        dtype=np.float64,
    )


def log_e_path(outcomes: npt.ArrayLike, p0: npt.ArrayLike, prior: tuple[float, float] = PRIOR) -> FloatArray:
    """Return the log e-value after each conversation.

    Args:
        outcomes: (..., looks) true where correct, in event order; any number of streams at once.
        p0: the promised rate, or one per stream with a last axis of 1.
        prior: prior of the bets.

    Returns:
        The same shape as the outcomes.

    >>> np.round(np.exp(log_e_path([True, False, False], 0.9)), 2).tolist()
    [0.8, 1.97, 6.24]
    """
    correct = np.cumsum(np.asarray(outcomes, dtype=np.bool_), axis=-1)
    return log_e_value(np.arange(1, correct.shape[-1] + 1), correct, p0, prior)


def first_alarm(log_e: npt.ArrayLike, alpha: float) -> IntArray:
    """Return how many conversations the first alarm took in each stream, 0 without an alarm.

    Args:
        log_e: (..., looks) log e-values.
        alpha: the alarm is at e >= 1 / alpha.

    >>> first_alarm(log_e_path([[False] * 3, [True] * 3], 0.9), 0.05).tolist()
    [3, 0]
    """
    reached = np.asarray(log_e, dtype=np.float64) >= -math.log(alpha)
    if not reached.shape[-1]:
        return np.zeros(reached.shape[:-1], dtype=np.int64)
    return np.asarray(np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1, 0), dtype=np.int64)


def e_value(log_e: float) -> float:
    """Return the e-value as a number that every reader can represent: within 1e-300 and 1e300.

    >>> e_value(0.0), e_value(5_000.0)
    (1.0, 1e+300)
    """
    return min(max(math.exp(min(log_e, 700.0)), LEAST), LARGEST)


def _log_tail(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """Return log of (integral of t^(a-1) (1-t)^(b-1) over [0, x]) / (x^a (1-x)^b), for x well below a / (a + b).

    By Lentz's method. Ref: DLMF 8.17.22, https://dlmf.nist.gov/8.17.E22.
    """
    tiny = 1e-290
    fraction = np.ones_like(x)
    front, back = np.ones_like(x), np.zeros_like(x)
    for term in range(1, _MAX_TERMS):
        m, odd = divmod(term, 2)
        top = -(a + m) * (a + b + m) if odd else m * (b - m)
        coefficient = top * x / ((a + term - 1) * (a + term))
        back = 1.0 / _away_from_zero(1.0 + coefficient * back, tiny)
        front = _away_from_zero(1.0 + coefficient / front, tiny)
        fraction *= front * back
        if np.all(np.abs(front * back - 1.0) < _CONVERGED):
            break
    return np.asarray(-np.log(a * fraction), dtype=np.float64)


def _away_from_zero(values: FloatArray, tiny: float) -> FloatArray:
    return np.where(np.abs(values) < tiny, tiny, values)


def _require_counts(n: FloatArray, c: FloatArray, p0: FloatArray, prior: tuple[float, float]) -> None:
    if not np.all((c >= 0) & (c <= n)):
        raise UsageError("correct conversations must be between 0 and the number of conversations")
    if not np.all((p0 > 0) & (p0 < 1)):
        raise UsageError("the promised rate p0 must be above 0 and below 1")
    if min(prior) <= 0:
        raise UsageError(f"prior Beta{prior}: both parameters must be above 0")


#: A sum that is updated by differences is recomputed after this many updates, when it falls below this fraction of its
#: largest value, or when it exceeds this value.
_RECOMPUTE_AFTER: Final = 1_000
_MIN_FRACTION, _MAX_SUM = 1e-3, 1e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The e-process of one stream so far, which can be continued. Cases may have bets of their own.

    With several cases, the e-value is the mean of their e-processes, in which a case that joins late starts with the
    current e-value as its stake. The wealth is thus redistributed at each arrival, and the process remains a betting
    game; in a plain mean, each new case would bring a stake of 1 and compensate for lost bets at no cost.

    Attributes:
        n: (cases,) conversations of each case.
        c: (cases,) correct conversations of each case.
        log_stake: (cases,) log of the e-value when the case joined.
        log_e: log of the current e-value.
        log_largest: log of the largest e-value so far.
    """

    n: IntArray
    c: IntArray
    log_stake: FloatArray
    log_e: float = 0.0
    log_largest: float = 0.0

    @classmethod
    def none(cls) -> Evidence:
        """Return the evidence of an empty stream: an e-value of 1.

        >>> Evidence.none().log_e
        0.0
        """
        return cls(n=np.zeros(0, np.int64), c=np.zeros(0, np.int64), log_stake=np.zeros(0))

    def then(
        self, cases: npt.ArrayLike, outcomes: npt.ArrayLike, p0: float, prior: tuple[float, float] = PRIOR
    ) -> tuple[Evidence, FloatArray]:
        """Return the evidence after more conversations, and the log e-value after each of them.

        Args:
            cases: (looks,) case of each conversation, numbered from 0 in the order in which they join; all 0 makes
                one pooled e-process.
            outcomes: (looks,) true where correct, in event order.
            p0: the promised rate.
            prior: prior of the bets.

        >>> np.round(Evidence.none().then([0, 0], [True, False], 0.9)[1], 2).tolist()
        [-0.23, 0.68]
        >>> after, _ = Evidence.none().then([0, 1, 0, 1], [True, False, True, False], 0.9)
        >>> after.n.tolist(), round(float(np.exp(after.log_e)), 2)
        ([2, 2], 4.51)
        """
        case = np.asarray(cases, dtype=np.int64)
        correct = np.asarray(outcomes, dtype=np.bool_)
        size = max(self.n.size, int(case.max(initial=-1)) + 1)
        n, c = _padded(self.n, size), _padded(self.c, size)
        log_each = log_e_value(
            n[case] + _running(case, np.ones_like(case)), c[case] + _running(case, correct), p0, prior
        )
        log_stake, path = _combined(self, size, case, log_each, log_e_value(n, c, p0, prior))
        n += np.bincount(case, minlength=size)
        c += np.bincount(case, weights=correct, minlength=size).astype(np.int64)
        log_e = float(path[-1]) if path.size else self.log_e
        largest = max(self.log_largest, float(path.max(initial=-math.inf)))
        return Evidence(n=n, c=c, log_stake=log_stake, log_e=log_e, log_largest=largest), path


def _combined(
    before: Evidence, size: int, case: IntArray, log_each: FloatArray, log_now: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the stakes of all cases, and the log of the mean over the cases after each conversation.

    Args:
        before: the evidence before these conversations.
        size: number of cases afterwards.
        case: (looks,) case of each conversation.
        log_each: (looks,) log e-value of that case after the conversation.
        log_now: (size,) log e-value of each case before these conversations.
    """
    if size <= 1:
        return np.zeros(size), log_each
    log_stake = np.zeros(size)
    log_stake[: before.n.size] = before.log_stake
    wealth = _Wealth((before.log_stake + log_now[: before.n.size]).tolist())
    stakes, joined, log_e = log_stake.tolist(), before.n.size, before.log_e
    path = []
    for row, log_of_case in zip(case.tolist(), log_each.tolist(), strict=True):
        if row >= joined:
            stakes[row], joined = log_e, row + 1
        log_e = wealth.store(row, stakes[row] + log_of_case)
        path.append(log_e)
    return np.array(stakes), np.array(path, dtype=np.float64)


class _Wealth:
    """The wealth of each case, as logarithms; the log of their mean is updated in constant time."""

    def __init__(self, logs: list[float]) -> None:
        self._logs = logs
        self._shares: list[float] = []
        self._top = self._total = self._largest = 0.0
        self._steps = 0
        if logs:
            self._recompute()

    def store(self, position: int, log: float) -> float:
        """Set the log wealth of a case, or of a new case at the next position; return the log of the mean."""
        if position == len(self._logs):
            self._logs.append(log)
            self._recompute()
        else:
            self._logs[position] = log
            share = math.exp(min(log - self._top, 700.0))
            self._total += share - self._shares[position]
            self._shares[position] = share
            self._largest = max(self._largest, self._total)
            self._steps += 1
            if self._steps >= _RECOMPUTE_AFTER or not self._largest * _MIN_FRACTION < self._total < _MAX_SUM:
                self._recompute()
        return self._top + math.log(self._total / len(self._logs))

    def _recompute(self) -> None:
        """Recompute the sum from the logarithms, so that rounding errors do not accumulate."""
        self._top = max(self._logs)
        self._shares = [math.exp(log - self._top) for log in self._logs]
        self._total = self._largest = math.fsum(self._shares)
        self._steps = 0


def _running(groups: IntArray, values: npt.ArrayLike) -> IntArray:
    """Return the running sum within the group of each row, including the row."""
    order = np.argsort(groups, kind="stable")
    total = np.cumsum(np.asarray(values, dtype=np.int64)[order])
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    before = np.concatenate(([0], total))[first]
    running = np.empty_like(total)
    running[order] = total - np.repeat(before, np.diff(first, append=groups.size))
    return running


def _padded(counts: IntArray, size: int) -> IntArray:
    return np.concatenate((counts, np.zeros(size - counts.size, np.int64)))


_NODES: Final = 16
#: Maximum number of conversations processed at once, and of the exponent of their likelihood ratios' product.
_PORTION, _EXPONENT = 256, 300.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeDetector:
    """The parameters of a change detector.

    Attributes:
        target_run_length: minimum mean number of conversations between false alarms; also the value at which it alarms.
        rates: (rates,) pass rates after the change that it bets on, all below the promised one.
        weights: (rates,) share of each rate, with the sum 1.
        log_pass: (rates,) log likelihood ratio of a correct conversation.
        log_fail: (rates,) log likelihood ratio of a failed conversation.

    A block of conversations is passed as its mean instead of an outcome (see above). Run lengths are then in blocks.
    """

    target_run_length: float
    rates: FloatArray
    weights: FloatArray
    log_pass: FloatArray
    log_fail: FloatArray

    @classmethod
    def of(cls, p0: float, target_run_length: float, prior: tuple[float, float] = PRIOR) -> ChangeDetector:
        """Return the detector of a fall below p0.

        Args:
            p0: the promised rate.
            target_run_length: minimum mean number of conversations between false alarms; 1 or more.
            prior: (a, b) of the Beta on [0, p0] over which the bets are spread, at the nodes of a Gauss quadrature.

        Raises:
            UsageError: p0 is not between 0 and 1, or the run length is below 1.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> bool(detector.rates.max() < 0.9), round(float(detector.weights.sum()), 9)
        (True, 1.0)
        """
        if not (0 < p0 < 1 and target_run_length >= 1):
            raise UsageError("the promised rate p0 must be above 0 and below 1, and target_run_length 1 or more")
        nodes, weights = scipy.special.roots_jacobi(_NODES, 0.0, prior[0] - 1.0)
        rates = p0 * (nodes + 1.0) / 2.0
        weights = weights * (1.0 - rates) ** (prior[1] - 1.0)
        return cls(
            target_run_length=target_run_length,
            rates=rates,
            weights=weights / weights.sum(),
            log_pass=np.log(rates / p0),
            log_fail=np.log1p(-rates) - np.log1p(-p0),
        )

    def start(self) -> FloatArray:
        """Return the values, (rates,), before the first conversation.

        >>> float(ChangeDetector.of(0.9, 1000).start().sum())
        0.0
        """
        return np.zeros_like(self.rates)

    def value(self, values: FloatArray) -> FloatArray:
        """Return the detector's value from the values of its rates, the last axis.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> float(detector.value(detector.start()))
        0.0
        """
        return np.asarray(values @ self.weights)

    def step(self, values: FloatArray, outcomes: npt.ArrayLike) -> FloatArray:
        """Return the values after one more conversation of each stream: R = (1 + R) * likelihood ratio.

        Args:
            values: (..., rates) values before.
            outcomes: (...) true where correct.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> round(float(detector.value(detector.step(detector.start(), False))), 2)
        2.81
        """
        correct = np.asarray(outcomes, dtype=np.bool_)[..., np.newaxis]
        return np.asarray((1.0 + values) * np.exp(np.where(correct, self.log_pass, self.log_fail)))

    def watch(self, values: FloatArray, outcomes: npt.ArrayLike) -> tuple[FloatArray, list[int]]:
        """Return the values after a stretch of one stream, and the positions of its alarms; each alarm restarts the detector.

        Args:
            values: (rates,) values before.
            outcomes: (looks,) true where correct, in event order; or means of blocks.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> detector.watch(detector.start(), [True] * 50 + [False] * 20)[1]
        [54, 59, 64, 69]
        """
        correct = np.asarray(outcomes, dtype=np.float64)
        steepest = float(max(-self.log_pass.min(), self.log_fail.max()))
        portion = max(1, min(_PORTION, int(_EXPONENT / steepest)))
        alarms: list[int] = []
        position = 0
        while position < correct.size:
            path = self._portion(values, correct[position : position + portion])
            reached = np.flatnonzero(self.value(path) >= self.target_run_length)
            if reached.size:
                alarms.append(position + int(reached[0]))
                position, values = alarms[-1] + 1, self.start()
            else:
                position, values = position + len(path), path[-1]
        return values, alarms

    def run_lengths(self, outcomes: npt.ArrayLike) -> IntArray:
        """Return how many conversations the first alarm took in each of many streams, 0 without an alarm.

        Args:
            outcomes: (streams, looks) true where correct.

        >>> ChangeDetector.of(0.9, 1000).run_lengths([[False] * 9, [True] * 9]).tolist()
        [5, 0]
        """
        correct = np.asarray(outcomes, dtype=np.bool_)
        lengths = np.zeros(len(correct), dtype=np.int64)
        active = np.arange(len(correct))
        values = np.zeros((len(correct), self.rates.size))
        for look in range(correct.shape[1]):
            values = self.step(values, correct[active, look])
            reached = self.value(values) >= self.target_run_length
            lengths[active[reached]] = look + 1
            active, values = active[~reached], values[~reached]
        return lengths

    def _portion(self, values: FloatArray, correct: FloatArray) -> FloatArray:
        """Return the values after each conversation: R = L * (R at first + sum of 1 / earlier L), L the product."""
        means = correct[:, np.newaxis]
        ratios = np.log(means * np.exp(self.log_pass) + (1.0 - means) * np.exp(self.log_fail))
        log_product = np.cumsum(ratios, axis=0)
        earlier = np.exp(-np.concatenate((np.zeros((1, self.rates.size)), log_product[:-1])))
        return np.asarray(np.exp(log_product) * (values + np.cumsum(earlier, axis=0)))


#: Number of rates that are bet on for each of two priors: that of the bets on conversations, and one with large stakes,
#: which pay if blocks are large and their means vary little.
_BLOCK_NODES: Final = 32
_LARGE_STAKES: Final = (0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockEvidence:
    """The e-process of blocks so far, against "the mean of the next block is expected to be p0 or more".

    Attributes:
        log_bets: (bets,) log wealth of each bet, including its share of the stake.
        log_largest: log of the largest e-value so far.
    """

    log_bets: FloatArray
    log_largest: float = 0.0

    @classmethod
    def none(cls, p0: float) -> BlockEvidence:
        """Return the evidence without blocks: an e-value of 1.

        >>> round(BlockEvidence.none(0.9).log_e, 12)
        0.0
        """
        return cls(log_bets=_bets(p0)[2])

    @property
    def log_e(self) -> float:
        """The log of the current e-value."""
        return float(scipy.special.logsumexp(self.log_bets))

    def then(self, means: npt.ArrayLike, p0: float) -> tuple[BlockEvidence, FloatArray]:
        """Return the evidence after more blocks, and the log e-value after each of them.

        Args:
            means: (blocks,) share of correct conversations of each block, in the order in which they closed.
            p0: the promised rate.

        >>> np.round(np.exp(BlockEvidence.none(0.9).then([0.5, 0.5, 1.0], 0.9)[1]), 1).tolist()
        [2.6, 8.2, 2.6]
        """
        correct = np.asarray(means, dtype=np.float64)[:, np.newaxis]
        if not correct.size:
            return self, np.zeros(0)
        on_pass, on_fail, _ = _bets(p0)
        path = self.log_bets + np.cumsum(np.log(correct * on_pass + (1.0 - correct) * on_fail), axis=0)
        log_e = np.asarray(scipy.special.logsumexp(path, axis=1))
        return BlockEvidence(log_bets=path[-1], log_largest=max(self.log_largest, float(log_e.max()))), log_e


@lru_cache(maxsize=64)
def _bets(p0: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the payoff of each bet on a block that passes and on one that fails, and the log of its stake."""
    parts = []
    for a, b in (PRIOR, _LARGE_STAKES):
        nodes, weights = scipy.special.roots_jacobi(_BLOCK_NODES, 0.0, a - 1.0)
        rates = p0 * (nodes + 1.0) / 2.0
        weights = weights * (1.0 - rates) ** (b - 1.0)
        parts.append((rates, weights / weights.sum() / 2.0))
    rates, stakes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rates / p0, (1.0 - rates) / (1.0 - p0), np.log(stakes)


def runs(key: npt.ArrayLike, time_ns: npt.ArrayLike, idle_ns: int) -> IntArray:
    """Return the number of the run of each conversation: a run has one key and no pause longer than `idle_ns`.

    Args:
        key: (rows,) key of each conversation, such as its user.
        time_ns: (rows,) end of each conversation, ascending.
        idle_ns: the longest pause within a run, ns.

    >>> runs([7, 8, 7, 7], [0, 1, 2, 90], 10).tolist()
    [0, 2, 0, 1]
    """
    keys, times = np.asarray(key), np.asarray(time_ns, dtype=np.int64)
    order = np.lexsort((np.arange(keys.size), keys))
    begins = (np.diff(keys[order], prepend=keys[order][:1]) != 0) | (
        np.diff(times[order], prepend=times[order][:1]) > idle_ns
    )
    number = np.empty(keys.size, dtype=np.int64)
    number[order] = np.cumsum(begins)
    return number
