"""Cases by similar queries: the last resort of matching, off unless asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.text import normalise, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.truth.model import Case

#: Similarities are floating-point: one this close to the threshold reaches it.
_ROUNDING: Final = 1e-9
#: A longer text is like none: a comparison costs the product of the lengths, over a minute where two hold 2 MB.
_LONGEST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzyRule:
    """When similar queries are a match: similarity in [0, 1], and how far the best is ahead of the next."""

    threshold: float
    margin: float

    @classmethod
    def of(cls, settings: ScoringSettings) -> FuzzyRule | None:
        """Return the rule that the settings ask for, None where they ask for none."""
        return cls(threshold=settings.fuzzy_threshold, margin=settings.fuzzy_margin) if settings.fuzzy else None


class FuzzyIndex:
    """Cases, ready to be asked for by similar queries.

    The queries of either side are compared as one text, one after the other. So a turn more or less counts by its length,
    and it does not matter where one message ended and the next began. What is not annotated, or was not captured, is
    not in the text. The similarity is the share of characters that both have in the same order (rapidfuzz, InDel).
    Words with a digit must be the same on both sides: "cancel order A1" is never "cancel order B2", however alike. A
    text of more than 10,000 characters, such as a pasted document, is like no other.
    """

    def __init__(self, cases: Iterable[Case], rule: FuzzyRule) -> None:
        self._rule = rule
        by_figures: dict[frozenset[str], list[tuple[int, str, Case]]] = defaultdict(list)
        for case in cases:
            text = joined(turn.query for turn in case.turns)
            if 0 < len(text) <= _LONGEST:
                by_figures[_figures(text)].append((len(text), text, case))
        self._by_figures = {
            key: _Shelf.of(sorted(entries, key=lambda entry: entry[0])) for key, entries in by_figures.items()
        }

    def fitting(self, queries: Iterable[str | None], agent_name: str | None) -> tuple[list[Case], float]:
        """Return the cases that are most like the queries, and the similarity of the best; none below the threshold.

        Several are returned where the best is not ahead by the margin.
        """
        text = joined(queries)
        shelf = self._by_figures.get(_figures(text)) if 0 < len(text) <= _LONGEST else None
        if shelf is None:
            return [], 0.0
        lowest = max(0.0, self._rule.threshold - self._rule.margin - _ROUNDING)
        found = [(case, score) for case, score in shelf.like(text, lowest) if case.is_for(agent_name)]
        best = max((score for _, score in found), default=0.0)
        if not found or best < self._rule.threshold - _ROUNDING:
            return [], 0.0
        return [case for case, score in found if score > best - self._rule.margin + _ROUNDING or score == best], best


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shelf:
    """Cases in order of the length of their text."""

    lengths: Sequence[int]
    texts: Sequence[str]
    cases: Sequence[Case]

    @classmethod
    def of(cls, entries: Sequence[tuple[int, str, Case]]) -> _Shelf:
        return cls(
            lengths=[length for length, _, _ in entries],
            texts=[text for _, text, _ in entries],
            cases=[case for _, _, case in entries],
        )

    def like(self, text: str, lowest: float) -> list[tuple[Case, float]]:
        """Return the cases whose similarity is at least `lowest`, each with it."""
        from rapidfuzz import process  # noqa: PLC0415 — off by default; a library that few evaluations need
        from rapidfuzz.distance import Indel  # noqa: PLC0415 — same

        # A similarity of s needs a length between s/(2-s) and (2-s)/s of ours: the others are not looked at.
        reach = lowest / (2.0 - lowest)
        start = bisect_left(self.lengths, int(len(text) * reach))
        end = bisect_right(self.lengths, int(len(text) / reach) + 1) if reach else len(self.lengths)
        found = process.extract(
            text, self.texts[start:end], scorer=Indel.normalized_similarity, score_cutoff=lowest, limit=None
        )
        return [(self.cases[start + place], float(score)) for _, score, place in found]


def joined(queries: Iterable[str | None]) -> str:
    """Return the queries that are known as one normalised text.

    >>> joined(["Book a hotel!", None, "In Rome."])
    'book a hotel in rome'
    """
    return " ".join(filter(None, (normalise(query) for query in queries if query is not None)))


def _figures(text: str) -> frozenset[str]:
    """Return the words of a normalised text that hold a digit: numbers, dates, order numbers."""
    return frozenset(word for word in words(text) if any(character.isdigit() for character in word))
