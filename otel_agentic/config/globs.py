"""Whether two globs could fit the same name."""

from __future__ import annotations

import re
from typing import Final

#: A part of a glob: any text, any one character (`?` or a class), or a character of its own.
_PART: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def may_meet(one: str, other: str) -> bool:
    """Return whether some name could fit both globs; a class such as `[ab]` counts as any character.

    >>> may_meet("support-*", "*-eu"), may_meet("support-*", "sales"), may_meet("*", "sales")
    (True, False, True)
    """
    mine, theirs = _PART.findall(one), _PART.findall(other)
    row = _reach([True, *[False] * len(theirs)], None, theirs)
    for part in mine:
        row = _reach(row, part, theirs)
    return row[-1]


def _reach(before: list[bool], part: str | None, theirs: list[str]) -> list[bool]:
    """Return which beginnings of the other glob go with one part more of this one; with None, with no part at all."""
    if part is None:
        row = [True]
        for their in theirs:
            row.append(row[-1] and their == "*")
        return row
    row = [before[0] and part == "*"]
    for place, their in enumerate(theirs):
        free = "*" in {part, their}
        skipped = free and (before[place + 1] or row[place])
        row.append(skipped or (before[place] and (free or _fits(part, their))))
    return row


def _fits(part: str, their: str) -> bool:
    return part == their or any(each == "?" or len(each) > 1 for each in (part, their))
