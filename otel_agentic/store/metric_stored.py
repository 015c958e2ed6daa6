"""What stored core scores say, to be laid over scores that are made again from the same conversations."""

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

_WHOLE: Final = (
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


_SCORES: Final = _sql("conversation_scores", *_WHOLE)
_TURNS: Final = _sql("turn_scores", "turn_index", *_OF_TURN)
_TOOLS: Final = _sql("tool_scores", "turn_index", *_OF_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScore:
    """What the stored score of a conversation says; turns and tools by index of the turn, None for the conversation."""

    whole: tuple[Any, ...]
    turns: Mapping[int, tuple[Any, ...]]
    tools: Mapping[int | None, tuple[Any, ...]]

    def laid_over(self, score: ConversationScore) -> ConversationScore:
        """Return a score that was made again, saying what the stored one says; faults stay those that were found."""
        return replace(
            score,
            **dict(zip(_WHOLE, self.whole, strict=True)),
            turns=tuple(self._turn(turn) for turn in score.turns),
            tools=tuple(self._tools(tools) for tools in score.tools),
        )

    def _turn(self, turn: TurnScore) -> TurnScore:
        told = self.turns.get(turn.turn_index)
        return turn if told is None else replace(turn, **dict(zip(_OF_TURN, told, strict=True)))

    def _tools(self, tools: ToolScore) -> ToolScore:
        told = self.tools.get(tools.turn_index)
        if told is None:
            return tools
        outcome, reason, overall, *dimensions = told
        found = dict(zip(DIMENSIONS, dimensions, strict=True))
        return tools._replace(outcome=outcome, reason=reason, overall=overall, dimensions=found)


def stored_scores(con: DuckDBPyConnection, evaluation_id: str, keys: Collection[Key]) -> dict[Key, StoredScore]:
    """Return what the newest core scores of some conversations under an evaluation say."""
    requested, given = key_columns(keys), {"id": evaluation_id}
    parts: dict[str, dict[Key, dict[Any, tuple[Any, ...]]]] = {}
    for sql in (_TURNS, _TOOLS):
        own = parts.setdefault(sql, {})
        for environment, name, index, *told in rows_with(con, requested, sql, given):
            own.setdefault((environment, name), {})[index] = tuple(told)
    return {
        (row[0], row[1]): StoredScore(
            whole=row[2:],
            turns=parts[_TURNS].get((row[0], row[1]), {}),
            tools=parts[_TOOLS].get((row[0], row[1]), {}),
        )
        for row in rows_with(con, requested, _SCORES, given)
    }
