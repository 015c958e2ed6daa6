"""Detection of a wrong ground truth: whether the case that an id names can be the case of its conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.sentences import Spoken, form
from otel_agentic.truth.text import Bag, normalise, says_text
from otel_agentic.truth.values import is_number, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.model import Case, ToolExpectation

#: Maximum number of values compared.
_VALUE_LIMIT: Final = 1000
#: A longer text is prose, not a value: a summary is worded differently each time.
_PROSE_CHARACTERS: Final = 60
#: Queries this similar (`Bag.similarity`) may be one query in two wordings. If people or models play the same case twice, one
#: pair of their queries nearly always is; see docs/matching.md for the measurement.
_SAME_QUERY: Final = 0.4
#: Share of the words of the shorter side, without common words, that two wordings of one request have in common.
_SAME_REQUEST: Final = 0.3
#: This many turns, or identifiers among the arguments, determine the request, for any form of the identifiers.
_ENOUGH_TURNS: Final = 3
_ENOUGH_IDENTIFIERS: Final = 2
#: With fewer words (without common ones) nothing is concluded, unless none is shared and both sides have several queries.
_ENOUGH_WORDS: Final = 10

Value = str | float


def shares_nothing(case: Case, conversation: Conversation) -> bool:
    """Return whether case and conversation share neither a query nor any expected argument value.

    A value is shared if it is an argument of an actual call, or occurs in a query or answer. If the calls of both contain
    identifiers (texts of letters and digits, such as order numbers), only these count: a city or a number of bags fits many
    cases. In the first two turns a single identifier of another form, such as a user id where an order is expected, proves
    nothing. False if one of the two contains too little to compare: a conversation that ended early is no evidence.
    """
    expected_queries, queries = (
        [turn.query for turn in turns if turn.query] for turns in (case.turns, conversation.turns)
    )
    if expected_queries and not {normalise(text) for text in expected_queries}.isdisjoint(map(normalise, queries)):
        return False
    expected = _values(
        value for tools in _expectations(case) for call in tools.calls for value in call.parameters.values()
    )
    actual = _values(call.arguments for turn in conversation.turns for call in turn.calls if call.arguments)
    own, theirs = _identifiers(expected), _identifiers(actual)
    early = len(conversation.turns) < _ENOUGH_TURNS and len(theirs) < _ENOUGH_IDENTIFIERS
    if own and theirs and not (early and set(map(form, own)).isdisjoint(map(form, theirs))):
        return not (own & theirs or _mentions(own, conversation))
    if expected & actual or _mentions(expected, conversation):
        return False
    if expected_queries and queries:
        return _ask_for_different_things(expected_queries, queries)
    return bool(expected and actual and not (own and theirs))


def _ask_for_different_things(expected_queries: Sequence[str], queries: Sequence[str]) -> bool:
    """Return whether no two queries are similar, and the shorter side shares few of its words with the other.

    Of a few words none may be shared, and from a single query nothing is concluded: it may be vague.
    """
    expected, actual = Spoken.of(expected_queries).content, Spoken.of(queries).content
    fewer, shared = min(len(expected), len(actual)), len(expected & actual)
    if not fewer or shared >= _SAME_REQUEST * fewer:
        return False
    if fewer < _ENOUGH_WORDS and (shared or min(len(expected_queries), len(queries)) == 1):
        return False
    left, right = ([Bag.of(text) for text in texts] for texts in (expected_queries, queries))
    return not any(bag.similarity(other) >= _SAME_QUERY for bag in left for other in right)


def _expectations(case: Case) -> Iterator[ToolExpectation]:
    for tools in (case.tools, *(turn.tools for turn in case.turns)):
        if tools is not None:
            yield tools
            yield from tools.alternatives


def _values(values: Iterable[Any]) -> set[Value]:
    """Return the short texts (normalised) and numbers in the values; true, false and null do not distinguish cases."""
    candidates = (value for _, value in leaves(list(values), limit=_VALUE_LIMIT))
    return {
        normalise(value) if isinstance(value, str) else value
        for value in candidates
        if is_number(value) or (isinstance(value, str) and 0 < len(value) <= _PROSE_CHARACTERS)
    }


def _identifiers(values: Iterable[Value]) -> set[str]:
    """Return the texts that contain both letters and digits."""
    return {
        value
        for value in values
        if isinstance(value, str) and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    }


def _mentions(values: Iterable[Value], conversation: Conversation) -> bool:
    texts = [normalise(text) for turn in conversation.turns for text in (turn.query, turn.answer) if text is not None]
    expected = (value if isinstance(value, str) else f"{value:g}" for value in values)
    return any(says_text(text, value) for value in expected for text in texts)
