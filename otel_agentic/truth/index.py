"""Cases, ready to be asked for by the five methods of matching."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.truth.sentences import Spoken, contradict, denies, resemble, says_nothing
from otel_agentic.truth.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.truth.model import Case
    from otel_agentic.truth.text_index import TextIndex, TextMatch

MatchMethod = Literal["case_id", "labels_file", "exact_queries", "first_query", "text"]

#: How sure each method is, in [0, 1]. The queries so far fit one case today; tomorrow's cases may begin alike. A match by
#: text has the probability that it was calibrated to.
CONFIDENCE: Final[Mapping[MatchMethod, float]] = {
    "case_id": 1.0,
    "labels_file": 1.0,
    "exact_queries": 1.0,
    "first_query": 0.8,
}
#: An id that is written with other capitals or blanks.
RESPELLED_CONFIDENCE: Final = 0.9

#: Queries in order, normalised; None where one is not annotated, or not known.
Queries = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A case id that somebody gave for a conversation, and who: its spans or the labels file."""

    method: Literal["case_id", "labels_file"]
    case_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a conversation is matched by: case ids that it is given, the strongest first, its agent and its queries."""

    named: Sequence[Named]
    agent_name: str | None
    queries: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The cases that a method found, at least one, and how sure it is."""

    method: MatchMethod
    cases: Sequence[Case]
    confidence: float


class Pool:
    """Cases, ready to be asked for by id and by queries."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._cases = tuple(cases)
        self._by_name: dict[str, list[Case]] = defaultdict(list)
        self._by_spelling: dict[str, list[Case]] = defaultdict(list)
        self._by_queries: dict[Queries, list[Case]] = defaultdict(list)
        self._by_first_query: dict[Queries, list[Case]] = defaultdict(list)
        for case in self._cases:
            self._add(case)

    def _add(self, case: Case) -> None:
        for name in (case.case_id, f"{case.dataset}/{case.case_id}"):
            self._by_name[name].append(case)
            self._by_spelling[_spelling(name)].append(case)
        queries = queries_key(turn.query for turn in case.turns)
        first = _up_to_first(queries)
        if first:
            self._by_queries[queries].append(case)
            self._by_first_query[first].append(case)

    def named(self, name: str) -> tuple[list[Case], float]:
        """Return the cases of an id, written `case_id` or `dataset/case_id`, and how sure that is."""
        exact = self._by_name.get(name)
        return (exact, 1.0) if exact else (self._by_spelling.get(_spelling(name), []), RESPELLED_CONFIDENCE)

    def hit(self, asked: Asked) -> Hit | None:
        """Return what the first method finds that finds any case for the agent; None when none does."""
        return next((hit for hit in self._hits(asked) if hit.cases), None)

    def _hits(self, asked: Asked) -> Iterator[Hit]:
        for given in asked.named:
            cases, confidence = self.named(given.case_id)
            yield _hit(given.method, cases, asked, confidence)
        queries = queries_key(asked.queries)
        first = _up_to_first(queries)
        if not first:
            return
        yield _hit("exact_queries", self._by_queries.get(queries, []), asked)
        beginning_alike = [case for case in self._by_first_query.get(first, []) if case.is_for(asked.agent_name)]
        yield _hit("first_query", _continued_alike(beginning_alike, asked.queries[len(first) - 1 :]), asked)

    def nearest(self, asked: Asked) -> TextMatch | None:
        """Return the case whose text is nearest to what the user said, None where there is none."""
        return self._texts.nearest(asked.queries, asked.agent_name)

    @cached_property
    def _texts(self) -> TextIndex:
        from otel_agentic.truth.text_index import TextIndex  # noqa: PLC0415 — imports numpy; built for unmatched conversations

        return TextIndex(self._cases)


def _continued_alike(cases: Sequence[Case], queries: Sequence[str | None]) -> Sequence[Case]:
    """Return the cases that the later queries of a conversation fit, too; those that share most queries to the letter.

    Args:
        cases: cases that begin with the first query.
        queries: of the conversation, from the first one that is known.
    """
    if not cases:
        return ()
    said = [Spoken.of([query]) for query in queries if query is not None]
    fitting = [(case, equal) for case in cases if (equal := _equal_queries(case, said)) is not None]
    most = max((equal for _, equal in fitting), default=0)
    return [case for case, equal in fitting if equal == most]


def _equal_queries(case: Case, said: Sequence[Spoken]) -> int | None:
    """Return how many queries of a conversation are the case's to the letter; None where it does not fit the case.

    The first queries are equal. Each later one must resemble a query of the case, in order, or say nothing. What follows all
    queries of the case is not annotated and may be anything, so a case of one turn fits whatever follows.
    """
    expected = [Spoken.of([turn.query]) for turn in case.turns if turn.query is not None]
    position, fitting, equal = 1, 1, 1
    for index, query in enumerate(said[1:], start=1):
        if fitting == len(expected):
            said = said[:index]
            break
        found = next((place for place in range(position, len(expected)) if resemble(query, expected[place])), None)
        if found is not None:
            position, fitting, equal = found + 1, fitting + 1, equal + (query.words == expected[found].words)
        elif not says_nothing(query) or any(denies(query, other) for other in expected[position : position + 1]):
            return None
    return None if contradict(Spoken.joined(said), Spoken.joined(expected)) else equal


def _hit(method: MatchMethod, cases: Sequence[Case], asked: Asked, confidence: float | None = None) -> Hit:
    fitting = [case for case in cases if case.is_for(asked.agent_name)]
    return Hit(method=method, cases=fitting, confidence=CONFIDENCE[method] if confidence is None else confidence)


def queries_key(queries: Iterable[str | None]) -> Queries:
    """Return the normalised queries; None where there is none, or nothing but punctuation.

    >>> queries_key(["Where is my order?", None, "?"])
    ('where is my order', None, None)
    """
    return tuple(None if query is None else normalise(query) or None for query in queries)


def _up_to_first(queries: Queries) -> Queries:
    """Return the queries up to the first that is known, () when none is: an agent may speak before its user does."""
    place = next((place for place, query in enumerate(queries) if query is not None), None)
    return () if place is None else queries[: place + 1]


def _spelling(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
