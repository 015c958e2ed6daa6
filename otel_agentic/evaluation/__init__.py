"""Stored conversations to stored scores: runs of judges and evaluators, sampling, active ground truth.

The public names are imported on first use: `case_files` is used on the command line, where importing the store takes too long.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.evaluation.counts import EvaluationSummary, MetricTally, Tally
    from otel_agentic.evaluation.judge_runs import JudgeRun, MemoryCache, RunBudget
    from otel_agentic.evaluation.run import EvaluationListener, EvaluationRequest, EvaluationRunner, OnScored
    from otel_agentic.evaluation.truth import Truth, TruthFile

__all__ = [
    "EvaluationListener",
    "EvaluationRequest",
    "EvaluationRunner",
    "EvaluationSummary",
    "JudgeRun",
    "MemoryCache",
    "MetricTally",
    "OnScored",
    "RunBudget",
    "Tally",
    "Truth",
    "TruthFile",
]

_MODULES = {
    "EvaluationListener": "run",
    "EvaluationRequest": "run",
    "EvaluationRunner": "run",
    "EvaluationSummary": "counts",
    "JudgeRun": "judge_runs",
    "MemoryCache": "judge_runs",
    "MetricTally": "counts",
    "OnScored": "run",
    "RunBudget": "judge_runs",
    "Tally": "counts",
    "Truth": "truth",
    "TruthFile": "truth",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
