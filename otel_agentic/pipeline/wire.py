"""How results cross a wire: as JSON can say them."""

from __future__ import annotations

from otel_agentic.store.json_values import plain

__all__ = ["plain"]
