"""The four dimensions of tool correctness, each in [0, 1] or None where it does not apply, and their weighted mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import Dimension
    from otel_agentic.scoring.utilization import Use
    from otel_agentic.truth.model import Order


def selection_score(required: int, paired: int, unasked: int) -> float:
    """Return paired / (required + made - paired); allowed extras and excused optional calls stand outside.

    Args:
        required: how many calls are required.
        paired: how many of them were made.
        unasked: how many calls were made beyond them that are not allowed, that is made - paired.

    >>> selection_score(2, 2, 0), round(selection_score(2, 2, 1), 3), selection_score(0, 0, 0), selection_score(0, 0, 1)
    (1.0, 0.667, 1.0, 0.0)
    """
    if not required:
        return 0.0 if unasked else 1.0
    return paired / (required + unasked)


def parameters_score(required: int, pairs: Sequence[Pair]) -> float | None:
    """Return the mean agreement over the required calls, 0 for one that was not made."""
    if not required:
        return None
    return sum([pair.agreement.score for pair in pairs]) / required


def sequence_score(required: int, placed: int, order: Order) -> float | None:
    """Return the share of required calls made in their place; None without an order or with fewer than two calls.

    >>> sequence_score(2, 1, "relative"), sequence_score(2, 2, "any"), sequence_score(1, 1, "exact")
    (0.5, None, None)
    """
    if order == "any" or required < 2:  # noqa: PLR2004 — one call has no order
        return None
    return placed / required


def utilization_score(uses: Sequence[tuple[MadeCall, Use]]) -> float | None:
    """Return the share of results that were used among those of which it is known."""
    known = [use.score for _, use in uses if use.score is not None]
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
