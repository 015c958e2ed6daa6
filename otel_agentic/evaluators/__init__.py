"""Evaluators: metrics of conversations beyond right or wrong. One plug-in point, many families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AnyEvaluator as AnyEvaluator
    from otel_agentic.evaluators.base import AskingEvaluator as AskingEvaluator
    from otel_agentic.evaluators.base import Evaluator as Evaluator
    from otel_agentic.evaluators.base import GroupEvaluator as GroupEvaluator
    from otel_agentic.evaluators.base import JudgeDialogue as JudgeDialogue
    from otel_agentic.evaluators.base import Member as Member
    from otel_agentic.evaluators.base import Metric as Metric
    from otel_agentic.evaluators.base import MetricScore as MetricScore
    from otel_agentic.evaluators.base import Need as Need
    from otel_agentic.evaluators.base import Subject as Subject
    from otel_agentic.evaluators.base import Target as Target

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "base": "AnyEvaluator AskingEvaluator Evaluator GroupEvaluator JudgeDialogue Member Metric MetricScore Need Subject Target",
    },
)
