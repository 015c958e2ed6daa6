"""The four dimensions of tool correctness, each in [0, 1] or None where it does not apply, and their weighted mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from otel_agentic.scoring.model import Dimension
    from otel_agentic.scoring.sorting import SortedCalls
    from otel_agentic.scoring.utilization import Use


def selection_score(calls: SortedCalls) -> float:
    """Return paired / (required + made - paired) as multisets; allowed extras and excused optional calls stand outside."""
    penalized = len(calls.extra["penalize"]) + len(calls.extra["forbid"])
    if not calls.required:
        return 0.0 if penalized else 1.0
    return len(calls.pairing.required) / (calls.required + penalized)


def parameters_score(calls: SortedCalls) -> float | None:
    """Return the mean agreement over the required calls, 0 for one that was not made."""
    if not calls.required:
        return None
    return sum(pair.agreement.score for pair in calls.pairing.required) / calls.required


def sequence_score(calls: SortedCalls, placed: Collection[int]) -> float | None:
    """Return the share of required calls made in their place; None without an order or with fewer than two calls."""
    if calls.expectation.order == "any" or calls.required < 2:  # noqa: PLR2004 — one call has no order
        return None
    return len(placed) / calls.required


def utilization_score(uses: Sequence[Use]) -> float | None:
    """Return the share of results that were used among those of which it is known."""
    known = [use.score for use in uses if use.score is not None]
    return sum(known) / len(known) if known else None


def overall_score(dimensions: Mapping[Dimension, float | None], weights: Mapping[Dimension, float]) -> float | None:
    """Return the weighted mean over the dimensions that apply, None where none with a weight does.

    >>> overall_score({"selection": 1.0, "parameters": 0.5, "sequence": None}, {"selection": 0.25, "parameters": 0.25})
    0.75
    """
    applicable = [(value, weights.get(name, 0.0)) for name, value in dimensions.items() if value is not None]
    # Divided by the largest first: weights of 1e-320 or 1e308 must not vanish or overflow.
    largest = max((weight for _, weight in applicable), default=0.0)
    if largest <= 0:
        return None
    total = sum(weight / largest for _, weight in applicable)
    return sum(value * (weight / largest) for value, weight in applicable) / total
