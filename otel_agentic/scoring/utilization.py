"""Whether the result of a call was used: inferred from the answer and from later calls, with the evidence.

Used: a value of the result is said in an answer after the call, or is an argument of a later call. Values that the user
or the call itself had brought in prove nothing. Not used: the turn's answer states another number for a key that the
result holds once. Otherwise it is unknown, which is no score.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.judges.facts import FactText, Identifier, extract
from otel_agentic.judges.quantities import Quantity, rounds_to
from otel_agentic.truth.text import normalise, places_of, says_text
from otel_agentic.truth.values import canonical, is_number, leaves

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from otel_agentic.scoring.made import MadeCall, Scope

#: Values read of one result, and the longest text that is a value rather than prose.
_MAX_VALUES: Final = 200
_VALUE_CHARACTERS: Final = 80
#: A shorter text ("no", "USD") and a small whole number are said too often to prove anything among many values.
_TELLING_CHARACTERS: Final = 4
_SMALL_NUMBER: Final = 10
_FEW_VALUES: Final = 3
#: How far behind its key a stated number may stand, in characters.
_STATED_WITHIN: Final = 20
_LINK: Final = re.compile(r"\s*(?:is|was|of|are|:|=|at)?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Whether one result was used: `score` 1.0, 0.0, or None where unknown. `inferred` is False for a given flag."""

    score: float | None
    evidence: str
    inferred: bool = True


@dataclass(frozen=True, kw_only=True)
class _Text(FactText):
    """A text of user or agent, read once for all calls."""

    def says(self, value: Any) -> bool:
        """Return whether a number or text of a result is said, numbers perhaps rounded."""
        if is_number(value):
            return any(isinstance(fact, Quantity) and rounds_to(value, fact) for fact in self.facts.found)
        if len(value) <= _VALUE_CHARACTERS:
            return says_text(self.plain, normalise(value))
        # Of prose, an identifier said again is proof enough; its words are anybody's.
        return any(isinstance(fact, Identifier) and self.facts.holds(fact) for fact in extract(value).found)


class Texts:
    """What was said in a scope, read when the first call asks."""

    def __init__(self, scope: Scope) -> None:
        self._answers = [(turn, _Text(raw=text)) for turn, text in scope.answers]
        self._queries = [_Text(raw=text) for text in scope.queries]

    def answers_after(self, made: MadeCall) -> Iterator[_Text]:
        """Yield the answers of the call's turn and of the turns after it."""
        return (text for turn, text in self._answers if turn >= made.turn_index)

    def answers_in(self, turn_index: int) -> Iterator[_Text]:
        """Yield the answer of a turn."""
        return (text for turn, text in self._answers if turn == turn_index)

    def brought_in(self, value: Any) -> bool:
        """Return whether the user said the value: then it proves nothing."""
        return any(query.says(value) for query in self._queries)


def use_of(made: MadeCall, later: Sequence[MadeCall], texts: Texts) -> Use:
    """Return whether the result of a call was used.

    Args:
        made: a call that worked.
        later: the calls after it that may prove the use. Calls that no expectation names are left out by the caller: a
            call that nobody asked for cannot raise a score.
        texts: what was said in its scope.
    """
    if made.call.used_flag is not None:
        word = "used" if made.call.used_flag else "unused"
        return Use(score=float(made.call.used_flag), evidence=f"the data flag its result as {word}", inferred=False)
    if not made.call.result_captured:
        return Use(score=None, evidence="its result was not captured")
    values = list(leaves(_read(made.call.result), limit=_MAX_VALUES))
    own = {_key(value) for _, value in leaves(made.call.arguments or {}, limit=_MAX_VALUES)}
    telling = [(key, value) for key, value in values if _is_new(value, own)]
    proof = _argument_proof(telling, later, texts) or _answer_proof(
        telling, made, texts, few=len(values) <= _FEW_VALUES
    )
    if proof:
        return Use(score=1.0, evidence=proof)
    contradiction = _contradiction(values, texts.answers_in(made.turn_index))
    if contradiction:
        return Use(score=0.0, evidence=contradiction)
    return Use(score=None, evidence="no sign of its result")


def _read(result: Any) -> Any:
    """Return a result with JSON text undone."""
    if isinstance(result, str) and result.lstrip()[:1] in {"{", "["}:
        try:
            return orjson.loads(result)
        except orjson.JSONDecodeError:
            return result
    return result


def _is_new(value: Any, known: set[Hashable]) -> bool:
    return (isinstance(value, str) or is_number(value)) and _key(value) not in known


def _key(value: Any) -> Hashable:
    return canonical(value, fold_case=True, numbers_as_text=True)


def _argument_proof(values: list[tuple[str, Any]], later: Sequence[MadeCall], texts: Texts) -> str | None:
    keys = {_key(value): value for _, value in values if _is_telling(value, few=False)}
    for call in later if keys else ():
        for name, argument in leaves(call.call.arguments or {}, limit=_MAX_VALUES):
            value = keys.get(_key(argument))
            if value is not None and not texts.brought_in(value):
                return f"{_short(value)} is argument {name!r} of the later call {call.call.name}"
    return None


def _answer_proof(values: list[tuple[str, Any]], made: MadeCall, texts: Texts, *, few: bool) -> str | None:
    for answer in texts.answers_after(made):
        for key, value in values:
            if _is_telling(value, few=few) and answer.says(value) and not texts.brought_in(value):
                return f"the answer says {key or 'its result'} {_short(value)}"
    return None


def _is_telling(value: Any, *, few: bool) -> bool:
    """Return whether a value is rare enough to prove anything; among few values any is."""
    if isinstance(value, str):
        return len(value.strip()) >= (1 if few else _TELLING_CHARACTERS)
    return few or not (abs(value) < _SMALL_NUMBER and value % 1 == 0)


def _contradiction(values: list[tuple[str, Any]], answers: Iterable[_Text]) -> str | None:
    """Return where an answer states another number for a key that names one value of the result."""
    times = Counter(key for key, _ in values)
    numbers = [value for _, value in values if is_number(value)]
    # A key that occurs again ("price" in a list of flights) names no one value that could be contradicted.
    names = [
        (name, value) for key, value in values if is_number(value) and times[key] == 1 and (name := _key_text(key))
    ]
    for answer in answers if names else ():
        for name, value in names:
            stated = _stated_number(answer.plain, name)
            if stated is not None and not any(rounds_to(number, stated) for number in numbers):
                return f"the answer says {name} {stated.value:g}, the result {_short(value)}"
    return None


def _key_text(key: str) -> str | None:
    """Return a key as words, None where it is too short to be recognised in a sentence.

    >>> _key_text("totalPrice"), _key_text("temp_c"), _key_text("id")
    ('total price', 'temp', None)
    """
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).replace("_", " ").replace("-", " ").lower().split()
    text = " ".join(part for part in parts if len(part) > 1)
    return text if len(text) >= _TELLING_CHARACTERS else None


def _stated_number(plain: str, name: str) -> Quantity | None:
    """Return the number that a text states right after a name, such as "total price is 12"."""
    place = next(places_of(plain, name), None)
    if place is None:
        return None
    link = _LINK.match(plain, place[1])
    start = link.end() if link else place[1]
    behind = extract(plain[start : start + _STATED_WITHIN]).found
    first = behind[0] if behind else None
    return first if isinstance(first, Quantity) and first.start <= 1 else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"
