"""Queries on the store: those of commands, charts and windows, and user SQL in a separate process."""
