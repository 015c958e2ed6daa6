"""Stored core scores, applied to scores that are computed again from the same conversations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from duckdb import DuckDBPyConnection

    from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore
    from otel_agentic.store.table import Key

_OF_CONVERSATION: Final = (
    "outcome", "reason", "outcome_source", "computed_outcome", "computed_reason", "answer_outcome", "tool_outcome",
    "both_outcome", "explanation", "known_failure",
)  # fmt: skip
_OF_TURN: Final = (
    "outcome", "reason", "answer_score", "answer_outcome", "answer_reason", "tool_outcome", "explanation",
)  # fmt: skip
_OF_TOOLS: Final = ("outcome", "reason", "overall", *DIMENSIONS)
_FROM: Final = """
FROM {table} t
SEMI JOIN requested USING (environment, conversation_id)
SEMI JOIN (
    SELECT * FROM conversation_scores WHERE evaluation_id = $id AND NOT superseded
) s USING (evaluation_id, environment, conversation_id, revision)
"""


def _sql(table: str, *names: str) -> str:
    return f"SELECT {', '.join(('environment', 'conversation_id', *names))} {_FROM.format(table=table)}"


_STORED_CONVERSATIONS: Final = _sql("conversation_scores", *_OF_CONVERSATION)
_STORED_TURNS: Final = _sql("turn_scores", "turn_index", *_OF_TURN)
_STORED_TOOLS: Final = _sql("tool_scores", "turn_index", *_OF_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcomes:
    """The outcomes of a stored score; turns and tools by index of the turn, None for the conversation."""

    conversation: tuple[Any, ...]
    turns: Mapping[int, tuple[Any, ...]]
    tools: Mapping[int | None, tuple[Any, ...]]

    def applied_to(self, score: ConversationScore) -> ConversationScore:
        """Return a recomputed score with the stored outcomes; its faults stay those that were computed."""
        return replace(
            score,
            **dict(zip(_OF_CONVERSATION, self.conversation, strict=True)),
            turns=tuple(self._turn(turn) for turn in score.turns),
            tools=tuple(self._tools(tools) for tools in score.tools),
        )

    def _turn(self, turn: TurnScore) -> TurnScore:
        stored = self.turns.get(turn.turn_index)
        return turn if stored is None else replace(turn, **dict(zip(_OF_TURN, stored, strict=True)))

    def _tools(self, tools: ToolScore) -> ToolScore:
        stored = self.tools.get(tools.turn_index)
        if stored is None:
            return tools
        outcome, reason, overall, *dimensions = stored
        values = dict(zip(DIMENSIONS, dimensions, strict=True))
        return tools._replace(outcome=outcome, reason=reason, overall=overall, dimensions=values)


def stored_outcomes(con: DuckDBPyConnection, evaluation_id: str, keys: Collection[Key]) -> dict[Key, StoredOutcomes]:
    """Return the newest stored outcomes of some conversations under an evaluation."""
    requested, parameters = key_columns(keys), {"id": evaluation_id}
    parts: dict[str, dict[Key, dict[Any, tuple[Any, ...]]]] = {}
    for sql in (_STORED_TURNS, _STORED_TOOLS):
        own = parts.setdefault(sql, {})
        for environment, name, index, *stored in rows_with(con, requested, sql, parameters):
            own.setdefault((environment, name), {})[index] = tuple(stored)
    return {
        (row[0], row[1]): StoredOutcomes(
            conversation=row[2:],
            turns=parts[_STORED_TURNS].get((row[0], row[1]), {}),
            tools=parts[_STORED_TOOLS].get((row[0], row[1]), {}),
        )
        for row in rows_with(con, requested, _STORED_CONVERSATIONS, parameters)
    }
