"""A conversation with its score as the row that groups and windows are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows.model import ScoredConversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore, Dimension, ToolScore
    from otel_agentic.truth.model import Case


def scored_conversation(conversation: Conversation, case: Case | None, score: ConversationScore) -> ScoredConversation:
    """Return the row of a conversation that was scored, as the store would give it.

    Args:
        conversation: the conversation.
        case: its case, None where it has none.
        score: its score.
    """
    named = {*_expected_tools(case), *(fault.tool_name for tools in score.tools for fault in tools.faults)}
    return ScoredConversation(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        revision=conversation.revision,
        agent=conversation.agent_name,
        agent_version=conversation.agent_version,
        service=conversation.service,
        ended_ns=conversation.ended_ns,
        dataset=score.dataset,
        case_id=score.case_id,
        tags=() if case is None else case.tags,
        outcome=score.outcome,
        reason=score.reason,
        dimensions=mean_dimensions(score.tools),
        tools=tuple(sorted(named)),
        known_failure=score.known_failure,
        pass_probability=score.pass_probability,
    )


def _expected_tools(case: Case | None) -> Iterator[str]:
    if case is not None:
        for tools in (case.tools, *(turn.tools for turn in case.turns)):
            yield from () if tools is None else (call.tool_name for call in tools.calls)


def mean_dimensions(scores: Sequence[ToolScore]) -> dict[Dimension, float]:
    """Return the mean of each dimension over the expectations where it applies."""
    found: dict[Dimension, float] = {}
    for name in DIMENSIONS:
        values = [value for score in scores if (value := score.dimensions.get(name)) is not None]
        if values:
            found[name] = sum(values) / len(values)
    return found
