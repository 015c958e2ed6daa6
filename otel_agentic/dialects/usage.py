"""How many tokens a request to a model took, by the names of all conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from otel_agentic.dialects.values import parsed

#: No request has more; what is above is not a count.
_MOST: Final = 10**12
_MOST_DIGITS: Final = 12
#: What counts of tokens are called where one value holds both: what went in, and what came back.
_INPUT: Final = (
    "input_tokens",
    "prompt_tokens",
    "inputTokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
    "input",
    "prompt",
)
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "output",
    "completion",
)


def count_of(value: Any) -> int | None:
    """Return a count of tokens, None for anything else: a negative number, a fraction, words.

    >>> count_of(20), count_of("20"), count_of(20.0), count_of(-1), count_of(True), count_of("many")
    (20, 20, 20, None, None, None)
    """
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return None
    return int(value) if value == int(value) else None


def usage_of(value: Any) -> tuple[int | None, int | None]:
    """Return the counts of tokens, in and out, that one value holds: JSON text or an object.

    >>> usage_of('{"prompt_tokens": 20, "completion_tokens": 7}'), usage_of({"input": 20})
    ((20, 7), (20, None))
    """
    found = parsed(value)
    if not isinstance(found, Mapping):
        return None, None
    return _first(found, _INPUT), _first(found, _OUTPUT)


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := count_of(fields.get(name))) is not None), None)
