"""What a tool does to the world: it reads or it writes."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.truth.model import Effect

#: What a glob leaves open: any text, any character, one character of several.
_OPEN: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")


def effect_of(tool_name: str, tables: Sequence[Mapping[str, Effect]]) -> Effect:
    """Return the effect of a tool: of the first table that knows it, by its most specific pattern; else `write`.

    An exact name is more specific than any pattern, a pattern the more so the more characters of the name it spells out.

    >>> effect_of("get_user", [{"*": "write", "get_*": "read"}]), effect_of("book", [])
    ('read', 'write')
    """
    for table in tables:
        if tool_name in table:
            return table[tool_name]
        fitting = [pattern for pattern in table if fnmatchcase(tool_name, pattern)]
        if fitting:
            # Of two patterns that are as specific, the careful reading: the tool may write.
            return table[max(fitting, key=lambda pattern: (spelled_out(pattern), table[pattern] == "write"))]
    # A tool that nobody described may change something: the careful reading again.
    return "write"


def spelled_out(pattern: str) -> int:
    """Return how many characters of a name a glob spells out.

    >>> spelled_out("get_*"), spelled_out("get_[ab]*")
    (4, 4)
    """
    return len(_OPEN.sub("", pattern))
