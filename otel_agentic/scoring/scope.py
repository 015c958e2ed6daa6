"""Actual calls, the scope of a score, the rules of a case, and the names of outcomes, reasons and dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.truth.model import Case, Effect


Outcome = Literal["pass", "fail", "not_evaluated"]


FailReason = Literal[
    "wrong_answer", "forbidden_answer", "tool_fault", "missing_turn", "output_not_said", "extra_turn", "verdict"
]


NotEvaluatedReason = Literal[
    "unmatched",
    "ambiguous",
    "unreviewed",
    "content_not_captured",
    "judge_error",
    "judge_unsure",
    "incomplete",
    "no_conversation_id",
    "not_scored",
    "sampled_out",
    "budget_exhausted",
    "empty",
    "no_data",
    "model_calls_not_recorded",
    "tokens_not_recorded",
    "price_not_set",
    "tool_definitions_not_recorded",
    "state_not_recorded",
    "times_not_recorded",
]


#: Reasons for which a conversation is looked at again: the judge failed or was not asked, or sampling left it out.
OPEN_REASONS: Final[tuple[NotEvaluatedReason, ...]] = ("judge_error", "budget_exhausted", "sampled_out")


Dimension = Literal["selection", "parameters", "sequence", "utilization"]


DIMENSIONS: tuple[Dimension, ...] = ("selection", "parameters", "sequence", "utilization")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualCall:
    """A call and the turn it belongs to; `turn_index` is 0-based in the conversation."""

    turn_index: int
    call: ToolCall

    @property
    def step(self) -> tuple[int, int]:
        """Which model response asked for it: calls of one response share a step."""
        return (self.turn_index, self.call.step)

    @property
    def location(self) -> tuple[int, int, int]:
        """Its location in the conversation."""
        return (self.turn_index, self.call.step, self.call.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of an expectation: a turn (`turn_index`), or the whole conversation (None).

    `calls` are in order. `answers` are (turn index, text). `queries` are the texts of the user, `query_turns` the turn
    index of each (empty: all before any call). `earlier` are the turns before it. `captured` is False if the
    instrumentation recorded no content at all: then a call may be missing from `calls`.
    """

    turn_index: int | None
    calls: tuple[ActualCall, ...]
    answers: tuple[tuple[int, str], ...]
    queries: tuple[str, ...]
    captured: bool
    query_turns: tuple[int, ...] = ()
    earlier: tuple[Turn, ...] = ()


def scope_of(turns: Iterable[Turn], *, turn_index: int | None, earlier: Iterable[Turn] = ()) -> Scope:
    """Return the scope of some turns; `earlier` are those before them."""
    turns = tuple(turns)
    calls = (ActualCall(turn_index=turn.index, call=call) for turn in turns for call in turn.calls)
    return Scope(
        turn_index=turn_index,
        calls=tuple(sorted(calls, key=lambda call: call.location)),
        answers=tuple((turn.index, turn.answer) for turn in turns if turn.answer is not None),
        queries=tuple(turn.query for turn in turns if turn.query is not None),
        captured=any(_any_content(turn) for turn in turns),
        query_turns=tuple(turn.index for turn in turns if turn.query is not None),
        earlier=tuple(earlier),
    )


def _any_content(turn: Turn) -> bool:
    return (
        turn.query_captured
        or turn.answer_captured
        or any(call.arguments is not None or call.result_captured for call in turn.calls)
    )


#: What a glob leaves open: any text, any character, one character of several.
_OPEN: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")


def effect_of(tool_name: str, tables: Sequence[Mapping[str, Effect]]) -> Effect:
    """Return the effect of a tool: of the first table that knows it, by its most specific pattern; else `write`.

    An exact name is more specific than any pattern, a pattern the more so the more characters of the name it spells out.

    >>> effect_of("get_user", [{"*": "write", "get_*": "read"}]), effect_of("book", [])
    ('read', 'write')
    """
    for table in tables:
        if tool_name in table:
            return table[tool_name]
        fitting = [pattern for pattern in table if fnmatchcase(tool_name, pattern)]
        if fitting:
            # Of two patterns that are as specific, the careful reading: the tool may write.
            return table[max(fitting, key=lambda pattern: (spelled_out(pattern), table[pattern] == "write"))]
    # An undescribed tool may change something: again the cautious assumption.
    return "write"


def spelled_out(pattern: str) -> int:
    """Return how many characters of a name a glob spells out.

    >>> spelled_out("get_*"), spelled_out("get_[ab]*")
    (4, 4)
    """
    return len(_OPEN.sub("", pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """How tools are judged for one case: the settings, with what the case overrides.

    `effects` are tables of tool name or glob, the case's first. `weights` need not sum to 1.
    """

    threshold: float
    weights: Mapping[Dimension, float]
    effects: tuple[Mapping[str, Effect], ...]
    count_errors: bool
    numbers_as_text: bool

    @classmethod
    def of(cls, case: Case, settings: ScoringSettings) -> ToolRules:
        """Return the rules of a case."""
        return cls(
            threshold=settings.tool_threshold if case.tool_threshold is None else case.tool_threshold,
            weights=settings.tool_weights if case.tool_weights is None else case.tool_weights,
            effects=(case.effects, settings.effects),
            count_errors=settings.count_errors,
            numbers_as_text=settings.numbers_as_text,
        )
