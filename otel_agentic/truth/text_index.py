"""Search of cases by the text of all queries: the last method of matching, for requests that are worded differently.

Texts are compared by TF-IDF: the cosines of their words, of pairs of neighbouring words and of words with digits
(identifiers, numbers). Only the user's queries count, never the agent's actions: otherwise the conversations in which it
failed would remain unmatched. The confidence of the best case depends on its similarity, on its margin to the next
case, and on the words that both texts share; a logistic model computes a probability, see docs/matching.md for its fit.
A case that contradicts the conversation (`sentences.contradict`) is no match, at any confidence.

Ref: Salton and Buckley, Term-weighting approaches in automatic text retrieval, 1988 (sublinear TF-IDF, cosine).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from otel_agentic.truth.sentences import (
    COMMON_WORDS,
    Spoken,
    asks_for_another,
    contradict,
    is_figure,
    plain_words,
    stem,
)

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case

#: The words of a text in order.
Wording = tuple[str, ...]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]

#: Weights of the kinds of terms in the similarity; kinds that a conversation lacks are ignored.
_WEIGHTS: Final = {"words": 0.5, "pairs": 0.3, "figures": 0.2}
#: Minimum number of words and figures that two texts must share: the model was not fitted on pairs with fewer.
_MIN_SHARED: Final = 4
#: Words that do not change a request.
_POLITE: Final = frozenset({"please", "kindly", "thanks", "thank", "hi", "hello", "hey", "sure", "ok", "okay"})
#: Probability of a match if only spelling, contractions and politeness differ.
_EQUAL_CONFIDENCE: Final = 0.99
#: Number of empty documents added to the cases when terms are weighted: with a single case, no term would be rare.
_PRIOR_CASES: Final = 20
#: Maximum number of differing letters between two spellings, by length of the word.
_TYPOS: Final = {4: 1, 5: 1, 6: 1, 7: 1}
_TYPOS_OF_LONG: Final = 2
_SHORTEST_TYPO: Final = 4


class Features(NamedTuple):
    """The inputs of the probability of the best case.

    `similarity` is in [0, 1], `margin` is the distance to the next case, `shared` is the sum of the weights of the words and
    figures that both texts contain.
    """

    similarity: float
    margin: float
    shared: float

    @property
    def values(self) -> tuple[float, ...]:
        """The inputs of the logistic model."""
        evidence = math.log1p(self.shared)
        return (self.similarity, self.margin, evidence, self.margin * evidence)


#: Fitted by `python -m benchmarks.bench_text_matching`: the intercept, then a coefficient for each of `Features.values`.
COEFFICIENTS: Final = (-1.57, 1.21, -3.62, 0.08, 4.73)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """The case whose text is most similar to that of a conversation.

    `confidence` is the probability that the case is the right one, `margin` the difference in similarity to the next case.
    """

    case: Case
    confidence: float
    margin: float


class TextIndex:
    """Cases, prepared for search by user queries."""

    def __init__(self, cases: Iterable[Case]) -> None:
        texts = [(case, Spoken.of(turn.query for turn in case.turns)) for case in cases]
        self._cases = [case for case, _ in texts]
        self._spoken = [spoken for _, spoken in texts]
        self._agents: dict[str | None, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
        self._spelling = _Spelling(spoken.words for spoken in self._spoken)
        self._by_wording: dict[Wording, list[Case]] = defaultdict(list)
        for case, spoken in texts:
            self._by_wording[self._wording(spoken)].append(case)
        self._by_wording.pop((), None)  # only words of politeness
        terms = [_terms(spoken.words) for spoken in self._spoken]
        self._channels = {kind: _Channel([counts[kind] for counts in terms]) for kind in _WEIGHTS}

    def nearest(self, queries: Iterable[str | None], agent_name: str | None) -> TextMatch | None:
        """Return the case most similar to the queries of a conversation, or None if there is no acceptable case."""
        spoken = Spoken.of(queries)
        equal = [case for case in self._by_wording.get(self._wording(spoken), ()) if case.is_for(agent_name)]
        if len(equal) == 1:
            return TextMatch(case=equal[0], confidence=_EQUAL_CONFIDENCE, margin=1.0)
        best = self.best(spoken, agent_name)
        if best is None:
            return None
        position, features = best
        if self.excludes(spoken, position):
            return None
        return TextMatch(case=self._cases[position], confidence=probability(features), margin=features.margin)

    def similar(self, queries: Iterable[str | None], agent_name: str | None) -> list[tuple[Case, float]]:
        """Return the cases for an agent with their similarity to the queries of a conversation, in [0, 1]."""
        similarity, _ = self._compared(Spoken.of(queries), agent_name)
        return [
            (case, min(1.0, float(value)))
            for case, value, is_for in zip(self._cases, similarity, self._is_for(agent_name), strict=True)
            if is_for
        ]

    def best(self, spoken: Spoken, agent_name: str | None) -> tuple[int, Features] | None:
        """Return the position and features of the most similar case for an agent, or None if no case shares a word."""
        if not self._cases:
            return None
        similarity, shared = self._compared(spoken, agent_name)
        position = int(np.argmax(similarity))
        if similarity[position] <= 0:
            return None
        best = float(similarity[position])
        similarity[position] = 0.0
        return position, Features(best, best - float(similarity.max()), float(shared[position]))

    def _compared(self, spoken: Spoken, agent_name: str | None) -> tuple[Floats, Floats]:
        """Return the similarity of each case, 0 for cases of other agents, and the weights of what it shares."""
        terms = _terms(map(self._spelling.corrected, spoken.words))
        total, shared, weight = np.zeros(len(self._cases)), np.zeros(len(self._cases)), 0.0
        for kind, channel in self._channels.items():
            if not terms[kind]:
                continue
            cosines, weights = channel.compare(terms[kind])
            total += _WEIGHTS[kind] * cosines
            weight += _WEIGHTS[kind]
            if kind != "pairs":  # pairs consist of the same words
                shared += weights
        return total / (weight or 1.0) * self._is_for(agent_name), shared

    def excludes(self, spoken: Spoken, position: int) -> bool:
        """Return whether a similar case is not a match: the texts share too few words, or are different requests."""
        other = self._spoken[position]
        if len(spoken.content & other.content) < _MIN_SHARED:
            return True
        return contradict(spoken, other) or asks_for_another(spoken, other)

    def _wording(self, spoken: Spoken) -> Wording:
        """Return the words in order, spelt as in the cases, without words of politeness."""
        return tuple(self._spelling.corrected(word) for word in spoken.words if word not in _POLITE)

    def _is_for(self, agent_name: str | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if agent_name not in self._agents:
            self._agents[agent_name] = np.array([case.is_for(agent_name) for case in self._cases])
        return self._agents[agent_name]


def probability(features: Features) -> float:
    """Return the probability that the best case is the right one."""
    intercept, *coefficients = COEFFICIENTS
    value = intercept + sum(map(float.__mul__, coefficients, features.values))
    return 1.0 / (1.0 + math.exp(-value)) if value > 0 else math.exp(value) / (1.0 + math.exp(value))


def _terms(words: Iterable[str]) -> Mapping[str, Counter[str]]:
    """Return the terms of each kind, without common words and pairs of them."""
    tokens = list(words)
    return {
        "words": Counter(stem(word) for word in tokens if word not in COMMON_WORDS and not is_figure(word)),
        "pairs": Counter(
            f"{stem(left)} {stem(right)}"
            for left, right in pairwise(tokens)
            if not COMMON_WORDS.issuperset((left, right))
        ),
        "figures": Counter(filter(is_figure, tokens)),
    }


#: Weights of the kinds of terms in the similarity of explanations and answers, whose figures only identify an object.
_PROSE_WEIGHTS: Final = {"words": 0.6, "pairs": 0.4}
#: A term that at least this share of the texts contain does not distinguish them.
_UBIQUITOUS: Final = 0.9


def similarities(texts: Sequence[str]) -> Matrix:
    """Return the similarity of each pair of texts, in [0, 1]: the cosines of their words and of pairs of words.

    Common words, words with digits, and terms that nearly all texts contain are ignored. A text without any other word is
    similar to none, not even to itself.
    """
    counts = [_terms(plain_words(text)) for text in texts]
    total = np.zeros((len(texts), len(texts)))
    for kind, weight in _PROSE_WEIGHTS.items():
        frequencies = Counter(term for terms in counts for term in terms[kind])
        documents = [
            {term: count for term, count in terms[kind].items() if frequencies[term] < _UBIQUITOUS * len(texts)}
            for terms in counts
        ]
        channel = _Channel(documents)
        for position, document in enumerate(documents):
            if document:
                total[position] += weight * channel.compare(document)[0]
    return np.clip((total + total.T) / 2, 0.0, 1.0)


class _Channel:
    """The terms of one kind of all cases, as an inverted index."""

    def __init__(self, documents: Sequence[Mapping[str, int]]) -> None:
        postings: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for position, document in enumerate(documents):
            for term, count in document.items():
                positions, counts = postings[term]
                positions.append(position)
                counts.append(count)
        self._size = len(documents)
        self._postings = {
            term: (np.array(positions), self._weights(len(positions), counts))
            for term, (positions, counts) in postings.items()
        }
        norms = np.sqrt(self._sum((positions, weights**2) for positions, weights in self._postings.values()))
        self._norms = np.where(norms > 0, norms, 1.0)

    def compare(self, counts: Mapping[str, int]) -> tuple[Floats, Floats]:
        """Return the cosine of each case with a document, and the sum of the weights of the shared terms."""
        indexed = [(self._postings[term], count) for term, count in counts.items() if term in self._postings]
        other_counts = [count for term, count in counts.items() if term not in self._postings]
        term_weights = [
            (len(positions), float(self._weights(len(positions), [count])[0])) for (positions, _), count in indexed
        ]
        norm = math.sqrt(
            sum(weight**2 for _, weight in term_weights) + float((self._weights(0, other_counts) ** 2).sum())
        )
        products = self._sum(
            (positions, weights * weight)
            for ((positions, weights), _), (_, weight) in zip(indexed, term_weights, strict=True)
        )
        shared = self._sum((positions, self._rarity(len(positions))) for (positions, _), _ in indexed)
        return products / (self._norms * norm), shared

    def _weights(self, document_count: int, counts: Sequence[int]) -> Floats:
        weights: Floats = self._rarity(document_count) * (1.0 + np.log(np.array(counts, dtype=float)))
        return weights

    def _rarity(self, document_count: int) -> float:
        return math.log((self._size + _PRIOR_CASES + 1) / (document_count + 0.5))

    def _sum(self, parts: Iterable[tuple[np.ndarray[tuple[int], np.dtype[np.int_]], Floats | float]]) -> Floats:
        total = np.zeros(self._size)
        for positions, weights in parts:
            total[positions] += weights  # positions are distinct within the postings of a term
        return total


class _Spelling:
    """The words of all cases, used to correct words that no case contains: they may be misspelt."""

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        self._known = frozenset(COMMON_WORDS.union(*texts))
        self._by_shape: dict[tuple[str, int], list[str]] = defaultdict(list)
        for word in sorted(self._known):
            self._by_shape[word[:1], len(word)].append(word)
        self._corrected: Callable[[str], str] = lru_cache(maxsize=10_000)(self._nearest)

    def corrected(self, word: str) -> str:
        """Return the known word of which an unknown word is a misspelling, or the word itself."""
        return word if word in self._known or len(word) < _SHORTEST_TYPO or is_figure(word) else self._corrected(word)

    def _nearest(self, word: str) -> str:
        from rapidfuzz import process  # noqa: PLC0415 — slow to import, and few evaluations need it
        from rapidfuzz.distance import OSA  # noqa: PLC0415 — same

        typos = _TYPOS.get(len(word), _TYPOS_OF_LONG)
        lengths = range(len(word) - typos, len(word) + typos + 1)
        candidates = list(self._candidates(word[0], lengths))
        match = process.extractOne(word, candidates, scorer=OSA.distance, score_cutoff=typos)
        return match[0] if match else word

    def _candidates(self, first: str, lengths: Iterable[int]) -> Iterator[str]:
        for length in lengths:
            if length >= _SHORTEST_TYPO:
                yield from self._by_shape.get((first, length), ())
