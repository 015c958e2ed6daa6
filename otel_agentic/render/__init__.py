"""Rendering of results for people and for CI systems: tables, notes, plots, Markdown."""
