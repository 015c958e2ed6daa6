"""The arithmetic of tool correctness: shares in [0, 1], None where there is nothing to share, and their weighted mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import Dimension
    from otel_agentic.scoring.utilization import Use


def utilization_score(uses: Sequence[tuple[MadeCall, Use]]) -> float | None:
    """Return the share of results that were used among those of which it is known."""
    used, known = 0.0, 0
    for _, use in uses:
        if use.score is not None:
            used += use.score
            known += 1
    return used / known if known else None


def weighted_mean(
    selection: float,
    parameters: float | None,
    sequence: float | None,
    utilization: float | None,
    weights: tuple[float, float, float, float],
) -> float | None:
    """Return the weighted mean over the dimensions that apply, None where none with a weight does.

    >>> weighted_mean(1.0, 0.5, None, None, (1.0, 1.0, 1.0, 0.0))
    0.75
    """
    total, by_parameters, by_sequence, by_utilization = weights
    top = selection * total
    if parameters is not None:
        top += parameters * by_parameters
        total += by_parameters
    if sequence is not None:
        top += sequence * by_sequence
        total += by_sequence
    if utilization is not None:
        top += utilization * by_utilization
        total += by_utilization
    return top / total if total else None


def overall_score(dimensions: Mapping[Dimension, float | None], weights: Mapping[Dimension, float]) -> float | None:
    """Return the weighted mean over the dimensions that apply, None where none with a weight does.

    >>> overall_score({"selection": 1.0, "parameters": 0.5, "sequence": None}, {"selection": 1, "parameters": 1})
    0.75
    """
    applicable = [(value, weights.get(name, 0.0)) for name, value in dimensions.items() if value is not None]
    # Divided by the largest first: weights of 1e-320 or 1e308 must not vanish or overflow.
    largest = max((weight for _, weight in applicable), default=0.0)
    if largest <= 0:
        return None
    total = sum(weight / largest for _, weight in applicable)
    return sum(value * (weight / largest) for value, weight in applicable) / total
