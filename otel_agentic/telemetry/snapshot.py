"""Window points as observations: which groups get gauges, and which points a group's gauges have."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.metrics import Observation

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import group_attributes, label
from otel_agentic.windows.model import TIERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.stats.model import Estimate, Estimates
    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.windows.model import GroupKey, GroupSummary, WindowPoint
    from otel_agentic.windows.objectives import ObjectivePoint

Attributes: TypeAlias = "dict[str, str | int]"
#: Point, lower bound, upper bound of one ratio.
_Family: TypeAlias = "tuple[Instrument, Instrument, Instrument]"
_Sample: TypeAlias = "tuple[Instrument, Observation]"

_SUCCESS: _Family = (names.SUCCESS, names.SUCCESS_LOWER, names.SUCCESS_UPPER)
_PASS_AT_K: _Family = (names.PASS_AT_K, names.PASS_AT_K_LOWER, names.PASS_AT_K_UPPER)
_PASS_POW_K: _Family = (names.PASS_POW_K, names.PASS_POW_K_LOWER, names.PASS_POW_K_UPPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The points that get gauges, and the groups that the cap left out."""

    points: tuple[WindowPoint, ...]
    dropped: frozenset[GroupKey]

    @property
    def groups(self) -> frozenset[GroupKey]:
        """The groups that get gauges."""
        return frozenset(point.summary.key for point in self.points)


def select(points: Iterable[WindowPoint], max_groups: int) -> Selection:
    """Return the newest point of each group and window, for the `max_groups` most recent groups.

    Groups by case or by tool are left out: ids never stand on metrics, and without them two groups would look alike.
    """
    newest: dict[tuple[GroupKey, str], WindowPoint] = {}
    for point in points:
        key = point.summary.key
        if key.case is not None or key.tool is not None:
            continue
        known = newest.get((key, point.window))
        if known is None or _newness(point) > _newness(known):
            newest[key, point.window] = point
    groups: dict[GroupKey, list[WindowPoint]] = defaultdict(list)
    for (key, _), point in newest.items():
        groups[key].append(point)
    ordered = sorted(groups, key=lambda key: _recency(key, groups[key]))
    return Selection(
        points=tuple(point for key in ordered[:max_groups] for point in groups[key]),
        dropped=frozenset(ordered[max_groups:]),
    )


def observe(points: Iterable[WindowPoint], estimators: Sequence[str] = ()) -> dict[str, list[Observation]]:
    """Return the observations by instrument name; only those whose estimator is defined.

    Args:
        points: one of each group and window.
        estimators: names of those to emit; none: the headline estimator.
    """
    observations: dict[str, list[Observation]] = defaultdict(list)
    for instrument, observation in samples_of_all(points, estimators):
        observations[instrument.name].append(observation)
    return observations


def observe_objectives(
    points: Iterable[ObjectivePoint], preferred: frozenset[GroupKey], max_groups: int
) -> list[Observation]:
    """Return the e-values of objectives, for `max_groups` groups at most: first those that have window gauges."""
    found = [point for point in points if point.key.case is None and point.key.tool is None]
    ordered = sorted(dict.fromkeys(point.key for point in found), key=lambda key: key not in preferred)
    kept = frozenset(ordered[:max_groups])
    return [_evidence(point) for point in found if point.key in kept]


def _evidence(point: ObjectivePoint) -> Observation:
    attributes: Attributes = {**group_attributes(point.key), names.OBJECTIVE: label(point.objective), names.K: point.k}
    return Observation(point.e_value, attributes)


def samples_of_all(points: Iterable[WindowPoint], estimators: Sequence[str] = ()) -> Iterator[_Sample]:
    """Return what is emitted of the points of one moment: that of each, and the tier of each group once.

    A tier is claimed from all conversations since an agent version's first one: it is no window's.
    """
    tiers: dict[GroupKey, WindowPoint] = {}
    for point in points:
        yield from samples_of(point, estimators)
        known = tiers.setdefault(point.summary.key, point)
        if _newness(point) > _newness(known):
            tiers[point.summary.key] = point
    for key, point in tiers.items():
        attributes: Attributes = {**group_attributes(key)}
        for tier in TIERS:
            yield from _sample(names.TIER_STATUS, int(tier == point.summary.tier), {**attributes, names.TIER: tier})


def samples_of(point: WindowPoint, estimators: Sequence[str] = ()) -> Iterator[_Sample]:
    """Return what is emitted of one point but for its group's tier, as (instrument, observation); see `observe`."""
    summary = point.summary
    attributes: Attributes = {**group_attributes(summary.key), names.WINDOW: point.window}
    for name in dict.fromkeys(estimators or (summary.default_estimator,)):
        yield from _rates(summary.estimates.get(name), attributes)
    yield from _counts(summary, attributes)
    for dimension, mean in summary.tool_dimensions.items():
        if mean.n:
            yield from _sample(names.TOOL_CORRECTNESS, mean.mean, {**attributes, names.TOOL_DIMENSION: dimension})


def _newness(point: WindowPoint) -> tuple[int, int]:
    """Sort key of a group's points, newest last; of two that end together the one that knows more."""
    return (point.end_ns, _conversations(point.summary))


def _recency(key: GroupKey, points: Sequence[WindowPoint]) -> tuple[int, int, tuple[tuple[str, str | int], ...]]:
    """Sort key, most recent group first.

    All windows of one evaluation end together, so their ends tell nothing apart. The start of the narrowest window
    that still holds a conversation does: the group was active after it; a window of the last n has no start to tell.
    Ties go to the busier group, then by name.
    """
    active = [point for point in points if _conversations(point.summary)]
    last = max((point.end_ns - point.width_ns for point in active if point.width_ns is not None), default=0)
    busiest = max((_conversations(point.summary) for point in active), default=0)
    return (-last, -busiest, tuple(group_attributes(key).items()))


def _conversations(summary: GroupSummary) -> int:
    return summary.n + sum(summary.not_evaluated.values())


def _rates(estimates: Estimates | None, attributes: Attributes) -> Iterator[_Sample]:
    if estimates is None:
        return
    shown: Attributes = {**attributes, names.ESTIMATOR: estimates.estimator}
    success = _success(estimates)
    if success is not None:
        yield from _estimate(_SUCCESS, success, shown)
    for k, estimate in estimates.pass_at_k.items():
        yield from _estimate(_PASS_AT_K, estimate, {**shown, names.K: k})
    for k, estimate in estimates.pass_pow_k.items():
        yield from _estimate(_PASS_POW_K, estimate, {**shown, names.K: k})


def _success(estimates: Estimates) -> Estimate | None:
    """Return pass@1, which is pass^1; None where k = 1 was not asked for."""
    return estimates.pass_at_k.get(1) or estimates.pass_pow_k.get(1)


def _counts(summary: GroupSummary, attributes: Attributes) -> Iterator[_Sample]:
    yield from _sample(names.COVERAGE, summary.coverage, attributes)
    by_outcome = {
        "pass": summary.c,
        "fail": summary.n - summary.c,
        "not_evaluated": sum(summary.not_evaluated.values()),
    }
    for outcome, count in by_outcome.items():
        yield from _sample(names.WINDOW_CONVERSATIONS, count, {**attributes, names.OUTCOME: outcome})


def _estimate(family: _Family, estimate: Estimate, attributes: Attributes) -> Iterator[_Sample]:
    if estimate.value is None:
        return  # a bound without its point would look like a result
    for instrument, value in zip(family, (estimate.value, estimate.lower, estimate.upper), strict=True):
        yield from _sample(instrument, value, attributes)


def _sample(instrument: Instrument, value: float | None, attributes: Attributes) -> Iterator[_Sample]:
    if value is not None and math.isfinite(value):
        yield instrument, Observation(value, attributes)
