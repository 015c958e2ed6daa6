"""What Agentest measures of agents, from production conversations: five scales, the goal, and failures of behaviour.

The definitions are Agentest's; the prompts and what they are shown are ours. Its own arithmetic of thresholds is in
`otel_agentic.compat.agentest`.
"""

from otel_agentic.evaluators.agentest.behavior import AgentBehaviorFailure
from otel_agentic.evaluators.agentest.goals import GoalCompletion
from otel_agentic.evaluators.agentest.scales import Coherence, Faithfulness, Helpfulness, Relevance, Verbosity
from otel_agentic.evaluators.agentest.tool_behavior import ToolCallBehaviorFailure

__all__ = [
    "AgentBehaviorFailure",
    "Coherence",
    "Faithfulness",
    "GoalCompletion",
    "Helpfulness",
    "Relevance",
    "ToolCallBehaviorFailure",
    "Verbosity",
]
