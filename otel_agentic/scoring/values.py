"""Values in texts and results: numbers with units, dates, times, identifiers, names, and the keys that name them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    factors: dict[str, set[float]] = defaultdict(set)
    for dimension, factor in UNITS.values():
        factors[dimension].add(factor)
    return {dimension: tuple(sorted(values)) for dimension, values in factors.items()}


_FACTORS = _factors()


def other_units(number: Quantity) -> Iterator[Quantity]:
    """Yield a number in the other units in which it may be stated; a ratio may also be stated as a percentage.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> [number.value for number in other_units(next(quantities("90 minutes"))) if number.factor == 3600]
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
    """Yield the values that a known number may have in the unit of another one, or its value if they are incomparable.

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
        # The bare number may be in any unit of the other number's dimension, in cents, or a share.
        yield from (known.value, known.value * 100, known.value / 100)
        yield from (known.value * factor / unit.factor for factor in _FACTORS.get(dimension or "", ()))
    elif dimension == known.dimension:
        yield known.value * known.factor / unit.factor
    else:
        yield unit.value


#: Maximum number of characters that are read from the beginning of a text.
READ_CHARACTERS: Final = 50_000
#: Texts that share this many consecutive words do not do so by chance.
PHRASE_WORDS: Final = 5
_EXCERPT_CHARACTERS: Final = 30
_DENIED: Final = re.compile(r"(?:\bnot|n['\u2019]t|\bnever|\bno longer)[\s*_]*(?:just |only |about )?$", re.IGNORECASE)
_DENIED_WITHIN: Final = 24
_MANTISSA: Final = re.compile(r"\d+(?:\.(\d+))?")

TextSpan = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ReadText(FactText):
    """A text of the user or the agent, parsed once for all values that are searched in it.

    Every match has its position, so that it can be shown. A value that the text negates ("not 12 but 15") does not
    match.
    """

    @classmethod
    def of(cls, text: str) -> ReadText:
        """Return the beginning of a text, up to `READ_CHARACTERS`."""
        # `extract` does not recognise a number that is directly followed by a degree sign.
        return cls(raw=text[:READ_CHARACTERS].replace("\u00b0", " \u00b0"))

    def place_of_number(self, number: Quantity, *, spelled: bool = False) -> Quantity | None:
        """Return the first occurrence of a number, exact or rounded to the digits written, or None.

        Args:
            number: the number; without a unit it may occur with any unit.
            spelled: only an occurrence together with the unit counts.
        """
        for tolerance, (values, facts) in self._numbers.items():
            margin = tolerance + 1e-9 * abs(number.value)
            for index in range(bisect_left(values, number.value - margin), bisect_right(values, number.value + margin)):
                if _unit_fits(number, facts[index], spelled=spelled) and not self.denies(facts[index]):
                    return facts[index]
        return None

    def place_of_fact(self, expected: Fact) -> Fact | None:
        """Return the first occurrence of a date, time, identifier or number in words, or None."""
        return next((fact for fact in self.facts.like(expected) if _is_whole(fact) and not self.denies(fact)), None)

    def span_of_words(self, text: str) -> TextSpan | None:
        """Return the position of a sequence of words in the normalised text, or None."""
        plain = normalise(text)
        # Looking up the first word is fast and usually rules out a match.
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
        return frozenset(phrases_of(words(self.plain)))

    def has_phrase(self, phrase: str) -> bool:
        """Return whether the words of a phrase occur in a row; for a few phrases faster than building `phrases`."""
        return f" {phrase} " in self._spaced_words

    @cached_property
    def _spaced_words(self) -> str:
        return f" {' '.join(words(self.plain))} "

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The numbers of the text."""
        return tuple(fact for fact in self.facts.all if isinstance(fact, Quantity))

    @cached_property
    def _numbers(self) -> Mapping[float, tuple[list[float], list[Quantity]]]:
        """Return the values and quantities of the text by rounding tolerance, each group sorted by value."""
        groups: dict[float, list[Quantity]] = defaultdict(list)
        for fact in self.quantities:
            groups[_tolerance(self.raw[fact.start : fact.end], fact)].append(fact)
        sorted_groups = {}
        for tolerance, facts in groups.items():
            facts.sort(key=lambda fact: fact.value)
            sorted_groups[tolerance] = ([fact.value for fact in facts], facts)
        return sorted_groups

    def around(self, fact: Fact) -> str:
        """Return a fact with the words around it, on one line."""
        return _excerpt(self.raw, (fact.start, fact.end))

    def around_words(self, text: str, index: TextSpan) -> str:
        """Return a sequence of words with the words around it, on one line.

        Args:
            text: the words.
            index: their position in the normalised text, which is shown if the words cannot be found as written.
        """
        pattern = r"\s+".join(re.escape(word) for word in text.split())
        match = re.search(pattern, self.raw, re.IGNORECASE)
        return _excerpt(self.raw, match.span()) if match else _excerpt(self.plain, index)


def phrases_of(all_words: Sequence[str]) -> Iterator[str]:
    """Yield all sequences of `PHRASE_WORDS` words.

    >>> list(phrases_of("the capital of australia is canberra".split()))
    ['the capital of australia is', 'capital of australia is canberra']
    """
    return map(" ".join, zip(*(all_words[start:] for start in range(PHRASE_WORDS)), strict=False))


def _unit_fits(number: Quantity, quantity: Quantity, *, spelled: bool) -> bool:
    if number.dimension is None or quantity.dimension is None:
        return not spelled
    return (number.dimension, number.factor) == (quantity.dimension, quantity.factor)


def _is_whole(fact: Fact) -> bool:
    """Return whether a fact is complete: a date without a day of the month fits many days."""
    return not isinstance(fact, Day) or any(day is not None for _, _, day in fact.readings)


def _tolerance(written: str, fact: Quantity) -> float:
    """Return the maximum difference between an exact number and its rounded form in a text.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> [_tolerance(text, next(quantities(text))) for text in ("12", "11.46", "3.8 million")]
    [0.5, 0.005, 50000.0]
    """
    mantissa = _MANTISSA.search(written)
    scale = abs(fact.value) / float(mantissa[0]) if mantissa and float(mantissa[0]) else 1.0
    # The number has a scale word such as "million". Any other scale comes from a thousands separator.
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


#: Maximum number of values that are read from one result, and of characters from a value that is prose.
MAX_VALUES: Final = 5_000
_PROSE_CHARACTERS: Final = 20_000
#: A text is prose if it has more characters than this, or at least this many words.
_VALUE_CHARACTERS: Final = 80
_VALUE_WORDS: Final = 6
#: Minimum length of a key that can be recognised in a sentence.
_KEY_CHARACTERS: Final = 4
#: Larger numbers are not exact as floats, and do not occur in answers.
_MAX_NUMBER: Final = 1e300

_DIGIT_OR_MARK: Final = re.compile(r"[\d_@]")
_DEGREES: Final = {"c": "\u00b0c", "f": "\u00b0f"}
_NO_UNITS: Final = frozenset({"min", "second", "minute", "hour", "day", "week", "month", "year"})
#: A name inside a sentence: capitalised words after a lower-case letter or punctuation.
_NAME: Final = re.compile(r"(?<=[a-z,;:] )[A-Z][\w'\u2019-]{2,}(?: [A-Z][\w'\u2019-]+)*")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, kw_only=True)
class ResultValue:
    """A number or text in a result.

    `key` is the key in the nearest enclosing object, or "". `alone` is True if no other value of the result has the key
    and the value is not in a list of several items. `in_sentence` is True if the value is part of a sentence of the
    result.
    """

    key: str
    value: str | float
    alone: bool = False
    in_sentence: bool = False

    @cached_property
    def plain(self) -> str:
        """The value as text; a text is normalised."""
        return normalise(self.value) if isinstance(self.value, str) else f"{self.value}"

    @cached_property
    def is_prose(self) -> bool:
        """Whether it is a text of sentences, which answers paraphrase rather than quote."""
        return isinstance(self.value, str) and _is_prose(self.value)

    @cached_property
    def is_common(self) -> bool:
        """Whether it is a single lower-case word, which may occur for any reason."""
        return self.fact is None and self.plain.isalpha() and self.value == self.plain

    @cached_property
    def words(self) -> list[str]:
        """The words of the value."""
        return words(self.plain)

    @cached_property
    def fact(self) -> Fact | None:
        """The value as a number (with the unit in its key or text), date, time or identifier; None for words."""
        if not isinstance(self.value, str):
            return unit_of(self.key, self.value) or bare(self.value)
        if len(self.value) > _VALUE_CHARACTERS or not _DIGIT_OR_MARK.search(self.value):
            return None
        facts = extract(self.value)
        return facts.all[0] if facts.all and not any(map(str.isalpha, facts.rest)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultValues:
    """The values of a result, in order; `complete` is False if the result has more values than were read."""

    values: tuple[ResultValue, ...]
    complete: bool


def values_of(result: Any) -> ResultValues:
    """Return the numbers and texts of a result; true, false and null cannot be recognised in a text.

    >>> result = '{"total": 228.0, "paid": true, "legs": [{"to": "SEA"}]}'
    >>> [(value.key, value.value) for value in values_of(result).values]
    [('total', 228.0), ('to', 'SEA')]
    """
    leaf_values = list(_leaves(read(result)))
    complete = len(leaf_values) <= MAX_VALUES
    key_counts = Counter(key for key, _, _ in leaf_values)
    values: list[ResultValue] = []
    for key, value, in_list in leaf_values[:MAX_VALUES]:
        alone = not in_list and key_counts[key] == 1
        if isinstance(value, str) and _is_prose(value):
            values += _sentence_values(key, value)
        else:
            values.append(ResultValue(key=key, value=value, alone=alone))
    return ResultValues(values=tuple(values), complete=complete)


def read(result: Any) -> Any:
    """Return a result, parsed if it is JSON text; the text of a number becomes that number."""
    if isinstance(result, str):
        try:
            return orjson.loads(result)
        except orjson.JSONDecodeError:
            return result
    return result


def json_text(value: Any) -> str:
    """Return a value as text: a text unchanged, anything else as JSON; "" if it cannot be serialised."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):  # nested too deeply, or a text with invalid Unicode
        return ""


def _leaves(result: Any) -> Iterator[tuple[str, str | float, bool]]:
    """Yield (key, value, whether it is in a list of several items), at most `MAX_VALUES` + 1 of them."""
    stack: list[tuple[str, Any, bool]] = [("", result, False)]
    count = 0
    while stack and count <= MAX_VALUES:
        key, value, in_list = stack.pop()
        if isinstance(value, str) and value[:1] in {"{", "["}:
            value = read(value)
        if isinstance(value, Mapping):
            stack.extend(reversed([(str(name), item, in_list) for name, item in islice(value.items(), MAX_VALUES + 1)]))
        elif isinstance(value, (list, tuple)):
            among_several = in_list or len(value) > 1
            stack.extend((key, item, among_several) for item in reversed(value[: MAX_VALUES + 1]))
        elif value.strip() if isinstance(value, str) else is_number(value) and abs(value) < _MAX_NUMBER:
            count += 1
            yield key, value, in_list


def _is_prose(text: str) -> bool:
    return len(text) > _VALUE_CHARACTERS or len(text.split()) >= _VALUE_WORDS


def _sentence_values(key: str, text: str) -> Iterator[ResultValue]:
    """Yield the values of a text of sentences: the text itself (for its phrases), its facts, and the names in it."""
    text = text[:_PROSE_CHARACTERS]
    yield ResultValue(key=key, value=text)
    facts = extract(text)
    for fact in facts.all:
        yield ResultValue(key=key, value=_fact_value(text, fact), in_sentence=True)
    for name in _NAME.finditer(facts.rest):
        yield ResultValue(key=key, value=name[0], in_sentence=True)


def _fact_value(text: str, fact: Fact) -> str | float:
    without_unit = isinstance(fact, Quantity) and fact.dimension is None
    return fact.value if without_unit and isinstance(fact, Quantity) else text[fact.start : fact.end].strip()


def key_text(key: str) -> str | None:
    """Return a key as words without its unit, or None if it is too short to be recognised in a sentence.

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

    >>> quantity = unit_of("duration_minutes", 90)
    >>> quantity.dimension, quantity.factor
    ('time', 60.0)
    """
    parts = _parts(key)
    unit = _unit_named(parts[-1]) if len(parts) > 1 else None
    return None if unit is None else replace(bare(number), dimension=unit.dimension, factor=unit.factor)


def bare(number: float) -> Quantity:
    """Return a number without a unit, as a quantity."""
    return Quantity(value=float(number), dimension=None, factor=1.0, decimals=0, start=0, end=0)


def _parts(key: str) -> list[str]:
    return words(normalise(_CAMEL.sub(" ", key).replace("_", " ")))


def _unit_named(part: str) -> Quantity | None:
    """Return the quantity 1 in the unit that a part of a key names, or None."""
    # "price_m" is not a length, "price_min" is the lowest price, and "start_day" is a date.
    if (len(part) == 1 and part not in _DEGREES) or part in _NO_UNITS:
        return None
    spelled = _DEGREES.get(part, part)
    match = next(quantities(f"1 {spelled}"), None)
    return match if match is not None and match.dimension is not None else None


#: Maximum number of arguments that are read from one call.
MAX_ARGUMENTS: Final = 500

_Key = tuple[int, int, int]


class Texts:
    """The texts of user and agent in a scope, and the arguments of calls."""

    def __init__(self, scope: Scope) -> None:
        """Store the scope; texts are parsed on first use."""
        self._scope = scope
        self._arguments_of: dict[_Key, ReadText] = {}
        self._results: dict[_Key, ResultValues] = {}

    @cached_property
    def answers(self) -> list[tuple[int, ReadText]]:
        """The answers, each with its turn index, in order."""
        return [(turn, ReadText.of(text)) for turn, text in self._scope.answers]

    @cached_property
    def _queries(self) -> list[tuple[int, ReadText]]:
        turns = self._scope.query_turns or (-1,) * len(self._scope.queries)
        earlier = [(turn.index, turn.query) for turn in self._scope.earlier if turn.query is not None]
        queries = [*earlier, *zip(turns, self._scope.queries, strict=True)]
        return [(turn, ReadText.of(text)) for turn, text in queries]

    @cached_property
    def earlier(self) -> list[ReadText]:
        """The texts, arguments and results of the turns before the scope."""
        turns = self._scope.earlier
        texts = [text for turn in turns for text in (turn.query, turn.answer) if text is not None]
        calls = [json_text(part) for turn in turns for call in turn.calls for part in (call.arguments, call.result)]
        return [ReadText.of(text) for text in (*texts, *calls)]

    def answers_after(self, actual: ActualCall) -> Iterator[tuple[int, ReadText]]:
        """Yield the answers of the call's turn and of later turns, each with its turn index."""
        return (answer for answer in self.answers if answer[0] >= actual.turn_index)

    def brought_in(self, actual: ActualCall, turn_index: int) -> list[ReadText]:
        """Return the arguments of a call and the user's texts before the answer of a turn.

        A value that occurs there is not evidence that the answer uses the result of the call.
        """
        return [self.given_to(actual), *(query for turn, query in self._queries if turn <= turn_index)]

    def given_to(self, actual: ActualCall) -> ReadText:
        """Return the arguments of a call as one text."""
        text = self._arguments_of.get(actual.location)
        if text is None:
            arguments = (str(value) for _, value in leaves(actual.call.arguments or {}, limit=MAX_ARGUMENTS))
            text = self._arguments_of[actual.location] = ReadText.of("\n".join(arguments))
        return text

    def result_of(self, actual: ActualCall) -> ResultValues:
        """Return the values of a call's result."""
        values = self._results.get(actual.location)
        if values is None:
            values = self._results[actual.location] = values_of(actual.call.result)
        return values

    def others(self, actual: ActualCall) -> Iterator[ActualCall]:
        """Yield the other calls up to and including the call's turn."""
        return (other for other in self._scope.calls if other.turn_index <= actual.turn_index and other is not actual)
