"""The table of single conversations of a report: the score of each turn, and the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from otel_agentic.render.terminal import Column
from otel_agentic.render.text import NOTHING, plural, ratio

if TYPE_CHECKING:
    from otel_agentic.results.charts import ConversationOutcome, ConversationOutcomes, TurnOutcome

CONVERSATIONS_TITLE: Final = "Conversations: the score of each answer, failed ones first"
#: The number of turns whose scores are displayed.
_TURNS: Final = 12
_FAILED: Final = "✗"
_SIGNS: Final = {"pass": "✓", "fail": _FAILED, "not_evaluated": NOTHING}
_RESULTS: Final = {"pass": "PASS", "fail": "FAIL"}


def conversation_columns(outcomes: ConversationOutcomes) -> list[Column]:
    """Return the columns; agent and version are present if they differ."""
    names = ["conversation", *_differing(outcomes.rows), "case", "turns", "passed", "result"]
    return [Column(name=name.replace("agent_", ""), right=name == "passed") for name in names]


def conversation_rows(outcomes: ConversationOutcomes) -> list[list[str]]:
    """Return a row for each conversation."""
    keys = _differing(outcomes.rows)
    return [
        [
            row.conversation_id,
            *(getattr(row, key) or NOTHING for key in keys),
            row.case_id or NOTHING,
            _scores(row.turns),
            f"{sum(turn.outcome == 'pass' for turn in row.turns):,}/{len(row.turns):,}" if row.turns else NOTHING,
            ": ".join(filter(None, (_RESULTS.get(row.outcome, "not evaluated"), row.reason))),
        ]
        for row in outcomes.rows
    ]


def conversation_notes(outcomes: ConversationOutcomes) -> Iterator[str]:
    """Yield the meaning of the signs, and the number of conversations that are not in the table."""
    yield f"{_FAILED} marks a turn that failed, {NOTHING} one that was not evaluated"
    if outcomes.left_out:
        yield (
            f"{plural(outcomes.left_out, 'more conversation')}: `otel-agentic conversations list` lists them, and "
            "`otel-agentic conversations show ID` displays one with its turns"
        )


def _differing(rows: Sequence[ConversationOutcome]) -> list[str]:
    return [key for key in ("agent", "agent_version") if len({getattr(row, key) for row in rows}) > 1]


def _scores(turns: Sequence[TurnOutcome]) -> str:
    more = ["…"] if len(turns) > _TURNS else []
    return ", ".join([*map(_score, turns[:_TURNS]), *more]) or NOTHING


def _score(turn: TurnOutcome) -> str:
    """Return the answer score of a turn, or a sign for its outcome without one.

    >>> from otel_agentic.results.charts import TurnOutcome
    >>> _score(TurnOutcome(outcome="fail", answer_score=0.05)), _score(TurnOutcome(outcome="pass", answer_score=None))
    ('.050 ✗', '✓')
    """
    if turn.answer_score is None or turn.outcome == "not_evaluated":
        return _SIGNS[turn.outcome]
    return f"{ratio(turn.answer_score)} {_FAILED}" if turn.outcome == "fail" else ratio(turn.answer_score)
