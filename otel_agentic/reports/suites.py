"""Suites, the cases with the same tag: their conversations, and their success rate by version, day or week."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import BadInputError
from otel_agentic.reports.conversations import iso
from otel_agentic.results.evaluation import Flip, TrendPoint
from otel_agentic.stats import CaseKey, pooled_sample
from otel_agentic.stats.estimators import exact_rate
from otel_agentic.store.truth import load_cases
from otel_agentic.windows import ScoredConversation, attempts_of

if TYPE_CHECKING:
    from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner
    from otel_agentic.evaluation.scope import Truth
    from otel_agentic.store.connection import Connection
    from otel_agentic.truth import Case

#: Conversations that are matched together.
_CHUNK: Final = 500
#: Tags listed in an error message.
_MAX_TAGS: Final = 20


def require_suite(con: Connection, tag: str) -> list[Case]:
    """Return the active cases with a tag.

    Raises:
        BadInputError: no case has the tag; the message lists the existing tags.
    """
    cases = load_cases(con)
    suite = [case for case in cases if tag in case.tags]
    if not suite:
        tags = sorted({name for case in cases for name in case.tags})
        existing = f"existing tags: {', '.join(tags[:_MAX_TAGS])}" if tags else "no active case has a tag"
        raise BadInputError(
            f"no active case has the tag {tag!r}; {existing}; `otel-agentic truth promote --failing --tag {tag}` drafts cases"
        )
    return suite


def of_suite(runner: EvaluationRunner, truth: Truth, request: EvaluationRequest, tag: str) -> EvaluationRequest:
    """Return a request restricted to conversations whose case has a tag; all its conversations are matched first.

    Args:
        runner: matches the conversations.
        truth: the active ground truth.
        request: the conversations to score.
        tag: the tag of the suite, which at least one case has.
    """
    requested = [*request.keys, *request.lacking]
    matches = (
        match
        for start in range(0, len(requested), _CHUNK)
        for match in runner.match(truth, requested[start : start + _CHUNK])
        if match.match.case is not None and tag in match.match.case.tags
    )
    members = frozenset((match.conversation.environment, str(match.conversation.conversation_id)) for match in matches)
    return replace(
        request,
        keys=[key for key in request.keys if key in members],  # keeps the order: the oldest is scored first
        again=request.again & members,
        lacking={key: names for key, names in request.lacking.items() if key in members},
    )


#: The meaning of a point of a trend.
TrendBy = Literal["version", "day", "week"]


def trend(scored: Iterable[ScoredConversation], by: TrendBy, level: float) -> list[TrendPoint]:
    """Return the points of each agent, by agent and then in the order in which they first appeared.

    Args:
        scored: the conversations of a suite.
        by: the meaning of a point.
        level: level of the intervals.
    """
    groups: dict[tuple[str | None, str | None], list[ScoredConversation]] = defaultdict(list)
    for conversation in sorted(scored, key=lambda conversation: conversation.ended_ns):
        groups[conversation.agent, _name(conversation, by)].append(conversation)
    by_agent: dict[str | None, list[tuple[str | None, Sequence[ScoredConversation]]]] = defaultdict(list)
    for (agent, name), members in groups.items():  # in the order of the first conversation of each
        by_agent[agent].append((name, members))
    agents = sorted(by_agent, key=lambda agent: (agent is not None, agent or ""))
    return [point for agent in agents for point in _points(agent, by_agent[agent], level)]


def _points(
    agent: str | None, groups: Iterable[tuple[str | None, Sequence[ScoredConversation]]], level: float
) -> Iterator[TrendPoint]:
    previous: dict[CaseKey, tuple[str | None, tuple[int, int]]] = {}
    for name, members in groups:
        attempts = attempts_of(members)
        sample = pooled_sample(attempts)
        interval = exact_rate(sample, level) if sample else None
        counts = {(case.dataset, case.case_id): (case.c, case.n) for case in attempts.cases}
        yield TrendPoint(
            agent=agent,
            name=name,
            cases=len(counts),
            n=attempts.n,
            c=attempts.c,
            not_evaluated=len(members) - attempts.n,
            rate=sample.observed if sample else None,
            lower=interval.lower if interval else None,
            upper=interval.upper if interval else None,
            flips=list(flips(previous, counts)),
            from_=iso(members[0].ended_ns),
            until=iso(members[-1].ended_ns),
        )
        previous |= {key: (name, count) for key, count in counts.items()}


def flips(
    known: Mapping[CaseKey, tuple[str | None, tuple[int, int]]], counts: Mapping[CaseKey, tuple[int, int]]
) -> Iterator[Flip]:
    """Yield the cases that broke (all attempts were correct, and now they are not) or were fixed (vice versa), by key.

    Args:
        known: for each case the name of the previous point, and its correct and evaluated attempts there.
        counts: the current correct and evaluated attempts.
    """
    for key, now in sorted(counts.items()):
        since, before = known.get(key, (None, now))
        if (before[0] == before[1]) != (now[0] == now[1]):
            change = "broke" if before[0] == before[1] else "fixed"
            yield Flip(dataset=key[0], case_id=key[1], since=since, before=[*before], now=[*now], change=change)


def _name(conversation: ScoredConversation, by: TrendBy) -> str | None:
    if by == "version":
        return conversation.agent_version
    day = datetime.fromtimestamp(conversation.ended_ns // 1_000_000_000, UTC).date()
    return (day - timedelta(days=day.weekday()) if by == "week" else day).isoformat()
