"""How much more an estimate varies because conversations of one case resemble each other.

An estimate that is a smooth function of means varies like the sum of its influences, one a conversation. Added up by case
before squaring they give the cluster-robust variance; squared one by one the plain one. Their ratio is the design effect.

Ref: Kish 1965, "Survey Sampling", section 8.2 (design effect); Binder 1983, "On the variances of asymptotically normal
estimators from complex surveys" (linearisation).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.stats.model import CaseKey

#: A conversation's case, and what it adds to the estimate's deviation from its expectation.
Influence = tuple["str | CaseKey", float]
#: Sums of squares below this are rounding.
_NOTHING = 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How conversations repeat cases: the default is not at all.

    `effect` multiplies variances, 1 or more. `degrees` of freedom of the t quantile, None for the normal one.
    `clusters_only` is labelled conversations a case where the data have no variance: each case then counts once.
    """

    effect: float = 1.0
    degrees: float | None = None
    clusters_only: float = 1.0


def repeats_of(influences: Sequence[Influence], labelled: Sequence[str | CaseKey]) -> Repeats:
    """Return the design effect of an estimate; none where each case is there once, or all is of one case.

    Args:
        influences: of all conversations.
        labelled: the cases of those that people labelled.

    >>> repeats_of([("a", 1.0), ("a", 1.0), ("b", -1.0), ("b", -1.0)], ["a", "b"])
    Repeats(effect=4.0, degrees=1.0, clusters_only=1.0)
    >>> repeats_of([("a", 1.0), ("b", -1.0)], ["a", "b"])
    Repeats(effect=1.0, degrees=None, clusters_only=1.0)
    """
    cases: dict[str | CaseKey, float] = defaultdict(float)
    for case, value in influences:
        cases[case] += value
    count = len(cases)
    if count in {1, len(influences)}:
        return Repeats()
    plain = sum(value * value for _, value in influences)
    if plain <= _NOTHING:
        return Repeats(degrees=count - 1.0, clusters_only=len(labelled) / len(Counter(labelled)))
    robust = count / (count - 1) * sum(value * value for value in cases.values())
    return Repeats(effect=max(1.0, robust / plain), degrees=count - 1.0)
