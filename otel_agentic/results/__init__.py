"""The typed results of the commands, and their form as JSON."""

from __future__ import annotations

from otel_agentic.results.codec import from_json, key, to_json

__all__ = ["from_json", "key", "to_json"]
