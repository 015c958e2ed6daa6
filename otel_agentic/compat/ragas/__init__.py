"""RAGAS 0.3.9 (and the tool call accuracy of 0.2.15): tool calls, answer accuracy, topic adherence.

`docs/compat.md` tells what is reproduced and which faults that includes.
"""

from otel_agentic.compat.ragas.answers import AnswerAccuracy, answer_accuracy, average_ratings, rating
from otel_agentic.compat.ragas.tool_calls import (
    RagasCall,
    legacy_tool_call_accuracy,
    tool_call_accuracy,
    tool_call_f1,
)
from otel_agentic.compat.ragas.topics import TopicAdherence, topic_adherence

__all__ = [
    "AnswerAccuracy",
    "RagasCall",
    "TopicAdherence",
    "answer_accuracy",
    "average_ratings",
    "legacy_tool_call_accuracy",
    "rating",
    "tool_call_accuracy",
    "tool_call_f1",
    "topic_adherence",
]
