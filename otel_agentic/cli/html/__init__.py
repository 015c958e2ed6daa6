"""A report as one HTML file: tables in HTML, curves and windows drawn by matplotlib, or plainly without it."""

from otel_agentic.cli.html.page import page

__all__ = ["page"]
