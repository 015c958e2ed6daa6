"""What speaks against an answer whatever its words: another number or date, a denial, the other one of two alternatives.

An objection never lets an answer pass. Where the answer states something else than what is expected it is `wrong`; where
it may yet be right it is a `doubt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from otel_agentic.judges import polarity
from otel_agentic.judges.bindings import clause_stems, misplaced
from otel_agentic.judges.contradiction import contradicted
from otel_agentic.judges.durations import with_whole_durations
from otel_agentic.judges.exact.features import NO_FACTS, HeldFacts, Weight
from otel_agentic.judges.exact.texts import (
    AnswerWording,
    Wording,
    likeness,
    remembered,
    with_whole_years,
    without_footnotes,
    wording,
)
from otel_agentic.judges.facts import Fact, Facts, FactText, extract, rival_facts, same_fact
from otel_agentic.judges.negation import clause_before, denied_at, has_denial, sentences
from otel_agentic.judges.quantities import Quantity
from otel_agentic.judges.standing import Manner, stands_by
from otel_agentic.judges.wording import similarity, stem, stems
from otel_agentic.truth.text import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: An expected text of at most so many telling words in one sentence is a short fact.
_SHORT_WORDS: Final = 4
#: Facts, places and characters that are compared: a pasted table costs no more than a page.
READ_CHARACTERS: Final = 50_000
_MAX_WANTED: Final = 100
_MAX_PLACES: Final = 1_000
_MAX_COMPARED: Final = 32
_MAX_ALTERNATIVE_WORDS: Final = 5
#: How much of the words of an expected statement an answer must have, and how many words a part of a list has.
_STATEMENT_WORDING: Final = 0.7
_MAX_ITEM_WORDS: Final = 3
_CENTURY: Final = re.compile(r"[- ]century\b", re.IGNORECASE)
_CURRENCIES: Final = frozenset({"usd", "eur", "gbp", "jpy", "inr"})

_AUXILIARY: Final = re.compile(
    r"\W*(?:true or false|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|must)(?:n['\u2019]t)?|"
    r"am|shall|may|might|ist|sind|war|kann|können|hat|haben|wird|darf|est-ce|está|es|son|puedo|puede|hay)\b",
    re.IGNORECASE,
)
_QUESTION_WORD: Final = re.compile(
    r"\b(?:wh(?:o|om|ose|at|ich|en|ere|y)|how|wer|was|wo|wann|wie|quel(?:le)?|qui|où|quand|cuál|quién|dónde|cuándo)\b",
    re.IGNORECASE,
)
#: "True or false" is one question, not two alternatives.
_TRUE_OR_FALSE: Final = re.compile(r"\b(?:true or false|yes or no|or not)\b", re.IGNORECASE)
_OR: Final = re.compile(r"\b(?:or|oder|ou)\b", re.IGNORECASE)
_ITEM_END: Final = re.compile(r"[,;:/]|\b(?:or|oder|ou)\b", re.IGNORECASE)
_QUERY_SENTENCE_END: Final = re.compile(r"[.?!](?:\s|$)|\n")
_SENTENCE_END: Final = re.compile(r"[.!?]\s|\n")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_STATEMENT: Final = re.compile(
    r"\b(?:i|you|your|we|our|my|is|are|was|were|be|been|has|have|had|do|does|did|can|cannot|could|will|would|must|may|should|please|costs?|"
    r"ist|sind|war|wird|wurde|hat|haben|kann|können|est|sont|était|coûte|es|está|son|cuesta)\b",
    re.IGNORECASE,
)
#: A call or an assignment; "Oasis (album)" is a name.
_CODE: Final = re.compile(r"\w\(|\w\s?[=<>]\s?\w|[{}]|;\s*$")
_LIST_MARK: Final = re.compile(r",\s*(?:and\s|or\s)?|\s(?:and|und|et|y)\s|[;\n]", re.IGNORECASE)
_CHANGED_FROM: Final = re.compile(
    r"\b(?:moved|changed|switched|rescheduled|rebooked|updated|corrected|renamed) from\b(?!.*\bto\b)", re.IGNORECASE
)
_BELIEVED: Final = re.compile(
    r"\b(?:many|some|most|people|often|commonly|wrongly)\b.*\b(?:think|thought|believed?|say|said|assumed?)\b",
    re.IGNORECASE,
)
_EITHER: Final = re.compile(r"\beither\W+(?:\w+\W+){0,2}$", re.IGNORECASE)
_OR_PERHAPS: Final = re.compile(r"\W*\bor (?:maybe|perhaps|possibly)\b", re.IGNORECASE)
_CORRECTED: Final = re.compile(r"\b(?:but|however|actually|in fact)\b", re.IGNORECASE)
_REACH_CHARACTERS: Final = 120
_TITLE_NEGATOR: Final = re.compile(r"(?<=[^.!?:\s]\s)(?:Not|No|Never|Nothing|Without|None|Nobody)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why an answer does not pass: `wrong`, or only a `doubt`. `rule` names the check for statistics."""

    weight: Weight
    rule: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class JudgedText(FactText):
    """A text with what the checks need of it."""

    @classmethod
    def of(cls, raw: str) -> JudgedText:
        """Return the beginning of a text, without Markdown's marks of bold text."""
        return cls(raw=with_whole_years(raw[:READ_CHARACTERS].replace("**", "")))

    @cached_property
    def facts(self) -> Facts:
        """The facts of the text, durations whole."""
        return with_whole_durations(self.raw, extract(self.raw))

    @cached_property
    def stems(self) -> Counter[str]:
        """The telling words outside the facts."""
        return stems(self.facts.rest)

    @cached_property
    def leading(self) -> bool | None:
        """True or False where the text begins with a yes or a no."""
        return polarity.leading(self.plain)

    @cached_property
    def wanted(self) -> tuple[Fact, ...]:
        """The facts that an answer must state, each once: "one" with other words is as often an article."""
        distinct: dict[Fact, Fact] = {}
        for fact in self.facts.found:
            if not (self.stems and _is_article(fact)):
                distinct.setdefault(replace(fact, start=0, end=0), fact)
        return tuple(distinct.values())[:_MAX_WANTED]

    @property
    def telling(self) -> Counter[str]:
        """The telling words without a yes or a no at the beginning, which is compared by itself."""
        first = words(self.plain)[:1] if self.leading is not None else []
        return self.stems - Counter(stem(word) for word in first)

    @cached_property
    def is_short(self) -> bool:
        """Whether it is a short fact: a few words in one sentence."""
        return self.stems.total() <= _SHORT_WORDS and len(sentences(self.raw)) <= 1

    @cached_property
    def is_statement(self) -> bool:
        """Whether it is a sentence, and not the name or the value alone."""
        return bool(_STATEMENT.search(self.raw))

    @cached_property
    def items(self) -> list[Wording]:
        """The parts of a list such as "red, yellow and blue", none where it is none."""
        parts = [Wording(raw=part) for part in _LIST_MARK.split(self.raw) if part.strip()]
        is_list = len(parts) > 2 and all(len(part.words) <= _MAX_ITEM_WORDS for part in parts)  # noqa: PLR2004
        return parts if is_list else []

    @cached_property
    def spoken(self) -> str:
        """The text without accents, and without denials that belong to titles: "I Write Sins Not Tragedies"."""
        plain = _ACCENT.sub("", unicodedata.normalize("NFKD", self.raw)) if not self.raw.isascii() else self.raw
        return _TITLE_NEGATOR.sub(lambda found: "_" * len(found.group()), plain)


@remembered
def expected_text(raw: str) -> JudgedText:
    """Return an accepted answer with what the checks need of it."""
    return JudgedText.of(raw)


def _is_article(fact: Fact) -> bool:
    return isinstance(fact, Quantity) and fact.worded and fact.value == 1 and fact.dimension is None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query: its texts, whether it is to be answered by yes or no, and between what it lets choose."""

    text: JudgedText
    wording: Wording

    @classmethod
    def of(cls, query: str) -> Asked:
        """Return the query."""
        return _asked(query)

    @cached_property
    def offers_choice(self) -> bool:
        """Whether it names alternatives with "or"."""
        return bool(_OR.search(_TRUE_OR_FALSE.sub(" ", self.text.raw)))

    @cached_property
    def is_polar(self) -> bool:
        """Whether it begins with an auxiliary, and neither asks for something else nor names alternatives.

        >>> [Asked.of(query).is_polar for query in ("Do you ship to Norway?", "Who won?", "Is it approved or rejected?")]
        [True, False, False]
        """
        raw = self.text.raw.lstrip("¿ ")
        return bool(_AUXILIARY.match(raw)) and not self.offers_choice and not _QUESTION_WORD.search(raw)

    @cached_property
    def may_be_polar(self) -> bool:
        """Whether a lone yes or no may answer it: it names no alternatives and does not begin with a question word."""
        return self.is_polar or not (self.offers_choice or _QUESTION_WORD.search(self.text.raw))

    @cached_property
    def alternatives(self) -> tuple[frozenset[str], ...]:
        """The telling words of each alternative, none where it names no alternatives.

        >>> [sorted(each) for each in Asked.of("Which seat class, economy or business?").alternatives]
        [['econom'], ['busines']]
        """
        found: list[frozenset[str]] = []
        for sentence in _QUERY_SENTENCE_END.split(_TRUE_OR_FALSE.sub(" ", self.text.raw)):
            head, *items = _ITEM_END.split(sentence)
            if not items or not _OR.search(sentence):
                continue
            last = wording(items[-1]).stems[:_MAX_ALTERNATIVE_WORDS]
            found += [frozenset(wording(item).stems) for item in items[:-1]] + [frozenset(last)]
            if len(items) == 1 or not _QUESTION_WORD.search(head):
                # The question begins before the first alternative, which has about as many words as the last one.
                found.append(frozenset(wording(head).stems[-len(last) :]))
        return tuple(each for each in dict.fromkeys(found) if each)


@remembered
def _asked(query: str) -> Asked:
    return Asked(text=JudgedText(raw=query), wording=wording(query))


@dataclass(frozen=True, kw_only=True)
class Given:
    """An answer to a query."""

    asked: Asked
    text: JudgedText
    wording: AnswerWording

    @classmethod
    def of(cls, answer: str, asked: Asked) -> Given:
        """Return the answer."""
        text = JudgedText.of(answer)
        clean = without_footnotes(text.raw)
        return cls(text=text, asked=asked, wording=AnswerWording(raw=clean, query=asked.wording))


@dataclass(frozen=True, kw_only=True)
class Sides:
    """One accepted answer and the given one, with what was asked."""

    expected: JudgedText
    given: Given

    @property
    def answer(self) -> JudgedText:
        """The text of the given answer."""
        return self.given.text

    @property
    def asked(self) -> Asked:
        """What was asked."""
        return self.given.asked

    @cached_property
    def held_facts(self) -> HeldFacts:
        """What the answer holds of the expected facts, however it writes them."""
        wanted = self.expected.wanted
        if not wanted:
            return NO_FACTS
        held = [(fact, next(self.answer.facts.like(fact), None)) for fact in wanted]
        return HeldFacts(
            wanted=len(wanted),
            held=sum(own is not None for _, own in held),
            wanted_stems=_stems_at(self.expected.raw, wanted),
            expected_stems=_stems_at(self.expected.raw, [fact for fact, own in held if own is not None]),
            answer_stems=_stems_at(self.answer.raw, [own for _, own in held if own is not None]),
            alone=not self.expected.stems,
        )

    @cached_property
    def manner(self) -> Manner:
        """How question and expected text speak themselves."""
        return Manner.of(self.expected.raw, self.asked.text.raw)

    @cached_property
    def unasked(self) -> tuple[Fact, ...]:
        """The facts that the answer brings in by itself: neither in the query nor expected."""
        found = self.asked.text.facts.found[:_MAX_WANTED] + self.expected.facts.found[:_MAX_WANTED]
        known = Facts(found=found, rest="")
        return tuple(fact for fact in self.answer.facts.found[:_MAX_PLACES] if not known.holds(fact))

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Where the answer has the expected words, one after the other; where it has any word of a short fact, if nowhere."""
        expected, spoken = wording(self.expected.raw), self.answer.spoken
        if not expected.words:
            return []
        found = [place.span() for place in islice(expected.pattern.finditer(spoken), _MAX_COMPARED)]
        if found or self.expected.is_statement or not self.expected.is_short:
            return found
        wanted = [word for word in expected.words if stem(word) in self.given.wording.stem_set]
        parts = re.compile(rf"\b(?:{'|'.join(map(re.escape, wanted))})", re.IGNORECASE) if wanted else None
        return [place.span() for place in islice(parts.finditer(spoken), _MAX_COMPARED)] if parts else []

    @cached_property
    def wording_share(self) -> float:
        """How much of the expected words and facts the answer has, in [0, 1]."""
        return similarity(self.expected.telling, self.answer.stems, self.asked.text.stems, facts=self.held)

    @property
    def states_facts(self) -> bool:
        """Whether facts are expected, and the answer has all of them and most of the words around them."""
        facts = self.held_facts
        return 0 < facts.wanted == facts.held and self.wording_share >= _STATEMENT_WORDING

    @property
    def held(self) -> list[tuple[bool, bool]]:
        """For each expected fact whether the answer states it, and whether the query does."""
        asked = replace(self.asked.text.facts, found=self.asked.text.facts.found[:_MAX_WANTED])
        return [(self.answer.facts.holds(fact), asked.holds(fact)) for fact in self.expected.wanted]

    def stands(self, fact: Fact) -> bool:
        """Return whether the answer stands by a fact of its own."""
        return stands_by(self.answer.raw, fact.start, fact.end, self.manner)

    def polar_reading(self) -> bool | None:
        """Return whether yes (True) or no (False) is expected, None where the query or the expected text asks for more."""
        expected = self.expected
        if expected.leading is not None and len(words(expected.plain)) == 1 and self.asked.may_be_polar:
            return expected.leading
        if not self.asked.is_polar or expected.wanted or expected.telling - self.asked.text.stems:
            return None
        return not polarity.flips(self.asked.text.raw, expected.raw) if expected.telling else None

    def says_yes(self) -> bool | None:
        """Return whether the answer says yes to the query, in its first word or in what it says about it; None for neither."""
        if self.answer.leading is not None:
            return self.answer.leading
        asked = self.asked.text.stems
        shared, about = max(
            (((stems(said) & asked).total(), said) for said in sentences(self.answer.raw)[:_MAX_WANTED]),
            key=itemgetter(0),
            default=(0, ""),
        )
        if asked and not shared and not has_denial(about):
            return None
        return not polarity.flips(self.asked.text.raw, about)

    def objection(self) -> Objection | None:
        """Return what speaks against the answer, a wrong statement before a doubt; None where nothing does."""
        doubt = None
        for check in _CHECKS:
            for found in check(self):
                if found.weight == "wrong":
                    return found
                doubt = doubt or found
        return doubt


def _stems_at(text: str, facts: Sequence[Fact]) -> frozenset[str]:
    return wording(" ".join(text[fact.start : fact.end] for fact in facts)).stem_set if facts else frozenset()


def _check_facts(sides: Sides) -> Iterator[Objection]:
    for fact in sides.expected.wanted:
        name = repr(sides.expected.raw[fact.start : fact.end])
        places = list(islice(sides.answer.facts.like(fact), _MAX_PLACES))
        if not places:
            coarser = any(_is_coarser(sides.answer.raw, own, fact) for own in sides.answer.facts.found[:_MAX_PLACES])
            other = not coarser and any(_is_rival(own, fact) for own in sides.unasked)
            if other:
                yield Objection(weight="wrong", rule="other_fact", explanation=f"{name} is different")
            else:
                yield Objection(weight="doubt", rule="missing_fact", explanation=f"{name} is missing")
            continue
        if stands_by(sides.expected.raw, fact.start, fact.end, sides.manner) and not any(map(sides.stands, places)):
            yield Objection(weight="wrong", rule="denied_fact", explanation=f"{name} is denied, past or a guess")
        elif contradicted(sides.answer.raw, filter(sides.stands, places), fact, filter(sides.stands, sides.unasked)):
            yield Objection(weight="doubt", rule="second_value", explanation=f"{name} stands next to another value")
        elif _is_replaced(sides, fact, places):
            yield Objection(weight="doubt", rule="replaced", explanation=f"{name} is different at one place")
        elif _is_elsewhere(sides, fact, places):
            yield Objection(weight="doubt", rule="other_subject", explanation=f"{name} is said of something else")


def _is_replaced(sides: Sides, fact: Fact, places: Sequence[Fact]) -> bool:
    """Return whether the answer states a fact less often than expected, and another one of its kind that nobody expects."""
    times = sum(same_fact(each, fact) for each in sides.expected.facts.found[:_MAX_WANTED])
    return len(places) < times and any(_is_rival(own, fact) for own in sides.unasked)


def _is_rival(own: Fact, wanted: Fact) -> bool:
    """Return whether a fact of the answer takes the place of the expected one: of its kind, or in another currency."""
    if isinstance(own, Quantity) and isinstance(wanted, Quantity) and {own.dimension, wanted.dimension} <= _CURRENCIES:
        return not own.same_as(wanted)
    return rival_facts(own, wanted)


def _is_coarser(text: str, own: Fact, wanted: Fact) -> bool:
    """Return whether a fact of the answer agrees with the expected one and says less: the century, the year or the month."""
    if isinstance(own, Quantity) and isinstance(wanted, Quantity):
        return bool(_CENTURY.match(text, own.end)) and 0 <= 100 * own.value - wanted.value < 100  # noqa: PLR2004
    if isinstance(own, Quantity):
        return own.dimension is None and _year_of(wanted, own.value)
    return type(own) is type(wanted) and own.same_as(wanted)  # type: ignore[arg-type]


def _year_of(wanted: Fact, value: float) -> bool:
    in_year: Callable[[float], bool] | None = getattr(wanted, "in_year", None)
    return in_year is not None and in_year(value)


def _is_elsewhere(sides: Sides, fact: Fact, places: list[Fact]) -> bool:
    """Return whether another value of its kind stands closer to what was asked: "the hotel costs $120, the ticket $210"."""
    rivals = [own for own in sides.unasked if rival_facts(own, fact)][:_MAX_COMPARED]
    asked, raw = sides.asked.text.stems.keys(), sides.answer.raw
    if not rivals or any(clause_stems(raw, place) & asked for place in places[:_MAX_COMPARED]):
        return False
    return any(
        clause_stems(raw, rival) & asked
        and not _SENTENCE_END.search(raw[min(rival.end, place.end) : max(rival.start, place.start)])
        for rival in rivals
        for place in places[:_MAX_COMPARED]
    )


def _check_polarity(sides: Sides) -> Iterator[Objection]:
    expected, answer = sides.expected, sides.answer
    wanted = sides.polar_reading()
    if wanted is not None:
        if sides.says_yes() == (not wanted):
            yield Objection(weight="wrong", rule="yes_no", explanation="yes and no differ")
        return
    if None not in {expected.leading, answer.leading} and expected.leading != answer.leading and sides.asked.is_polar:
        yield Objection(weight="wrong", rule="yes_no", explanation="yes and no differ")
    places = sides.places
    if not has_denial(expected.raw) and places and not any(_holds_at(sides, *place) for place in places):
        yield Objection(weight="doubt", rule="denied", explanation=f"{expected.plain!r} is denied or left open")
    elif not places and (expected.is_statement or sides.asked.is_polar) and polarity.opposed(expected.raw, answer.raw):
        yield Objection(weight="wrong", rule="opposed", explanation="one of them denies what the other says")


def _holds_at(sides: Sides, start: int, end: int) -> bool:
    """Return whether the answer stands by the expected words at a place: no denial, no choice of two, no belief that it corrects, no change."""
    spoken = sides.answer.spoken
    if denied_at(spoken, start, end):
        return False
    before = clause_before(spoken, start)
    if not sides.manner.past and _CHANGED_FROM.search(before):
        return False
    after = _SENTENCE_END.split(spoken[end : end + _REACH_CHARACTERS])[0]
    if _EITHER.search(before) or _OR_PERHAPS.match(after):
        return False
    return not (_BELIEVED.search(before) and _CORRECTED.search(after))


def _check_wording(sides: Sides) -> Iterator[Objection]:
    """Yield an objection where a statement is not repeated, or a part of a list or of code is missing."""
    expected, given = sides.expected, sides.given
    if (expected.is_statement or not expected.is_short) and sides.wording_share < _STATEMENT_WORDING:
        share = f"{sides.wording_share:.0%}"
        yield Objection(weight="doubt", rule="wording", explanation=f"it has {share} of the expected words")
    if expected.is_short and _CODE.search(expected.raw) and wording(expected.raw).stem_set - given.wording.stem_set:
        yield Objection(weight="doubt", rule="code", explanation="a word of the expected code is missing")
    for item in expected.items:
        said = given.wording.stem_set | sides.held_facts.expected_stems
        alike = any(likeness(word, given.wording.pool, said) for word in item.stems)
        if item.stems and not alike and not re.search(rf"\b{re.escape(item.raw.strip(' .'))}\b", sides.answer.spoken):
            yield Objection(weight="doubt", rule="list", explanation=f"{item.raw.strip()!r} is missing")


def _check_alternatives(sides: Sides) -> Iterator[Objection]:
    """Yield an objection where the query lets choose, and the answer chooses otherwise or leaves it open."""
    alternatives, wanted = sides.asked.alternatives, wording(sides.expected.raw).stem_set
    if not alternatives or not wanted or not wanted <= sides.asked.wording.stem_set:
        return
    others = [each - wanted for each in alternatives if not each & wanted]
    said = [other for other in others if other and _affirms(sides, other)]
    if not said:
        return
    name = " ".join(sorted(said[0]))
    if _affirms(sides, wanted):
        yield Objection(weight="doubt", rule="both", explanation=f"it names the other alternative {name!r} too")
    else:
        yield Objection(weight="wrong", rule="alternative", explanation=f"it chooses the other alternative {name!r}")


def _affirms(sides: Sides, stems_of: frozenset[str]) -> bool:
    """Return whether an answer says all of some words, at a place that is not denied."""
    if not stems_of <= sides.given.wording.stem_set:
        return False
    spoken = sides.answer.spoken
    beginnings = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(stems_of)))})\w*", re.IGNORECASE)
    places = [found.span() for found in islice(beginnings.finditer(spoken), _MAX_COMPARED)]
    return not places or any(stands_by(spoken, *place, sides.manner) for place in places)


def _check_owners(sides: Sides) -> Iterator[Objection]:
    expected, answer = sides.expected, sides.answer
    swapped = misplaced(expected.raw, expected.wanted, answer.raw, answer.facts)
    if swapped is not None:
        name = repr(expected.raw[swapped.start : swapped.end])
        yield Objection(weight="wrong", rule="swapped", explanation=f"{name} is said of something else")


def _check_longer_name(sides: Sides) -> Iterator[Objection]:
    """Yield an objection where a name stands only as part of a longer one: "Anna Schmidt-Weber"."""
    expected = wording(sides.expected.raw)
    if not expected.is_name or not expected.words or not sides.expected.is_short:
        return
    spoken = sides.answer.spoken
    whole = list(islice(expected.pattern.finditer(spoken), _MAX_COMPARED))
    if whole and all(_is_part_of_name(spoken, *found.span()) for found in whole):
        yield Objection(
            weight="doubt", rule="longer_name", explanation=f"{sides.expected.raw!r} is part of a longer name"
        )


def _is_part_of_name(text: str, start: int, end: int) -> bool:
    """Return whether a hyphen ties another capitalised word to what stands at a place."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return (after[:1] == "-" and after[1:].isupper()) or (before[1:] == "-" and before[:1].isalpha())


_CHECKS: Final = (
    _check_facts,
    _check_polarity,
    _check_alternatives,
    _check_wording,
    _check_owners,
    _check_longer_name,
)
