"""Whether a case that an id names can be the case of its conversation: the warning of a wrong ground truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.sentences import Spoken, form
from otel_agentic.truth.text import Bag, normalise, says_text
from otel_agentic.truth.values import is_number, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.model import Case, ToolExpectation

#: Values looked at when asking whether a conversation and its case share any.
_VALUE_LIMIT: Final = 1000
#: A longer text is prose, not a value: a summary is worded anew each time.
_PROSE_CHARACTERS: Final = 60
#: Queries this similar (`Bag.similarity`) may be one query in two wordings. Where people or models play the same case
#: twice, one pair of their queries nearly always is; see docs/matching.md for how it was measured.
_SAME_QUERY: Final = 0.4
#: Share of the words of the side that says less, without common ones, that two wordings of one request have in common.
_SAME_REQUEST: Final = 0.3
#: So many turns, or identifiers among the arguments, say which request it is, whatever the form of the identifiers.
_ENOUGH_TURNS: Final = 3
_ENOUGH_IDENTIFIERS: Final = 2
#: Of fewer words, common ones not counted, nothing is concluded, unless none is shared and both sides have several queries.
_ENOUGH_WORDS: Final = 10

Value = str | float


def shares_nothing(case: Case, conversation: Conversation) -> bool:
    """Return whether case and conversation share neither a query nor any expected argument value.

    A value is shared that is an argument of an actual call, or that user or agent say. Where the calls of both hold
    identifiers (texts of letters and digits, such as order numbers), only these count: a city or a number of bags fits many
    cases. In the first two turns a single one of another form, such as the id of a user where an order is expected, says
    nothing. False where one of the two holds too little to compare: a conversation that ended early says nothing of its case.
    """
    asked, said = ([turn.query for turn in turns if turn.query] for turns in (case.turns, conversation.turns))
    if asked and not {normalise(query) for query in asked}.isdisjoint(normalise(query) for query in said):
        return False
    expected = _telling(
        value for tools in _expectations(case) for call in tools.calls for value in call.parameters.values()
    )
    made = _telling(call.arguments for turn in conversation.turns for call in turn.calls if call.arguments)
    own, theirs = _identifiers(expected), _identifiers(made)
    early = len(conversation.turns) < _ENOUGH_TURNS and len(theirs) < _ENOUGH_IDENTIFIERS
    if own and theirs and not (early and set(map(form, own)).isdisjoint(map(form, theirs))):
        return not (own & theirs or _any_said(own, conversation))
    if expected & made or _any_said(expected, conversation):
        return False
    if asked and said:
        return _ask_for_different_things(asked, said)
    return bool(expected and made and not (own and theirs))


def _ask_for_different_things(asked: Sequence[str], said: Sequence[str]) -> bool:
    """Return whether no two queries are alike, and the side that says less shares few of its words with the other.

    Of a few words none may be shared, and of a single query nothing is concluded: it may be vague.
    """
    one, other = Spoken.of(asked).content, Spoken.of(said).content
    fewer, shared = min(len(one), len(other)), len(one & other)
    if not fewer or shared >= _SAME_REQUEST * fewer:
        return False
    if fewer < _ENOUGH_WORDS and (shared or min(len(asked), len(said)) == 1):
        return False
    left, right = ([Bag.of(query) for query in queries] for queries in (asked, said))
    return not any(bag.similarity(also) >= _SAME_QUERY for bag in left for also in right)


def _expectations(case: Case) -> Iterator[ToolExpectation]:
    for tools in (case.tools, *(turn.tools for turn in case.turns)):
        if tools is not None:
            yield tools
            yield from tools.alternatives


def _telling(values: Iterable[Any]) -> set[Value]:
    """Return the short texts (normalised) and numbers in the values; true, false and null tell no case from another."""
    found = (value for _, value in leaves(list(values), limit=_VALUE_LIMIT))
    return {
        normalise(value) if isinstance(value, str) else value
        for value in found
        if is_number(value) or (isinstance(value, str) and 0 < len(value) <= _PROSE_CHARACTERS)
    }


def _identifiers(values: Iterable[Value]) -> set[str]:
    """Return the texts that hold both letters and digits."""
    return {
        value
        for value in values
        if isinstance(value, str) and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    }


def _any_said(values: Iterable[Value], conversation: Conversation) -> bool:
    texts = [normalise(text) for turn in conversation.turns for text in (turn.query, turn.answer) if text is not None]
    wanted = (value if isinstance(value, str) else f"{value:g}" for value in values)
    return any(says_text(text, value) for value in wanted for text in texts)
