"""Open conversations and their provisional outcomes.

A failure is certain as soon as it happens, a success only at the end. So the provisional outcome of a conversation is
`failed already` or `no failure so far`, and it enters no rate, window or tier: failures come early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.conversations import idle_limit_ns
from otel_agentic.reports.conversations import iso
from otel_agentic.results.conversations import OpenConversation, OpenConversations, ProvisionalFault
from otel_agentic.store import links
from otel_agentic.store.queries.conversations import open_rows, store_totals

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store.table import Selection

#: The provisional outcome that no further turn can change.
FAILED_ALREADY: Final = "failed already"
#: Reasons for which a conversation is not evaluated although nothing is wrong: it is not over.
_UNFINISHED = frozenset({"incomplete", "no_conversation_id"})


def open_conversations(engine: Engine, selection: Selection, *, limit: int, arriving: bool) -> OpenConversations:
    """Return the open conversations of a selection, the `limit` newest of them with their provisional outcomes.

    With `arriving`, the traces and conversations that are not built yet are counted.
    """
    settings = engine.settings.conversations
    with engine.store.read() as con:
        rows, totals = open_rows(con, selection), store_totals(con)
        last_ns = links.open_arrivals(con, rows) if rows else {}
        pending = len(links.pending_traces(con)) + links.awaited_conversations(con) if arriving else None
    closes_ns = {key: last_ns.get(key, 0) + idle_limit_ns(settings, has_id=row["has_id"]) for key, row in rows.items()}
    newest = sorted(rows, key=lambda key: (-closes_ns[key], key))[:limit]
    scores = engine.runner.provisional_scores(newest) if newest else {}
    return OpenConversations(
        open=len(rows),
        arriving=pending,
        first_closes_at=iso(min(closes_ns.values())) if rows else None,
        collecting=engine.collecting,
        others=totals["conversations"] - len(rows),
        spans=totals["spans"],
        cases=len(engine.runner.truth().index),
        agents=totals["agents"],
        conversations=[
            _open_conversation(scores[key], rows[key]["agent"], rows[key]["agent_version"], closes_ns[key])
            for key in newest
            if key in scores
        ],
    )


def _open_conversation(
    score: ConversationScore, agent: str | None, version: str | None, closes_ns: int
) -> OpenConversation:
    return OpenConversation(
        conversation_id=str(score.conversation_id),
        environment=score.environment,
        agent=agent,
        agent_version=version,
        closes_at=iso(closes_ns),
        turn_count=len(score.turns),
        case_id=score.case_id,
        outcome=provisional_outcome(score),
        reason=score.reason,
        explanation=score.explanation,
        faults=[
            ProvisionalFault(
                tool_name=fault.tool_name,
                fault=fault.kind,
                parameter=fault.parameter,
                expected=fault.expected,
                actual=fault.actual,
                explanation=fault.explanation,
            )
            for tools in score.tools
            for fault in tools.faults
        ],
    )


def provisional_outcome(score: ConversationScore) -> str:
    """Return the outcome of an open conversation so far; see `OpenConversation`."""
    if score.outcome == "fail" or score.known_failure is not None:
        return FAILED_ALREADY
    if score.outcome == "pass" or score.reason in _UNFINISHED:
        return "no failure so far"
    return "not evaluated"
