"""The typed results of the commands, and their form as JSON."""

from __future__ import annotations

from otel_agentic.results.codec import JsonObject, from_json, to_json

__all__ = ["JsonObject", "from_json", "to_json"]
