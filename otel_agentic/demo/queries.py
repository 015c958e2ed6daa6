"""The SQL that the demo asks."""

from __future__ import annotations

from typing import Final

#: How far the collector is: spans stored, conversations closed and scored.
PROGRESS: Final = """
SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM v_conversations WHERE outcome IS NOT NULL)
"""
#: What became of the conversation whose span comes late (`scenario.py`), once its new revision is scored.
REVISED: Final = """
SELECT conversation_id, revision, outcome FROM v_conversations
WHERE conversation_id = 'lyon-family-1.0.0-2' AND revision > 1 AND outcome IS NOT NULL
"""
