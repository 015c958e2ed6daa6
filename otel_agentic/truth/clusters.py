"""Clusters of opening queries: which question should be annotated next."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.text import normalise, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Similarity in percent (rapidfuzz, InDel over sorted words) from which two first queries ask the same.
_SAME_QUESTION: Final = 80
#: Words of a query that are compared: the question is at the beginning, and a pasted document costs nothing.
_WORDS: Final = 20
#: Number of clusters that other queries may join, the most frequent ones; further dissimilar queries stay separate. Bounds the cost.
_ATTRACTING: Final = 1000
#: Replaces a word with a digit: order A1 and order B2 are one question.
_FIGURE: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A conversation and its first query, None if it was not captured; `ended_ns` is its end, ns since the epoch."""

    environment: str
    conversation_id: str
    agent: str | None
    query: str | None
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Conversations with similar opening queries.

    `query` is the most frequent first query in the words of the newest conversation, None if not captured; `example` is that
    conversation. `size` counts conversations, `share` is their share of all clustered ones, in (0, 1]. `agents` are names,
    most frequent first. Times are those of the first and the last end, ns since the epoch.
    """

    query: str | None
    size: int
    share: float
    agents: tuple[str, ...]
    example: Opening
    first_seen_ns: int
    last_seen_ns: int


def cluster(openings: Iterable[Opening]) -> list[Cluster]:
    """Return the clusters of conversations by opening query, the largest first; independent of the order of conversations.

    Queries are equal if they contain the same words, independent of order, case and punctuation, with words with digits treated
    as equal. The others join the most similar of the `_ATTRACTING` most frequent ones, if one is similar enough.
    """
    by_question: dict[str, list[Opening]] = defaultdict(list)
    for opening in openings:
        by_question[_question(opening.query)].append(opening)
    total = sum(map(len, by_question.values()))
    groups = _join({question: len(same) for question, same in by_question.items()})
    clusters = [
        _cluster(by_question[leader], [opening for question in joined for opening in by_question[question]], total)
        for leader, joined in groups.items()
    ]
    return sorted(
        clusters, key=lambda item: (-item.size, -item.last_seen_ns, item.query or "", item.example.conversation_id)
    )


def _question(query: str | None) -> str:
    """Return the sorted words of a query, with words with digits made equal; "" for an unknown query.

    >>> _question("Where is order A1?") == _question("where is order B2")
    True
    """
    tokens = words(normalise(query or ""))[:_WORDS]
    return " ".join(sorted(_FIGURE if any(map(str.isdigit, word)) else word for word in tokens))


def _join(sizes: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
    """Return the questions by their leading one, in order of frequency, so that the input order does not matter."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415 — only clustering needs it

    groups: dict[str, list[str]] = {}
    leaders: list[str] = []
    for question in sorted(sizes, key=lambda text: (-sizes[text], text)):
        # Without words nothing was captured, which resembles no other query.
        best = (
            process.extractOne(question, leaders, scorer=fuzz.ratio, score_cutoff=_SAME_QUESTION) if question else None
        )
        if best is not None:
            groups[best[0]].append(question)
            continue
        groups[question] = [question]
        if question and len(leaders) < _ATTRACTING:
            leaders.append(question)
    return groups


def _cluster(leading: Sequence[Opening], all_: Sequence[Opening], total: int) -> Cluster:
    example = max(leading, key=lambda opening: (opening.ended_ns, opening.environment, opening.conversation_id))
    agents = Counter(opening.agent for opening in all_ if opening.agent is not None)
    ends = [opening.ended_ns for opening in all_]
    return Cluster(
        query=example.query,
        size=len(all_),
        share=len(all_) / total,
        agents=tuple(sorted(agents, key=lambda name: (-agents[name], name))),
        example=example,
        first_seen_ns=min(ends),
        last_seen_ns=max(ends),
    )
