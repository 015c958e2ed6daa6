"""The embedded judge, which needs no language model."""

from otel_agentic.judges.exact.judge import Comparison, ExactJudge, compare, fixed_score

__all__ = ["Comparison", "ExactJudge", "compare", "fixed_score"]
