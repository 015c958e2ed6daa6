"""What a tool does to the world: it reads or it writes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.truth.model import Effect

_WILDCARDS: Final = frozenset("*?[]!")


def effect_of(tool_name: str, tables: Sequence[Mapping[str, Effect]]) -> Effect:
    """Return the effect of a tool: of the first table that knows it, by its most specific pattern; else `write`.

    An exact name is more specific than any pattern, a pattern the more so the more of the name it spells out.

    >>> effect_of("get_user", [{"*": "write", "get_*": "read"}]), effect_of("book", [])
    ('read', 'write')
    """
    for table in tables:
        if tool_name in table:
            return table[tool_name]
        fitting = [pattern for pattern in table if fnmatchcase(tool_name, pattern)]
        if fitting:
            return table[max(fitting, key=_specificity)]
    # A tool that nobody described may change something: the careful reading.
    return "write"


def _specificity(pattern: str) -> tuple[int, str]:
    return sum(character not in _WILDCARDS for character in pattern), pattern
