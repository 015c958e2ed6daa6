"""Sentences of a gate: what the evidence says of a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agentic.config.gate import BoundKind


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "conversation"), counted(2000, "score")
    ('1 conversation', '2,000 scores')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """Return a number with four digits that say something.

    >>> number(0.7), number(3), number(0.88474), number(-0.0)
    ('0.7', '3', '0.8847', '0')
    """
    return f"{value + 0.0:.4g}"  # -0.0 + 0.0 is 0.0


def share(value: float, limit: float) -> str:
    """Return a ratio with three digits, or so many more that it is seen on which side of a limit it lies.

    >>> share(0.88474, 0.7), share(0.69996, 0.7), share(1.0, 0.7)
    ('.885', '.69996', '1.00')
    """
    digits = next((each for each in range(3, 10) if round(value, each) != limit or value == limit), 9)
    text = f"{value:.{digits}f}"
    return "1.00" if text == "1.000" else text.removeprefix("0")


def evidence(
    *,
    value: float,
    lower: float,
    upper: float,
    limit: float,
    bound: BoundKind,
    level: float,
    what: str,
    more: int | None,
) -> str:
    """Return what an estimate and its interval say of a least value, a sentence; `what` is what they rest on.

    >>> given = {"limit": 0.7, "level": 0.95, "what": "20 conversations"}
    >>> evidence(value=0.9, lower=0.6, upper=0.99, bound="estimate", more=12, **given)
    'the estimate holds it; the 95 % interval reaches down to .600: 20 conversations do not prove it, 12 more like these would'
    >>> evidence(value=0.5, lower=0.4, upper=0.6, bound="lower", more=None, **given)
    'the whole 95 % interval is below it'
    """
    interval = f"{level * 100:g} % interval"
    if lower >= limit:
        return f"the whole {interval} holds it"
    if upper < limit:
        return f"the whole {interval} is below it"
    if value < limit:
        return f"the estimate is below it; the {interval} reaches up to {share(upper, limit)}"
    unproven = f"{what} {'does' if what.startswith('1 ') else 'do'} not prove it"
    would = f", {more:,} more like these would" if more else ""
    if bound == "estimate":
        return f"the estimate holds it; the {interval} reaches down to {share(lower, limit)}: {unproven}{would}"
    return f"the estimate holds it, the lower end of the {interval} does not: {unproven}{would}"
