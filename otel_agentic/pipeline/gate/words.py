"""Sentences of a gate: how the evidence relates to a limit."""

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
    """Return a number with four significant digits.

    >>> number(0.7), number(3), number(0.88474), number(-0.0)
    ('0.7', '3', '0.8847', '0')
    """
    return f"{value + 0.0:.4g}"  # -0.0 + 0.0 is 0.0


def share(value: float, limit: float) -> str:
    """Return a ratio with three digits, or as many as show on which side of a limit it is.

    >>> share(0.88474, 0.7), share(0.69996, 0.7), share(1.0, 0.7)
    ('.885', '.69996', '1.00')
    """
    digits = next((count for count in range(3, 10) if round(value, count) != limit or value == limit), 9)
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
    data: str,
    more: int | None,
) -> str:
    """Return a sentence about an estimate and its interval relative to a lower limit; `data` names the conversations or cases.

    >>> arguments = {"limit": 0.7, "level": 0.95, "data": "20 conversations"}
    >>> evidence(value=0.9, lower=0.6, upper=0.99, bound="estimate", more=12, **arguments)
    'the estimate meets it; the 95 % interval extends down to .600: 20 conversations do not prove it, 12 more like these would'
    >>> evidence(value=0.5, lower=0.4, upper=0.6, bound="lower", more=None, **arguments)
    'the whole 95 % interval is below it'
    """
    interval = f"{level * 100:g} % interval"
    if lower >= limit:
        return f"the whole {interval} meets it"
    if upper < limit:
        return f"the whole {interval} is below it"
    if value < limit:
        return f"the estimate is below it; the {interval} extends up to {share(upper, limit)}"
    unproven = f"{data} {'does' if data.startswith('1 ') else 'do'} not prove it"
    would = f", {more:,} more like these would" if more else ""
    if bound == "estimate":
        return f"the estimate meets it; the {interval} extends down to {share(lower, limit)}: {unproven}{would}"
    return f"the estimate meets it, the lower end of the {interval} does not: {unproven}{would}"
