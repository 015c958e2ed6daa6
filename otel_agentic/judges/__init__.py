"""Is this answer right? The plug-in point, the judge that needs no model, and the one that asks any model of LangChain.

What only a judge with a model needs is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from otel_agentic.judges.base import (
    Budget,
    BudgetAwareJudge,
    Judge,
    JudgeCache,
    JudgeFailure,
    Question,
    QuestionKind,
    ReplyForm,
    Rubric,
    StreamingJudge,
    Verdict,
    is_calibrated,
    kinds_of,
    question_key,
    rubric_question,
)
from otel_agentic.judges.exact import ExactJudge

if TYPE_CHECKING:
    from otel_agentic.judges.asking_judge import AskingJudge
    from otel_agentic.judges.llm import LangChainJudge
    from otel_agentic.judges.prompts import load_rubric, prompt_texts
    from otel_agentic.judges.registry import as_judge, judge_named

__all__ = [
    "AskingJudge",
    "Budget",
    "BudgetAwareJudge",
    "ExactJudge",
    "Judge",
    "JudgeCache",
    "JudgeFailure",
    "LangChainJudge",
    "Question",
    "QuestionKind",
    "ReplyForm",
    "Rubric",
    "StreamingJudge",
    "Verdict",
    "as_judge",
    "is_calibrated",
    "judge_named",
    "kinds_of",
    "load_rubric",
    "prompt_texts",
    "question_key",
    "rubric_question",
]

_MODULES = {
    "AskingJudge": "otel_agentic.judges.asking_judge",
    "LangChainJudge": "otel_agentic.judges.llm",
    "as_judge": "otel_agentic.judges.registry",
    "judge_named": "otel_agentic.judges.registry",
    "load_rubric": "otel_agentic.judges.prompts",
    "prompt_texts": "otel_agentic.judges.prompts",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
