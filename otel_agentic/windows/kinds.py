"""Kinds of cases: how many cases of a window have how many attempts, so many of them correct, at which weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats import GroupedAttempts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

_ROOM: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """Which kinds of cases each content holds; counts by weight are whole numbers, so that sums are exact.

    Attributes:
        weights: (weights,) the distinct weights of attempts.
        kinds: (kinds, 2 * weights) attempts at each weight, then the correct ones among them.
        content: (rows,) index of the content.
        kind: (rows,) index into `kinds`.
        cases: (rows,) how many cases are of that kind.
    """

    weights: FloatArray
    kinds: IntArray
    content: IntArray
    kind: IntArray
    cases: IntArray

    def attempts(self, size: int) -> GroupedAttempts:
        """Return what estimators take, for `size` contents; weights only where a content has several."""
        order = np.lexsort((self.kind, self.content))
        content, kind, cases = self.content[order], self.kind[order], self.cases[order]
        n_by, c_by = np.hsplit(self.kinds, 2)
        n, c = n_by.sum(axis=1)[kind], c_by.sum(axis=1)[kind]
        present = [np.bincount(content, weights=column[kind] * cases, minlength=size) > 0 for column in n_by.T]
        mixed = np.sum(present, axis=0) > 1 if present else np.zeros(size, dtype=bool)
        weights = None
        if mixed.any():
            sums = np.stack((n_by @ self.weights, c_by @ self.weights, n_by @ self.weights**2), axis=1)[kind]
            weights = np.where(mixed[content][:, None], sums, np.stack((n, c, n), axis=1))
        return GroupedAttempts(size=size, group=content, n=n, c=c, cases=cases, weights=weights)


def unique_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the place of the first of each distinct row, in ascending order of rows, and which one each row is.

    >>> places, which = unique_rows([np.array([2, 1, 2]), np.array([0, 5, 0])])
    >>> places.tolist(), which.tolist()
    ([1, 0], [1, 0, 1])
    """
    packed = _packed(columns)
    if packed is not None:
        _, first, which = np.unique(packed, return_index=True, return_inverse=True)
        return first, which
    order = np.lexsort(tuple(reversed(columns)))
    is_new = np.zeros(len(order), dtype=bool)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= np.diff(column[order]) != 0
    which = np.empty(len(order), dtype=np.int64)
    which[order] = np.cumsum(is_new) - 1
    return order[is_new], which


def _packed(columns: Sequence[IntArray]) -> IntArray | None:
    """Return one number a row that sorts as the rows do, None where 62 bits do not hold it: one sort is quicker than many."""
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    if not len(packed):
        return packed
    room = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        room *= high - low + 1
        if room > _ROOM:
            return None
        packed = packed * (high - low + 1) + (column - low)
    return packed
