"""Judges of answers: the plug-in protocol, the embedded judge, and the judge that calls a LangChain chat model.

The dependencies of the LLM judge are imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.judges.asking_judge import AskingJudge as AskingJudge
    from otel_agentic.judges.base import Budget as Budget
    from otel_agentic.judges.base import BudgetAwareJudge as BudgetAwareJudge
    from otel_agentic.judges.base import Judge as Judge
    from otel_agentic.judges.base import JudgeCache as JudgeCache
    from otel_agentic.judges.base import JudgeFailure as JudgeFailure
    from otel_agentic.judges.base import Question as Question
    from otel_agentic.judges.base import QuestionKind as QuestionKind
    from otel_agentic.judges.base import ReplyForm as ReplyForm
    from otel_agentic.judges.base import Rubric as Rubric
    from otel_agentic.judges.base import StreamingJudge as StreamingJudge
    from otel_agentic.judges.base import Verdict as Verdict
    from otel_agentic.judges.base import is_calibrated as is_calibrated
    from otel_agentic.judges.base import kinds_of as kinds_of
    from otel_agentic.judges.base import question_key as question_key
    from otel_agentic.judges.base import rubric_question as rubric_question
    from otel_agentic.judges.exact import ExactJudge as ExactJudge
    from otel_agentic.judges.llm import LangChainJudge as LangChainJudge
    from otel_agentic.judges.prompts import load_rubric as load_rubric
    from otel_agentic.judges.prompts import prompt_texts as prompt_texts
    from otel_agentic.judges.registry import as_judge as as_judge
    from otel_agentic.judges.registry import judge_named as judge_named

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "asking_judge": "AskingJudge",
        "base": "Budget BudgetAwareJudge Judge JudgeCache JudgeFailure Question QuestionKind ReplyForm Rubric StreamingJudge Verdict is_calibrated kinds_of question_key rubric_question",
        "exact": "ExactJudge",
        "llm": "LangChainJudge",
        "prompts": "load_rubric prompt_texts",
        "registry": "as_judge judge_named",
    },
)
