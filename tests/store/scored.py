"""Conversations and their scores, written into a store as rebuilding and scoring do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.scoring.model import ConversationScore, ToolScore
from otel_agentic.store.conversations import Built, save_conversations
from otel_agentic.store.scores import save_scores
from otel_agentic.store.selection import Scored
from otel_agentic.truth.match import Match

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import Outcome
    from otel_agentic.store import Store
    from otel_agentic.truth import Case


def save(store: Store, *found: Conversation) -> None:
    """Write revisions of conversations."""
    built = [Built(conversation=each, ambiguous_link=False) for each in found]
    store.write(lambda con: save_conversations(con, built, 1))


def score(store: Store, *scored: Scored) -> None:
    """Write scores."""
    store.write(lambda con: save_scores(con, "e", scored, 1))


def scored_as(
    found: Conversation, outcome: Outcome = "pass", case: Case | None = None, *, ratio: float = 1.0
) -> Scored:
    """Return a conversation with a score; with a case it has two expectations of tools, of selection .5 and 1."""
    tools = [
        ToolScore(
            turn_index=place,
            outcome="pass",
            reason=None,
            overall=1.0,
            dimensions={"selection": selection, "parameters": None, "sequence": None, "utilization": None},
            faults=(),
        )
        for place, selection in enumerate((0.5, 1.0))
    ]
    score = ConversationScore(
        environment=found.environment,
        conversation_id=str(found.conversation_id),
        revision=found.revision,
        case_id=None if case is None else case.case_id,
        dataset=None if case is None else case.dataset,
        case_version=None if case is None else case.version,
        match_method=None,
        match_confidence=None,
        warning=None,
        outcome=outcome,
        reason={"pass": None, "fail": "wrong_answer", "not_evaluated": "judge_error"}[outcome],
        outcome_source="computed",
        computed_outcome=outcome,
        computed_reason=None,
        answer_outcome=outcome,
        tool_outcome=outcome,
        both_outcome=outcome,
        turns=(),
        tools=tuple(tools if case else ()),
        missing_outputs=(),
        explanation="It was so.",
    )
    match = Match(case=case, method=None, confidence=None, candidates=(), warning=None, reason=None)
    return Scored(conversation=found, match=match, score=score, sample_ratio=ratio)
