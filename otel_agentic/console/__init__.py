"""The web console on the admin address: reliability, failing tools, conversations, review."""

from otel_agentic.console.app import Console
from otel_agentic.console.tail import Tail

__all__ = ["Console", "Tail"]
