"""Print how many conversations monitors need to detect a problem, and how often they alarm falsely: the tables of docs/monitoring.md."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.cpu_time import best_s
from otel_agentic.stats.sequential import PRIOR, ChangeDetector, Evidence, first_alarm, log_e_path

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

ALPHA: Final = 0.05
TARGET: Final = 1_000.0
SEED: Final = 20260301
PRIORS: Final = ((1.0, 1.0), (0.5, 0.5), (2.0, 1.0), (3.0, 1.0), (5.0, 1.0), (9.0, 1.0), (2.0, 0.5), PRIOR, (5.0, 0.5))
#: Pairs of promised and true rate.
PAIRS: Final = (
    *((0.5, 0.3), (0.5, 0.4), (0.7, 0.5), (0.7, 0.6), (0.888, 0.8), (0.9, 0.5), (0.9, 0.7), (0.9, 0.8), (0.9, 0.85)),
    *((0.95, 0.8), (0.95, 0.9), (0.99, 0.9), (0.99, 0.97)),
)
#: Promised rate, rate before and after the change.
CHANGES: Final = ((0.9, 0.95, 0.85), (0.9, 0.95, 0.8), (0.9, 0.9, 0.7), (0.9, 0.95, 0.5), (0.95, 0.98, 0.9))
GOOD_LOOKS, BAD_LOOKS = 1_000, 3_000
CASES, BY_CASE_STREAMS = 20, 300


def main() -> None:
    """Print every table."""
    _priors()
    _false_alarms()
    _detected()
    _run_lengths()
    _delays()
    _by_case()
    _in_order()
    _speed()


def _priors() -> None:
    print("mean conversations to the alarm by prior, over the best prior's (1,500 looks, 300 streams a pair)")
    delays = np.array([[_mean(prior, p0, rate) for p0, rate in PAIRS] for prior in PRIORS])
    over = delays / delays.min(axis=0)
    for prior, row in zip(PRIORS, over, strict=True):
        print(f"  Beta{prior}: at worst {row.max():.2f}, typical {np.exp(np.log(row).mean()):.3f}")


def _mean(prior: tuple[float, float], p0: float, rate: float) -> float:
    outcomes = _streams(300, 1_500, rate)
    alarms = first_alarm(log_e_path(outcomes, p0, prior), ALPHA)
    return float(np.where(alarms == 0, 1_500, alarms).mean())


def _false_alarms() -> None:
    print("\nstreams of 2,000 looks out of 1,000 that alarm falsely (p0 .90, alpha .05)")
    for rate in (0.90, 0.92, 0.95):
        alarms = first_alarm(log_e_path(_streams(1_000, 2_000, rate), 0.90), ALPHA)
        print(f"  true rate {rate:.2f}: {int((alarms > 0).sum())}")


def _detected() -> None:
    print("\nconversations to the alarm from the start (1,000 streams): 10 %, median, 90 %")
    for p0, rate in ((0.90, 0.85), (0.90, 0.80), (0.90, 0.70), (0.90, 0.50), (0.95, 0.90), (0.70, 0.60)):
        alarms = first_alarm(log_e_path(_streams(1_000, 3_000, rate), p0), ALPHA)
        print(f"  p0 {p0:.2f}, true rate {rate:.2f}: {_spread(np.where(alarms == 0, 3_000, alarms))}")


def _run_lengths() -> None:
    print(f"\nmean run length of the change detector on good streams, target {TARGET:,.0f} (2,000 streams of 20,000)")
    for p0, rate in ((0.70, 0.70), (0.90, 0.90), (0.97, 0.97), (0.90, 0.92)):
        lengths = ChangeDetector.of(p0, TARGET).run_lengths(_streams(2_000, 20_000, rate))
        silent = float((lengths == 0).mean())
        mean = float(np.where(lengths == 0, 20_000, lengths).mean())
        print(f"  p0 {p0:.2f}, true rate {rate:.2f}: {mean:,.0f} or more, {silent:.1%} without an alarm")


def _delays() -> None:
    print("\nconversations from the change to the alarm, after 1,000 good ones (1,000 streams): 10 %, median, 90 %")
    print("  and of an e-process that watched from the start")
    for p0, good, bad in CHANGES:
        outcomes = np.concatenate(
            (_streams(1_000, GOOD_LOOKS, good), _streams(1_000, BAD_LOOKS, bad, SEED + 1)), axis=1
        )
        lengths = ChangeDetector.of(p0, TARGET).run_lengths(outcomes)
        early = float(((lengths > 0) & (lengths <= GOOD_LOOKS)).mean())
        watched = first_alarm(log_e_path(outcomes, p0), ALPHA)
        print(
            f"  p0 {p0:.2f}, {good:.2f} then {bad:.2f}: {_spread(_delay(lengths))} ({early:.1%} alarm before); "
            f"e-process {_spread(_delay(watched))}"
        )


def _delay(alarms: IntArray) -> IntArray:
    """Return the number of conversations from the change to the alarm, for streams without an earlier alarm."""
    late = np.where(alarms == 0, GOOD_LOOKS + BAD_LOOKS, alarms)
    return late[late > GOOD_LOOKS] - GOOD_LOOKS


def _by_case() -> None:
    print(
        f"\n{CASES} cases in random order, p0 .90, alpha .05, {BY_CASE_STREAMS} streams of 2,000: alarms, and median of those"
    )
    print("  conversations to them")
    for name, rates in (
        ("every case .90", [0.90] * CASES),
        ("every case .80", [0.80] * CASES),
        ("one case .30, the others .97: .937 on average", [0.30, *[0.97] * (CASES - 1)]),
        ("half of them .84, half .98: .91 on average", [0.84, 0.98] * (CASES // 2)),
    ):
        alarms_of = {method: _alarms_by_case(np.array(rates), method) for method in ("pooled", "per_case")}
        shares = ", ".join(
            f"{method} {int((alarms > 0).sum())}"
            + (f" (median {np.median(alarms[alarms > 0]):,.0f})" if (alarms > 0).any() else "")
            for method, alarms in alarms_of.items()
        )
        print(f"  {name}: {shares}")


def _alarms_by_case(rates: FloatArray, method: str) -> IntArray:
    rng = np.random.default_rng(SEED)
    alarms = []
    for _ in range(BY_CASE_STREAMS):
        case = rng.integers(0, CASES, 2_000)
        joined = {case_id: position for position, case_id in enumerate(dict.fromkeys(case.tolist()))}
        positions = [joined[case_id] if method == "per_case" else 0 for case_id in case.tolist()]
        _, path = Evidence.none().then(positions, rng.random(2_000) < rates[case], 0.90)
        alarms.append(int(first_alarm(path, ALPHA)))
    return np.array(alarms)


def _in_order() -> None:
    print("\nsuites that keep p0 .90 on average, to 2,000 conversations, 1,000 streams: pooled false alarms")
    for name, suite in (
        ("10 cases of .80, then 10 of 1.00", [0.80] * 10 + [1.0] * 10),
        ("10 cases of .50, then 90 of .95", [0.50] * 10 + [0.95] * 90),
    ):
        again_and_again = np.tile(suite, 2_000 // len(suite))
        for order, rates in (("in this order", again_and_again), ("in random order", np.mean(suite))):
            alarms = first_alarm(log_e_path(np.random.default_rng(SEED).random((1_000, 2_000)) < rates, 0.90), ALPHA)
            print(f"  {name}, {order}: {int((alarms > 0).sum())}")


def _speed() -> None:
    outcomes = _streams(1, 1_000_000, 0.92)[0]
    detector = ChangeDetector.of(0.90, TARGET)
    taken_s = best_s(
        {
            "e-process": partial(Evidence.none().then, np.zeros(outcomes.size, np.int64), outcomes, 0.90),
            "by 200 cases": partial(Evidence.none().then, np.arange(outcomes.size) % 200, outcomes, 0.90),
            "change detector": lambda: detector.watch(detector.start(), outcomes),
        },
        rounds=3,
    )
    times = ", ".join(f"{name} {each_s:.2f} s" for name, each_s in taken_s.items())
    print(f"\na million conversations, CPU time: {times}")


def _streams(streams: int, looks: int, rate: float, seed: int = SEED) -> npt.NDArray[np.bool_]:
    return np.random.default_rng(seed).random((streams, looks)) < rate


def _spread(alarms: IntArray) -> str:
    return ", ".join(f"{quantile:,.0f}" for quantile in np.quantile(alarms, (0.1, 0.5, 0.9)))


if __name__ == "__main__":
    main()
