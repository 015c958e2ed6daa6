"""Names of the operational metrics."""

from __future__ import annotations

from typing import Final

LATENCY: Final = "agentic.operations.latency"
INPUT_TOKENS: Final = "agentic.operations.input_tokens"
OUTPUT_TOKENS: Final = "agentic.operations.output_tokens"
COST: Final = "agentic.operations.cost"
MODEL_CALLS: Final = "agentic.operations.model_calls"
TOOL_CALLS: Final = "agentic.operations.tool_calls"
TOOL_ERRORS: Final = "agentic.operations.tool_errors"
RETRIES: Final = "agentic.operations.retries"
LOOPS: Final = "agentic.operations.loops"
STEPS_TO_RECOVERY: Final = "agentic.operations.steps_to_recovery"
RECOVERED: Final = "agentic.operations.recovered"
TOOL_FAILURE: Final = "agentic.operations.tool_failure"
TURN_END: Final = "agentic.operations.turn_end"
COST_PER_SUCCESS: Final = "agentic.operations.cost_per_success"
TOKENS_PER_SUCCESS: Final = "agentic.operations.tokens_per_success"
LATENCY_P50: Final = "agentic.operations.latency_p50"
LATENCY_P95: Final = "agentic.operations.latency_p95"
