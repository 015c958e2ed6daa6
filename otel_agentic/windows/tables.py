"""Counts of windows -> everything that is said of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from otel_agentic.stats import (
    GroupedEstimates,
    claim_tiers,
    default_among,
    estimate_groups,
    headline_estimator,
    pooled_samples,
)
from otel_agentic.windows.columns import WindowTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator
    from otel_agentic.windows.columns import Tallies

    IntArray = npt.NDArray[np.int64]


def window_table(
    tallies: Tallies, *, estimators: Sequence[Estimator], settings: StatsSettings, k: Sequence[int]
) -> WindowTable:
    """Return the points of some counts, with estimates and tiers; each distinct content is estimated once.

    The tier rests on the headline estimator: the configured one, where that is not among `estimators` the mode's pooled one,
    else the first given.

    Args:
        tallies: the counts.
        estimators: what to estimate with, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, ascending.
    """
    content, attempts = tallies.content, tallies.attempts
    names = [estimator.name for estimator in estimators]
    if attempts.size == 0:
        nothing = {name: _nothing(name, settings, k) for name in names}
        return WindowTable(
            tallies=tallies,
            k=tuple(k),
            estimates=nothing,
            default_estimator=[],
            effective_n=np.zeros(0),
            tier=[],
            leaning=[],
        )
    headline = default_among(names, headline_estimator(settings), settings)
    shown = next((estimator for estimator in estimators if estimator.name == headline), None)
    claims = claim_tiers(attempts, settings, needed=False, estimator=shown)
    places = content.tolist()
    return WindowTable(
        tallies=tallies,
        k=tuple(k),
        estimates={each.name: _at(estimate_groups(each, attempts, k), content) for each in estimators},
        default_estimator=[headline] * len(places),
        effective_n=pooled_samples(attempts).n[content],
        tier=[claims.tier[place] for place in places],
        leaning=[claims.leaning[place] for place in places],
    )


def _at(found: GroupedEstimates, content: IntArray) -> GroupedEstimates:
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
