"""Clusters of failures by the text of their explanations, for failures that no tool or parameter describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from otel_agentic.stats.linkage import average_linkage
from otel_agentic.truth.sentences import COMMON_WORDS, is_figure, plain_words
from otel_agentic.truth.text_index import similarities

#: Two clusters are joined while the mean similarity of their texts is at least this. Of the first queries of tau-airline,
#: pairs of different tasks have a similarity of .02 (median) and .14 (90 %), pairs of the same task .42 (median).
_SIMILAR: Final = 0.3
#: Fewer texts, or a smaller share of all texts, are no cluster, but remain with the texts that are similar to no other.
_FEWEST: Final = 3
_SMALLEST_SHARE: Final = 0.05
#: Maximum number of different texts that are compared, because the cost is quadratic; the others remain unclustered.
_MAX_TEXTS: Final = 1000
#: Characters of a text that are read.
_CHARACTERS: Final = 2000
#: Number of terms that describe a cluster, and the share of its texts that contain each of them.
_MAX_TERMS: Final = 3
_TYPICAL: Final = 0.5


def cluster_terms(texts: Sequence[str], counts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return for each text the words that distinguish its cluster, the most typical first; empty without a cluster.

    Two clusters never have the same words: such clusters count as one. The result does not depend on the order of the texts.

    Args:
        texts: the texts, among which may be equal ones.
        counts: how often each occurs.
    """
    frequencies: Counter[str] = Counter()
    for text, count in zip(texts, counts, strict=True):
        frequencies[text[:_CHARACTERS]] += count
    total = frequencies.total()
    distinct = sorted(frequencies, key=lambda text: (-frequencies[text], text))[:_MAX_TEXTS]
    if total < 2 * _FEWEST or len(distinct) == 1:
        return [()] * len(texts)
    numbers = average_linkage(similarities(distinct), _SIMILAR)
    members: dict[int, list[str]] = {}
    for text, number in zip(distinct, numbers, strict=True):
        members.setdefault(number, []).append(text)
    words_of = {text: _words(text) for text in distinct}
    shares = _shares(words_of, frequencies, distinct)
    terms_by_text: dict[str, tuple[str, ...]] = {}
    for cluster in members.values():
        if sum(frequencies[text] for text in cluster) >= max(_FEWEST, _SMALLEST_SHARE * total):
            terms = _distinguishing(_shares(words_of, frequencies, cluster), shares)
            terms_by_text.update(dict.fromkeys(cluster, terms))
    return [terms_by_text.get(text[:_CHARACTERS], ()) for text in texts]


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in plain_words(text) if word not in COMMON_WORDS and not is_figure(word))


def _shares(words_of: dict[str, frozenset[str]], frequencies: Counter[str], texts: Sequence[str]) -> dict[str, float]:
    """Return the share of the texts that contain each word."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(dict.fromkeys(words_of[text], frequencies[text]))
    total = sum(frequencies[text] for text in texts)
    return {word: count / total for word, count in counts.items()}


def _distinguishing(own: dict[str, float], overall: dict[str, float]) -> tuple[str, ...]:
    """Return the words that most texts of a cluster contain, and the fewest of all texts; of equal ones, the longest."""
    typical = [word for word, share in own.items() if share >= _TYPICAL and share > overall[word]]
    return tuple(
        sorted(typical, key=lambda word: (overall[word] - own[word], -own[word], -len(word), word))[:_MAX_TERMS]
    )
