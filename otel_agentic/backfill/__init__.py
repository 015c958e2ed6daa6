"""Backfill: scores and windows of a past time range, their emission, and a dry run that counts the work."""

from otel_agentic.backfill.plan import BackfillRequest
from otel_agentic.backfill.run import BackfillContext, Backfilled, backfill

__all__ = ["BackfillContext", "BackfillRequest", "Backfilled", "backfill"]
