"""User queries by sentence: their words, and whether two texts contradict each other.

Two wordings of one request differ in most words, so a word that one of them lacks proves nothing. A contradiction is
narrower: both contain an identifier of the same form and neither contains the other's, or two otherwise equal sentences
differ in a negation, a number or a name.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import regex

from otel_agentic.truth.values import normalise, words

_WORDS: Final[Mapping[str, Any]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
#: English words that any request may contain; words of other languages weigh little because most cases contain them.
COMMON_WORDS: Final = frozenset(_WORDS["common"].split())
_NEGATIONS: Final = frozenset(_WORDS["negations"].split())
#: Words that occur in a sentence but not in its negation, or vice versa.
_UNCOUNTED: Final = _NEGATIONS | {"do", "does", "did"}
_SHORT_FORM: Final = regex.compile("|".join(_WORDS["short_forms"]))
_ENDING: Final = regex.compile(rf"(?:{'|'.join(_WORDS['endings'])})\b")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc", "'"))

#: The number of a list item, if a user answers point by point.
_ITEM_NUMBER: Final = regex.compile(r"(?m)^\s*\d{1,2}[.)]\s")
_FULL_WIDTH_END: Final = r"\u3002\uff01\uff1f"
_SENTENCE_END: Final = regex.compile(rf"(?<=[.!?;\u0964{_FULL_WIDTH_END}])\s+|(?<=[{_FULL_WIDTH_END}])|\n+")
#: A word with a digit, in one piece: 1,200, 2024-05-20, mia_li_3668, HAT-136, a.b@c1.com.
_FIGURE: Final = regex.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?=[\w\-./:#@]*\d)\w+(?:[\-./:#@]\w+)*")
_SUFFIXED: Final = regex.compile(r"(\d+)(?:st|nd|rd|th|am|pm)")
#: A capitalised word that does not begin its sentence.
_NAME: Final = regex.compile(r"(?<=[\p{L}\p{N},] )\p{Lu}\p{Ll}+")
_LETTERS: Final = regex.compile(r"\p{L}+")
_DIGIT: Final = regex.compile(r"\d")

#: Sentences with this share of common words (Dice) are equal except for the parts that are compared separately.
_SIMILAR: Final = 0.75
#: Sentences of fewer words are similar only if equal.
_FEW_WORDS: Final = 3
#: Minimum similarity (Dice, without common words and figures) of two wordings of one query.
_RESEMBLES: Final = 0.5
#: Minimum length of a figure of digits only, or with letters, that identifies an order, a user or a card; others are
#: counts and dates.
_IDENTIFIER: Final = 5
#: A short answer before the full one: "No, I do not want it" contains one negation.
_ANSWER: Final = regex.compile(r"(?i)\s*(?:(yes|oui|ja|sí|sim|sì)|(?:no|non|nein|nee|não))\s*(?:[,.!;]|$)")
#: Two spellings of a name with at least this many letters may differ in two letters; of a shorter name, in one.
_LONG_NAME: Final = 8
#: Limits on comparisons: the cost grows with the product of the sentences.
_CHARACTERS: Final = 20_000
_SENTENCES: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a user: its words with their counts, and the parts that are compared separately.

    `affirms` is True if it begins with a yes, False if with a no, which is then not counted as a negation; None for neither.
    """

    words: Mapping[str, int]
    negations: int
    affirms: bool | None
    figures: tuple[str, ...]
    names: frozenset[str]
    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The queries of a conversation or a case: their words in order, including figures, and their sentences."""

    words: Sequence[str]
    sentences: Sequence[Sentence]

    @classmethod
    def of(cls, queries: Iterable[str | None]) -> Spoken:
        """Return the content of queries; unknown ones are None. Only the first 20,000 characters are read."""
        remaining = _CHARACTERS
        tokens: list[str] = []
        sentences: list[Sentence] = []
        for query in queries:
            text = _ITEM_NUMBER.sub("", (query or "")[:remaining].translate(_APOSTROPHES))
            remaining -= len(text)
            for part in _parts(text):
                part_words = plain_words(part)
                tokens += part_words
                sentences.append(_sentence(part, part_words))
        return cls(words=tokens, sentences=sentences[:_SENTENCES])

    @classmethod
    def joined(cls, parts: Iterable[Spoken]) -> Spoken:
        """Return the content of several queries together."""
        spoken = list(parts)
        return cls(
            words=[word for part in spoken for word in part.words],
            sentences=[sentence for part in spoken for sentence in part.sentences][:_SENTENCES],
        )

    @property
    def content(self) -> frozenset[str]:
        """The content of the text: the stems of its words, without common ones, and its figures."""
        return self.figures.union(stems(self.words))

    @property
    def figures(self) -> frozenset[str]:
        """Words that contain a digit."""
        return frozenset(word for word in self.words if is_figure(word))


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order, with contractions expanded and words with digits in one piece.

    >>> plain_words("I don't want HAT-136 on May 20th, but 1,200 for $5.")
    ['i', 'do', 'not', 'want', 'hat-136', 'on', 'may', '20', 'but', '1200', 'for', '5']
    """
    plain = normalise(text.translate(_APOSTROPHES))
    plain = _SHORT_FORM.sub(lambda match: _WORDS["short_forms"][match[0]], plain)
    plain = _ENDING.sub(lambda match: _WORDS["endings"][match[0]], plain)
    if not _DIGIT.search(plain):
        return words(plain)
    tokens: list[str] = []
    end = 0
    for figure in _FIGURE.finditer(plain):
        tokens += words(plain[end : figure.start()])
        tokens.append(_figure(figure[0]))
        end = figure.end()
    return tokens + words(plain[end:])


def is_figure(word: str) -> bool:
    """Return whether a word contains a digit."""
    return any(map(str.isdigit, word))


def stems(tokens: Iterable[str]) -> list[str]:
    """Return the stems of the words that are neither common nor figures: "cancelling" equals "cancel"."""
    return [stem(word) for word in tokens if word not in COMMON_WORDS and not is_figure(word)]


def stem(word: str) -> str:
    """Return the first five characters of a word, which its inflected forms share."""
    return word[:5]


def resemble(first: Spoken, second: Spoken) -> bool:
    """Return whether two queries may be two wordings of one: half of their words agree, and no figure differs.

    >>> resemble(Spoken.of(["Please cancel order 17."]), Spoken.of(["I'd like to cancel order 17"]))
    True
    """
    if _differ(first.figures, second.figures):
        return False
    stems_first, stems_second = (Counter(stems(spoken.words)) for spoken in (first, second))
    if not stems_first or not stems_second:
        return bool(first.figures & second.figures)
    return 2 * (stems_first & stems_second).total() >= _RESEMBLES * (stems_first.total() + stems_second.total())


def says_nothing(spoken: Spoken) -> bool:
    """Return whether a query contains common words only, such as "Yes, please" or "Thank you"."""
    return not spoken.figures and not stems(spoken.words)


def denies(first: Spoken, second: Spoken) -> bool:
    """Return whether one of two queries begins with a yes and the other with a no."""
    answers = {spoken.sentences[0].affirms for spoken in (first, second) if spoken.sentences}
    return answers == {True, False}


def contradict(first: Spoken, second: Spoken) -> bool:
    """Return whether two texts cannot be the same request.

    They contradict each other if each contains an identifier of a form that the other contains only with another value, or if
    a sentence has a counterpart that is equal except for a negation, a number or a name, and none that agrees in these.

    >>> booked, changed = Spoken.of(["Book seat 12 to Rome."]), Spoken.of(["Book seat 14 to Rome."])
    >>> contradict(booked, changed), contradict(booked, Spoken.of(["A seat to Rome, please: 12."]))
    (True, False)
    """
    if _differ(_identifiers(first), _identifiers(second)):
        return True
    return any(_is_denied(sentence, second.sentences) for sentence in first.sentences)


def asks_for_another(first: Spoken, second: Spoken) -> bool:
    """Return whether a request repeats a sentence of another text with a different word, or in a different order.

    The sentence must be at least half of the request. In a longer text such pairs are common and meaningless.

    >>> rome, oslo = (Spoken.of([f"i want to fly to {city} in june"]) for city in ("rome", "oslo"))
    >>> asks_for_another(oslo, rome), asks_for_another(rome, rome)
    (True, False)
    """
    half = sum(sum(sentence.words.values()) for sentence in first.sentences) / 2
    return any(
        _replaces(sentence, similar)
        for sentence in first.sentences
        if sum(sentence.words.values()) >= half
        for similar in second.sentences
        if _similarity(sentence.words, similar.words) >= _SIMILAR
    )


def _replaces(first: Sentence, second: Sentence) -> bool:
    first_stems, second_stems = frozenset(first.stems), frozenset(second.stems)
    return _names_differ(first_stems - second_stems, second_stems - first_stems) or (
        first_stems == second_stems and first.stems != second.stems
    )


def _parts(text: str) -> Iterator[str]:
    """Yield the sentences of a text; a lone negation belongs to the sentence before it."""
    sentence = ""
    for part in _SENTENCE_END.split(text):
        part_words = plain_words(part)
        if sentence and part_words and all(word in _NEGATIONS for word in part_words):
            sentence += f" {part}"
            continue
        if sentence:
            yield sentence
        sentence = part if part_words else ""
    if sentence:
        yield sentence


def _sentence(text: str, part_words: Sequence[str]) -> Sentence:
    answer = _ANSWER.match(text)
    affirms = None if answer is None else answer[1] is not None
    return Sentence(
        words=Counter(word for word in part_words if word not in _UNCOUNTED and not is_figure(word)),
        negations=sum(word in _NEGATIONS for word in part_words) - (affirms is False),
        affirms=affirms,
        figures=tuple(sorted(filter(is_figure, part_words))),
        names=frozenset(name.casefold() for name in _NAME.findall(text)),
        stems=tuple(stems(part_words)),
    )


def _figure(text: str) -> str:
    match = _SUFFIXED.fullmatch(text)
    return match[1] if match else text.replace(",", "")


def _identifiers(spoken: Spoken) -> frozenset[str]:
    return frozenset(
        word for word in spoken.figures if len(word) >= _IDENTIFIER and (word.isdigit() or _LETTERS.search(word))
    )


def _differ(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether each side contains a figure that the other lacks, of the same form."""
    return not {form(word) for word in first - second}.isdisjoint(form(word) for word in second - first)


def form(word: str) -> str:
    """Return the form of an identifier: its digits as 9, each run of letters as a.

    >>> form("mia_li_3668"), form("HAT-136")
    ('a_a_9999', 'a-999')
    """
    return _DIGIT.sub("9", _LETTERS.sub("a", word))


def _is_denied(sentence: Sentence, others: Sequence[Sentence]) -> bool:
    best, denied = 0.0, False
    for other in others:
        similarity = _similarity(sentence.words, other.words)
        if similarity < _SIMILAR or similarity < best:
            continue
        differs = _differs(sentence, other)
        if similarity > best or not differs:
            best, denied = similarity, differs
    return denied


def _differs(first: Sentence, second: Sentence) -> bool:
    return (
        first.negations != second.negations
        or {first.affirms, second.affirms} == {True, False}
        or (first.figures != second.figures and sorted(map(form, first.figures)) == sorted(map(form, second.figures)))
        or _differ(frozenset(first.figures), frozenset(second.figures))
        or _names_differ(first.names - second.names, second.names - first.names)
    )


def _names_differ(names: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two texts contain names that are not misspellings of each other."""
    if not names or not others:
        return False
    from rapidfuzz.distance import OSA  # noqa: PLC0415 — slow to import, and few evaluations need it

    return not any(
        OSA.distance(name, other) <= (1 if len(name) < _LONG_NAME else 2) for name in names for other in others
    )


def _similarity(first: Mapping[str, int], second: Mapping[str, int]) -> float:
    sizes = sum(first.values()), sum(second.values())
    # The similarity is highest if the longer sentence contains all words of the shorter one.
    if not min(sizes) or 2 * min(sizes) < _SIMILAR * sum(sizes):
        return 0.0
    shared = sum([min(count, second[word]) for word, count in first.items() if word in second])
    similarity = 2 * shared / sum(sizes)
    return similarity if min(sizes) >= _FEW_WORDS or similarity == 1.0 else 0.0
