"""Backfill: scores and windows of a past time range, their emission, and a dry run that counts the work."""
