"""Match -> Score: compare parameters, pair calls, judge answers, decide conversations."""

from otel_agentic.scoring.dimensions import FAULT_PRECEDENCE, fault_class, overall_score, score_tools
from otel_agentic.scoring.model import (
    SCORING_VERSION,
    ConversationScore,
    ToolFault,
    ToolScore,
    TurnScore,
    evaluator_version,
    truth_version,
)
from otel_agentic.scoring.outcome import MatchedConversation, score_conversation, score_conversations
from otel_agentic.scoring.scope import ActualCall, Scope, ToolRules, scope_of

__all__ = [
    "FAULT_PRECEDENCE",
    "SCORING_VERSION",
    "ActualCall",
    "ConversationScore",
    "MatchedConversation",
    "Scope",
    "ToolFault",
    "ToolRules",
    "ToolScore",
    "TurnScore",
    "evaluator_version",
    "fault_class",
    "overall_score",
    "scope_of",
    "score_conversation",
    "score_conversations",
    "score_tools",
    "truth_version",
]
