"""The eight trajectory metrics of a conversation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.trajectory.pairing import is_exact, is_in_order, most_pairs
from otel_agentic.evaluators.trajectory.paths import Walk, walks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_agentic.evaluators.base import Metric, Need, Subject

EXACT: Final = "agentic.trajectory.exact"
IN_ORDER: Final = "agentic.trajectory.in_order"
ANY_ORDER: Final = "agentic.trajectory.any_order"
CONTAINS: Final = "agentic.trajectory.contains"
WITHIN: Final = "agentic.trajectory.within"
PRECISION: Final = "agentic.trajectory.precision"
RECALL: Final = "agentic.trajectory.recall"
F1: Final = "agentic.trajectory.f1"

_ALL_FIT = "every expected call was made, and no other"


class Calls(WithoutSettings):
    """Were the expected calls made, with their arguments, in their order, and no others."""

    name: str = "trajectory.calls"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("trajectory.calls")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the eight scores of a conversation: a match of the whole takes a match of each turn that expects calls."""
        walks = walks_of(subject)
        if not isinstance(walks, list):
            reason, explanation = walks
            return [MetricScore(name=metric.name, reason=reason, explanation=explanation) for metric in self.metrics]
        best = [ways[0] for ways in walks]
        return [*(_match(name, fits, walks) for name, fits in _FITS.items()), *_shares(best)]


def _match(name: str, fits: Callable[[Walk], bool], walks: Sequence[Sequence[Walk]]) -> MetricScore:
    """Return a score that is 0 or 1: whether each walk fits, under whichever alternative."""
    picked = [next(filter(fits, ways), ways[0]) for ways in walks]
    told = _all_told(picked)
    order = _order_told(picked) if name in {EXACT, IN_ORDER} else ""
    explanation = "; ".join(each for each in (order, told) if each and (each != _ALL_FIT or not order))
    return MetricScore(name=name, value=float(all(map(fits, picked))), explanation=explanation)


def _in_order(walk: Walk) -> bool:
    return not walk.forbidden and is_in_order(walk.path)


def _any_order(walk: Walk) -> bool:
    return not walk.forbidden and _paired(walk, most_pairs(walk.path)) == walk.path.required


def _contains(walk: Walk) -> bool:
    return not walk.forbidden and all(each.fits for each in walk.path.wanted if each.required)


def _paired(walk: Walk, pairs: Mapping[int, int]) -> int:
    return sum(walk.path.wanted[index].required for index in pairs)


def _within(walk: Walk) -> bool:
    fitting = walk.path.free.union(*(each.fits for each in walk.path.wanted))
    return not walk.forbidden and len(fitting) == len(walk.made)


_FITS: Final[Mapping[str, Callable[[Walk], bool]]] = {
    EXACT: lambda walk: is_exact(walk.path),
    IN_ORDER: _in_order,
    ANY_ORDER: _any_order,
    CONTAINS: _contains,
    WITHIN: _within,
}


def _shares(walks: Sequence[Walk]) -> list[MetricScore]:
    """Return precision, recall and F1 over the calls of all walks together."""
    pairs = [most_pairs(walk.path) for walk in walks]
    told = _all_told(walks)
    required = sum(walk.path.required for walk in walks)
    right = sum(map(_paired, walks, pairs))
    counted = right + len(_beside(walks, pairs))
    details = {"required": required, "made": counted, "right": right}

    def share(name: str, part: int, whole: int, nothing: float) -> MetricScore:
        return MetricScore(name=name, value=part / whole if whole else nothing, explanation=told, details=details)

    none_required = MetricScore(name=RECALL, reason="no_data", explanation="the case requires no call")
    return [
        share(PRECISION, right, counted, float(not required)),
        share(RECALL, right, required, 0.0) if required else none_required,
        share(F1, 2 * right, counted + required, 1.0),
    ]


def _beside(walks: Sequence[Walk], pairs: Sequence[Mapping[int, int]]) -> set[tuple[int, int, int]]:
    """Return the places of made calls that count and are not as expected; one of a turn and of the whole counts once."""
    taken = {walk.places[made] for walk, found in zip(walks, pairs, strict=True) for made in found.values()}
    counted = {place for walk in walks for made, place in enumerate(walk.places) if made not in walk.path.free}
    return counted - taken


def _order_told(walks: Sequence[Walk]) -> str:
    """Return where all was made but in another order, in words; empty where that is not what is wrong."""
    return "; ".join(
        f"{walk.where}made in another order: {', '.join(walk.made)}; expected: {', '.join(walk.names)}"
        for walk in walks
        if _any_order(walk) and not _in_order(walk)
    )


def _all_told(walks: Sequence[Walk]) -> str:
    return "; ".join(filter(None, (_told(walk, most_pairs(walk.path)) for walk in walks))) or _ALL_FIT


def _told(walk: Walk, pairs: Mapping[int, int]) -> str:
    """Return what is missing and what is too many in a walk, in words; empty where nothing is."""
    wanted, path = walk.path.wanted, walk.path
    taken = set(pairs.values())
    absent = _names_of(walk, [index for index, each in enumerate(wanted) if each.required and index not in pairs])
    others = Counter(name for place, name in enumerate(walk.made) if place not in taken and place not in path.free)
    parts = [
        f"not made as expected: {_listed(absent)}" if absent else "",
        f"not expected so: {_listed(others)}" if others else "",
        f"forbidden: {_listed(Counter(walk.forbidden))}" if walk.forbidden else "",
    ]
    found = ", ".join(filter(None, parts))
    return f"{walk.where}{found}" if found else ""


def _names_of(walk: Walk, indices: Sequence[int]) -> Counter[str]:
    return Counter(walk.expected[index] for index in indices)


def _listed(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({times} times)" if times > 1 else name for name, times in sorted(names.items()))
