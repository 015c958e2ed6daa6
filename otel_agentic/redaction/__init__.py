"""Redaction of secrets and personal data before anything is written or shown."""
