"""Features of an answer compared with one accepted answer, and the logistic model that weighs them.

The coefficients are data: `model.json`, written by `tools/train_exact_judge.py`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Final, Literal, Self, TypeVar

import regex
from rapidfuzz import fuzz, process

from otel_agentic.judges.exact.facts import NUMBER_WORDS
from otel_agentic.judges.exact.negation import ASKED_WEIGHT, FACT_WEIGHT, FILLERS, sentences, stem
from otel_agentic.truth.values import UNSPACED

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
_WORD: Final = regex.compile(rf"\d+(?:[.,]\d+)+(?!\w)|[{UNSPACED}]|[^\W_{UNSPACED}]+")
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
_NUMBER_WORDS: Final = {word: str(value) for word, value in NUMBER_WORDS.items()}


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
        """The distinct content words, without endings, as a set."""
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
    cached_make = lru_cache(maxsize=_REMEMBERED)(make)
    return lambda text: cached_make(text) if len(text) <= _REMEMBERED_CHARACTERS else make(text)


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


#: Whether a larger value is evidence for the answer, against it, or either.
Sign = Literal[1, 0, -1]
#: How an objection limits the probability: to fail, or to unsure.
Weight = Literal["wrong", "doubt"]

_SHORT_ANSWER_WORDS: Final = 5
_COMPACT_CHARACTERS: Final = 5
_ALIGNED_CHARACTERS: Final = 4
_NAME_REACH_WORDS: Final = 3
#: Feature values stay within [0, about 1.5], so that one strength of regularisation suits all.
_LENGTH_SCALE: Final = 4.0

#: Name of a feature -> the allowed sign of its coefficient. The order is that of `measure`.
FEATURES: Final[dict[str, Sign]] = {
    "contained": 1,  # the answer contains the expected words, one after the other
    "contained_in_long": 0,  # the same, times how long the answer is
    "contained_first": 1,  # its first sentence contains them
    "contained_last": 1,  # the answer ends with them
    "compact": 1,  # the same without spaces
    "recall": 1,  # share of the expected words that the answer has, misspelt ones in part
    "recall_in_long": 0,
    "recall_unasked": 1,  # the same for words that are not in the query
    "precision": 1,  # share of the answer's words, without those of the query, that are expected
    "f1": 1,
    "aligned": 1,  # similarity of characters to the best part of the answer (rapidfuzz partial_ratio)
    "initials": 1,  # last name with the right initial before it
    "refusal_with_answer": -1,
    "missed_refusal": -1,  # from here on: multiplied by the share of expected words that are missing
    "missed_added": 0,  # number of words that the answer adds to the query
    "missed_names": -1,  # whether it adds names
    "missed_name": -1,  # whether a name was expected
    "missed_no_number": 0,  # whether a number was expected, and none is present
    "missed_short": -1,  # whether the answer is short
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFacts:
    """The expected facts that an answer states: their number, and the stems in which both sides write them.

    `required_stems` are those of all expected facts, `expected_stems` and `answer_stems` those of the stated facts.

    `alone`: the expected text consists of facts only.
    """

    required: int = 0
    held: int = 0
    required_stems: frozenset[str] = frozenset()
    expected_stems: frozenset[str] = frozenset()
    answer_stems: frozenset[str] = frozenset()
    alone: bool = False

    @property
    def complete(self) -> bool:
        """Whether only facts are expected, and the answer has all of them."""
        return self.alone and 0 < self.required == self.held


NO_FACTS: Final = HeldFacts()


def measure(expected: Wording, answer: AnswerWording, facts: HeldFacts) -> list[float]:
    """Return the values of `FEATURES` in their order."""
    compact = facts.complete or _is_compact(expected.compact, answer.compact)
    held_stems = answer.stem_set | facts.expected_stems if facts.held else answer.stem_set
    likenesses = [1.0 if compact else likeness(stem, answer.pool, held_stems) for stem in expected.stems]
    query_stems = answer.query.stem_set
    unasked_likenesses = [
        value for value, stem in zip(likenesses, expected.stems, strict=True) if stem not in query_stems
    ]
    weights = [_weight(stem, query_stems, facts) for stem in expected.stems]
    recall = sum(map(float.__mul__, weights, likenesses)) / sum(weights) if weights else 0.0
    recall_unasked = _mean(unasked_likenesses) if unasked_likenesses else recall
    precision = _precision(expected, answer, recall, facts)
    contained = float(facts.complete or expected.joined in answer.joined)
    abbreviation = float(_is_abbreviation(expected, answer))
    answer_length = math.log1p(len(answer.words)) / _LENGTH_SCALE
    missed = 1.0 - max(recall, abbreviation)
    return [
        contained,
        contained * answer_length,
        float(contained and _is_first(expected, answer, facts)),
        float(contained and answer.joined.endswith(expected.joined)),
        float(compact),
        recall,
        recall * answer_length,
        recall_unasked,
        precision,
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        _aligned(expected, answer, contained),
        float(_has_initials(expected.words, answer)),
        float(answer.refuses) * recall,
        float(answer.refuses) * missed,
        math.log1p(len(answer.added)) / _LENGTH_SCALE * missed,
        float(any(name not in expected.stem_set for name in answer.names)) * missed,
        float(expected.is_name) * missed,
        float(facts.required > 0 and not answer.adds_number) * missed,
        float(len(answer.words) <= _SHORT_ANSWER_WORDS) * missed,
    ]


def _weight(stem: str, query_stems: AbstractSet[str], facts: HeldFacts) -> float:
    return (FACT_WEIGHT if stem in facts.required_stems else 1.0) * (ASKED_WEIGHT if stem in query_stems else 1.0)


def _is_first(expected: Wording, answer: AnswerWording, facts: HeldFacts) -> bool:
    return expected.joined in answer.first.joined or (facts.complete and facts.answer_stems <= answer.first.stem_set)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _is_compact(expected: str, answer: str) -> bool:
    return bool(expected) and (expected == answer or (len(expected) >= _COMPACT_CHARACTERS and expected in answer))


def _precision(expected: Wording, answer: AnswerWording, recall: float, facts: HeldFacts) -> float:
    if expected.compact == answer.compact:
        return 1.0
    if not answer.added:
        return recall
    expected_stems = expected.stem_set | facts.answer_stems if facts.held else expected.stem_set
    return _mean([likeness(stem, expected.stems, expected_stems) for stem in answer.added])


def _aligned(expected: Wording, answer: AnswerWording, contained: float) -> float:
    if contained or len(expected.compact) < _ALIGNED_CHARACTERS:
        return contained
    ratio = fuzz.partial_ratio(expected.joined.strip(), answer.beginning, score_cutoff=50)
    return max(0.0, ratio / 50 - 1.0)


def _has_initials(expected: Sequence[str], answer: Wording) -> bool:
    """Return whether an answer has the last word of a name, shortly after a word with the initial of the first name."""
    if len(expected) < 2 or expected[-1] not in answer.word_set:  # noqa: PLR2004 — a first and a last name
        return False
    first, last = expected[0][0], expected[-1]
    return any(
        word == last and any(before[0] == first for before in answer.words[max(0, index - _NAME_REACH_WORDS) : index])
        for index, word in enumerate(answer.words)
    )


def _is_abbreviation(expected: Wording, answer: AnswerWording) -> bool:
    if expected.is_abbreviation:
        return expected.words[0] in answer.initials
    return len(expected.initials) > 1 and f" {expected.initials} " in answer.joined


#: The coefficients, next to this module.
FILE: Final = "model.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights of the features and the thresholds of the probability.

    An answer is judged wrong below `fails`, and right from `passes` on. An objection caps the probability: below
    `fails` for a wrong statement, below `passes` for a doubt. `agreed` is the probability of an answer that states the
    expected yes, no or facts.
    """

    version: int
    intercept: float
    weights: tuple[float, ...]
    fails: float
    passes: float
    agreed: float

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Return the model from the content of its file.

        Raises:
            ValueError: its features are not those of this version.
        """
        weights = data["weights"]
        thresholds = data["thresholds"]
        if not isinstance(weights, dict) or not isinstance(thresholds, dict) or list(weights) != list(FEATURES):
            raise ValueError("model.json: weights must name the features of exact/features.py in their order")
        return cls(
            version=int(str(data["version"])),
            intercept=float(str(data["intercept"])),
            weights=tuple(map(float, weights.values())),
            fails=thresholds["fails"],
            passes=thresholds["passes"],
            agreed=float(str(data["agreed"])),
        )

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability for the values of the features."""
        logit = self.intercept + sum(map(float.__mul__, self.weights, values))
        return 1.0 / (1.0 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1.0 + math.exp(logit))

    def cap(self, weight: Weight) -> float:
        """Return the maximum probability of an answer with an objection."""
        return self.fails / 2 if weight == "wrong" else (self.fails + self.passes) / 2


@cache
def shipped_model() -> Model:
    """Return the model shipped with this version; its file is read at the first call."""
    return Model.from_dict(json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8")))
