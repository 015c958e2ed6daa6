"""Brings a range of the past up to date: scores, windows, and where their points go. Resumable, and idempotent."""
