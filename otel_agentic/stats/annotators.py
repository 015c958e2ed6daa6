"""Agreement between annotators (share, Cohen's kappa, Krippendorff's alpha), and change between two runs of a judge.

Cohen's kappa compares two annotators on the items that both judged. Krippendorff's alpha covers any number of annotators,
each of whom may have judged only some of the items; for two annotators who judged the same items it is close to kappa. Both are 1 for
perfect agreement and 0 for agreement by chance.

Ref: Cohen 1960, "A coefficient of agreement for nominal scales"; Krippendorff 2011, "Computing Krippendorff's
alpha-reliability" (nominal data, missing values); McNemar 1947, "Note on the sampling error of the difference between
correlated proportions or percentages" (here the exact test).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import scipy

from otel_agentic.stats.judge_error import VerdictPair, confusion_of, kappa


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """Agreement between annotators on `items` that two or more of them judged; None if it is undefined.

    `agreement` is the share of pairs of verdicts on one item that are equal. `cohen_kappa` is None unless there are
    exactly two annotators, and, like `alpha`, if all verdicts are the same.
    """

    items: int
    annotators: tuple[str, ...]
    disagreements: int
    agreement: float | None
    cohen_kappa: float | None
    alpha: float | None


def annotator_agreement(votes: Sequence[Mapping[str, bool]]) -> AnnotatorAgreement:
    """Return the agreement between annotators.

    Args:
        votes: for each item the verdict of each annotator, True for a pass; items with fewer than two verdicts are
            ignored.

    >>> both = [{"ana": True, "ben": True}, {"ana": False, "ben": False}, {"ana": True, "ben": False}, {"ana": True}]
    >>> found = annotator_agreement(both)
    >>> found.items, found.disagreements, round(found.agreement, 3), round(found.cohen_kappa, 3), round(found.alpha, 3)
    (3, 1, 0.667, 0.4, 0.444)
    """
    items = [item for item in votes if len(item) > 1]
    names = tuple(sorted({name for item in items for name in item}))
    pairs = [pair for item in items for pair in combinations(item.values(), 2)]
    return AnnotatorAgreement(
        items=len(items),
        annotators=names,
        disagreements=sum(len(set(item.values())) > 1 for item in items),
        agreement=sum(first == second for first, second in pairs) / len(pairs) if pairs else None,
        cohen_kappa=_cohen(items, names),
        alpha=_alpha([list(item.values()) for item in items]),
    )


def _cohen(items: Sequence[Mapping[str, bool]], names: Sequence[str]) -> float | None:
    if len(names) != len(("first", "second")):
        return None
    first, second = names
    return kappa(confusion_of(VerdictPair(judge=item[first], human=item[second], case="") for item in items))


def _alpha(units: Sequence[Sequence[bool]]) -> float | None:
    """Return 1 - observed / expected disagreement, from the matrix of coincidences of each unit's pairs of values."""
    counts = Counter(value for unit in units for value in unit)
    total = counts.total()
    observed = sum(2 * unit.count(True) * unit.count(False) / (len(unit) - 1) for unit in units)
    expected = 2 * counts[True] * counts[False] / (total - 1) if total > 1 else 0.0
    return 1.0 - observed / expected if expected else None


def mcnemar(gained: int, lost: int) -> float:
    """Return the p-value of the exact McNemar test: whether changes in the two directions are equally likely.

    Args:
        gained: pairs that changed from False to True.
        lost: pairs that changed from True to False.

    >>> mcnemar(0, 0), round(mcnemar(1, 8), 4), mcnemar(5, 5)
    (1.0, 0.0391, 1.0)
    """
    return min(1.0, 2.0 * float(scipy.special.bdtr(min(gained, lost), gained + lost, 0.5)))
