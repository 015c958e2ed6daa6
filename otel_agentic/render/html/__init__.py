"""A report as one HTML file without external resources: tables, charts, and the failing conversations."""

from otel_agentic.render.html.page import page

__all__ = ["page"]
