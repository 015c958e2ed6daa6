"""Print how often tiers and alarms are false, and how long true ones take: the tables of docs/statistics.md, docs/monitoring.md.

python -m benchmarks.claims            every table; some minutes
python -m benchmarks.claims tiers      those of tiers
python -m benchmarks.claims alarms     those of alarms
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from benchmarks.cpu_time import best_s
from otel_agentic.config import StatsSettings
from otel_agentic.stats import Attempts, CaseCount, GroupedAttempts, claim_tier, claim_tiers, mode_estimator
from otel_agentic.stats.model import estimate_groups
from otel_agentic.stats.sequential import BlockEvidence, first_alarm, log_e_path
from otel_agentic.stats.tiers import (
    E_VALUE_NEEDED,
    HIGH_PASS_POW_3,
    LOW_PASS_AT_1,
    READY_RATE,
    CaseKinds,
    Side,
    alternatives,
    mean_evidence,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Sizes = Literal["equal", "zipf", "1/rank"]

SEED: Final = 20260301
CASES: Final = (5, 10, 50, 200)
SIZES: Final[tuple[Sizes, ...]] = ("equal", "zipf", "1/rank")
KAPPAS: Final = (0.5, 2.0, 10.0)
#: Looks per stream, and number of streams of each kind.
SHORT, LONG = (500, 400), (5_000, 100)
#: For alarms: conversations per stream, run lengths, the promised rate, and the allowed rate of false alarms.
LOOKS, RUNS, PROMISED, ALPHA = 2_000, (3, 10, 50), 0.9, 0.05
_LOG_NEEDED: Final = math.log(E_VALUE_NEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A sequence of conversations: the case of each, numbered in order of first arrival, and its outcome."""

    case: IntArray
    correct: BoolArray

    def kinds(self, looks: int) -> CaseKinds:
        """Return the counts per case after a number of conversations."""
        case, correct = self.case[:looks], self.correct[:looks]
        n, c = np.bincount(case), np.bincount(case, weights=correct).astype(np.int64)
        there = n > 0
        kinds, cases = np.unique(np.stack((n[there], c[there]), axis=1), axis=0, return_counts=True)
        return tuple((n, c, many) for (n, c), many in zip(kinds.tolist(), cases.tolist(), strict=True))


def streams(cases: int | None, sizes: Sizes, mean: float, kappa: float, *, looks: int, number: int) -> Iterator[Stream]:
    """Yield streams whose cases have rates from Beta(mean kappa, (1 - mean) kappa); None: each conversation has its own case.

    The next case is drawn with equal probabilities, with probabilities by Zipf's law (exponent 1.7, 60 times the smallest at most), or
    with probabilities proportional to 1 / rank.
    """
    rng = np.random.default_rng(SEED)
    for _ in range(number):
        if cases is None:
            yield Stream(case=np.arange(looks), correct=rng.random(looks) < mean)
            continue
        rates = rng.beta(mean * kappa, (1.0 - mean) * kappa, cases)
        shares = {
            "equal": np.ones(cases),
            "zipf": np.minimum(rng.zipf(1.7, cases), 60).astype(float),
            "1/rank": 1.0 / np.arange(1, cases + 1),
        }[sizes]
        case = rng.choice(cases, looks, p=shares / shares.sum())
        yield Stream(case=case, correct=rng.random(looks) < rates[case])


def first_claim(stream: Stream, p0: float, side: Side, looks: Sequence[int] | None = None) -> int:
    """Return the number of conversations until a claim about the mean rate first holds; 0 means never.

    Args:
        stream: the conversations.
        p0: the boundary.
        side: whether the claim is that the mean rate is above or below `p0`.
        looks: the conversations after which the claim is evaluated; None: after each.
    """
    correct = stream.correct if side == "above" else ~stream.correct
    near = np.flatnonzero(_most(stream.case, correct, p0 if side == "above" else 1.0 - p0) >= _LOG_NEEDED) + 1
    for look in near.tolist() if looks is None else sorted(set(looks).intersection(near.tolist())):
        if mean_evidence(stream.kinds(look), p0, side).log_e >= _LOG_NEEDED:
            return look
    return 0


def _most(case: IntArray, correct: BoolArray, p0: float) -> FloatArray:
    """Return an upper bound of the log e-value after each conversation, as `MeanEvidence.most`."""
    n, c = _before(case, np.ones_like(correct)), _before(case, correct)
    every = alternatives(p0)
    a, b = every.a[:, np.newaxis], every.b[:, np.newaxis]
    log = np.cumsum(np.log(np.where(correct, a + c, b + n - c)) - np.log(a + b + n), axis=1)
    bets = log[: every.count] + every.log_prior[:, np.newaxis]
    top = bets.max(axis=0)
    return np.asarray(top + np.log(np.exp(bets - top).sum(axis=0)) - log[every.count :].max(axis=0))


def _before(case: IntArray, counted: BoolArray) -> IntArray:
    """Return for each conversation the number of earlier conversations of the same case that count."""
    order = np.argsort(case, kind="stable")
    total = np.concatenate(([0], np.cumsum(counted[order])))[:-1]
    first = np.flatnonzero(np.diff(case[order], prepend=-1))
    counts = np.empty_like(case)
    counts[order] = total - np.repeat(total[first], np.diff(first, append=case.size))
    return counts


def boundary(cases: int, sizes: Sizes, kappa: float, side: Side, *, looks: int, number: int) -> tuple[float, float]:
    """Return the shares of streams exactly at the boundary with a claim: at the last look, and at any look."""
    p0 = READY_RATE if side == "above" else LOW_PASS_AT_1
    once = ever = 0
    for stream in streams(cases, sizes, p0, kappa, looks=looks, number=number):
        claim = first_claim(stream, p0, side)
        ever += claim > 0
        once += claim > 0 and first_claim(stream, p0, side, [looks]) > 0
    return once / number, ever / number


def _boundaries() -> None:
    for side, tier in (("above", "ready"), ("below", "not_ready")):
        for looks, number in (SHORT, LONG):
            print(
                f"\n{tier}, the mean rate over cases exactly at its boundary: claimed at the last of {looks:,} looks, ever "
                f"({number} streams a cell)"
            )
            print("  cases  sizes    " + "".join(f"kappa {kappa:<12g}" for kappa in KAPPAS))
            worst = [0.0, 0.0]
            for cases in CASES:
                for sizes in SIZES:
                    rates = [boundary(cases, sizes, kappa, side, looks=looks, number=number) for kappa in KAPPAS]  # type: ignore[arg-type]  # a literal
                    worst = [max(worst[at], *(cell[at] for cell in rates)) for at in (0, 1)]
                    print(
                        f"  {cases:5}  {sizes:7}  " + "".join(f"{once:.3f}, {ever:.3f}      " for once, ever in rates),
                        flush=True,
                    )
            print(f"  the largest: {worst[0]:.3f} at one look, {worst[1]:.3f} ever")


def _power() -> None:
    print(
        "\nmedian conversations to `ready`, to 2,000 (- for never): each a case of its own (200 streams, a look after each), the same"
    )
    print(
        "  with the interval that holds at one look, and cases tried again and again (30 streams, a look after each tenth)"
    )
    print("  true rate   own cases   interval    50 cases    200 cases (equal sizes, kappa 10)")
    for rate in (0.95, 0.97, 0.99, 1.0):
        own = [
            first_claim(stream, READY_RATE, "above")
            for stream in streams(None, "equal", rate, 0.0, looks=2_000, number=200)
        ]
        interval = [_interval(stream) for stream in streams(None, "equal", rate, 0.0, looks=2_000, number=200)]
        by_case = [
            [
                first_claim(stream, READY_RATE, "above", range(10, 2_001, 10))
                for stream in streams(cases, "equal", min(rate, 1.0 - 1e-9), 10.0, looks=2_000, number=30)
            ]
            for cases in (50, 200)
        ]
        medians = "".join(f"{_median(lengths):>12}" for lengths in (own, interval, *by_case))
        print(f"  {rate:9.2f}{medians}", flush=True)


def _interval(stream: Stream) -> int:
    """Return the number of conversations, each with its own case, until the lower end of the 95 % interval of pass^3 exceeds .70."""
    n = np.arange(1, len(stream.correct) + 1, dtype=np.int64)
    c = np.cumsum(stream.correct, dtype=np.int64)
    groups: IntArray = np.repeat(n - 1, 2)
    rows: IntArray = np.stack((c, n - c), axis=1).reshape(-1)
    there: BoolArray = rows > 0
    grouped = GroupedAttempts(
        size=n.size,
        group=groups[there],
        n=np.ones(int(there.sum()), dtype=np.int64),
        c=np.tile(np.array([1, 0]), n.size)[there],
        cases=rows[there],
    )
    lower = estimate_groups(mode_estimator(StatsSettings()), grouped, (3,)).pass_pow_k[:, 0, 1]
    reached = np.flatnonzero(lower > HIGH_PASS_POW_3)
    return int(reached[0]) + 1 if reached.size else 0


def _median(lengths: Sequence[int]) -> str:
    middle = float(np.median([length or math.inf for length in lengths]))
    return "-" if math.isinf(middle) else f"{middle:,.0f}"


def _speed() -> None:
    rng = np.random.default_rng(SEED)
    fifty = Attempts(
        cases=tuple(
            CaseCount(case_id=str(index), n=20, c=int(rng.binomial(20, rate)))
            for index, rate in enumerate(rng.beta(9.5, 0.5, 50))
        )
    )
    many = Attempts.of((str(rng.integers(200)), bool(correct)) for correct in rng.binomial(1, 0.95, 10_000))
    alone = Attempts.of((str(index), bool(correct)) for index, correct in enumerate(rng.binomial(1, 0.95, 10_000)))
    settings = StatsSettings()

    def fresh(attempts: Attempts, *, needed: bool) -> None:
        mean_evidence.cache_clear()
        claim_tiers(GroupedAttempts.of([attempts]), settings, needed=needed)

    works = {
        "50 cases of 20": lambda: fresh(fifty, needed=False),
        "50 cases of 20, with e-value and how many more": lambda: fresh(fifty, needed=True),
        "10,000 conversations of 200 cases": lambda: fresh(many, needed=False),
        "10,000 conversations without cases": lambda: fresh(alone, needed=False),
    }
    print("\nCPU time of a claim: " + ", ".join(f"{name} {1e3 * took:.1f} ms" for name, took in best_s(works).items()))


def tiers() -> None:
    """Print the tables of tiers."""
    for n, c in ((100, 100), (200, 84), (20, 20), (200, 190)):
        claim = claim_tier(Attempts.of((str(index), index < c) for index in range(n)), StatsSettings())
        leaning = f", leaning {claim.leaning}, {claim.needed} more" if claim.leaning else ""
        print(f"{c} of {n}, each a case of its own: {claim.tier}{leaning}")
    _speed()
    _power()
    _boundaries()


def alarms_in_runs(run: int, rate: float, *, kappa: float, number: int) -> tuple[list[int], list[int]]:
    """Return after how many of 2,000 conversations each stream alarms (0 means never): counted singly, and by runs of a user.

    Each user has its own rate, from Beta(rate kappa, (1 - rate) kappa), and sends `run` conversations in a row.
    """
    rng = np.random.default_rng(SEED)
    single, blocked = [], []
    for _ in range(number):
        users = rng.beta(rate * kappa, (1.0 - rate) * kappa, -(-LOOKS // run))
        correct = rng.random((users.size, run)) < users[:, np.newaxis]
        single.append(_alarm(log_e_path(correct.reshape(-1)[:LOOKS], PROMISED)))
        _, path = BlockEvidence.none(PROMISED).then(correct.mean(axis=1)[: LOOKS // run], PROMISED)
        blocked.append(run * _alarm(path))
    return single, blocked


def alarms_in_outages(*, number: int) -> tuple[list[int], list[int]]:
    """Return the same for 2,000 conversations, 20 per hour: 5 % of stretches of 20 have a rate of .5, the overall mean is .90.

    Blocks are hours, which begin in the middle of the stretches.
    """
    rng = np.random.default_rng(SEED)
    length, share, low = 20, 0.05, 0.5
    single, blocked = [], []
    for _ in range(number):
        out = rng.random(LOOKS // length) < share
        rates = np.where(out, low, (PROMISED - share * low) / (1.0 - share))
        correct = (rng.random((rates.size, length)) < rates[:, np.newaxis]).reshape(-1)
        single.append(_alarm(log_e_path(correct, PROMISED)))
        hours = correct[length // 2 : -length // 2].reshape(-1, length).mean(axis=1)
        blocked.append(length * _alarm(BlockEvidence.none(PROMISED).then(hours, PROMISED)[1]))
    return single, blocked


def _alarm(path: FloatArray) -> int:
    return int(first_alarm(path, ALPHA))


def alarms() -> None:
    """Print the tables of alarms."""
    print(
        f"\nfalse alarms, p0 {PROMISED}, alpha {ALPHA}, {LOOKS:,} conversations, 400 streams: each counted, runs of users counted"
    )
    for run in (1, *RUNS):
        shares = [alarms_in_runs(run, PROMISED, kappa=kappa, number=400) for kappa in KAPPAS]
        row = ", ".join(
            f"kappa {kappa:g}: {np.mean(np.array(single) > 0):.1%}, {np.mean(np.array(blocked) > 0):.1%}"
            for kappa, (single, blocked) in zip(KAPPAS, shares, strict=True)
        )
        print(f"  runs of {run:2}: {row}", flush=True)
    single, blocked = alarms_in_outages(number=400)
    print(
        f"  outages: each counted {np.mean(np.array(single) > 0):.1%}, hours counted {np.mean(np.array(blocked) > 0):.1%}"
    )
    print(
        "\nmedian conversations to a true alarm (- for never within 2,000), 100 streams: each counted, runs of users counted"
    )
    for rate in (0.8, 0.7):
        for run in (1, *RUNS):
            shares = [alarms_in_runs(run, rate, kappa=kappa, number=100) for kappa in KAPPAS]
            row = ", ".join(
                f"kappa {kappa:g}: {_median(single)}, {_median(blocked)}"
                for kappa, (single, blocked) in zip(KAPPAS, shares, strict=True)
            )
            print(f"  rate {rate}, runs of {run:2}: {row}", flush=True)


if __name__ == "__main__":
    studies = sys.argv[1:] or ["tiers", "alarms"]
    for name in studies:
        {"tiers": tiers, "alarms": alarms}[name]()
