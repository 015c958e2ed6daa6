"""How long something takes, on a machine that others use too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: How often a time over its bound is taken again: what shares the core, or is searched for garbage meanwhile, is no finding.
_TRIES: Final = 4


def quickest_s(work: Callable[[], object], bound_s: float, clock: Callable[[], float] = time.thread_time) -> float:
    """Return the seconds that some work takes, of CPU and of this thread unless another clock is given.

    Where they are over the bound it is done again, and the least counts.
    """
    taken: list[float] = []
    while len(taken) < _TRIES and not (taken and taken[-1] <= bound_s):
        began_s = clock()
        work()
        taken.append(clock() - began_s)
    return min(taken)
