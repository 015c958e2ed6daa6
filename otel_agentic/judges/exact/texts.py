"""Texts as the features compare them: words folded for case, accents, punctuation and footnotes."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

import regex
from rapidfuzz import fuzz, process

from otel_agentic.judges.negation import sentences
from otel_agentic.judges.wording import FILLERS, stem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

T = TypeVar("T")

#: Limits on long texts: words, candidates for a misspelt word, and characters compared.
_MAX_WORDS: Final = 4_000
_MAX_POOL: Final = 300
_MAX_ADDED: Final = 60
_MAX_ALIGNED_CHARACTERS: Final = 1_500
_REMEMBERED: Final = 16_384
_REMEMBERED_CHARACTERS: Final = 1_000

_ARTICLES: Final = frozenset({"the", "a", "an"})
_ACCENT: Final = re.compile("[\u0300-\u036f]")
#: A number with its separators is one word; in scripts without spaces each character is a word.
_UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = regex.compile(rf"\d+(?:[.,]\d+)+(?!\w)|[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
#: The same for ASCII text, three times as fast.
_ASCII_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+(?!\w)|[^\W_]+", re.ASCII)
#: Search assistants append the number of a footnote to the word: "parthenogenesis1." and "in 1991[2]".
_FOOTNOTE: Final = re.compile(r"(?<=[a-z]{4})\d{1,2}(?!\w)|\[\^?\d{1,3}\^?\]")
#: "1979-80" is "1979-1980".
_SHORT_RANGE: Final = re.compile(r"(?<!\w)(1\d|20)(\d\d)\s?[-\u2013/]\s?(\d\d)(?![-/\d])")
_APOSTROPHE: Final = re.compile(r"(?<=\w) ?['\u2019`](?=\w)")
_INITIALS: Final = re.compile(r"(?<![^\W_])([^\W\d_])\.\s?(?=[^\W\d_](?![^\W_]))")
#: A capitalised word inside a sentence.
_CAPITALISED: Final = regex.compile(r"(?<=[^.!?:\s]\s+)\p{Lu}\w+")
_NAME_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_REFUSAL: Final = re.compile(
    r"\b(?:i (?:do not|don['\u2019]?t) (?:know|have)|i(?:['\u2019]m| am) (?:sorry|afraid|not (?:sure|aware|able))|"
    r"i (?:cannot|can['\u2019]t|could not|couldn['\u2019]t)|no (?:information|record|evidence|such|specific|definitive)|"
    r"not (?:clear|possible|enough|known|specified|provided)|unable to|unclear|unknown|as an ai|"
    r"cannot (?:be|find|provide|determine)|did(?: not|n['\u2019]t) find)\b",
    re.IGNORECASE,
)
_REFUSAL_CHARACTERS: Final = 400
#: Minimum similarity of a word and its misspelling, in [0, 100], and minimum length.
_SIMILAR: Final = 70.0
_SIMILAR_BASE: Final = 60.0
_SIMILAR_CHARACTERS: Final = 4
_NUMBER_NAMES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_NUMBER_WORDS: Final = {word: str(value) for value, word in enumerate(_NUMBER_NAMES.split())}


def folded(text: str) -> str:
    """Return a text without case, accents and marks that do not change its meaning.

    >>> folded("In Zürich, U.S. style")
    'in zurich, us. style'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))
    text = text.casefold().replace("&", " and ")
    return _INITIALS.sub(r"\1", _APOSTROPHE.sub("", text))


def with_whole_years(text: str) -> str:
    """Return a text with the years of short ranges in full.

    >>> with_whole_years("the 1979-80 season, 2024-05")
    'the 1979-1980 season, 2024-05'
    """
    return _SHORT_RANGE.sub(_whole_years, text)


def _whole_years(match: re.Match[str]) -> str:
    century, first, last = match.groups()
    return f"{century}{first}-{century}{last}" if first < last else match.group()


def without_footnotes(text: str) -> str:
    """Return an answer without the numbers of footnotes.

    >>> without_footnotes("It is called parthenogenesis1. HAT136 is a flight[2].")
    'It is called parthenogenesis. HAT136 is a flight.'
    """
    return _FOOTNOTE.sub("", text)


def _words(plain: str) -> list[str]:
    pattern = _ASCII_WORD if plain.isascii() else _WORD
    tokens = [
        word.replace(",", "") if word[0].isdigit() else _NUMBER_WORDS.get(word, word) for word in pattern.findall(plain)
    ]
    return [word for word in tokens if word not in _ARTICLES] or tokens


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The words of a text: in order without articles, and those that carry meaning, without their endings."""

    raw: str

    @cached_property
    def words(self) -> list[str]:
        """The words in order, numbers in digits, without articles."""
        return _words(folded(with_whole_years(self.raw)))[:_MAX_WORDS]

    @cached_property
    def joined(self) -> str:
        """The words, each between spaces."""
        return f" {' '.join(self.words)} "

    @cached_property
    def compact(self) -> str:
        """The words without spaces: "InVitro" is "in vitro"."""
        return "".join(self.words)

    @cached_property
    def stems(self) -> list[str]:
        """The distinct content words, without endings, in order; all words if there are no content words."""
        content = list(dict.fromkeys(stem(word) for word in self.words if word not in FILLERS and word != "s"))
        return content or list(dict.fromkeys(map(stem, self.words)))

    @cached_property
    def stem_set(self) -> frozenset[str]:
        """The same as a set."""
        return frozenset(self.stems)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A pattern that matches the words, one after the other, in a text without accents."""
        return re.compile(r"[\W_]+".join(map(re.escape, self.words)), re.IGNORECASE)

    @cached_property
    def word_set(self) -> frozenset[str]:
        """The distinct words."""
        return frozenset(self.words)

    @cached_property
    def is_name(self) -> bool:
        """Whether it is written as a name: at least half of its words are capitalised, and some letter is in lower case."""
        words = _NAME_WORD.findall(self.raw)
        return bool(words) and not self.raw.isupper() and 2 * sum(word[0].isupper() for word in words) >= len(words)

    @cached_property
    def is_abbreviation(self) -> bool:
        """Whether it is an abbreviation: one word of two to five capital letters."""
        return len(self.words) == 1 and 2 <= len(self.words[0]) <= 5 and self.raw.replace(".", "").strip().isupper()  # noqa: PLR2004

    @cached_property
    def initials(self) -> str:
        """The first letters of the words."""
        return "".join(word[0] for word in self.words[:_MAX_POOL])


@dataclass(frozen=True, kw_only=True)
class AnswerWording(Wording):
    """The wording of an answer to a query."""

    query: Wording

    @cached_property
    def added(self) -> list[str]:
        """The first stems that the query does not contain."""
        return [word for word in self.stems if word not in self.query.stem_set][:_MAX_ADDED]

    @cached_property
    def pool(self) -> list[str]:
        """The candidates for a misspelt word."""
        return [word for word in self.stems[:_MAX_POOL] if len(word) >= _SIMILAR_CHARACTERS]

    @cached_property
    def names(self) -> list[str]:
        """The stems of capitalised words inside sentences that the query does not contain."""
        names = Wording(raw=" ".join(_CAPITALISED.findall(self.raw[: 10 * _MAX_ALIGNED_CHARACTERS])))
        return [word for word in names.stems[:_MAX_ADDED] if word not in self.query.stem_set and word not in FILLERS]

    @cached_property
    def first(self) -> Wording:
        """The first sentence."""
        parts = sentences(self.raw[: 10 * _MAX_ALIGNED_CHARACTERS])
        return self if len(parts) <= 1 else Wording(raw=parts[0])

    @cached_property
    def beginning(self) -> str:
        """The beginning of the words, for comparing characters."""
        return self.joined[1 : _MAX_ALIGNED_CHARACTERS + 1].rstrip()

    @cached_property
    def refuses(self) -> bool:
        """Whether it begins with a statement of not knowing or not being able."""
        return bool(_REFUSAL.search(self.raw[:_REFUSAL_CHARACTERS]))

    @cached_property
    def adds_number(self) -> bool:
        """Whether it contains a number that the query does not."""
        return any(word[0].isdigit() for word in self.added)


def remembered(make: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function with a cache for recent short texts: queries and expected texts recur."""
    known = lru_cache(maxsize=_REMEMBERED)(make)
    return lambda text: known(text) if len(text) <= _REMEMBERED_CHARACTERS else make(text)


@remembered
def wording(text: str) -> Wording:
    """Return the wording of a query or an expected text."""
    return Wording(raw=text)


def likeness(word: str, pool: Sequence[str], exact: Collection[str]) -> float:
    """Return the similarity of a word to the most similar of others, in [0, 1]: 1 if equal, less if misspelt.

    >>> likeness("niccolo", ["nicolo"], ()), likeness("1980", ["1981"], ())
    (0.8076923076923077, 0.0)
    """
    if word in exact:
        return 1.0
    if len(word) < _SIMILAR_CHARACTERS or word[0].isdigit():
        return 0.0
    match = process.extractOne(word, pool, scorer=fuzz.ratio, score_cutoff=_SIMILAR)
    return 0.0 if match is None else (match[1] - _SIMILAR_BASE) / (100.0 - _SIMILAR_BASE)
