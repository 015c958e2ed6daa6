"""What users say, sentence by sentence: which words it holds, and whether two texts contradict each other.

Two wordings of one request differ in most words, so nothing follows from a word that one of them lacks. A contradiction is
narrower: both name an identifier of one form and neither names the other's, or two sentences that are otherwise alike differ
in a negation, a number or a name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import regex

from otel_agentic.truth.text import normalise, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_COMMON_WORDS_TEXT: Final = (
    "a an the and or but if so as of at by for from in into on onto to with about than then that this these those "
    "there here it its i me my mine we us our you your he him his she her they them their who whom which what when "
    "where why how is am are was were be been being do does did done have has had having will would can could should "
    "shall may might must not no yes ok okay please thanks thank hi hello hey sure just also any some all"
)
#: Words of English that any request may hold; words of other languages weigh little because most cases hold them.
COMMON_WORDS: Final = frozenset(_COMMON_WORDS_TEXT.split())
_NEGATIONS_TEXT: Final = (
    "not no never without cannot none neither nor nothing nobody nowhere nicht kein keine keinen keinem keiner nie "
    "niemals ohne pas jamais sans nunca sin não nunca sem non senza niet geen nooit zonder 不 没 沒 无 無"
)
_NEGATIONS: Final = frozenset(_NEGATIONS_TEXT.split())
#: Words that one wording of a sentence has and its denial does not, or the other way round.
_UNCOUNTED: Final = _NEGATIONS | {"do", "does", "did"}
#: "won't" and the like: what is left of "n't" is no word.
_SHORT_FORMS: Final = {"won't": "will not", "can't": "can not", "shan't": "shall not", "cannot": "can not"}
_SHORT_FORM: Final = regex.compile("|".join(_SHORT_FORMS))
_ENDINGS: Final = {
    "n't": " not",
    "'m": " am",
    "'re": " are",
    "'ve": " have",
    "'ll": " will",
    "'d": " would",
    "'s": " s",
}
_ENDING: Final = regex.compile(rf"(?:{'|'.join(_ENDINGS)})\b")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc", "'"))

#: The number of an item of a list that a user answers point by point.
_ITEM_NUMBER: Final = regex.compile(r"(?m)^\s*\d{1,2}[.)]\s")
_FULL_WIDTH_END: Final = r"\u3002\uff01\uff1f"
_SENTENCE_END: Final = regex.compile(rf"(?<=[.!?;\u0964{_FULL_WIDTH_END}])\s+|(?<=[{_FULL_WIDTH_END}])|\n+")
#: A word with a digit, whole: 1,200, 2024-05-20, mia_li_3668, HAT-136, a.b@c1.com.
_FIGURE: Final = regex.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?=[\w\-./:#@]*\d)\w+(?:[\-./:#@]\w+)*")
_SUFFIXED: Final = regex.compile(r"(\d+)(?:st|nd|rd|th|am|pm)")
#: A word with a capital that does not begin its sentence.
_NAME: Final = regex.compile(r"(?<=[\p{L}\p{N},] )\p{Lu}\p{Ll}+")
_LETTERS: Final = regex.compile(r"\p{L}+")
_DIGIT: Final = regex.compile(r"\d")

#: Sentences with so large a share of common words (Dice) are one sentence but for what is compared apart.
_ALIKE: Final = 0.75
#: Of sentences of fewer words only equal ones are alike.
_FEW_WORDS: Final = 3
#: Share of the words of two queries (Dice, without common words and figures) from which one may be the other.
_RESEMBLES: Final = 0.5
#: Figures with letters, or of at least so many digits, identify something: an order, a user, a card; others count or date it.
_IDENTIFIER: Final = 5
#: An answer before it is given in full: "No, I do not want it" denies once.
_ANSWER: Final = regex.compile(r"(?i)\s*(?:(yes|oui|ja|sí|sim|sì)|(?:no|non|nein|nee|não))\s*(?:[,.!;]|$)")
#: Names of so many letters may be misspelt in two.
_LONG_NAME: Final = 8
#: Limits of what is compared: the cost grows with the product of the sentences.
_CHARACTERS: Final = 20_000
_SENTENCES: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a user: its words with their counts, and what is compared apart from them.

    `affirms` says whether it begins with a yes (True) or a no, which is then none of the negations; None for neither.
    """

    words: Mapping[str, int]
    negations: int
    affirms: bool | None
    figures: tuple[str, ...]
    names: frozenset[str]
    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a user said in a conversation or a case: its words in order, figures among them, and its sentences."""

    words: Sequence[str]
    sentences: Sequence[Sentence]

    @classmethod
    def of(cls, queries: Iterable[str | None]) -> Spoken:
        """Return what some queries say; those that are None are unknown. Only the first 20,000 characters are read."""
        rest = _CHARACTERS
        found: list[str] = []
        sentences: list[Sentence] = []
        for query in queries:
            text = _ITEM_NUMBER.sub("", (query or "")[:rest].translate(_APOSTROPHES))
            rest -= len(text)
            for part in _parts(text):
                said = plain_words(part)
                found += said
                sentences.append(_sentence(part, said))
        return cls(words=found, sentences=sentences[:_SENTENCES])

    @classmethod
    def joined(cls, parts: Iterable[Spoken]) -> Spoken:
        """Return what several queries say together."""
        found = list(parts)
        return cls(
            words=[word for part in found for word in part.words],
            sentences=[sentence for part in found for sentence in part.sentences][:_SENTENCES],
        )

    @property
    def content(self) -> frozenset[str]:
        """What the text is about: the beginnings of its words but for common ones, and its figures."""
        return self.figures.union(stems(self.words))

    @property
    def figures(self) -> frozenset[str]:
        """Words that hold a digit."""
        return frozenset(word for word in self.words if is_figure(word))


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order, short forms written out, words with digits whole.

    >>> plain_words("I don't want HAT-136 on May 20th, but 1,200 for $5.")
    ['i', 'do', 'not', 'want', 'hat-136', 'on', 'may', '20', 'but', '1200', 'for', '5']
    """
    plain = normalise(text.translate(_APOSTROPHES))
    plain = _SHORT_FORM.sub(lambda found: _SHORT_FORMS[found[0]], plain)
    plain = _ENDING.sub(lambda found: _ENDINGS[found[0]], plain)
    if not _DIGIT.search(plain):
        return words(plain)
    found: list[str] = []
    end = 0
    for figure in _FIGURE.finditer(plain):
        found += words(plain[end : figure.start()])
        found.append(_figure(figure[0]))
        end = figure.end()
    return found + words(plain[end:])


def is_figure(word: str) -> bool:
    """Return whether a word holds a digit."""
    return any(map(str.isdigit, word))


def stems(found: Iterable[str]) -> list[str]:
    """Return the beginnings of the words that are neither common nor figures: "cancelling" is like "cancel"."""
    return [stem(word) for word in found if word not in COMMON_WORDS and not is_figure(word)]


def stem(word: str) -> str:
    """Return the first five characters of a word, by which its forms are one."""
    return word[:5]


def resemble(one: Spoken, other: Spoken) -> bool:
    """Return whether two queries may be one query in other words: half of what they say is the same, and no figure differs.

    >>> resemble(Spoken.of(["Please cancel order 17."]), Spoken.of(["I'd like to cancel order 17"]))
    True
    """
    if _differ(one.figures, other.figures):
        return False
    said, also = (Counter(stems(spoken.words)) for spoken in (one, other))
    if not said or not also:
        return bool(one.figures & other.figures)
    return 2 * (said & also).total() >= _RESEMBLES * (said.total() + also.total())


def says_nothing(spoken: Spoken) -> bool:
    """Return whether a query holds common words only, such as "Yes, please" or "Thank you"."""
    return not spoken.figures and not stems(spoken.words)


def denies(one: Spoken, other: Spoken) -> bool:
    """Return whether one of two queries begins with a yes and the other with a no."""
    answers = {spoken.sentences[0].affirms for spoken in (one, other) if spoken.sentences}
    return answers == {True, False}


def contradict(one: Spoken, other: Spoken) -> bool:
    """Return whether two texts cannot be the same request.

    They contradict each other where each names an identifier of a form that the other has only with another value, or where
    a sentence has a counterpart that is the same but for a negation, a number or a name, and none that is the same in these.

    >>> booked, changed = Spoken.of(["Book seat 12 to Rome."]), Spoken.of(["Book seat 14 to Rome."])
    >>> contradict(booked, changed), contradict(booked, Spoken.of(["A seat to Rome, please: 12."]))
    (True, False)
    """
    if _differ(_identifiers(one), _identifiers(other)):
        return True
    return any(_denied(sentence, other.sentences) for sentence in one.sentences)


def asks_for_another(one: Spoken, other: Spoken) -> bool:
    """Return whether a request is a sentence of the other text with another word in it, or with its words in another order.

    A sentence that makes up half of the request says what is asked for. In a longer text such pairs are common and say nothing.

    >>> rome, oslo = (Spoken.of([f"i want to fly to {city} in june"]) for city in ("rome", "oslo"))
    >>> asks_for_another(oslo, rome), asks_for_another(rome, rome)
    (True, False)
    """
    half = sum(sum(sentence.words.values()) for sentence in one.sentences) / 2
    return any(
        _replaces(sentence, similar)
        for sentence in one.sentences
        if sum(sentence.words.values()) >= half
        for similar in other.sentences
        if _similarity(sentence.words, similar.words) >= _ALIKE
    )


def _replaces(one: Sentence, other: Sentence) -> bool:
    said, also = frozenset(one.stems), frozenset(other.stems)
    return _named_otherwise(said - also, also - said) or (said == also and one.stems != other.stems)


def _parts(text: str) -> Iterator[str]:
    """Yield the sentences of a text; a lone negation belongs to the sentence before it."""
    before = ""
    for part in _SENTENCE_END.split(text):
        said = plain_words(part)
        if before and said and all(word in _NEGATIONS for word in said):
            before += f" {part}"
            continue
        if before:
            yield before
        before = part if said else ""
    if before:
        yield before


def _sentence(text: str, said: Sequence[str]) -> Sentence:
    answer = _ANSWER.match(text)
    affirms = None if answer is None else answer[1] is not None
    return Sentence(
        words=Counter(word for word in said if word not in _UNCOUNTED and not is_figure(word)),
        negations=sum(word in _NEGATIONS for word in said) - (affirms is False),
        affirms=affirms,
        figures=tuple(sorted(filter(is_figure, said))),
        names=frozenset(name.casefold() for name in _NAME.findall(text)),
        stems=tuple(stems(said)),
    )


def _figure(text: str) -> str:
    found = _SUFFIXED.fullmatch(text)
    return found[1] if found else text.replace(",", "")


def _identifiers(spoken: Spoken) -> frozenset[str]:
    return frozenset(
        word for word in spoken.figures if len(word) >= _IDENTIFIER and (word.isdigit() or _LETTERS.search(word))
    )


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether each side holds a figure that the other lacks, of one form."""
    return not {form(word) for word in one - other}.isdisjoint(form(word) for word in other - one)


def form(word: str) -> str:
    """Return what an identifier looks like: its digits as 9, each run of letters as a.

    >>> form("mia_li_3668"), form("HAT-136")
    ('a_a_9999', 'a-999')
    """
    return _DIGIT.sub("9", _LETTERS.sub("a", word))


def _denied(sentence: Sentence, others: Sequence[Sentence]) -> bool:
    best, denied = 0.0, False
    for other in others:
        alike = _similarity(sentence.words, other.words)
        if alike < _ALIKE or alike < best:
            continue
        differs = _differs(sentence, other)
        if alike > best or not differs:
            best, denied = alike, differs
    return denied


def _differs(one: Sentence, other: Sentence) -> bool:
    return (
        one.negations != other.negations
        or {one.affirms, other.affirms} == {True, False}
        or (one.figures != other.figures and sorted(map(form, one.figures)) == sorted(map(form, other.figures)))
        or _differ(frozenset(one.figures), frozenset(other.figures))
        or _named_otherwise(one.names - other.names, other.names - one.names)
    )


def _named_otherwise(names: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two texts hold names that are no misspellings of each other."""
    if not names or not others:
        return False
    from rapidfuzz.distance import OSA  # noqa: PLC0415 — slow to import, and few evaluations need it

    return not any(
        OSA.distance(name, other) <= (1 if len(name) < _LONG_NAME else 2) for name in names for other in others
    )


def _similarity(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    sizes = sum(one.values()), sum(other.values())
    # The shorter one can share all its words, no more.
    if not min(sizes) or 2 * min(sizes) < _ALIKE * sum(sizes):
        return 0.0
    shared = sum([min(count, other[word]) for word, count in one.items() if word in other])
    alike = 2 * shared / sum(sizes)
    return alike if min(sizes) >= _FEW_WORDS or alike == 1.0 else 0.0
