"""The web console on the admin address: reliability, failing tools, conversations, review."""

from otel_agentic.console.app import Console

__all__ = ["Console"]
