"""Actual calls, the scope of a score, the rules of a case, and the names of outcomes, reasons and dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.truth.model import Case, Effect

T = TypeVar("T")
R = TypeVar("R")
#: Number of cases whose rules are cached.
_CACHED_RULES: Final = 1024

Outcome = Literal["pass", "fail", "not_evaluated"]


FailReason = Literal[
    "agent_error",
    "wrong_answer",
    "forbidden_answer",
    "tool_fault",
    "missing_turn",
    "output_not_said",
    "state_mismatch",
    "extra_turn",
    "verdict",
    "criterion",
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


#: Reasons for which a conversation is evaluated again: the judge failed or was not asked, or sampling excluded it.
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
        """The turn and the model response that requested the call; calls of one response share a step."""
        return (self.turn_index, self.call.step)

    @property
    def location(self) -> tuple[int, int, int]:
        """The location of the call in the conversation: turn, step and position."""
        return (self.turn_index, self.call.step, self.call.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of an expectation: a turn (`turn_index`), or the whole conversation (None).

    `calls` are in order. `answers` are pairs of (turn index, text). `queries` are the texts of the user, and
    `query_turns` their turn indices (empty: all queries precede all calls). `earlier` are the turns before the scope.
    `captured` is False if the instrumentation recorded no content at all; a call may then be missing from `calls`.
    """

    turn_index: int | None
    calls: tuple[ActualCall, ...]
    answers: tuple[tuple[int, str], ...]
    queries: tuple[str, ...]
    captured: bool
    query_turns: tuple[int, ...] = ()
    earlier: tuple[Turn, ...] = ()


class SameObject(Generic[T]):
    """A cache key that compares objects by identity, because models that contain dictionaries are not hashable."""

    __slots__ = ("item",)

    def __init__(self, item: T) -> None:
        self.item = item

    def __hash__(self) -> int:
        return id(self.item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and self.item is other.item


def by_identity(size: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Cache the results of a function of one object for up to `size` objects, compared by identity.

    The evaluators of one conversation run one after the other, and several of them need the same view of it.
    """

    def decorated(function: Callable[[T], R]) -> Callable[[T], R]:
        # Each entry keeps its object alive, so that no other object can get the same id.
        results: dict[int, tuple[T, R]] = {}

        @wraps(function)
        def wrapper(item: T) -> R:
            entry = results.get(id(item))
            if entry is None:
                entry = item, function(item)
                if len(results) >= size:
                    results.clear()
                results[id(item)] = entry
            return entry[1]

        return wrapper

    return decorated


def scope_of(turns: Iterable[Turn], *, turn_index: int | None, earlier: Iterable[Turn] = ()) -> Scope:
    """Return the scope of turns; `earlier` are the turns before them."""
    turns = tuple(turns)
    calls = [ActualCall(turn_index=turn.index, call=call) for turn in turns for call in turn.calls]
    if len(calls) > 1:
        calls.sort(key=lambda call: call.location)
    return Scope(
        turn_index=turn_index,
        calls=tuple(calls),
        answers=tuple([(turn.index, turn.answer) for turn in turns if turn.answer is not None]),
        queries=tuple([turn.query for turn in turns if turn.query is not None]),
        captured=any(map(_has_content, turns)),
        query_turns=tuple([turn.index for turn in turns if turn.query is not None]),
        earlier=tuple(earlier),
    )


def _has_content(turn: Turn) -> bool:
    return (
        turn.query_captured
        or turn.answer_captured
        or any(call.arguments is not None or call.result_captured for call in turn.calls)
    )


#: The wildcards of a glob: any text, any character, one character of several.
_WILDCARD: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")


def effect_of(tool_name: str, tables: Sequence[Mapping[str, Effect]]) -> Effect:
    """Return the effect of a tool by the most specific pattern of the first table that lists it; else `write`.

    An exact name is more specific than any pattern. Among patterns, the one with the most literal characters is the
    most specific.

    >>> effect_of("get_user", [{"*": "write", "get_*": "read"}]), effect_of("book", [])
    ('read', 'write')
    """
    for table in tables:
        if tool_name in table:
            return table[tool_name]
        matching = [pattern for pattern in table if fnmatchcase(tool_name, pattern)]
        if matching:
            # Between equally specific patterns, assume the riskier effect: the tool may write.
            return table[max(matching, key=lambda pattern: (spelled_out(pattern), table[pattern] == "write"))]
    # A tool that no table lists may change something, so assume the riskier effect again.
    return "write"


def spelled_out(pattern: str) -> int:
    """Return the number of literal characters in a glob.

    >>> spelled_out("get_*"), spelled_out("get_[ab]*")
    (4, 4)
    """
    return len(_WILDCARD.sub("", pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """How tools are scored for one case: the settings, as overridden by the case.

    `effects` are tables of effects by tool name or glob, the table of the case first. `weights` need not sum to 1.
    """

    threshold: float
    weights: Mapping[Dimension, float]
    effects: tuple[Mapping[str, Effect], ...]
    count_errors: bool
    numbers_as_text: bool

    @classmethod
    def of(cls, case: Case, settings: ScoringSettings) -> ToolRules:
        """Return the rules of a case; the same object for the same case and settings, which makes comparisons cheap."""
        return _rules_of(SameObject(case), SameObject(settings))


@lru_cache(maxsize=_CACHED_RULES)
def _rules_of(case_key: SameObject[Case], settings_key: SameObject[ScoringSettings]) -> ToolRules:
    case, settings = case_key.item, settings_key.item
    return ToolRules(
        threshold=settings.tool_threshold if case.tool_threshold is None else case.tool_threshold,
        weights=settings.tool_weights if case.tool_weights is None else case.tool_weights,
        effects=(case.effects, settings.effects),
        count_errors=settings.count_errors,
        numbers_as_text=settings.numbers_as_text,
    )
