"""Where the definitions stand."""

from __future__ import annotations

from typing import Final

AGENTEST: Final = "Agentest 0.0.17, evaluation metrics (github.com/r-prem/agentest: docs/guide/evaluation-metrics.md)"
