"""The admin address: queries, commands on the live store, health, `/metrics`."""

from otel_agentic.server.app import AdminServer, Backend, CommandPool, build_app

__all__ = ["AdminServer", "Backend", "CommandPool", "build_app"]
