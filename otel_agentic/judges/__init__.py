"""Is this answer right? The plug-in point, and the judge that needs no model."""

from otel_agentic.judges.base import (
    Budget,
    Judge,
    JudgeCache,
    JudgeFailure,
    Question,
    QuestionKind,
    StreamingJudge,
    Verdict,
    kinds_of,
    question_key,
)
from otel_agentic.judges.exact import ExactJudge

__all__ = [
    "Budget",
    "ExactJudge",
    "Judge",
    "JudgeCache",
    "JudgeFailure",
    "Question",
    "QuestionKind",
    "StreamingJudge",
    "Verdict",
    "kinds_of",
    "question_key",
]
