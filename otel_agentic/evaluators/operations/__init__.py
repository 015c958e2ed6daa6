"""Operations: how long an agent takes, what it costs, and how often it tries again."""

from __future__ import annotations

from otel_agentic.evaluators.operations.calls import Calls
from otel_agentic.evaluators.operations.cost import Cost
from otel_agentic.evaluators.operations.latency import Latency
from otel_agentic.evaluators.operations.tokens import Tokens
from otel_agentic.evaluators.operations.totals import Totals

__all__ = ["Calls", "Cost", "Latency", "Tokens", "Totals"]
