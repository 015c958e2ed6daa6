"""Values in texts and results: numbers with units, dates, times, identifiers, names, and the keys that name them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.judges.exact.facts import UNITS, Day, Fact, FactText, Quantity, extract, quantities
from otel_agentic.truth.values import is_number, leaves, normalise, places_of, words

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import ActualCall, Scope


def _factors() -> Mapping[str, tuple[float, ...]]:
    """Return the units of each dimension, as multiples of its base unit."""
    results: dict[str, set[float]] = defaultdict(set)
    for dimension, factor in UNITS.values():
        results[dimension].add(factor)
    return {dimension: tuple(sorted(factors)) for dimension, factors in results.items()}


_FACTORS = _factors()


def other_units(number: Quantity) -> Iterator[Quantity]:
    """Yield a number in the other units in which it may be stated; a ratio is also a percentage.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> [one.value for one in other_units(next(quantities("90 minutes"))) if one.factor == 3600]
    [1.5]
    """
    if number.dimension is None:
        if abs(number.value) <= 1:
            yield replace(number, value=number.value * 100, dimension="percent")
    elif number.dimension == "celsius":
        yield replace(number, value=number.value * 9 / 5 + 32, dimension="fahrenheit")
    elif number.dimension == "fahrenheit":
        yield replace(number, value=(number.value - 32) * 5 / 9, dimension="celsius")
    else:
        for factor in _FACTORS.get(number.dimension, ()):
            if factor != number.factor:
                yield replace(number, value=number.value * number.factor / factor, factor=factor)


def readings(known: Quantity, unit: Quantity) -> Iterator[float]:
    """Yield what a known number may be in the unit of another one; that one's value where they cannot be compared.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> bare, dollars, euros = quantities("90 $90 €82")
    >>> list(readings(bare, dollars)), list(readings(dollars, euros))
    ([90.0, 9000.0, 0.9, 90.0], [82.0])
    """
    dimension = unit.dimension
    if "percent" in {dimension, known.dimension}:
        yield from (known.value, known.value * 100, known.value / 100)
    elif dimension in {"celsius", "fahrenheit"} and known.dimension in {None, "celsius", "fahrenheit"}:
        yield from (known.value, known.value * 9 / 5 + 32, (known.value - 32) * 5 / 9)
    elif None in {dimension, known.dimension}:
        # The unit of the bare number is unknown: any of the other one's dimension, cents or shares.
        yield from (known.value, known.value * 100, known.value / 100)
        yield from (known.value * factor / unit.factor for factor in _FACTORS.get(dimension or "", ()))
    elif dimension == known.dimension:
        yield known.value * known.factor / unit.factor
    else:
        yield unit.value


#: Characters that are read from the beginning of a text.
READ_CHARACTERS: Final = 50_000
#: So many words in a row that two texts share are no coincidence.
PHRASE_WORDS: Final = 5
_EXCERPT_CHARACTERS: Final = 30
_DENIED: Final = re.compile(r"(?:\bnot|n['\u2019]t|\bnever|\bno longer)[\s*_]*(?:just |only |about )?$", re.IGNORECASE)
_DENIED_WITHIN: Final = 24
_MANTISSA: Final = re.compile(r"\d+(?:\.(\d+))?")

TextSpan = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ReadText(FactText):
    """A text of user or agent, read once for all values that are looked for in it.

    Every match has its position, so that it can be shown. A value that the text denies ("not 12 but 15") does not
    match.
    """

    @classmethod
    def of(cls, text: str) -> ReadText:
        """Return the beginning of the text, up to the limit."""
        # A degree sign that is glued to its number hides the number from the reader of facts.
        return cls(raw=text[:READ_CHARACTERS].replace("\u00b0", " \u00b0"))

    def place_of_number(self, number: Quantity, *, spelled: bool = False) -> Quantity | None:
        """Return the position of a number, exact or rounded to the digits written, or None.

        Args:
            number: the number; without a unit it may occur with any.
            spelled: it counts only together with its unit.
        """
        for tolerance, (values, facts) in self._numbers.items():
            reach = tolerance + 1e-9 * abs(number.value)
            for index in range(bisect_left(values, number.value - reach), bisect_right(values, number.value + reach)):
                if _unit_fits(number, facts[index], spelled=spelled) and not self.denies(facts[index]):
                    return facts[index]
        return None

    def place_of_fact(self, expected: Fact) -> Fact | None:
        """Return the position of a date, time, identifier or number in words."""
        return next((fact for fact in self.facts.like(expected) if _is_whole(fact) and not self.denies(fact)), None)

    def span_of_words(self, text: str) -> TextSpan | None:
        """Return the position of some words in the normalised text."""
        plain = normalise(text)
        # Asking for the first word is quick, and mostly the end of it.
        first = next(iter(words(plain)), None)
        if first is not None and first not in self.vocabulary:
            return None
        return next(places_of(self.plain, plain), None)

    def denies(self, fact: Fact) -> bool:
        """Return whether a negation directly precedes a fact of this text."""
        return bool(_DENIED.search(self.raw[max(0, fact.start - _DENIED_WITHIN) : fact.start]))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of the normalised text."""
        return frozenset(words(self.plain))

    @cached_property
    def phrases(self) -> frozenset[str]:
        """All sequences of `PHRASE_WORDS` words."""
        return frozenset(phrases_of(self.plain))

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The numbers of the text."""
        return tuple(fact for fact in self.facts.all if isinstance(fact, Quantity))

    @cached_property
    def _numbers(self) -> Mapping[float, tuple[list[float], list[Quantity]]]:
        """Return the numbers by their tolerance for rounding, each group sorted by value."""
        groups: dict[float, list[Quantity]] = defaultdict(list)
        for fact in self.quantities:
            groups[_tolerance(self.raw[fact.start : fact.end], fact)].append(fact)
        results = {}
        for tolerance, facts in groups.items():
            facts.sort(key=lambda fact: fact.value)
            results[tolerance] = ([fact.value for fact in facts], facts)
        return results

    def around(self, fact: Fact) -> str:
        """Return a fact with the words around it, on one line."""
        return _excerpt(self.raw, (fact.start, fact.end))

    def around_words(self, text: str, index: TextSpan) -> str:
        """Return some words with those around them, on one line.

        Args:
            text: the words.
            index: their position in the normalised text, which is shown if they cannot be found as written.
        """
        pattern = r"\s+".join(re.escape(word) for word in text.split())
        written = re.search(pattern, self.raw, re.IGNORECASE)
        return _excerpt(self.raw, written.span()) if written else _excerpt(self.plain, index)


def phrases_of(plain: str) -> Iterator[str]:
    """Yield all runs of `PHRASE_WORDS` words of a normalised text.

    >>> list(phrases_of("the capital of australia is canberra"))
    ['the capital of australia is', 'capital of australia is canberra']
    """
    result = words(plain)
    return (" ".join(result[start : start + PHRASE_WORDS]) for start in range(len(result) - PHRASE_WORDS + 1))


def _unit_fits(number: Quantity, quantity: Quantity, *, spelled: bool) -> bool:
    if number.dimension is None or quantity.dimension is None:
        return not spelled
    return (number.dimension, number.factor) == (quantity.dimension, quantity.factor)


def _is_whole(fact: Fact) -> bool:
    """Return whether a date has its day: the month alone fits many days."""
    return not isinstance(fact, Day) or any(day is not None for _, _, day in fact.readings)


def _tolerance(visible: str, fact: Quantity) -> float:
    """Return how far an exact number may be from a shown one that is rounded.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> [_tolerance(text, next(quantities(text))) for text in ("12", "11.46", "3.8 million")]
    [0.5, 0.005, 50000.0]
    """
    mantissa = _MANTISSA.search(visible)
    scale = abs(fact.value) / float(mantissa[0]) if mantissa and float(mantissa[0]) else 1.0
    # A scale word; thousands separators make a mantissa that means nothing.
    if scale in {1e3, 1e6, 1e9, 1e12} and mantissa and mantissa[1]:
        return float(0.5 * 10.0 ** -len(mantissa[1]) * scale)
    return float(0.5 * 10.0**-fact.decimals)


def _excerpt(text: str, index: TextSpan) -> str:
    start, end = index
    before, after = text[max(0, start - _EXCERPT_CHARACTERS) : start], text[end : end + _EXCERPT_CHARACTERS]
    if start > _EXCERPT_CHARACTERS:
        before = "\u2026" + before.partition(" ")[2] if " " in before else "\u2026" + before
    if end + _EXCERPT_CHARACTERS < len(text):
        after = (after.rpartition(" ")[0] if " " in after else after) + "\u2026"
    return " ".join(f"{before}{text[start:end]}{after}".split())


#: Values read of one result, and characters of one that is prose.
MAX_VALUES: Final = 5_000
_PROSE_CHARACTERS: Final = 20_000
#: A longer text, or one of more words, is prose.
_VALUE_CHARACTERS: Final = 80
_VALUE_WORDS: Final = 6
_KEY_CHARACTERS: Final = 4
#: Larger numbers are not exact as floats, and do not occur in answers.
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

    `key` is that of the nearest object, or "". `alone`: no other value of the result has the key, and no list of
    several contains it. `in_sentence`: it is part of a sentence of the result, not a value of its own.
    """

    key: str
    value: str | float
    alone: bool = False
    in_sentence: bool = False

    @cached_property
    def plain(self) -> str:
        """A text normalised, a number as text."""
        return normalise(self.value) if isinstance(self.value, str) else f"{self.value}"

    @cached_property
    def is_prose(self) -> bool:
        """Whether it is a text of sentences, which is repeated in content rather than verbatim."""
        return isinstance(self.value, str) and _is_prose(self.value)

    @cached_property
    def is_common(self) -> bool:
        """Whether it is a single small word, which may occur for any reason."""
        return self.fact is None and self.plain.isalpha() and self.value == self.plain

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The runs of words of a text of sentences."""
        return tuple(phrases_of(self.plain))

    @cached_property
    def fact(self) -> Fact | None:
        """The number, with the unit that its key or text names, the date, time or identifier; None for words."""
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
    """Return the numbers and texts of a result; true, false and null cannot be recognised in a text.

    >>> [(one.key, one.value) for one in values_of('{"total": 228.0, "paid": true, "legs": [{"to": "SEA"}]}').values]
    [('total', 228.0), ('to', 'SEA')]
    """
    results = list(_leaves(read(result)))
    complete = len(results) <= MAX_VALUES
    times = Counter(key for key, _, _ in results)
    values: list[ResultValue] = []
    for key, value, listed in results[:MAX_VALUES]:
        alone = not listed and times[key] == 1
        if isinstance(value, str) and _is_prose(value):
            values += _sentence_values(key, value)
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
    results = 0
    while waiting and results <= MAX_VALUES:
        key, item, listed = waiting.pop()
        if isinstance(item, str) and item[:1] in {"{", "["}:
            item = read(item)
        if isinstance(item, Mapping):
            waiting.extend(reversed([(str(name), held, listed) for name, held in islice(item.items(), MAX_VALUES + 1)]))
        elif isinstance(item, (list, tuple)):
            several = listed or len(item) > 1
            waiting.extend((key, held, several) for held in reversed(item[: MAX_VALUES + 1]))
        elif item.strip() if isinstance(item, str) else is_number(item) and abs(item) < _MAX_NUMBER:
            results += 1
            yield key, item, listed


def _is_prose(text: str) -> bool:
    return len(text) > _VALUE_CHARACTERS or len(text.split()) >= _VALUE_WORDS


def _sentence_values(key: str, text: str) -> Iterator[ResultValue]:
    """Yield the values of a text of sentences: itself for its phrases, its facts, the names in it."""
    text = text[:_PROSE_CHARACTERS]
    yield ResultValue(key=key, value=text)
    facts = extract(text)
    for fact in facts.all:
        yield ResultValue(key=key, value=_written(text, fact), in_sentence=True)
    for name in _NAME.finditer(facts.rest):
        yield ResultValue(key=key, value=name[0], in_sentence=True)


def _written(text: str, fact: Fact) -> str | float:
    bare = isinstance(fact, Quantity) and fact.dimension is None
    return fact.value if bare and isinstance(fact, Quantity) else text[fact.start : fact.end].strip()


def key_text(key: str) -> str | None:
    """Return a key as words without its unit, None if it is too short to be recognised in a sentence.

    >>> key_text("totalPrice"), key_text("temp_c"), key_text("id"), key_text("duration_minutes")
    ('total price', 'temp', None, 'duration')
    """
    parts = _parts(key)
    if len(parts) > 1 and _unit_named(parts[-1]) is not None:
        parts = parts[:-1]
    text = " ".join(part for part in parts if len(part) > 1)
    return text if len(text) >= _KEY_CHARACTERS else None


def unit_of(key: str, number: float) -> Quantity | None:
    """Return a number with the last unit that its key names, or None.

    >>> found = unit_of("duration_minutes", 90)
    >>> found.dimension, found.factor
    ('time', 60.0)
    """
    parts = _parts(key)
    named = _unit_named(parts[-1]) if len(parts) > 1 else None
    return None if named is None else replace(bare(number), dimension=named.dimension, factor=named.factor)


def bare(number: float) -> Quantity:
    """Return a number without a unit, as a quantity."""
    return Quantity(value=float(number), dimension=None, factor=1.0, decimals=0, start=0, end=0)


def _parts(key: str) -> list[str]:
    return words(normalise(_CAMEL.sub(" ", key).replace("_", " ")))


def _unit_named(part: str) -> Quantity | None:
    """Return one of the unit that a part of a key names."""
    # "price_m" is no length, "price_min" the lowest price, "start_day" a date.
    if (len(part) == 1 and part not in _DEGREES) or part in _NO_UNITS:
        return None
    spelled = _DEGREES.get(part, part)
    match = next(quantities(f"1 {spelled}"), None)
    return match if match is not None and match.dimension is not None else None


#: Arguments read of one call.
MAX_ARGUMENTS: Final = 500

_Key = tuple[int, int, int]


class Texts:
    """The texts of user and agent in a scope, and the arguments of calls."""

    def __init__(self, scope: Scope) -> None:
        """Keep the scope; nothing is read yet."""
        self._scope = scope
        self._arguments_of: dict[_Key, ReadText] = {}
        self._results: dict[_Key, ResultValues] = {}

    @cached_property
    def answers(self) -> list[tuple[int, ReadText]]:
        """The answers with their turns, in order."""
        return [(turn, ReadText.of(text)) for turn, text in self._scope.answers]

    @cached_property
    def _queries(self) -> list[tuple[int, ReadText]]:
        turns = self._scope.query_turns or (-1,) * len(self._scope.queries)
        earlier = [(turn.index, turn.query) for turn in self._scope.earlier if turn.query is not None]
        stated = [*earlier, *zip(turns, self._scope.queries, strict=True)]
        return [(turn, ReadText.of(text)) for turn, text in stated]

    @cached_property
    def earlier(self) -> list[ReadText]:
        """The texts, arguments and results of the turns before the scope."""
        turns = self._scope.earlier
        texts = [text for turn in turns for text in (turn.query, turn.answer) if text is not None]
        calls = [json_text(part) for turn in turns for call in turn.calls for part in (call.arguments, call.result)]
        return [ReadText.of(text) for text in (*texts, *calls)]

    def answers_after(self, actual: ActualCall) -> Iterator[tuple[int, ReadText]]:
        """Yield the answers of the call's turn and of the turns after it, each with its turn."""
        return (answer for answer in self.answers if answer[0] >= actual.turn_index)

    def brought_in(self, actual: ActualCall, turn_index: int) -> list[ReadText]:
        """Return the arguments of a call and the user's texts before the answer of a turn, which are no evidence of use."""
        return [self.given_to(actual), *(query for turn, query in self._queries if turn <= turn_index)]

    def given_to(self, actual: ActualCall) -> ReadText:
        """Return the arguments of a call as one text."""
        result = self._arguments_of.get(actual.location)
        if result is None:
            provided = (str(value) for _, value in leaves(actual.call.arguments or {}, limit=MAX_ARGUMENTS))
            result = self._arguments_of[actual.location] = ReadText.of("\n".join(provided))
        return result

    def result_of(self, actual: ActualCall) -> ResultValues:
        """Return the values of a call's result."""
        result = self._results.get(actual.location)
        if result is None:
            result = self._results[actual.location] = values_of(actual.call.result)
        return result

    def others(self, actual: ActualCall) -> Iterator[ActualCall]:
        """Yield the other calls that were made before the call's turn was answered."""
        return (other for other in self._scope.calls if other.turn_index <= actual.turn_index and other is not actual)
