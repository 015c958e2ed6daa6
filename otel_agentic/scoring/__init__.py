"""Match -> Score: compare parameters, pair calls, judge answers, decide conversations."""

from otel_agentic.scoring.dimensions import overall_score
from otel_agentic.scoring.faults import FAULT_PRECEDENCE, fault_class
from otel_agentic.scoring.made import MadeCall, Scope, scope_of
from otel_agentic.scoring.model import ConversationScore, ToolFault, ToolScore, TurnScore
from otel_agentic.scoring.outcome import score_conversation, score_conversations
from otel_agentic.scoring.plan import MatchedConversation
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.tools import score_tools
from otel_agentic.scoring.version import SCORING_VERSION, evaluator_version, truth_version

__all__ = [
    "FAULT_PRECEDENCE",
    "SCORING_VERSION",
    "ConversationScore",
    "MadeCall",
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
