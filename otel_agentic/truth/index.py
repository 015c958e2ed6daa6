"""Cases, prepared for the five methods of matching."""

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

#: Confidence of each method, in [0, 1]. The queries so far match one case today; a future case may begin the same way. A match
#: by text has its calibrated probability.
CONFIDENCE: Final[Mapping[MatchMethod, float]] = {
    "case_id": 1.0,
    "labels_file": 1.0,
    "exact_queries": 1.0,
    "first_query": 0.8,
}
#: Confidence of an id that differs in case or white space.
RESPELLED_CONFIDENCE: Final = 0.9

#: Queries in order, normalised; None for a query that is not annotated, or not known.
Queries = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A case id assigned to a conversation, and its source: the spans or the labels file."""

    method: Literal["case_id", "labels_file"]
    case_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRequest:
    """The inputs of matching: the assigned case ids, the strongest first, the agent and the queries of a conversation."""

    named: Sequence[Named]
    agent_name: str | None
    queries: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The cases that a method matched, at least one, and its confidence."""

    method: MatchMethod
    cases: Sequence[Case]
    confidence: float


class Pool:
    """Cases, indexed by id and by queries."""

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
        """Return the cases of an id, written `case_id` or `dataset/case_id`, and the confidence."""
        exact = self._by_name.get(name)
        return (exact, 1.0) if exact else (self._by_spelling.get(_spelling(name), []), RESPELLED_CONFIDENCE)

    def hit(self, request: MatchRequest) -> Hit | None:
        """Return the hit of the first method that matches any case for the agent, or None."""
        return next((hit for hit in self._hits(request) if hit.cases), None)

    def _hits(self, request: MatchRequest) -> Iterator[Hit]:
        for named in request.named:
            cases, confidence = self.named(named.case_id)
            yield _hit(named.method, cases, request, confidence)
        queries = queries_key(request.queries)
        first = _up_to_first(queries)
        if not first:
            return
        yield _hit("exact_queries", self._by_queries.get(queries, []), request)
        same_beginning = [case for case in self._by_first_query.get(first, []) if case.is_for(request.agent_name)]
        yield _hit("first_query", _same_continuation(same_beginning, request.queries[len(first) - 1 :]), request)

    def nearest(self, request: MatchRequest) -> TextMatch | None:
        """Return the case whose text is most similar to the user's queries, or None."""
        return self._texts.nearest(request.queries, request.agent_name)

    @cached_property
    def _texts(self) -> TextIndex:
        from otel_agentic.truth.text_index import TextIndex  # noqa: PLC0415 — imports numpy; built for unmatched conversations

        return TextIndex(self._cases)


def _same_continuation(cases: Sequence[Case], queries: Sequence[str | None]) -> Sequence[Case]:
    """Return the cases that the later queries of a conversation match as well; those with the most equal queries.

    Args:
        cases: cases that begin with the first query.
        queries: the queries of the conversation, from the first known one.
    """
    if not cases:
        return ()
    spoken = [Spoken.of([query]) for query in queries if query is not None]
    fitting = [(case, equal) for case in cases if (equal := _equal_queries(case, spoken)) is not None]
    most = max((equal for _, equal in fitting), default=0)
    return [case for case, equal in fitting if equal == most]


def _equal_queries(case: Case, spoken: Sequence[Spoken]) -> int | None:
    """Return the number of queries of a conversation that equal those of the case, or None if it does not match the case.

    The first queries are equal. Each later one must resemble a query of the case, in order, or have no content. Queries after
    the last one of the case are not annotated and may be any, so a case of one turn matches every continuation.
    """
    expected = [Spoken.of([turn.query]) for turn in case.turns if turn.query is not None]
    position, fitting, equal = 1, 1, 1
    for index, query in enumerate(spoken[1:], start=1):
        if fitting == len(expected):
            spoken = spoken[:index]
            break
        match = next((at for at in range(position, len(expected)) if resemble(query, expected[at])), None)
        if match is not None:
            position, fitting, equal = match + 1, fitting + 1, equal + (query.words == expected[match].words)
        elif not says_nothing(query) or any(denies(query, other) for other in expected[position : position + 1]):
            return None
    return None if contradict(Spoken.joined(spoken), Spoken.joined(expected)) else equal


def _hit(method: MatchMethod, cases: Sequence[Case], request: MatchRequest, confidence: float | None = None) -> Hit:
    fitting = [case for case in cases if case.is_for(request.agent_name)]
    return Hit(method=method, cases=fitting, confidence=CONFIDENCE[method] if confidence is None else confidence)


def queries_key(queries: Iterable[str | None]) -> Queries:
    """Return the normalised queries; None for a query that is unknown, or punctuation only.

    >>> queries_key(["Where is my order?", None, "?"])
    ('where is my order', None, None)
    """
    return tuple(None if query is None else normalise(query) or None for query in queries)


def _up_to_first(queries: Queries) -> Queries:
    """Return the queries up to the first known one, () if all are unknown: an agent may speak before its user does."""
    index = next((index for index, query in enumerate(queries) if query is not None), None)
    return () if index is None else queries[: index + 1]


def _spelling(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
