"""Match -> Score: compare parameters, pair calls, judge answers, decide conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.scoring.dimensions import FAULT_PRECEDENCE as FAULT_PRECEDENCE
    from otel_agentic.scoring.dimensions import fault_class as fault_class
    from otel_agentic.scoring.dimensions import overall_score as overall_score
    from otel_agentic.scoring.dimensions import score_tools as score_tools
    from otel_agentic.scoring.model import SCORING_VERSION as SCORING_VERSION
    from otel_agentic.scoring.model import ConversationScore as ConversationScore
    from otel_agentic.scoring.model import ToolFault as ToolFault
    from otel_agentic.scoring.model import ToolScore as ToolScore
    from otel_agentic.scoring.model import TurnScore as TurnScore
    from otel_agentic.scoring.model import evaluator_version as evaluator_version
    from otel_agentic.scoring.model import truth_version as truth_version
    from otel_agentic.scoring.outcome import MatchedConversation as MatchedConversation
    from otel_agentic.scoring.outcome import score_conversation as score_conversation
    from otel_agentic.scoring.outcome import score_conversations as score_conversations
    from otel_agentic.scoring.scope import ActualCall as ActualCall
    from otel_agentic.scoring.scope import Scope as Scope
    from otel_agentic.scoring.scope import ToolRules as ToolRules
    from otel_agentic.scoring.scope import scope_of as scope_of

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "dimensions": "FAULT_PRECEDENCE fault_class overall_score score_tools",
        "model": "SCORING_VERSION ConversationScore ToolFault ToolScore TurnScore evaluator_version truth_version",
        "outcome": "MatchedConversation score_conversation score_conversations",
        "scope": "ActualCall Scope ToolRules scope_of",
    },
)
