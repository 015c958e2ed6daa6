"""Paths to what an attribute holds: the notation of every dialect's table.

`tool.name` is an attribute. `input.value~` is one whose text is read as JSON, `input.value~.task` what that JSON holds
under `task`. Numbers count list items, from the end where negative: `input.value~.messages.-1.content`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_JSON: Final = "~"
_INDEX: Final = re.compile(r"^-?[0-9]{1,9}$")


def first(attributes: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """Return what the first path leads to that is there and not None; None when none does.

    >>> first({"in": '{"kwargs": {"city": "Oslo"}}'}, ("arguments", "in~.kwargs"))
    {'city': 'Oslo'}
    """
    read: tuple[str, Any] | None = None  # the paths of one meaning mostly lead into the same attribute
    for path in paths:
        if _JSON not in path:
            value = attributes.get(path)
        else:
            attribute, steps = _split(path)
            if read is None or read[0] != attribute:
                read = (attribute, parsed(attributes.get(attribute)))
            value = walk(read[1], steps)
        if value is not None:
            return value
    return None


def attribute_of(path: str) -> str:
    """Return the name of the attribute that a path begins with.

    >>> attribute_of("input.value~.kwargs")
    'input.value'
    """
    return _split(path)[0]


def walk(value: Any, steps: Iterable[str]) -> Any:
    """Return what lies below a value; JSON text on the way is read; None when the way ends before."""
    for step in steps:
        value = parsed(value)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.match(step) and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


@lru_cache(maxsize=4096)
def _split(path: str) -> tuple[str, tuple[str, ...]]:
    attribute, _, rest = path.partition(_JSON)
    return attribute, tuple(step for step in rest.split(".") if step)
