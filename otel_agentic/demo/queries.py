"""The SQL that the demo asks, and the three queries that it proposes to try."""

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

#: What to try: a question, and its SQL.
TO_TRY: Final = (
    (
        "Which attempts fail, by case and version?",
        (
            "SELECT case_id, agent_version, count(*) FILTER (outcome = 'fail') AS failed, count(*) AS attempts "
            "FROM v_conversations WHERE case_id IS NOT NULL GROUP BY ALL ORDER BY failed DESC, case_id"
        ),
    ),
    (
        "What exactly did the agent pass, and what was expected?",
        "SELECT conversation_id, tool_name, parameter, expected, made FROM tool_faults WHERE fault = 'wrong_parameters'",
    ),
    (
        "Which scores were restated because spans came late?",
        (
            "SELECT conversation_id, revision, superseded, outcome FROM conversation_scores "
            "WHERE conversation_id IN (SELECT conversation_id FROM conversations WHERE revision > 1)"
        ),
    ),
)
