"""Features of an answer compared with one accepted answer: the inputs of the logistic model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rapidfuzz import fuzz

from otel_agentic.judges.exact.texts import likeness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.judges.exact.texts import AnswerWording, Wording

#: Whether a larger value is evidence for the answer, against it, or either.
Sign = Literal[1, 0, -1]
#: How an objection limits the probability: to fail, or to unsure.
Weight = Literal["wrong", "doubt"]

_SHORT_ANSWER_WORDS: Final = 5
_COMPACT_CHARACTERS: Final = 5
_ALIGNED_CHARACTERS: Final = 4
_NAME_REACH_WORDS: Final = 3
#: Weights of an expected word that the query already contains (an answer need not repeat the question), and of a fact.
_ASKED_WEIGHT: Final = 0.25
_FACT_WEIGHT: Final = 2.0
#: Feature values stay within [0, about 1.5], so that one strength of regularisation suits all.
_LENGTH_SCALE: Final = 4.0

#: Name of a feature -> the allowed sign of its coefficient. The order is that of `measure`.
FEATURES: Final[dict[str, Sign]] = {
    "contained": 1,  # the answer contains the expected words, one after the other
    "contained_in_long": 0,  # the same, times how long the answer is
    "contained_first": 1,  # its first sentence contains them
    "contained_last": 1,  # they end it
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
    unasked = [like for like, stem in zip(likenesses, expected.stems, strict=True) if stem not in query_stems]
    weights = [_weight(stem, query_stems, facts) for stem in expected.stems]
    recall = sum(map(float.__mul__, weights, likenesses)) / sum(weights) if weights else 0.0
    recall_unasked = _mean(unasked) if unasked else recall
    precision = _precision(expected, answer, recall, facts)
    contained = float(facts.complete or expected.joined in answer.joined)
    abbreviation = float(_is_abbreviation(expected, answer))
    long = math.log1p(len(answer.words)) / _LENGTH_SCALE
    missed = 1.0 - max(recall, abbreviation)
    return [
        contained,
        contained * long,
        float(contained and _is_first(expected, answer, facts)),
        float(contained and answer.joined.endswith(expected.joined)),
        float(compact),
        recall,
        recall * long,
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
    return (_FACT_WEIGHT if stem in facts.required_stems else 1.0) * (_ASKED_WEIGHT if stem in query_stems else 1.0)


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
