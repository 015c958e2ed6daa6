"""The admin address: queries, commands on the live store, health, `/metrics`."""

from otel_agentic.server.app import Backend, CommandPool, build_app
from otel_agentic.server.run import AdminServer

__all__ = ["AdminServer", "Backend", "CommandPool", "build_app"]
