"""Counts of windows -> everything that is said of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from otel_agentic.stats import (
    GroupedEstimates,
    estimate_groups,
    headline_among,
    leaning_tiers,
    pooled_samples,
)
from otel_agentic.windows.columns import WindowTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, Tier
    from otel_agentic.windows.columns import Tallies
    from otel_agentic.windows.model import GroupKey

    IntArray = npt.NDArray[np.int64]
    #: The tier that is claimed of a group at an end, ns.
    Claims = Mapping[tuple[GroupKey, int], Tier]


def window_table(
    tallies: Tallies,
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    claims: Claims | None = None,
) -> WindowTable:
    """Return the points of some counts, with estimates and tiers; each distinct content is estimated once.

    What a window leans to rests on the headline estimator: the configured one, where that is not among `estimators` the
    mode's pooled one, else the first given.

    Args:
        tallies: the counts.
        estimators: what to estimate with, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, ascending.
        claims: the tiers that are claimed of groups at ends, from all of their conversations up to these; where there is none
            the evidence is insufficient.
    """
    content, attempts = tallies.content, tallies.attempts
    if attempts.size == 0:
        nothing = {each.name: _nothing(each.name, settings, k) for each in estimators}
        return WindowTable(
            tallies=tallies,
            k=tuple(k),
            estimates=nothing,
            default_estimator=[],
            effective_n=np.zeros(0),
            tier=[],
            leaning=[],
        )
    headline, shown = headline_among(estimators, settings)
    leaning = leaning_tiers(attempts, settings, shown)
    places = content.tolist()
    identities = zip(tallies.group.tolist(), tallies.end_ns.tolist(), strict=True)
    return WindowTable(
        tallies=tallies,
        k=tuple(k),
        estimates={each.name: _points_at(estimate_groups(each, attempts, k), content) for each in estimators},
        default_estimator=[headline] * len(places),
        effective_n=pooled_samples(attempts).n[content],
        tier=[(claims or {}).get((tallies.groups[group], end), "insufficient_evidence") for group, end in identities],
        leaning=[leaning[place] for place in places],
    )


def _points_at(found: GroupedEstimates, content: IntArray) -> GroupedEstimates:
    """Return the estimates of the points, from those of their contents."""
    left_out = found.cases_left_out
    return replace(
        found,
        interval_methods=[found.interval_methods[place] for place in content.tolist()],
        pass_at_k=found.pass_at_k[content],
        pass_pow_k=found.pass_pow_k[content],
        cases_left_out=None if left_out is None else left_out[content],
    )


def _nothing(name: str, settings: StatsSettings, k: Sequence[int]) -> GroupedEstimates:
    empty = np.zeros((0, len(k), 3))
    return GroupedEstimates(
        estimator=name, level=settings.level, k=tuple(k), interval_methods=[], pass_at_k=empty, pass_pow_k=empty
    )
