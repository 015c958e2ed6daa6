"""What conversations begin with, grouped: which question wants annotating next."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.truth.text import normalise, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Similarity in percent (rapidfuzz, InDel over sorted words) at which two first queries ask the same.
_SAME_QUESTION: Final = 80
#: Words of a query that are compared: what is asked stands at the beginning, and a pasted document costs nothing.
_WORDS: Final = 20
#: Clusters that others may join, the most frequent ones: what begins like none of them stands alone. It bounds the cost.
_ATTRACTING: Final = 1000
#: What stands for a word with a digit: order A1 and order B2 are one question.
_FIGURE: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A conversation and its first query, None when none was captured; `ended_ns` is its end, ns since the epoch."""

    environment: str
    conversation_id: str
    agent: str | None
    query: str | None
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Conversations that begin alike.

    `query` is the most frequent first query as the newest conversation said it, None where none was captured; `example`
    is that conversation. `size` counts conversations, `share` is that of all clustered, in (0, 1]. `agents` are named,
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
    """Return the conversations by what they begin with, largest cluster first; their order does not matter.

    Queries are equal when they hold the same words, whatever their order, case and punctuation, and whatever stands for
    a number or an id. The others join the most similar of the `_ATTRACTING` most frequent ones, if one is similar enough.
    """
    by_question: dict[str, list[Opening]] = defaultdict(list)
    for opening in openings:
        by_question[_question(opening.query)].append(opening)
    total = sum(map(len, by_question.values()))
    groups = _join({question: len(found) for question, found in by_question.items()})
    found = [
        _cluster(by_question[leader], [one for question in joined for one in by_question[question]], total)
        for leader, joined in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.size, -one.last_seen_ns, one.query or "", one.example.conversation_id))


def _question(query: str | None) -> str:
    """Return the sorted words of a query, figures made alike; "" where there is none.

    >>> _question("Where is order A1?") == _question("where is order B2")
    True
    """
    found = words(normalise(query or ""))[:_WORDS]
    return " ".join(sorted(_FIGURE if any(map(str.isdigit, word)) else word for word in found))


def _join(sizes: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
    """Return the questions by the one that leads them: in order of frequency, so that nothing depends on their order."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415 — only this question needs it

    groups: dict[str, list[str]] = {}
    leaders: list[str] = []
    for question in sorted(sizes, key=lambda one: (-sizes[one], one)):
        # No words: nothing was captured, which is like nothing else.
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
    example = max(leading, key=lambda one: (one.ended_ns, one.environment, one.conversation_id))
    agents = Counter(one.agent for one in all_ if one.agent is not None)
    ends = [one.ended_ns for one in all_]
    return Cluster(
        query=example.query,
        size=len(all_),
        share=len(all_) / total,
        agents=tuple(sorted(agents, key=lambda name: (-agents[name], name))),
        example=example,
        first_seen_ns=min(ends),
        last_seen_ns=max(ends),
    )
