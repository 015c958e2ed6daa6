"""An opened store with everything that works on it: rebuilding, worker processes, retention, transfer."""

from otel_agentic.engine.engine import Engine, EngineListener, NoListener, Progress

__all__ = ["Engine", "EngineListener", "NoListener", "Progress"]
