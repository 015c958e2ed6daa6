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
    from otel_agentic.judges.asking import AskingJudge
    from otel_agentic.judges.choose import as_judge, judge_named
    from otel_agentic.judges.langchain_judge import LangChainJudge
    from otel_agentic.judges.prompts import prompt_texts
    from otel_agentic.judges.rubrics import load_rubric

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
    "AskingJudge": "otel_agentic.judges.asking",
    "LangChainJudge": "otel_agentic.judges.langchain_judge",
    "as_judge": "otel_agentic.judges.choose",
    "judge_named": "otel_agentic.judges.choose",
    "load_rubric": "otel_agentic.judges.rubrics",
    "prompt_texts": "otel_agentic.judges.prompts",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
