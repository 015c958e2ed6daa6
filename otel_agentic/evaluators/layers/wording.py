"""Lists and values in sentences, the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Things named in a sentence before the rest is counted.
_TOLD: Final = 5


def listed(things: Mapping[str, int] | Sequence[str]) -> str:
    """Return some names as part of a sentence; of a mapping, each with how often.

    >>> listed({"book": 1, "pay": 2}), listed(["a", "b", "c", "d", "e", "f", "g"])
    ('book, pay (2 times)', 'a, b, c, d, e and 2 more')
    """
    if isinstance(things, Mapping):
        things = [name if times == 1 else f"{name} ({times} times)" for name, times in things.items()]
    names = list(things)
    more = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {more} more" if more > 0 else "")
