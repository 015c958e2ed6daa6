"""Where the definitions stand."""

from __future__ import annotations

from typing import Final

RAGAS_AGENTS: Final = (
    "RAGAS 0.3, agentic metrics (docs.ragas.io/en/stable/concepts/metrics/available_metrics/agents); NVIDIA NeMo Evaluator, "
    "agentic metrics (docs.nvidia.com/nemo/microservices/latest/evaluate/flows/agentic.html)"
)
RAGAS_ANSWERS: Final = (
    "RAGAS 0.3, NVIDIA metrics (docs.ragas.io/en/stable/concepts/metrics/available_metrics/nvidia_metrics); NVIDIA NeMo "
    "Evaluator, answer accuracy (docs.nvidia.com/nemo/microservices/latest/evaluate/flows/agentic.html)"
)
