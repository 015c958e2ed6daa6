"""What RAGAS and NeMo Evaluator measure of agents: tool calls, goals, topics, answers.

The definitions are theirs; the arithmetic is ours where theirs has faults, and each metric's `limits` say where. Their own
numbers, faults included, are in `otel_agentic.compat.ragas`.
"""

from otel_agentic.evaluators.ragas.answers import AnswerAccuracy
from otel_agentic.evaluators.ragas.goals import GoalAccuracy, GoalAccuracyWithoutReference
from otel_agentic.evaluators.ragas.tool_calls import ToolCalls
from otel_agentic.evaluators.ragas.topics import TopicAdherence

__all__ = ["AnswerAccuracy", "GoalAccuracy", "GoalAccuracyWithoutReference", "ToolCalls", "TopicAdherence"]
