"""Utilization of call results: whether the answer or later calls use a result, inferred from values, with evidence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.judges.exact.facts import Day, Fact, Identifier, Quantity, TimeOfDay, extract, rounds_to
from otel_agentic.scoring.values import (
    MAX_ARGUMENTS,
    ReadText,
    ResultValue,
    Texts,
    bare,
    key_text,
    other_units,
    phrases_of,
    readings,
)
from otel_agentic.truth.values import leaves, normalise, places_of, words

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import ActualCall

How = Literal["flag", "argument", "answer", "contradiction", "judge"]

_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence that a result was used, or was not.

    `key` and `value` come from the result; `key` may be "". `matching_text` is the text that matches the value, in the
    answer of turn `turn_index` (0-based) or in the argument `argument` of `call`.
    """

    key: str
    value: str | float
    matching_text: str
    turn_index: int
    call: ActualCall | None = None
    argument: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Whether one result was used: `score` in [0, 1], None if unknown.

    `how` is the kind of evidence, None if the use is unknown. `proof` is the evidence; without it, `note` states the
    flag, the judge's reasoning, or why the use is unknown.
    """

    score: float | None
    how: How | None = None
    proof: Evidence | None = None
    note: str = ""

    @property
    def inferred(self) -> bool:
        """Whether the use was inferred, not stated by a flag."""
        return self.how != "flag"

    @property
    def evidence(self) -> str:
        """The evidence as part of a sentence."""
        proof = self.proof
        if proof is None:
            return self.note
        value = short(proof.value)
        entry = f"{proof.key} {value}" if proof.key else value
        if proof.call is not None:
            where = f"in turn {proof.call.turn_index + 1}, step {proof.call.call.step}"
            return f"{entry} is in argument {proof.argument!r} of the later call {proof.call.call.name} {where}"
        quotation = f"the answer of turn {proof.turn_index + 1} says {proof.matching_text!r}"
        return (
            f"{quotation}, the result {value}"
            if self.how == "contradiction"
            else f"{quotation}, as the result does: {entry}"
        )

    def record(self, actual: ActualCall) -> dict[str, Any]:
        """Return the use of a call's result as one flat record; fields that do not apply are omitted."""
        fields: dict[str, Any] = {
            "tool": actual.call.name,
            "turn_index": actual.turn_index,
            "position": actual.call.position,
            "span_id": actual.call.span_id,
            "score": self.score,
            "how": self.how,
            "explanation": self.evidence,
        }
        if self.proof is not None:
            fields |= _proof_fields(self.proof)
        return {name: value for name, value in fields.items() if value is not None}


def _proof_fields(proof: Evidence) -> dict[str, Any]:
    fields = {
        "key": proof.key or None,
        "value": cut(proof.value),
        "found_text": proof.matching_text,
        "found_turn_index": proof.turn_index,
    }
    if proof.call is None:
        return fields
    call = proof.call.call
    return fields | {
        "found_tool": call.name,
        "found_argument": proof.argument,
        "found_position": call.position,
        "found_span_id": call.span_id,
    }


def cut(value: str | float) -> str | float:
    """Return a value; a long text is truncated."""
    if not isinstance(value, str) or len(value) <= _SHOWN_CHARACTERS:
        return value
    return f"{value[: _SHOWN_CHARACTERS - 1]}\u2026"


def short(value: str | float) -> str:
    """Return a value as part of a sentence."""
    return repr(cut(value))


_WORDS: Final[Mapping[str, str]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
#: Whitespace and Markdown marks, which may occur anywhere between a key and its value.
_MARKS: Final = r"[\s*_`|]*"
#: The text between a key and the value that is stated for it.
_LINK: Final = re.compile(
    rf"{_MARKS}(?:is|was|are|of|:|=|at|=>|->)?{_MARKS}(?P<hedge>(?:now|currently|only|just|exactly|still|set to|"
    rf"(?P<about>about|around|approximately|approx|roughly|nearly|almost|some|~))?){_MARKS}(?P<denied>not{_MARKS}\S+{_MARKS},?{_MARKS}but{_MARKS})?"
)
_STRONG: Final = re.compile(r"[*`]+")
_LINK_CHARACTERS: Final = 60
_VALUE_CHARACTERS: Final = 40
#: Words before a key that do not change its meaning; any other word does ("base price", "return date").
_BEFORE: Final = frozenset(_WORDS["before"].split())
_WORD_BEFORE: Final = re.compile(r"(?:^|[\s*_`(\"'])([^\W\d_][\w'\u2019-]*)[ *_`(\"']*$")
#: Words after a value that do not change what the value means. After a value of a generic key ("total"), any other word
#: names the counted object.
_BEHIND: Final = frozenset(_WORDS["behind"].split())
_WORD_BEHIND: Final = re.compile(r"[ *_`)\"']*([^\W\d_][\w'-]*)")
#: Keys that may count anything.
_GENERIC: Final = frozenset(_WORDS["generic"].split())
#: Words before a key by which the sentence assumes a value, or states an earlier or later one.
_CONDITION: Final = re.compile(
    r"\b(?:if|whether|unless|when|once|would|could|should|might|may|suppose|example|e\.g|yesterday|tomorrow|tonight|earlier|"
    r"previous(?:ly)?|former(?:ly)?|original(?:ly)?|initially|after|you (?:said|told|mentioned|thought))\b"
)
#: Words after a value by which it differs from the value in the result: "$118 after the discount", "$240 for two".
_ALTERED: Final = re.compile(
    r"\b(?:after|before|incl(?:uding|udes|usive)?|excl(?:uding|udes|usive)?|plus|minus|less|without|rounded|yesterday|"
    r"tomorrow|tonight|original(?:ly)?|for (?:two|three|four|five|six|both|all))\b"
)
_CLAUSE_END: Final = re.compile(r"[!?;]|\.(?:\s|$)")
#: Text after a value: the rest of a range, of a sum, or of a number whose digits are grouped in an unknown way.
_CONTINUATION: Final = re.compile(r"\s*(?:[-\u2013+*/=\u00d7]|to\b|or\b|and\b)\s*[$\u20ac\u00a3]?\d|[\s.,'\u2019]\d")
_CLAUSE_CHARACTERS: Final = 160
_ALTERED_CHARACTERS: Final = 60
#: Number of digits between two thousands separators.
_GROUP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The value that a text states for a key.

    `text` is the wording of the claim; `about` is True if the value is approximate. `other_numbers` are the other
    numbers of the sentence, such as 3 in "$330 with the $3 fee".
    """

    fact: Fact
    text: str
    about: bool
    other_numbers: tuple[Quantity, ...] = ()


def claim_of(text: ReadText, name: str, known_words: frozenset[str]) -> Claim | None:
    """Return the value that a text states for a key, or None if it states no value or several.

    An example is "total price is $330" where the result contains 327. A result that is declared unused counts against
    the agent, so a statement with another possible reading is not a claim: a key that could mean something else, a
    condition, a question, another time, an unclear unit, or a number that can be derived from known ones.

    Args:
        text: the text.
        name: the key as words.
        known_words: words of the call and its result; before the key, they name its owner.
    """
    claims = list(_claims(text, name, known_words))
    first = claims[0] if claims else None
    if first is None or any(
        type(first.fact) is not type(other.fact) or not agrees(first.fact, other.fact) for other in claims
    ):
        return None
    return first


def _claims(text: ReadText, name: str, known_words: frozenset[str]) -> Iterator[Claim]:
    # Normalisation removes a final question mark, which `_is_open` needs.
    plain = f"{text.plain}?" if text.raw.rstrip().endswith("?") else text.plain
    for start, end in places_of(plain, name):
        if not _means_the_key(plain, start, known_words):
            continue
        link = _LINK.match(plain, end, end + _LINK_CHARACTERS)
        value_start = link.end() if link else end
        facts = extract(plain[value_start : value_start + _VALUE_CHARACTERS]).all
        if not facts or facts[0].start > 0:
            continue
        stop = value_start + facts[0].end
        if not _is_open(plain, start, stop) and (name not in _GENERIC or _ends_there(plain, stop)):
            wording, nearby = _STRONG.sub("", plain[start:stop]), tuple(_other_numbers(plain, start, stop))
            yield Claim(fact=facts[0], text=wording, about=bool(link and link["about"]), other_numbers=nearby)


def _means_the_key(plain: str, start: int, known_words: frozenset[str]) -> bool:
    word = _WORD_BEFORE.search(plain[max(0, start - _VALUE_CHARACTERS) : start])
    if word is None or word[1] in _BEFORE:
        return True
    owner = re.sub(r"['\u2019]s$", "", word[1])
    return owner in known_words


def _is_open(plain: str, start: int, stop: int) -> bool:
    """Return whether a sentence assumes the value, asks for it or modifies it, or whether the value continues."""
    before, behind = _sentence(plain, start, stop)
    return (
        behind.endswith("?")
        or bool(_CONDITION.search(before))
        or bool(_ALTERED.search(behind[:_ALTERED_CHARACTERS]))
        or bool(_CONTINUATION.match(plain, stop))
    )


def _sentence(plain: str, start: int, stop: int) -> tuple[str, str]:
    """Return the parts of a sentence before and after a passage in it, including the final punctuation mark."""
    before = _CLAUSE_END.split(plain[max(0, start - _CLAUSE_CHARACTERS) : start])[-1]
    end = _CLAUSE_END.search(plain, stop, stop + _CLAUSE_CHARACTERS)
    return before, plain[stop : end.end() if end else stop + _CLAUSE_CHARACTERS].rstrip()


def _other_numbers(plain: str, start: int, stop: int) -> Iterator[Quantity]:
    for part in _sentence(plain, start, stop):
        yield from (fact for fact in extract(part).all if isinstance(fact, Quantity))


def _ends_there(plain: str, stop: int) -> bool:
    word = _WORD_BEHIND.match(plain, stop)
    return word is None or word[1] in _BEHIND


def agrees(known: Fact, stated: Fact, *, about: bool = False) -> bool:
    """Return whether a stated value may be the known one; True if the two cannot be compared.

    >>> from otel_agentic.judges.exact.facts import quantities
    >>> known, *stated = quantities("90 1.5 hours 90% 95")
    >>> [agrees(known, number) for number in stated]
    [True, True, False]
    """
    if isinstance(known, Quantity) and isinstance(stated, Quantity):
        return any(_near(number, stated, about=about) for number in readings(known, stated))
    if isinstance(known, Identifier) and isinstance(stated, Identifier):
        known_id, stated_id = (re.sub(r"[^a-z0-9]", "", fact.value) for fact in (known, stated))
        return known_id in stated_id or stated_id in known_id
    if isinstance(known, Day) and isinstance(stated, Day):
        return known.same_as(stated)
    if isinstance(known, TimeOfDay) and isinstance(stated, TimeOfDay):
        # A difference of whole hours may be another time zone.
        return (known.minutes - stated.minutes) % 60 == 0
    return type(known) is not type(stated)


def _near(number: float, stated: Quantity, *, about: bool) -> bool:
    tolerance = 0.5 * 10.0**-stated.decimals
    if about or stated.worded:
        tolerance = max(tolerance, 0.1 * abs(number))
    if abs(stated.value) >= 10_000:  # noqa: PLR2004 — large numbers are stated in round figures
        tolerance = max(tolerance, 0.05 * abs(number))
    if stated.decimals == 1 and stated.value * 2 % 1 == 0:
        # Ratings are stated in halves.
        tolerance = max(tolerance, 0.25)
    # A sign may be expressed in words: "overdrawn". 1.234 may be 1,234 in another country.
    candidates = (stated.value, stated.value * 1000) if stated.decimals == _GROUP else (stated.value,)
    return any(abs(abs(number) - abs(value)) <= tolerance * (1 + 1e-9) for value in candidates)


#: Maximum number of known numbers from which a stated one may be derived, and of other calls that may explain it.
_MAX_OPERANDS: Final = 40
_MAX_OTHER_CALLS: Final = 50


def stated_otherwise(values: Sequence[ResultValue], actual: ActualCall, texts: Texts) -> Use | None:
    """Return the use of a result whose keys occur in the answer of the call's turn, or None.

    The score is 1 if the answer states the result's value for a key, and 0 if it states another value without a known
    explanation.
    """
    answer = next((text for turn, text in texts.answers if turn == actual.turn_index), None)
    if answer is None:
        return None
    mentioned = list(_mentioned_values(values, answer))
    known_words = _known_words(values, actual, texts) if mentioned else frozenset()
    for name, value in mentioned:
        claim = claim_of(answer, name, known_words)
        use = None if claim is None else _use_by_claim(claim, value, values, actual, texts)
        if use is not None:
            return use
    return None


def _mentioned_values(values: Sequence[ResultValue], answer: ReadText) -> Iterator[tuple[str, ResultValue]]:
    """Yield the values with a unique key whose first word occurs in an answer, each with the key as words."""
    for value in values:
        name = key_text(value.key) if value.alone and value.fact is not None else None
        if name is not None and name.split()[0] in answer.vocabulary:
            yield name, value


def _use_by_claim(
    claim: Claim, value: ResultValue, values: Sequence[ResultValue], actual: ActualCall, texts: Texts
) -> Use | None:
    known, stated = value.fact, claim.fact
    proof = Evidence(key=value.key, value=value.value, matching_text=claim.text, turn_index=actual.turn_index)
    if isinstance(known, Quantity) and isinstance(stated, Quantity) and rounds_to(known.value, stated):
        brought_in = any(_may_state(text, stated) for text in texts.brought_in(actual, actual.turn_index))
        return None if brought_in else Use(score=1.0, how="answer", proof=proof)
    if known is None or agrees(known, stated, about=claim.about) or _is_next_day(value, stated):
        return None
    if _is_explained(claim, values, actual, texts) or _is_altered(known, claim):
        return None
    return Use(score=0.0, how="contradiction", proof=proof)


def _is_explained(claim: Claim, values: Sequence[ResultValue], actual: ActualCall, texts: Texts) -> bool:
    """Return whether the stated value occurs elsewhere, or can be derived from known values."""
    stated = claim.fact
    if any(agrees(fact, stated, about=claim.about) for fact in _facts(values) if type(fact) is type(stated)):
        return True
    brought_in = texts.brought_in(actual, actual.turn_index)
    if any(_may_state(text, stated) for text in (*brought_in, *texts.earlier)):
        return True
    for other, _ in zip(texts.others(actual), range(_MAX_OTHER_CALLS), strict=False):
        result = texts.result_of(other)
        known = any(agrees(fact, stated) for fact in _facts(result.values) if type(fact) is type(stated))
        if known or not result.complete or _may_state(texts.given_to(other), stated):
            return True
    return isinstance(stated, Quantity) and _is_derived(stated, values, brought_in)


def _is_next_day(value: ResultValue, stated: Fact) -> bool:
    """Return whether a day is adjacent to the day of a timestamp, as it may be in another time zone."""
    known = value.fact
    if not (isinstance(known, Day) and isinstance(stated, Day) and ":" in value.plain):
        return False
    return any(abs(ordinal - other) <= 1 for ordinal in _ordinals(known, stated) for other in _ordinals(stated, known))


def _ordinals(day: Day, other: Day) -> Iterator[int]:
    """Yield the ordinals of the days that a date may mean; a date without a year takes the year of the other date."""
    years = {year for year, _, _ in other.readings if year is not None}
    for year, month, number in day.readings:
        for known_year in years if year is None else {year}:
            with suppress(ValueError):
                yield date(known_year, month, number or 1).toordinal()


def _is_altered(known: Fact, claim: Claim) -> bool:
    """Return whether the stated value can be computed from the known value and another number of the sentence."""
    stated = claim.fact
    if not (isinstance(known, Quantity) and isinstance(stated, Quantity)):
        return False
    results = (number for nearby in claim.other_numbers for number in _combined(known.value, nearby.value))
    return any(agrees(bare(number), stated) for number in results)


def _facts(values: Sequence[ResultValue]) -> Iterator[Fact]:
    return (value.fact for value in values if value.fact is not None)


def _may_state(text: ReadText, stated: Fact) -> bool:
    return any(agrees(fact, stated) for fact in text.facts.all if type(fact) is type(stated))


def _is_derived(stated: Quantity, values: Sequence[ResultValue], brought_in: Sequence[ReadText]) -> bool:
    """Return whether the stated number is a sum, difference, product, quotient or percentage of two known numbers."""
    result_numbers = [fact.value for fact in _facts(values) if isinstance(fact, Quantity)]
    text_numbers = [number.value for text in brought_in for number in text.quantities]
    operands = [*result_numbers[:_MAX_OPERANDS], *text_numbers[:_MAX_OPERANDS]]
    derived = (number for left, right in combinations(operands, 2) for number in _combined(left, right))
    return any(agrees(bare(number), stated) for number in (*derived, sum(result_numbers)))


def _combined(left: float, right: float) -> Iterator[float]:
    yield from (left + right, left - right, right - left, left * right)
    yield from (left * right / 100, left * (1 - right / 100), right * (1 - left / 100))
    if left and right:
        yield from (left / right, right / left)


def _known_words(values: Sequence[ResultValue], actual: ActualCall, texts: Texts) -> frozenset[str]:
    """Return the words of the arguments and the result of a call."""
    result_words = {word for value in values if isinstance(value.value, str) for word in words(value.plain)}
    return texts.given_to(actual).vocabulary | result_words


#: In a result with at most this many values, any value is evidence.
FEW_VALUES: Final = 3
#: In a result with more values than this, a number needs more digits to rule out a match by chance.
_MANY_VALUES: Final = 50
_SMALL: Final = 10
_LARGE: Final = 100
_EVIDENCE_CHARACTERS: Final = 4
_IDENTIFYING_KEY: Final = re.compile(r"(?:^|_)(?:id|number|code|key|ref)$|(?:Id|ID|Number|Code|Key|Ref)$")
#: Values that occur regardless of the result of a call.
_EMPTY: Final = frozenset(_WORDS["empty"].split())


def in_later_call(
    values: Sequence[ResultValue], actual: ActualCall, later: Sequence[ActualCall], texts: Texts
) -> Evidence | None:
    """Return a value of a result in the arguments of a later call, or None."""
    if not later:
        return None
    candidates = [value for value in values if tells(value, max(len(values), FEW_VALUES + 1))]
    for call in later:
        arguments, known = texts.given_to(call), texts.brought_in(actual, call.turn_index)
        for value in candidates:
            argument_match = _argument_with(value, call) if find_new(value, arguments, known) is not None else None
            if argument_match is not None:
                return _evidence(value, argument_match[1], call.turn_index, call=call, argument=argument_match[0])
        evidence = _repeated_identifier(values, call, known)
        if evidence is not None:
            return evidence
    return None


def _repeated_identifier(values: Sequence[ResultValue], call: ActualCall, known: Sequence[ReadText]) -> Evidence | None:
    """Return an identifier that an argument of the same name repeats, where even a small number is not chance."""
    arguments = call.call.arguments or {}
    for value in values:
        argument = arguments.get(value.key) if value.alone and _IDENTIFYING_KEY.search(value.key) else None
        if type(argument) is type(value.value) and argument == value.value and not _is_in(value, known):
            return _evidence(value, str(argument), call.turn_index, call=call, argument=value.key)
    return None


def in_answers(values: Sequence[ResultValue], actual: ActualCall, texts: Texts, *, strong: bool) -> Evidence | None:
    """Return a value of a result that an answer contains, or None.

    Args:
        values: the values of the result.
        actual: the call.
        texts: the texts of the scope.
        strong: search for numbers, dates, identifiers and phrases; otherwise for names and single words.
    """
    few = len(values) <= FEW_VALUES
    candidates = [value for value in values if is_strong(value) == strong and tells(value, len(values))]
    for turn_index, answer in texts.answers_after(actual) if candidates else ():
        known = texts.brought_in(actual, turn_index)
        weak_evidence: Evidence | None = None
        for value in candidates:
            match = find_new(value, answer, known, few=few)
            if match is None:
                continue
            evidence = _evidence(value, match, turn_index)
            if few or not value.is_common or _says_key(answer, value):
                return evidence
            # One common word may match by chance, two different ones do not.
            if weak_evidence is not None and weak_evidence.value != value.value:
                return weak_evidence
            weak_evidence = evidence
    return None


def _says_key(answer: ReadText, value: ResultValue) -> bool:
    name = key_text(value.key)
    return name is not None and answer.span_of_words(name) is not None


def _evidence(value: ResultValue, matching_text: str, turn_index: int, **fields: Any) -> Evidence:
    return Evidence(key=value.key, value=value.value, matching_text=matching_text, turn_index=turn_index, **fields)


def find_new(value: ResultValue, stated: ReadText, known: Sequence[ReadText], *, few: bool = False) -> str | None:
    """Return the words around the first occurrence of a value in a text, or None if it is absent or already known."""
    if value.is_prose:
        stated_phrases = stated.phrases
        shared = (phrase for phrase in phrases_of(value.words) if phrase in stated_phrases)
        return next((phrase for phrase in shared if not any(text.has_phrase(phrase) for text in known)), None)
    match = find(value, stated, few=few)
    return None if match is None or _is_in(value, known) else match


def find(value: ResultValue, text: ReadText, *, few: bool) -> str | None:
    """Return the words around an occurrence of a value in a text, or None."""
    if isinstance(value.value, str):
        index = text.span_of_words(value.plain)
        if index is not None:
            return text.around_words(value.value, index)
    if value.fact is None:
        return None
    fact = (
        _find_number(value.fact, text, few=few) if isinstance(value.fact, Quantity) else text.place_of_fact(value.fact)
    )
    return None if fact is None else text.around(fact)


def _is_in(value: ResultValue, known: Sequence[ReadText]) -> bool:
    return any(find(value, text, few=True) is not None for text in known)


def _find_number(number: Quantity, text: ReadText, *, few: bool) -> Quantity | None:
    match = text.place_of_number(number)
    for reading in other_units(number) if match is None else ():
        match = match or text.place_of_number(reading, spelled=True)
    # Among many numbers, one is likely to round to any small number.
    return match if match is None or few or not _is_small(match.value) else None


def is_strong(value: ResultValue) -> bool:
    """Return whether a value hardly occurs by chance: a number, date, code or sentence, rather than a word."""
    return value.fact is not None or value.is_prose


def tells(value: ResultValue, count: int) -> bool:
    """Return whether a value is rare enough to be evidence, given the number of values in its result."""
    few = count <= FEW_VALUES
    fact = value.fact
    if isinstance(fact, Quantity):
        if count > _MANY_VALUES:
            return abs(fact.value) >= _LARGE or len(f"{abs(fact.value):g}".strip("0.").replace(".", "")) > 2  # noqa: PLR2004
        return (few and not value.in_sentence) or not _is_small(fact.value)
    if fact is not None:
        return True
    return value.plain not in _EMPTY and len(value.plain) >= (2 if few else _EVIDENCE_CHARACTERS)


def _is_small(number: float) -> bool:
    return abs(number) < _SMALL and number % 1 == 0


def _argument_with(value: ResultValue, call: ActualCall) -> tuple[str, str] | None:
    """Return the argument that contains a value, and the words around it; a common word must be the whole argument."""
    for name, argument in leaves(call.call.arguments or {}, limit=MAX_ARGUMENTS):
        text = str(argument)
        if value.is_common:
            match = text if normalise(text) == value.plain else None
        else:
            match = find_new(value, ReadText.of(text), ())
        if match is not None:
            return name, match
    return None


def use_of(actual: ActualCall, later: Sequence[ActualCall], texts: Texts) -> Use:
    """Return whether the result of a call was used.

    It was used if one of its values is an argument of a later call or occurs in an answer after the call; values that
    the user or the call itself introduced are not evidence. It was not used if the turn's answer states another value
    for a key that the result contains once. Otherwise the use is unknown and the score is None.

    Strong evidence takes precedence: an argument of a later call, or a number, date or code in an answer. Next is a
    value that the answer states for a key of the result, and last are shared words and names.

    Args:
        actual: a successful call.
        later: the later calls that may prove the use. The caller omits calls that no expectation names, because an
            unexpected call must not raise a score.
        texts: the texts of the scope.
    """
    if actual.call.used_flag is not None:
        word = "used" if actual.call.used_flag else "unused"
        return Use(score=float(actual.call.used_flag), how="flag", note=f"the data flag its result as {word}")
    if not actual.call.result_captured:
        return Use(score=None, note="its result was not captured")
    return _inferred(actual, later, texts)


def _inferred(actual: ActualCall, later: Sequence[ActualCall], texts: Texts) -> Use:
    result = texts.result_of(actual)
    argument = in_later_call(result.values, actual, later, texts)
    if argument is not None:
        return Use(score=1.0, how="argument", proof=argument)
    evidence = in_answers(result.values, actual, texts, strong=True)
    # If a result was read only in part, the unread part may contain what the answer states.
    claimed_use = stated_otherwise(result.values, actual, texts) if evidence is None and result.complete else None
    if claimed_use is not None:
        return claimed_use
    evidence = evidence or in_answers(result.values, actual, texts, strong=False)
    if evidence is not None:
        return Use(score=1.0, how="answer", proof=evidence)
    return Use(score=None, note="no sign of its result")


def evidence_of(
    uses: Iterable[tuple[ActualCall, Use]], verdicts: Sequence[Mapping[str, Any]] = ()
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the evidence of a tool score by dimension: one record per result whose use is known.

    Args:
        uses: the use of each result.
        verdicts: a judge's verdicts on parameters.
    """
    use_records = [use.record(actual) for actual, use in uses if use.score is not None]
    by_dimension: dict[str, list[Mapping[str, Any]]] = {"utilization": [*use_records], "parameters": [*verdicts]}
    return {name: records for name, records in by_dimension.items() if records}
