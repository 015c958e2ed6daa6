"""Attempts that were sampled with unequal probability: what a row of `GroupedAttempts` weighs.

An attempt that was evaluated with probability 1/5 stands for five. Rates weigh by it, and an effective number of attempts
says what such a rate is worth (see `cluster`). Weights matter only where they differ within a group: where they are all
equal, every number is exactly the one without them.

Ref: Horvitz and Thompson 1952, "A generalization of sampling without replacement from a finite universe"; Kish 1965,
"Survey Sampling", section 11.7 (effective sample size of unequal weights).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.grouped import GroupedAttempts

    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float64]

#: Weights whose relative variance is no larger are equal: they are apart by the rounding of their sums only.
_EQUAL: Final = 1e-10


def row_weights(grouped: GroupedAttempts) -> FloatArray:
    """Return the weights of the attempts of a case, by row: (rows, 3), their sum, that of correct ones, that of squares.

    In a group whose weights are all equal they are 1: the columns are n, c and n.

    >>> from otel_agentic.stats.grouped import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> alike, unlike = [("a", True, 5.0), ("b", False, 5.0)], [("a", True, 5.0), ("b", False, 1.0)]
    >>> row_weights(GroupedAttempts.of([Attempts.of(alike), Attempts.of(unlike)])).tolist()
    [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [5.0, 5.0, 25.0]]
    """
    plain = np.stack((grouped.n, grouped.c, grouped.n), axis=1).astype(np.float64)
    if grouped.weights is None:
        return plain
    return np.where(unequal_weights(grouped)[grouped.group, None], grouped.weights, plain)


def unequal_weights(grouped: GroupedAttempts) -> BoolArray:
    """Return whether the weights of the attempts of each group differ: (size,).

    They do where their relative variance, `n sum w^2 / (sum w)^2 - 1`, is above 0; by it Kish's effective number of
    attempts is smaller than their number.

    >>> from otel_agentic.stats.grouped import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> unequal_weights(GroupedAttempts.of([Attempts.of([("a", True, 1.0), ("b", True, 3.0)]), Attempts()])).tolist()
    [True, False]
    """
    if grouped.weights is None:
        return np.zeros(grouped.size, dtype=np.bool_)
    attempts, (total, _, squares) = grouped.total(grouped.n), grouped.total(grouped.weights).T
    return np.asarray(attempts * squares > (1.0 + _EQUAL) * total * total)


def correct_counts(grouped: GroupedAttempts) -> FloatArray:
    """Return the correct attempts of a case, by row: c, or the weighted rate of the case times its attempts.

    >>> from otel_agentic.stats.grouped import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> correct_counts(GroupedAttempts.of([Attempts.of([("a", True, 3.0), ("a", False, 1.0)])])).tolist()
    [1.5]
    """
    total, correct, _ = row_weights(grouped).T
    return np.asarray(np.minimum(correct * (grouped.n / total), grouped.n))


def pooled_correct(grouped: GroupedAttempts) -> FloatArray:
    """Return the correct attempts of each group: their number, or the weighted rate times the attempts.

    >>> from otel_agentic.stats.grouped import GroupedAttempts
    >>> from otel_agentic.stats.model import Attempts
    >>> pooled_correct(GroupedAttempts.of([Attempts.of([("a", True, 3.0), ("b", False, 1.0)]), Attempts()])).tolist()
    [1.5, 0.0]
    """
    total, correct, _ = grouped.total(row_weights(grouped)).T
    attempts = grouped.total(grouped.n)
    share = np.divide(attempts, total, out=np.zeros(grouped.size), where=total > 0)
    return np.asarray(np.minimum(correct * share, attempts))
