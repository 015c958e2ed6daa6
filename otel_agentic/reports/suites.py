"""Suites, the cases with the same tag: their conversations, and their success rate by version, day or week."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import BadInputError
from otel_agentic.stats import pooled_sample
from otel_agentic.stats.estimators import exact_rate
from otel_agentic.store.truth import load_cases
from otel_agentic.windows import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner
    from otel_agentic.evaluation.truth import Truth
    from otel_agentic.stats import CaseKey
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth import Case
    from otel_agentic.windows import ScoredConversation

#: Conversations that are matched at once.
_CHUNK: Final = 500
#: Tags told in an error.
_TOLD: Final = 20


def require_suite(con: Connection, tag: str) -> list[Case]:
    """Return the cases in force that bear a tag.

    Raises:
        BadInputError: none does; names the tags that there are.
    """
    cases = load_cases(con)
    found = [case for case in cases if tag in case.tags]
    if not found:
        tags = sorted({each for case in cases for each in case.tags})
        there = f"tags in force: {', '.join(tags[:_TOLD])}" if tags else "no case in force has a tag"
        raise BadInputError(
            f"no case in force has the tag {tag!r}; {there}; `otel-agentic truth promote --failing --tag {tag}` drafts cases"
        )
    return found


def of_suite(evaluating: EvaluationRunner, truth: Truth, wanted: EvaluationRequest, tag: str) -> EvaluationRequest:
    """Return what is wanted of conversations that are matched to a case with a tag; all of it is matched for that.

    Args:
        evaluating: what matches.
        truth: the ground truth in force.
        wanted: conversations to be scored.
        tag: the tag of the suite, of at least one case.
    """
    asked = [*wanted.keys, *wanted.lacking]
    found = (
        one
        for start in range(0, len(asked), _CHUNK)
        for one in evaluating.match(truth, asked[start : start + _CHUNK])
        if one.match.case is not None and tag in one.match.case.tags
    )
    ours = frozenset((one.conversation.environment, str(one.conversation.conversation_id)) for one in found)
    return replace(
        wanted,
        keys=[key for key in wanted.keys if key in ours],  # the oldest is scored first
        again=wanted.again & ours,
        lacking={key: names for key, names in wanted.lacking.items() if key in ours},
    )


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
