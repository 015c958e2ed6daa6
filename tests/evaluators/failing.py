"""Builders of failures and of the failed conversations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config import EvaluatorSettings, ScoringSettings, Severity
from otel_agentic.evaluators.base import Metric, MetricScore, Subject
from otel_agentic.evaluators.run import Failure, FailureRules, Location
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import MatchedConversation, score_conversations
from otel_agentic.testing import NOON_NS, SECOND_NS
from otel_agentic.truth import CaseIndex, Label, parse_cases

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges import Judge

#: 1 to 5, higher is better, nothing below 3 is good.
TONE: Final = Metric(
    name="house.talk.tone",
    title="tone",
    definition="How polite.",
    source="the house",
    target="turn",
    low=1,
    high=5,
    threshold=3,
)
#: Seconds, lower is better, no bound of its own.
WAIT: Final = Metric(
    name="house.talk.wait",
    title="wait",
    definition="How long.",
    source="the house",
    target="turn",
    high=None,
    higher_is_better=False,
)
#: Labels: one is good, one is bad, one is worse.
MOOD: Final = Metric(
    name="house.talk.mood",
    title="mood",
    definition="Which mood.",
    source="the house",
    target="turn",
    labels=("calm", "angry", "furious"),
    failing=frozenset({"angry", "furious"}),
    severity="low",
    severities={"furious": "high"},
)
METRICS: Final = (TONE, WAIT, MOOD)


def rules(**settings: Any) -> FailureRules:
    return FailureRules(METRICS, EvaluatorSettings.model_validate(settings))


def location(
    name: str = "c1", *, day: int = 0, environment: str = "production", agent: str | None = "clerk"
) -> Location:
    return Location(
        environment=environment,
        conversation_id=name,
        revision=1,
        agent=agent,
        agent_version="1",
        ended_ns=NOON_NS + day * 24 * 3600 * SECOND_NS,
    )


def failure(metric: str = MOOD.name, label: str | None = "angry", severity: Severity = "low", **fields: Any) -> Failure:
    return Failure(
        **{
            "location": location(),
            "metric": metric,
            "label": label,
            "severity": severity,
            "explanation": "so it was",
            **fields,
        }
    )


def mood(label: str | None, **fields: Any) -> MetricScore:
    return MetricScore(name=MOOD.name, label=label, **fields)


def subjects(
    cases: Iterable[dict[str, Any]],
    talks: Iterable[Conversation],
    labels: dict[str, bool] | None = None,
    judge: Judge | None = None,
    **scoring: Any,
) -> list[Subject]:
    """Return conversations with their cases and their scores, as evaluators get them."""
    index = CaseIndex(parse_cases("d.jsonl", "\n".join(map(json.dumps, cases))).require())
    settings = ScoringSettings(**scoring)
    matched = []
    for talk in talks:
        name = str(talk.conversation_id)
        label = None
        if name in (labels or {}):
            label = Label(conversation_id=name, case_id=None, verdict=(labels or {})[name], line=1)
        matched.append(MatchedConversation(conversation=talk, match=index.match(talk, label), label=label))
    scores = score_conversations(matched, judge=judge or ExactJudge(), settings=settings)
    return [
        Subject(
            conversation=item.conversation,
            case=item.match.case if item.match.case is not None and item.match.case.reviewed else None,
            score=score,
            aligned={turn.turn_index: turn.case_turn_index for turn in score.turns if turn.case_turn_index is not None},
            settings=settings,
        )
        for item, score in zip(matched, scores, strict=True)
    ]


def moved(item: Failure, name: str, day: int) -> Failure:
    """Return the same failure of another conversation."""
    return replace(item, location=location(name, day=day))
