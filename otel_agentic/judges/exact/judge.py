"""The embedded judge: compares wording and facts by value, and returns the probability that people call the answer right.

It needs no language model: a logistic model weighs its features with coefficients from a file (`model.json`). It is a
heuristic: `docs/exact-judge.md` publishes its agreement with people, and its limits.

Objections are independent of the wording: another number or date, a denial, the other of two alternatives, unequal JSON. An
objection never makes an answer pass. If the answer contradicts the expected one it is `wrong`; if it may still be right it is a
`doubt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from otel_agentic.errors import UsageError
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.exact import negation as polarity
from otel_agentic.judges.exact.facts import (
    Fact,
    Facts,
    FactText,
    Quantity,
    extract,
    rival_facts,
    same_fact,
    with_whole_durations,
)
from otel_agentic.judges.exact.features import (
    NO_FACTS,
    AnswerWording,
    HeldFacts,
    Model,
    Weight,
    Wording,
    likeness,
    measure,
    remembered,
    shipped_model,
    with_whole_years,
    without_footnotes,
    wording,
)
from otel_agentic.judges.exact.negation import (
    Manner,
    asserts,
    clause_before,
    clause_stems,
    contradicted,
    denied_at,
    has_denial,
    misplaced,
    sentences,
    similarity,
    stem,
    stems,
)
from otel_agentic.truth.values import canonical, leaves, words

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings

_OPENING: Final = re.compile(r"```(?:json)?[ \t]*\n")
_CLOSING: Final = re.compile("```")
#: Number of closing fences that are tried: texts inside the JSON may contain one.
_MAX_CLOSINGS: Final = 16
#: Maximum number of values compared to compute the share in common.
_MAX_LEAVES: Final = 2_000


def json_agreement(expected: str, answer: str) -> float | None:
    """Return the agreement of two JSON objects or lists, 1.0 only if they are equal; or None if one text is not JSON.

    Below 1.0 it is the share of values in common. The answer may contain its JSON in a fenced block.

    >>> json_agreement('{"city": "Oslo", "degrees": 4}', '{"degrees": 4.0, "city": "Oslo"}')
    1.0
    >>> json_agreement('{"city": "Oslo", "degrees": 4}', '{"degrees": 4, "city": "Bergen"}')
    0.3333333333333333
    """
    expected_json, answer_json = _read(expected), _read(answer)
    if expected_json is None or answer_json is None:
        return None
    try:
        if canonical(expected_json) == canonical(answer_json):
            return 1.0
        expected_values, answer_values = _values(expected_json), _values(answer_json)
    except RecursionError:  # nested deeper than Python's stack: judged as text
        return None
    shared, total = (expected_values & answer_values).total(), (expected_values | answer_values).total()
    return min(shared / total, 0.99) if total else 0.0


def _values(document: Any) -> Counter[Any]:
    return Counter((name, canonical(value)) for name, value in leaves(document, limit=_MAX_LEAVES))


def _read(text: str) -> Any:
    """Return the JSON object or list of a text, bare or in a fenced block; or None."""
    plain = text.strip()
    if plain[:1] in {"{", "["}:
        return _loaded(plain)
    opening = _OPENING.search(text)
    if opening is None:
        return None
    closings = islice(_CLOSING.finditer(text, opening.end()), _MAX_CLOSINGS)
    documents = (_loaded(text[opening.end() : closing.start()].strip()) for closing in closings)
    return next((document for document in documents if document is not None), None)


def _loaded(plain: str) -> Any:
    if plain[:1] not in {"{", "["}:
        return None
    try:
        return orjson.loads(plain)
    except orjson.JSONDecodeError:
        return None


#: An expected text of at most so many content words in one sentence is a short fact.
_SHORT_WORDS: Final = 4
#: Limits on compared facts, spans and characters: a pasted table costs no more than a page.
READ_CHARACTERS: Final = 50_000
_MAX_REQUIRED: Final = 100
_MAX_SPANS: Final = 1_000
_MAX_COMPARED: Final = 32
_MAX_ALTERNATIVE_WORDS: Final = 5
#: Share of the words of an expected statement that an answer must have, and maximum words of a list item.
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
    """The reason why an answer does not pass. `weight` is `wrong` or `doubt`; `rule` names the check in statistics."""

    weight: Weight
    rule: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class JudgedText(FactText):
    """A text with the properties that the checks use."""

    @classmethod
    def of(cls, raw: str) -> JudgedText:
        """Return the beginning of a text, without Markdown's marks of bold text."""
        return cls(raw=with_whole_years(raw[:READ_CHARACTERS].replace("**", "")))

    @cached_property
    def facts(self) -> Facts:
        """The facts of the text, with joined durations."""
        return with_whole_durations(self.raw, extract(self.raw))

    @cached_property
    def stems(self) -> Counter[str]:
        """The content words outside the facts."""
        return stems(self.facts.rest)

    @cached_property
    def leading(self) -> bool | None:
        """True or False if the text begins with a yes or a no."""
        return polarity.leading(self.plain)

    @cached_property
    def required(self) -> tuple[Fact, ...]:
        """The facts that an answer must state, each once; "one" next to other words is more often an article."""
        distinct: dict[Fact, Fact] = {}
        for fact in self.facts.all:
            if not (self.stems and _is_article(fact)):
                distinct.setdefault(replace(fact, start=0, end=0), fact)
        return tuple(distinct.values())[:_MAX_REQUIRED]

    @property
    def content(self) -> Counter[str]:
        """The content words without a leading yes or no, which is compared separately."""
        first = words(self.plain)[:1] if self.leading is not None else []
        return self.stems - Counter(stem(word) for word in first)

    @cached_property
    def is_short(self) -> bool:
        """Whether it is a short fact: a few words in one sentence."""
        return self.stems.total() <= _SHORT_WORDS and len(sentences(self.raw)) <= 1

    @cached_property
    def is_statement(self) -> bool:
        """Whether it is a sentence, and not only a name or value."""
        return bool(_STATEMENT.search(self.raw))

    @cached_property
    def items(self) -> list[Wording]:
        """The items of a list such as "red, yellow and blue", empty for other texts."""
        parts = [Wording(raw=part) for part in _LIST_MARK.split(self.raw) if part.strip()]
        is_list = len(parts) > 2 and all(len(part.words) <= _MAX_ITEM_WORDS for part in parts)  # noqa: PLR2004
        return parts if is_list else []

    @cached_property
    def spoken(self) -> str:
        """The text without accents, and without denials that belong to titles: "I Write Sins Not Tragedies"."""
        plain = _ACCENT.sub("", unicodedata.normalize("NFKD", self.raw)) if not self.raw.isascii() else self.raw
        return _TITLE_NEGATOR.sub(lambda match: "_" * len(match.group()), plain)


@remembered
def expected_text(raw: str) -> JudgedText:
    """Return an accepted answer with the properties that the checks use."""
    return JudgedText.of(raw)


def _is_article(fact: Fact) -> bool:
    return isinstance(fact, Quantity) and fact.worded and fact.value == 1 and fact.dimension is None


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query: its texts, whether it expects yes or no, and the alternatives that it offers."""

    text: JudgedText
    wording: Wording

    @classmethod
    def of(cls, query: str) -> Query:
        """Return a query, cached for recent short texts."""
        return _query(query)

    @cached_property
    def offers_choice(self) -> bool:
        """Whether it names alternatives with "or"."""
        return bool(_OR.search(_TRUE_OR_FALSE.sub(" ", self.text.raw)))

    @cached_property
    def is_polar(self) -> bool:
        """Whether it begins with an auxiliary, and neither asks for anything else nor names alternatives.

        >>> [Query.of(query).is_polar for query in ("Do you ship to Norway?", "Who won?", "Is it approved or rejected?")]
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
        """The content words of each alternative, empty if it names no alternatives.

        >>> [sorted(words) for words in Query.of("Which seat class, economy or business?").alternatives]
        [['econom'], ['busines']]
        """
        options: list[frozenset[str]] = []
        for sentence in _QUERY_SENTENCE_END.split(_TRUE_OR_FALSE.sub(" ", self.text.raw)):
            head, *items = _ITEM_END.split(sentence)
            if not items or not _OR.search(sentence):
                continue
            last = wording(items[-1]).stems[:_MAX_ALTERNATIVE_WORDS]
            options += [frozenset(wording(item).stems) for item in items[:-1]] + [frozenset(last)]
            if len(items) == 1 or not _QUESTION_WORD.search(head):
                # The question begins before the first alternative, which has about as many words as the last one.
                options.append(frozenset(wording(head).stems[-len(last) :]))
        return tuple(option for option in dict.fromkeys(options) if option)


@remembered
def _query(query: str) -> Query:
    return Query(text=JudgedText(raw=query), wording=wording(query))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An answer to a query."""

    query: Query
    text: JudgedText
    wording: AnswerWording

    @classmethod
    def of(cls, answer: str, query: Query) -> Candidate:
        """Return an answer as a candidate for a query."""
        text = JudgedText.of(answer)
        clean = without_footnotes(text.raw)
        return cls(text=text, query=query, wording=AnswerWording(raw=clean, query=query.wording))


@dataclass(frozen=True, kw_only=True)
class Sides:
    """One accepted answer and the agent's answer to the query."""

    expected: JudgedText
    candidate: Candidate

    @property
    def answer(self) -> JudgedText:
        """The text of the agent's answer."""
        return self.candidate.text

    @property
    def query(self) -> Query:
        """The query."""
        return self.candidate.query

    @cached_property
    def held_facts(self) -> HeldFacts:
        """The expected facts that the answer states, in any notation."""
        required = self.expected.required
        if not required:
            return NO_FACTS
        held = [(fact, next(self.answer.facts.like(fact), None)) for fact in required]
        return HeldFacts(
            required=len(required),
            held=sum(own is not None for _, own in held),
            required_stems=_stems_at(self.expected.raw, required),
            expected_stems=_stems_at(self.expected.raw, [fact for fact, own in held if own is not None]),
            answer_stems=_stems_at(self.answer.raw, [own for _, own in held if own is not None]),
            alone=not self.expected.stems,
        )

    @cached_property
    def manner(self) -> Manner:
        """The manner of speaking of question and expected text."""
        return Manner.of(self.expected.raw, self.query.text.raw)

    @cached_property
    def unasked(self) -> tuple[Fact, ...]:
        """The facts that the answer introduces itself: neither in the query nor expected."""
        known_facts = self.query.text.facts.all[:_MAX_REQUIRED] + self.expected.facts.all[:_MAX_REQUIRED]
        query_and_expected = Facts(all=known_facts, rest="")
        return tuple(fact for fact in self.answer.facts.all[:_MAX_SPANS] if not query_and_expected.holds(fact))

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The spans of the answer with the expected words in sequence, else (a short fact) with any of these words."""
        expected, spoken = wording(self.expected.raw), self.answer.spoken
        if not expected.words:
            return []
        spans = [match.span() for match in islice(expected.pattern.finditer(spoken), _MAX_COMPARED)]
        if spans or self.expected.is_statement or not self.expected.is_short:
            return spans
        present = [word for word in expected.words if stem(word) in self.candidate.wording.stem_set]
        parts = re.compile(rf"\b(?:{'|'.join(map(re.escape, present))})", re.IGNORECASE) if present else None
        return [match.span() for match in islice(parts.finditer(spoken), _MAX_COMPARED)] if parts else []

    @cached_property
    def wording_share(self) -> float:
        """The share of the expected words and facts that the answer has, in [0, 1]."""
        return similarity(self.expected.content, self.answer.stems, self.query.text.stems, facts=self.held)

    @property
    def states_facts(self) -> bool:
        """Whether facts are expected, and the answer has all of them and most of the words around them."""
        facts = self.held_facts
        return 0 < facts.required == facts.held and self.wording_share >= _STATEMENT_WORDING

    @property
    def held(self) -> list[tuple[bool, bool]]:
        """For each expected fact, whether the answer states it and whether the query does."""
        in_query = replace(self.query.text.facts, all=self.query.text.facts.all[:_MAX_REQUIRED])
        return [(self.answer.facts.holds(fact), in_query.holds(fact)) for fact in self.expected.required]

    def asserts(self, fact: Fact) -> bool:
        """Return whether the answer asserts one of its own facts."""
        return asserts(self.answer.raw, fact.start, fact.end, self.manner)

    def polar_reading(self) -> bool | None:
        """Return whether yes (True) or no (False) is expected, or None if the query or the expected text asks for more."""
        expected = self.expected
        if expected.leading is not None and len(words(expected.plain)) == 1 and self.query.may_be_polar:
            return expected.leading
        if not self.query.is_polar or expected.required or expected.content - self.query.text.stems:
            return None
        return not polarity.flips(self.query.text.raw, expected.raw) if expected.content else None

    def affirms_query(self) -> bool | None:
        """Return whether the answer affirms the query, by its first word or its statement about it; None for neither."""
        if self.answer.leading is not None:
            return self.answer.leading
        query_stems = self.query.text.stems
        shared, closest = max(
            (
                ((stems(sentence) & query_stems).total(), sentence)
                for sentence in sentences(self.answer.raw)[:_MAX_REQUIRED]
            ),
            key=itemgetter(0),
            default=(0, ""),
        )
        if query_stems and not shared and not has_denial(closest):
            return None
        return not polarity.flips(self.query.text.raw, closest)

    def objection(self) -> Objection | None:
        """Return the first objection of weight `wrong`, else the first doubt, or None."""
        doubt = None
        for check in _CHECKS:
            for objection in check(self):
                if objection.weight == "wrong":
                    return objection
                doubt = doubt or objection
        return doubt


def _stems_at(text: str, facts: Sequence[Fact]) -> frozenset[str]:
    return wording(" ".join(text[fact.start : fact.end] for fact in facts)).stem_set if facts else frozenset()


def _check_facts(sides: Sides) -> Iterator[Objection]:
    for fact in sides.expected.required:
        name = repr(sides.expected.raw[fact.start : fact.end])
        matches = list(islice(sides.answer.facts.like(fact), _MAX_SPANS))
        if not matches:
            has_coarser = any(_is_coarser(sides.answer.raw, own, fact) for own in sides.answer.facts.all[:_MAX_SPANS])
            has_rival = not has_coarser and any(_is_rival(own, fact) for own in sides.unasked)
            if has_rival:
                yield Objection(weight="wrong", rule="other_fact", explanation=f"{name} is different")
            else:
                yield Objection(weight="doubt", rule="missing_fact", explanation=f"{name} is missing")
            continue
        if asserts(sides.expected.raw, fact.start, fact.end, sides.manner) and not any(map(sides.asserts, matches)):
            yield Objection(weight="wrong", rule="denied_fact", explanation=f"{name} is denied, past or a guess")
        elif contradicted(sides.answer.raw, filter(sides.asserts, matches), fact, filter(sides.asserts, sides.unasked)):
            yield Objection(weight="doubt", rule="second_value", explanation=f"{name} is next to another value")
        elif _is_replaced(sides, fact, matches):
            yield Objection(
                weight="doubt", rule="replaced", explanation=f"{name} is replaced by another value in one position"
            )
        elif _is_elsewhere(sides, fact, matches):
            yield Objection(weight="doubt", rule="other_subject", explanation=f"{name} is stated of another subject")


def _is_replaced(sides: Sides, fact: Fact, matches: Sequence[Fact]) -> bool:
    """Return whether the answer states a fact less often than expected, and an unexpected one of the same kind."""
    expected_count = sum(same_fact(other, fact) for other in sides.expected.facts.all[:_MAX_REQUIRED])
    return len(matches) < expected_count and any(_is_rival(own, fact) for own in sides.unasked)


def _is_rival(own: Fact, expected: Fact) -> bool:
    """Return whether a fact of the answer replaces the expected one: it has the same kind, or another currency."""
    if (
        isinstance(own, Quantity)
        and isinstance(expected, Quantity)
        and {own.dimension, expected.dimension} <= _CURRENCIES
    ):
        return not own.same_as(expected)
    return rival_facts(own, expected)


def _is_coarser(text: str, own: Fact, expected: Fact) -> bool:
    """Return whether a fact of the answer agrees with the expected one but is less exact: the century, the year, the month."""
    if isinstance(own, Quantity) and isinstance(expected, Quantity):
        return bool(_CENTURY.match(text, own.end)) and 0 <= 100 * own.value - expected.value < 100  # noqa: PLR2004
    if isinstance(own, Quantity):
        return own.dimension is None and _year_of(expected, own.value)
    return type(own) is type(expected) and own.same_as(expected)  # type: ignore[arg-type]


def _year_of(expected: Fact, value: float) -> bool:
    in_year: Callable[[float], bool] | None = getattr(expected, "in_year", None)
    return in_year is not None and in_year(value)


def _is_elsewhere(sides: Sides, fact: Fact, matches: list[Fact]) -> bool:
    """Return whether another value is closer to the subject of the query: "the hotel costs $120, the ticket $210"."""
    rivals = [own for own in sides.unasked if rival_facts(own, fact)][:_MAX_COMPARED]
    query_stems, raw = sides.query.text.stems.keys(), sides.answer.raw
    if not rivals or any(clause_stems(raw, match) & query_stems for match in matches[:_MAX_COMPARED]):
        return False
    return any(
        clause_stems(raw, rival) & query_stems
        and not _SENTENCE_END.search(raw[min(rival.end, match.end) : max(rival.start, match.start)])
        for rival in rivals
        for match in matches[:_MAX_COMPARED]
    )


def _check_polarity(sides: Sides) -> Iterator[Objection]:
    expected, answer = sides.expected, sides.answer
    expected_yes = sides.polar_reading()
    if expected_yes is not None:
        if sides.affirms_query() == (not expected_yes):
            yield Objection(weight="wrong", rule="yes_no", explanation="yes and no differ")
        return
    if None not in {expected.leading, answer.leading} and expected.leading != answer.leading and sides.query.is_polar:
        yield Objection(weight="wrong", rule="yes_no", explanation="yes and no differ")
    spans = sides.spans
    if not has_denial(expected.raw) and spans and not any(_holds_at(sides, *span) for span in spans):
        yield Objection(weight="doubt", rule="denied", explanation=f"{expected.plain!r} is denied or left open")
    elif not spans and (expected.is_statement or sides.query.is_polar) and polarity.opposed(expected.raw, answer.raw):
        yield Objection(weight="wrong", rule="opposed", explanation="one of them denies the other")


def _holds_at(sides: Sides, start: int, end: int) -> bool:
    """Return whether the answer asserts the expected words at a span, and does not deny, correct or leave them open."""
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
    """Yield an objection if a statement is not repeated, or an item of a list or a word of code is missing."""
    expected, candidate = sides.expected, sides.candidate
    if (expected.is_statement or not expected.is_short) and sides.wording_share < _STATEMENT_WORDING:
        share = f"{sides.wording_share:.0%}"
        yield Objection(weight="doubt", rule="wording", explanation=f"it has {share} of the expected words")
    if expected.is_short and _CODE.search(expected.raw) and wording(expected.raw).stem_set - candidate.wording.stem_set:
        yield Objection(weight="doubt", rule="code", explanation="a word of the expected code is missing")
    for item in expected.items:
        known_stems = candidate.wording.stem_set | sides.held_facts.expected_stems
        similar = any(likeness(word, candidate.wording.pool, known_stems) for word in item.stems)
        if item.stems and not similar and not re.search(rf"\b{re.escape(item.raw.strip(' .'))}\b", sides.answer.spoken):
            yield Objection(weight="doubt", rule="list", explanation=f"{item.raw.strip()!r} is missing")


def _check_alternatives(sides: Sides) -> Iterator[Objection]:
    """Yield an objection if the query offers a choice, and the answer chooses another alternative or several."""
    alternatives, expected = sides.query.alternatives, wording(sides.expected.raw).stem_set
    if not alternatives or not expected or not expected <= sides.query.wording.stem_set:
        return
    others = [option - expected for option in alternatives if not option & expected]
    chosen = [other for other in others if other and _affirms(sides, other)]
    if not chosen:
        return
    name = " ".join(sorted(chosen[0]))
    if _affirms(sides, expected):
        yield Objection(weight="doubt", rule="both", explanation=f"it names the other alternative {name!r} too")
    else:
        yield Objection(weight="wrong", rule="alternative", explanation=f"it chooses the other alternative {name!r}")


def _affirms(sides: Sides, option_stems: frozenset[str]) -> bool:
    """Return whether an answer contains all of some words, with an occurrence that is not denied."""
    if not option_stems <= sides.candidate.wording.stem_set:
        return False
    spoken = sides.answer.spoken
    beginnings = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(option_stems)))})\w*", re.IGNORECASE)
    spans = [match.span() for match in islice(beginnings.finditer(spoken), _MAX_COMPARED)]
    return not spans or any(asserts(spoken, *span, sides.manner) for span in spans)


def _check_owners(sides: Sides) -> Iterator[Objection]:
    expected, answer = sides.expected, sides.answer
    swapped = misplaced(expected.raw, expected.required, answer.raw, answer.facts)
    if swapped is not None:
        name = repr(expected.raw[swapped.start : swapped.end])
        yield Objection(weight="wrong", rule="swapped", explanation=f"{name} is stated of another subject")


def _check_longer_name(sides: Sides) -> Iterator[Objection]:
    """Yield an objection if a name occurs only as part of a longer one: "Anna Schmidt-Weber"."""
    expected = wording(sides.expected.raw)
    if not expected.is_name or not expected.words or not sides.expected.is_short:
        return
    spoken = sides.answer.spoken
    names = list(islice(expected.pattern.finditer(spoken), _MAX_COMPARED))
    if names and all(_is_part_of_name(spoken, *name.span()) for name in names):
        yield Objection(
            weight="doubt", rule="longer_name", explanation=f"{sides.expected.raw!r} is part of a longer name"
        )


def _is_part_of_name(text: str, start: int, end: int) -> bool:
    """Return whether a hyphen joins another capitalised word to a span."""
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


_MAX_ACCEPTED: Final = 500


class ExactJudge:
    """Judges by wording and value (entry point `exact`)."""

    name: str = "exact"
    version: str = "exact-3"
    calibrated: bool = True

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point; no settings apply
        """Return the judge; it has no settings of its own.

        Raises:
            UsageError: there is an argument.
        """
        if argument is not None:
            raise UsageError(f"judge exact:{argument}: the judge exact takes no argument after a colon")
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a verdict for each question; a failure for rubrics, which need a language model."""
        return [self._verdict(question) for question in questions]

    @staticmethod
    def _verdict(question: Question) -> Verdict | JudgeFailure:
        if question.rubric is not None:
            return JudgeFailure(reason="judge_error", message=f"judge exact takes no rubric ({question.rubric.name})")
        model = shipped_model()
        comparison = compare(question, model)
        passes = comparison.score >= max(model.passes, question.threshold)
        unsure = not passes and comparison.score >= min(model.fails, question.threshold)
        return Verdict(
            score=round(comparison.score, 6), reasoning=comparison.reasoning + _unread(question), unsure=unsure
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The probability that people call an answer right, and its explanation."""

    score: float
    reasoning: str


def compare(question: Question, model: Model | None = None) -> Comparison:
    """Return the probability that people call an answer right: that of the best matching accepted answer.

    >>> asked = Question(query="Total?", expected="$1,327", answer="Your total is 1327 dollars.", threshold=0.7)
    >>> round(compare(asked).score, 1)
    1.0
    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is $1,372.", threshold=0.7)).reasoning
    "'$1,327' is different"
    """
    model = model or shipped_model()
    candidate = Candidate.of(question.answer, Query.of(question.query[:READ_CHARACTERS]))
    if not candidate.text.plain:
        return Comparison(score=0.0, reasoning="the answer is empty")
    best = Comparison(score=-1.0, reasoning="")
    for expected in dict.fromkeys(question.accepted_answers[:_MAX_ACCEPTED]):
        comparison = _compare_one(expected, question.answer, candidate, model, best.score)
        best = max(best, comparison, key=lambda item: item.score)
    return best


def _compare_one(accepted: str, answer: str, candidate: Candidate, model: Model, best_score: float) -> Comparison:
    expected = expected_text(accepted)
    if expected.plain == candidate.text.plain and accepted[READ_CHARACTERS:] == answer[READ_CHARACTERS:]:
        return Comparison(score=1.0, reasoning="the texts are equal")
    sides = Sides(expected=expected, candidate=candidate)
    fixed = fixed_score(sides, model)
    if fixed is not None:
        return fixed
    probability = model.probability(measure(wording(expected.raw), candidate.wording, sides.held_facts))
    if probability <= best_score:
        return Comparison(score=probability, reasoning="")
    # A low probability needs no cap: then only the first accepted answer gets objections, as an explanation.
    objection = sides.objection() if probability >= model.fails / 2 or best_score < 0 else None
    if objection is None:
        return Comparison(score=probability, reasoning=f"right with a probability of {probability:.2f}")
    return Comparison(score=min(probability, model.cap(objection.weight)), reasoning=objection.explanation)


def fixed_score(sides: Sides, model: Model) -> Comparison | None:
    """Return the score if a rule decides instead of the model: repeated questions, JSON, yes and no, facts."""
    expected, answer = sides.expected, sides.answer
    if expected.plain == answer.plain and len(expected.raw) < READ_CHARACTERS:
        return Comparison(score=1.0, reasoning="the texts are equal")
    if answer.plain == sides.query.text.plain:
        return Comparison(score=0.0, reasoning="the answer only repeats the question")
    agreement = json_agreement(expected.raw, answer.raw)
    if agreement is not None:
        equal = agreement == 1.0
        return Comparison(score=float(equal), reasoning="the JSON is equal" if equal else "the JSON differs")
    expected_yes = sides.polar_reading()
    affirms = None if expected_yes is None else sides.affirms_query()
    if expected_yes is not None and affirms != (not expected_yes):
        return _agreement(affirms, model)
    if sides.states_facts and sides.objection() is None:
        return Comparison(score=model.agreed, reasoning="it states the expected facts")
    return None


def _agreement(affirms: bool | None, model: Model) -> Comparison:  # noqa: FBT001 — the polarity is the data, not a switch
    if affirms is None:
        return Comparison(score=model.cap("doubt"), reasoning="it answers neither yes nor no")
    return Comparison(score=model.agreed, reasoning="yes and no agree")


def _unread(question: Question) -> str:
    """Return a note on the unread rest of a very long answer, or ""."""
    if len(question.answer) <= READ_CHARACTERS:
        return ""
    return f" (of {len(question.answer):,} characters the first {READ_CHARACTERS:,} were read)"
