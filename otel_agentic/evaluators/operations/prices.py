"""Which price is a model's: by its name, else by the most specific glob."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.effects import spelled_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.config import Price

#: Prices are those of a million tokens.
_TOKENS: Final = 1_000_000
_ANY: Final = "*"


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model, None where there is none; a model without a name has that of `*` only.

    The name itself is more specific than any glob, a glob the more so the more characters it spells out.

    >>> from otel_agentic.config.evaluators import Price
    >>> dear, cheap = Price(input_usd=2, output_usd=8), Price(input_usd=1, output_usd=4)
    >>> price_of("gpt-5-mini", {"gpt-5*": dear, "gpt-5-mini*": cheap}) is cheap
    True
    """
    if model is None:
        return prices.get(_ANY)
    if model in prices:
        return prices[model]
    fitting = [pattern for pattern in prices if fnmatchcase(model, pattern)]
    # Of two that are as specific the first by name, so that the order in the file changes nothing.
    return prices[min(fitting, key=lambda pattern: (-spelled_out(pattern), pattern))] if fitting else None


def cost_usd(price: Price, input_tokens: int, output_tokens: int) -> float:
    """Return what tokens cost, US dollars.

    >>> from otel_agentic.config.evaluators import Price
    >>> cost_usd(Price(input_usd=2, output_usd=8), 500_000, 250_000)
    3.0
    """
    return (input_tokens * price.input_usd + output_tokens * price.output_usd) / _TOKENS
