"""The running collector: receives, rebuilds, scores and reports continuously."""

from otel_agentic.live.collector import DEFAULT_COLLECTORS, LiveCollector

__all__ = ["DEFAULT_COLLECTORS", "LiveCollector"]
