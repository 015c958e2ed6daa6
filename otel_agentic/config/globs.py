"""Whether two globs can match the same name."""

from __future__ import annotations

import re
from typing import Final

#: A part of a glob: any text, any single character (`?` or a class), or a literal character.
_PART: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def globs_overlap(first: str, other: str) -> bool:
    """Return whether some name can match both globs; a class such as `[ab]` counts as any character.

    >>> globs_overlap("support-*", "*-eu"), globs_overlap("support-*", "sales"), globs_overlap("*", "sales")
    (True, False, True)
    """
    parts, other_parts = _PART.findall(first), _PART.findall(other)
    row = _reach([True, *[False] * len(other_parts)], None, other_parts)
    for part in parts:
        row = _reach(row, part, other_parts)
    return row[-1]


def _reach(before: list[bool], part: str | None, other_parts: list[str]) -> list[bool]:
    """Return which prefixes of the other glob match this one up to `part`; None: up to its start."""
    if part is None:
        row = [True]
        for other_part in other_parts:
            row.append(row[-1] and other_part == "*")
        return row
    row = [before[0] and part == "*"]
    for index, other_part in enumerate(other_parts):
        free = "*" in {part, other_part}
        skipped = free and (before[index + 1] or row[index])
        row.append(skipped or (before[index] and (free or _fits(part, other_part))))
    return row


def _fits(part: str, other_part: str) -> bool:
    return part == other_part or any(glob_part == "?" or len(glob_part) > 1 for glob_part in (part, other_part))
