"""Where the definitions stand."""

from __future__ import annotations

from typing import Final

AGENT_SURFACE: Final = (
    "Agent Surface, evaluation page: the layers reasoning, action and outcome (github.com/howells/agentsurface)"
)
AGENT_SURFACE_METRICS: Final = "Agent Surface, metrics page (github.com/howells/agentsurface)"
OUR_OWN: Final = "our own"
