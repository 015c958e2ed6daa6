"""How a suite does over time: a point an agent version, or a day, and which cases broke or were fixed at each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from otel_agentic.stats import pooled_sample
from otel_agentic.stats.exact import exact_rate
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.stats import CaseKey
    from otel_agentic.windows import ScoredConversation

#: What a point of a trend is.
TrendBy = Literal["version", "day", "week"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A case that was all right at an earlier point and is not now (broke), or the other way round (fixed).

    `before` and `now` are correct and evaluated attempts; `since` is the point before, the last with attempts of the case.
    """

    dataset: str
    case_id: str
    since: str | None
    before: tuple[int, int]
    now: tuple[int, int]

    @property
    def broke(self) -> bool:
        """Whether it was right before."""
        return self.before[0] == self.before[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the trend of one agent.

    `name` is the version or the first day; None is the version that is not known. `n` conversations of `cases` cases were
    evaluated, `c` of them are correct, `not_evaluated` were not. `rate` with its exact interval is None without any. Times are
    ends of conversations, ns since the epoch.
    """

    agent: str | None
    name: str | None
    cases: int
    n: int
    c: int
    not_evaluated: int
    rate: float | None
    lower: float | None
    upper: float | None
    first_ns: int
    last_ns: int
    flips: tuple[Flip, ...]


def trend(scored: Iterable[ScoredConversation], by: TrendBy, level: float) -> list[Point]:
    """Return the points of each agent, by agent and then in the order in which they first appeared.

    Args:
        scored: the conversations of a suite.
        by: what a point is.
        level: of the intervals.
    """
    groups: dict[tuple[str | None, str | None], list[ScoredConversation]] = defaultdict(list)
    for one in sorted(scored, key=lambda one: one.ended_ns):
        groups[one.agent, _name(one, by)].append(one)
    by_agent: dict[str | None, list[tuple[str | None, Sequence[ScoredConversation]]]] = defaultdict(list)
    for (agent, name), members in groups.items():  # in the order of the first conversation of each
        by_agent[agent].append((name, members))
    agents = sorted(by_agent, key=lambda agent: (agent is not None, agent or ""))
    return [point for agent in agents for point in _points(agent, by_agent[agent], level)]


def _points(
    agent: str | None, groups: Iterable[tuple[str | None, Sequence[ScoredConversation]]], level: float
) -> Iterator[Point]:
    known: dict[CaseKey, tuple[str | None, tuple[int, int]]] = {}
    for name, members in groups:
        attempts = attempts_of(members)
        sample = pooled_sample(attempts)
        interval = exact_rate(sample, level) if sample else None
        counts = {(case.dataset, case.case_id): (case.c, case.n) for case in attempts.cases}
        yield Point(
            agent=agent,
            name=name,
            cases=len(counts),
            n=attempts.n,
            c=attempts.c,
            not_evaluated=len(members) - attempts.n,
            rate=sample.observed if sample else None,
            lower=interval.lower if interval else None,
            upper=interval.upper if interval else None,
            first_ns=members[0].ended_ns,
            last_ns=members[-1].ended_ns,
            flips=tuple(flips(known, counts)),
        )
        known |= {key: (name, count) for key, count in counts.items()}


def flips(
    known: Mapping[CaseKey, tuple[str | None, tuple[int, int]]], counts: Mapping[CaseKey, tuple[int, int]]
) -> Iterator[Flip]:
    """Yield the cases that broke or were fixed, by key.

    Args:
        known: of each case the name of the point before, and its correct and evaluated attempts there.
        counts: correct and evaluated attempts now.
    """
    for key, now in sorted(counts.items()):
        since, before = known.get(key, (None, now))
        if (before[0] == before[1]) != (now[0] == now[1]):
            yield Flip(dataset=key[0], case_id=key[1], since=since, before=before, now=now)


def _name(one: ScoredConversation, by: TrendBy) -> str | None:
    if by == "version":
        return one.agent_version
    day = datetime.fromtimestamp(one.ended_ns // 1_000_000_000, UTC).date()
    return (day - timedelta(days=day.weekday()) if by == "week" else day).isoformat()
