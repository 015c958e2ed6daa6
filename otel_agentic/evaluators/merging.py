"""A judge says which groups of failures have one root cause; whatever it says, no failure is lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.groups import joined, ordered
from otel_agentic.judges.base import rubric_question
from otel_agentic.judges.rubrics import MOST_CAUSES, merge_rubric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.evaluators.groups import ErrorGroup
    from otel_agentic.judges.base import Question

#: Groups shown in one question: what a judge can still tell apart.
SHOWN: Final = 2 * MOST_CAUSES
#: Characters of a title and of an example, so that all of them are shown; and of a cause in the judge's words.
_TITLE: Final = 120
_EXAMPLE: Final = 160
_CAUSE: Final = 100
#: `2, 5 = a cause`.
_SET: Final = re.compile(r"\s*([0-9]+(?:\s*,\s*[0-9]+)*)\s*=\s*(.*)", re.DOTALL)


def merge_question(groups: Sequence[ErrorGroup]) -> Question | None:
    """Return the one question about groups: the first `SHOWN` of them in order. None where there is nothing to join."""
    shown = ordered(groups)[:SHOWN]
    if len(shown) <= 1:
        return None
    return rubric_question(merge_rubric(), groups="\n".join(_line(number, one) for number, one in enumerate(shown, 1)))


def merged(groups: Sequence[ErrorGroup], texts: Sequence[str]) -> list[ErrorGroup]:
    """Return groups joined as a judge says; what it says wrongly changes nothing.

    Args:
        groups: those that `merge_question` asked about.
        texts: its reply. A number that is no group's, or that was said before, is left out.
    """
    shown = ordered(groups)
    found: list[ErrorGroup] = []
    taken: set[int] = set()
    for numbers, cause in _sets(texts, min(len(shown), SHOWN)):
        fresh = [number for number in numbers if number not in taken]
        if len(fresh) > 1:
            taken.update(fresh)
            found.append(joined([shown[number - 1] for number in fresh], cause or None))
    left = [group for number, group in enumerate(shown, 1) if number not in taken]
    return ordered([*found, *left])


def _sets(texts: Sequence[str], most: int) -> Iterator[tuple[list[int], str]]:
    for text in texts:
        said = _SET.fullmatch(text)
        if said is not None:
            # Digits of a number that long are no group's; converting them could raise.
            named = [int(part) for part in said[1].replace(",", " ").split() if len(part) <= len(str(most))]
            numbers = list(dict.fromkeys(number for number in named if 1 <= number <= most))
            yield numbers, _short(said[2], _CAUSE)


def _line(number: int, group: ErrorGroup) -> str:
    often = f"{len(group.failures)} times in {group.conversations} conversations"
    return (
        f"{number}. {often}: {_short(group.title, _TITLE)}; for example: {_short(group.example.explanation, _EXAMPLE)}"
    )


def _short(text: str, most: int) -> str:
    told = " ".join(text.split())
    return told if len(told) <= most else f"{told[: most - 1]}…"
