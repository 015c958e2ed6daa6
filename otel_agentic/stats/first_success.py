"""The expected cost and time until the first success, if failed attempts are repeated: what pass@k costs.

With independent attempts that succeed with probability p, the number of attempts until the first success is geometric
with mean 1/p. All but the last fail, so by Wald's identity

    E[amount until the first success] = mean of failures * (1 - p) / p + mean of successes.

With the plug-in estimate p = c/n, this is the total amount of all attempts divided by the number of successes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSuccess:
    """The expected effort until the first success.

    `attempts` is 1/p. `amount` is in the unit of the given amounts (US dollars, seconds); None if the amount of a failure is
    needed, or that of a success, and none is known. `passes` and `failures` are the numbers of attempts with a known amount.
    """

    p: float
    attempts: float
    amount: float | None
    passes: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The amounts of `attempts` attempts: the sum of the `known` ones."""

    total: float = 0.0
    known: int = 0
    attempts: int = 0

    @classmethod
    def of(cls, amounts: Iterable[float | None]) -> Amounts:
        """Return the sum of amounts, of which None is unknown.

        Raises:
            ValueError: an amount is negative or not finite.
        """
        every = list(amounts)
        known = [amount for amount in every if amount is not None]
        if any(not (math.isfinite(amount) and amount >= 0) for amount in known):
            raise ValueError("amounts must be finite and at least 0")
        return cls(total=math.fsum(known), known=len(known), attempts=len(every))


def first_success(
    passed: Iterable[float | None], failed: Iterable[float | None], *, p: float | None = None
) -> FirstSuccess | None:
    """Return the expected effort until the first success, or None if no success was observed, or p is 0.

    Attempts of unknown amount (None) count for p, but not for the means, so that they are assumed to cost what the others
    with the same outcome cost. The estimate assumes that a repetition succeeds with the same probability. Cases of unequal
    difficulty violate this: then apply it to each case, or the result is too low.

    Args:
        passed: the amount of each successful attempt.
        failed: the amount of each failed attempt.
        p: the success rate, for example a weighted or corrected one; by default the share of successes.

    >>> result = first_success([2.0, 4.0], [1.0, 1.0])
    >>> result and (result.p, result.attempts, result.amount)
    (0.5, 2.0, 4.0)

    Raises:
        ValueError: p is not in [0, 1], or an amount is negative or not finite.

    Ref: A. Wald, On cumulative sums of random variables, 1944.
    """
    return first_success_of(Amounts.of(passed), Amounts.of(failed), p=p)


def first_success_of(passed: Amounts, failed: Amounts, *, p: float | None = None) -> FirstSuccess | None:
    """Return the same from the sums of the amounts.

    Raises:
        ValueError: see `first_success`.
    """
    if p is not None and not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], found {p}")
    if p is None:
        p = passed.attempts / (passed.attempts + failed.attempts) if passed.attempts else 0.0
    if p == 0.0:
        return None
    return FirstSuccess(
        p=p, attempts=1.0 / p, amount=_amount(p, passed, failed), passes=passed.known, failures=failed.known
    )


def _amount(p: float, passed: Amounts, failed: Amounts) -> float | None:
    if not passed.known or (p < 1.0 and not failed.known):
        return None
    wasted = failed.total / failed.known * (1.0 - p) / p if p < 1.0 else 0.0
    return wasted + passed.total / passed.known
