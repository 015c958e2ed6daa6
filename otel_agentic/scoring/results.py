"""The values that the result of a call holds, each under the key that names it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.judges.facts import extract
from otel_agentic.judges.quantities import Quantity, quantities
from otel_agentic.scoring.said import phrases_of
from otel_agentic.truth.text import normalise, words
from otel_agentic.truth.values import is_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.judges.facts import Fact

#: Values read of one result, and characters of one that is prose.
MAX_VALUES: Final = 5_000
_PROSE_CHARACTERS: Final = 20_000
#: A longer text, or one of more words, is prose.
_VALUE_CHARACTERS: Final = 80
_VALUE_WORDS: Final = 6
_KEY_CHARACTERS: Final = 4
#: Larger numbers are not what floats count exactly, and nobody says them.
_MAX_NUMBER: Final = 1e300

_DIGIT_OR_MARK: Final = re.compile(r"[\d_@]")
_DEGREES: Final = {"c": "\u00b0c", "f": "\u00b0f"}
_NO_UNITS: Final = frozenset({"min", "second", "minute", "hour", "day", "week", "month", "year"})
#: A name inside a sentence: capitals behind a small letter or a comma.
_NAME: Final = re.compile(r"(?<=[a-z,;:] )[A-Z][\w'\u2019-]{2,}(?: [A-Z][\w'\u2019-]+)*")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, kw_only=True)
class ResultValue:
    """A number, or a text, of a result.

    `key` is that of the nearest object, "" where there is none. `alone`: no other value of the result has the key, and
    no list of several stands above it. `told`: it is part of a sentence of the result, no value of its own.
    """

    key: str
    value: str | float
    alone: bool = False
    told: bool = False

    @cached_property
    def plain(self) -> str:
        """A text normalised, a number as text."""
        return normalise(self.value) if isinstance(self.value, str) else f"{self.value}"

    @cached_property
    def is_prose(self) -> bool:
        """Whether it is a text of sentences: not the whole of it is said again, but what it tells."""
        return isinstance(self.value, str) and _is_prose(self.value)

    @cached_property
    def is_common(self) -> bool:
        """Whether it is a single small word: it may be said for any reason."""
        return self.fact is None and self.plain.isalpha() and self.value == self.plain

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The runs of words of a text of sentences."""
        return tuple(phrases_of(self.plain))

    @cached_property
    def fact(self) -> Fact | None:
        """The number, with the unit that its key or text names, the date, time or identifier; None where it is words."""
        if not isinstance(self.value, str):
            return unit_of(self.key, self.value) or bare(self.value)
        if len(self.value) > _VALUE_CHARACTERS or not _DIGIT_OR_MARK.search(self.value):
            return None
        facts = extract(self.value)
        return facts.all[0] if facts.all and not any(map(str.isalpha, facts.rest)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultValues:
    """The values of a result in its order; `complete` is False where it holds more than were read."""

    values: tuple[ResultValue, ...]
    complete: bool


def values_of(result: Any) -> ResultValues:
    """Return the numbers and texts of a result; true, false and null say nothing that could be found again.

    >>> [(one.key, one.value) for one in values_of('{"total": 228.0, "paid": true, "legs": [{"to": "SEA"}]}').values]
    [('total', 228.0), ('to', 'SEA')]
    """
    found = list(_leaves(read(result)))
    complete = len(found) <= MAX_VALUES
    times = Counter(key for key, _, _ in found)
    values: list[ResultValue] = []
    for key, value, listed in found[:MAX_VALUES]:
        alone = not listed and times[key] == 1
        if isinstance(value, str) and _is_prose(value):
            values += _told_in(key, value)
        else:
            values.append(ResultValue(key=key, value=value, alone=alone))
    return ResultValues(values=tuple(values), complete=complete)


def read(result: Any) -> Any:
    """Return a result with JSON text undone; text that is a number is that number."""
    if isinstance(result, str):
        try:
            return orjson.loads(result)
        except orjson.JSONDecodeError:
            return result
    return result


def json_text(value: Any) -> str:
    """Return a value as text: a text as it is, anything else as JSON; "" where it cannot be."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):  # nested too deeply, or a text that is no Unicode
        return ""


def _leaves(result: Any) -> Iterator[tuple[str, str | float, bool]]:
    """Yield (key, value, whether it is one of a list), one more than `MAX_VALUES` at most."""
    waiting: list[tuple[str, Any, bool]] = [("", result, False)]
    found = 0
    while waiting and found <= MAX_VALUES:
        key, item, listed = waiting.pop()
        if isinstance(item, str) and item[:1] in {"{", "["}:
            item = read(item)
        if isinstance(item, Mapping):
            waiting.extend(reversed([(str(name), held, listed) for name, held in islice(item.items(), MAX_VALUES + 1)]))
        elif isinstance(item, (list, tuple)):
            several = listed or len(item) > 1
            waiting.extend((key, held, several) for held in reversed(item[: MAX_VALUES + 1]))
        elif item.strip() if isinstance(item, str) else is_number(item) and abs(item) < _MAX_NUMBER:
            found += 1
            yield key, item, listed


def _is_prose(text: str) -> bool:
    return len(text) > _VALUE_CHARACTERS or len(text.split()) >= _VALUE_WORDS


def _told_in(key: str, text: str) -> Iterator[ResultValue]:
    """Yield what a text of sentences tells: itself for its phrases, its facts, the names in it."""
    text = text[:_PROSE_CHARACTERS]
    yield ResultValue(key=key, value=text)
    facts = extract(text)
    for fact in facts.all:
        yield ResultValue(key=key, value=_shown(text, fact), told=True)
    for name in _NAME.finditer(facts.rest):
        yield ResultValue(key=key, value=name[0], told=True)


def _shown(text: str, fact: Fact) -> str | float:
    bare = isinstance(fact, Quantity) and fact.dimension is None
    return fact.value if bare and isinstance(fact, Quantity) else text[fact.start : fact.end].strip()


def key_text(key: str) -> str | None:
    """Return a key as words without its unit, None where it is too short to be recognised in a sentence.

    >>> key_text("totalPrice"), key_text("temp_c"), key_text("id"), key_text("duration_minutes")
    ('total price', 'temp', None, 'duration')
    """
    parts = _parts(key)
    if len(parts) > 1 and _unit_named(parts[-1]) is not None:
        parts = parts[:-1]
    text = " ".join(part for part in parts if len(part) > 1)
    return text if len(text) >= _KEY_CHARACTERS else None


def unit_of(key: str, number: float) -> Quantity | None:
    """Return a number with the unit that its key names last, None where it names none.

    >>> found = unit_of("duration_minutes", 90)
    >>> found.dimension, found.factor
    ('time', 60.0)
    """
    parts = _parts(key)
    named = _unit_named(parts[-1]) if len(parts) > 1 else None
    return None if named is None else replace(bare(number), dimension=named.dimension, factor=named.factor)


def bare(number: float) -> Quantity:
    """Return a number without a unit, as one that is said."""
    return Quantity(value=float(number), dimension=None, factor=1.0, decimals=0, start=0, end=0)


def _parts(key: str) -> list[str]:
    return words(normalise(_CAMEL.sub(" ", key).replace("_", " ")))


def _unit_named(part: str) -> Quantity | None:
    """Return one of the unit that a part of a key names."""
    # "price_m" is no length, "price_min" the lowest price, "start_day" a date.
    if (len(part) == 1 and part not in _DEGREES) or part in _NO_UNITS:
        return None
    spelled = _DEGREES.get(part, part)
    found = next(quantities(f"1 {spelled}"), None)
    return found if found is not None and found.dimension is not None else None
