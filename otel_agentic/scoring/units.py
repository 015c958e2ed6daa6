"""One number in the units that it may be said in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.judges.units import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.judges.quantities import Quantity


def _factors() -> Mapping[str, tuple[float, ...]]:
    """Return the units of each dimension, as multiples of its base unit."""
    found: dict[str, set[float]] = defaultdict(set)
    for dimension, factor in UNITS.values():
        found[dimension].add(factor)
    return {dimension: tuple(sorted(factors)) for dimension, factors in found.items()}


_FACTORS = _factors()


def other_units(number: Quantity) -> Iterator[Quantity]:
    """Yield a number in the other units that it may be said in; a ratio is also a percentage.

    >>> from otel_agentic.judges.quantities import quantities
    >>> [one.value for one in other_units(next(quantities("90 minutes"))) if one.factor == 3600]
    [1.5]
    """
    if number.dimension is None:
        if abs(number.value) <= 1:
            yield replace(number, value=number.value * 100, dimension="percent")
    elif number.dimension == "celsius":
        yield replace(number, value=number.value * 9 / 5 + 32, dimension="fahrenheit")
    elif number.dimension == "fahrenheit":
        yield replace(number, value=(number.value - 32) * 5 / 9, dimension="celsius")
    else:
        for factor in _FACTORS.get(number.dimension, ()):
            if factor != number.factor:
                yield replace(number, value=number.value * number.factor / factor, factor=factor)


def readings(known: Quantity, unit: Quantity) -> Iterator[float]:
    """Yield what a known number may be in the unit of another one; that one's value where they cannot be compared.

    >>> from otel_agentic.judges.quantities import quantities
    >>> bare, dollars, euros = quantities("90 $90 €82")
    >>> list(readings(bare, dollars)), list(readings(dollars, euros))
    ([90.0, 9000.0, 0.9, 90.0], [82.0])
    """
    dimension = unit.dimension
    if "percent" in {dimension, known.dimension}:
        yield from (known.value, known.value * 100, known.value / 100)
    elif dimension in {"celsius", "fahrenheit"} and known.dimension in {None, "celsius", "fahrenheit"}:
        yield from (known.value, known.value * 9 / 5 + 32, (known.value - 32) * 5 / 9)
    elif None in {dimension, known.dimension}:
        # Nobody says in which unit the bare one is: any of the other one's dimension, cents or shares.
        yield from (known.value, known.value * 100, known.value / 100)
        yield from (known.value * factor / unit.factor for factor in _FACTORS.get(dimension or "", ()))
    elif dimension == known.dimension:
        yield known.value * known.factor / unit.factor
    else:
        yield unit.value
