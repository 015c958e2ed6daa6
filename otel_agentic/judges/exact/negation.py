"""Whether a text asserts what it mentions: negation, opposites, hedges, retractions, values of the wrong subject.

Negation applies to a span of text: "it is not Paris", "Paris is wrong", "it isn't London but Paris". English is
covered, and simple negations in German, French and Spanish; texts in other languages are read as affirmative.

A text does not assert a fact that it denies, describes as past, attributes to others, or guesses. "We used to open at 8
am; now we open at 9 am" mentions two times and asserts one. "The correct number is 14, not 15", "larger than 9.9" and
"I don't know. Perhaps 42?" mention a number without asserting it.

A text may retract a fact that it states: "42, or maybe 43", "it is 42. Actually, it is 43". Another value of the same
kind is common in a right answer ("20 / 4 = 5", "$327 of the $1,000"). It is a contradiction only if the two compete:
they are joined by "or", one is introduced as a correction, or both are stated of the same subject.

A value may be assigned to the wrong subject: "Pro costs $10 and Basic costs $25". The owners of an expected value are
the words of its clause that occur with no other expected value. The value is misplaced if the answer names an owner of
another value with it, and none of its own.

The module also provides the stemmed content words of a text, and the similarity of two texts by their words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final

from otel_agentic.judges.exact.facts import LEXICON, Fact, Facts, rival_facts
from otel_agentic.truth.values import normalise, words

#: Weights of an expected fact, relative to a word, and of a word that the query already contains.
FACT_WEIGHT: Final = 2.0
ASKED_WEIGHT: Final = 0.25
#: Weight of precision: an answer may contain more than was expected.
_PRECISION_SHARE: Final = 0.1


def word_set(text: str) -> frozenset[str]:
    """Return the words of a space-separated list.

    >>> sorted(word_set("yes no"))
    ['no', 'yes']
    """
    return frozenset(text.split())


#: Words without content, in English, German, French and Spanish; negations are compared separately.
FILLERS: Final = word_set(" ".join(LEXICON["fillers"].values()))
#: Longer words are rare, and their stems are not cached.
_REMEMBERED_CHARACTERS: Final = 30
#: Contractions: "it's", "you'll", "don't".
_CONTRACTED: Final = re.compile(r"(?<=\w)(?:n['\u2019]t|['\u2019](?:s|ll|re|ve|d|m))\b", re.IGNORECASE)
#: Endings that do not change the meaning; four letters remain, so that short names are not cut.
_ENDINGS: Final = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")
_LONG_ENDINGS: Final = re.compile(r"(?<=\w{4})(?:ations?|ments?|ally|al|ly|e|y)$")
_WEEKDAYS: Final[Mapping[str, str]] = LEXICON["weekdays"]


def stems(text: str) -> Counter[str]:
    """Return the content words of a text without their endings.

    >>> sorted(stems("It's approved: the deliveries were cancelled on Tue."))
    ['approv', 'cancell', 'deliveri', 'tuesda']
    """
    return Counter(stem(word) for word in words(normalise(_CONTRACTED.sub("", text))) if word not in FILLERS)


def stem(word: str) -> str:
    """Return a word without its ending.

    >>> stem("successful") == stem("successfully"), stem("approval") == stem("approved"), stem("Maria") == stem("Mario")
    (True, True, False)
    """
    return _cached_stem(word) if len(word) <= _REMEMBERED_CHARACTERS else _stem(word)


def _stem(word: str) -> str:
    plain = _WEEKDAYS.get(word, word)
    return _LONG_ENDINGS.sub("", _ENDINGS.sub("", plain))


_cached_stem = lru_cache(maxsize=50_000)(_stem)


def similarity(
    expected: Counter[str], answer: Counter[str], query: Counter[str], *, facts: Sequence[tuple[bool, bool]] = ()
) -> float:
    """Return the share of expected words and facts that an answer contains, in [0, 1], slightly reduced for additions.

    A fact weighs more than a word. Words of the query weigh little: an answer need not repeat the question.

    Args:
        expected: content words of the expected text, outside its facts.
        answer: content words of the answer.
        query: content words of the query.
        facts: for each expected fact, whether the answer states it and whether the query does.

    >>> similarity(stems("it boils at sea level"), stems("it boils"), Counter())
    0.3333333333333333
    """
    matched = total = 0.0
    for word, count in expected.items():
        weight = ASKED_WEIGHT if word in query else 1.0
        total += weight * count
        matched += weight * min(count, answer[word])
    for is_stated, in_query in facts:
        weight = FACT_WEIGHT * (ASKED_WEIGHT if in_query else 1.0)
        total += weight
        matched += weight * is_stated
    if not total:
        return 0.0
    shared, answer_size = (
        (expected & answer).total() + sum(is_stated for is_stated, _ in facts),
        answer.total() + len(facts),
    )
    precision = min(1.0, shared / answer_size) if answer_size else 0.0
    return matched / total * (1 - _PRECISION_SHARE + _PRECISION_SHARE * precision)


#: Maximum distance of a negation before a fact, in words and in characters.
_REACH_WORDS: Final = 5
_REACH_CHARACTERS: Final = 120

_NEGATORS: Final = (
    r"not|no|never|neither|nor|none|nobody|nothing|without|cannot|can't|won't|unable|unsure|doubt|"
    r"(?:is|are|was|were|do|does|did|has|have|had|would|could|should|must|need)n['\u2019]?t|incorrect|wrong|false|"
    r"nicht|kein(?:e[nrms]?)?|niemals|pas|jamais|aucune?|nunca|jamás|ning[uú]na?"
)
#: Phrases that contain a negator but deny nothing.
_IDIOMS: Final = re.compile(
    r"\b(?:no (?:problem|worries|doubt)|not only|why not|without (?:a )?doubt|wrong with|nicht nur|pas de souci)\b",
    re.IGNORECASE,
)
_NEGATOR: Final = re.compile(rf"(?<!\w)(?:{_NEGATORS})(?!\w)", re.IGNORECASE)
_DENIED_AFTER: Final = re.compile(
    r"\s*(?:is|was|are|were|would be|'s)?\s*(?:n['\u2019]t|not|never|wrong|incorrect|false)\b(?!\s+only)", re.IGNORECASE
)
#: The boundary between statements; no space follows the decimal point of a number.
_CLAUSE_END: Final = re.compile(
    r"[;!?\n,]|[.:](?:\s|$)|\s[-\u2013\u2014]\s|\b(?:but|however|instead|rather|sondern|mais|sino|pero)\b",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")


def denied_at(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is denied in its own clause.

    >>> text = "It is not Paris but London."
    >>> denied_at(text, 10, 15), denied_at(text, 20, 26)
    (True, False)
    """
    words_before = " ".join(without_idioms(clause_before(text, start)).split()[-_REACH_WORDS:])
    return bool(_NEGATOR.search(words_before)) or bool(_DENIED_AFTER.match(text[end : end + 40]))


def clause_before(text: str, start: int) -> str:
    """Return the part of the clause before a position.

    >>> clause_before("No, do not eat it: this is poisonous.", 27)
    'this is '
    """
    before = text[max(0, start - _REACH_CHARACTERS) : start]
    ends = [edge.end() for edge in _CLAUSE_END.finditer(before)]
    return before[ends[-1] :] if ends else before


def has_denial(text: str) -> bool:
    """Return whether a text denies anything.

    >>> has_denial("You cannot cancel."), has_denial("No problem, you can cancel.")
    (True, False)
    """
    return denials(text) > 0


def denials(text: str) -> int:
    """Return the number of negating words in a text.

    >>> denials("I cannot add it, and I cannot look it up.")
    2
    """
    return sum(1 for _ in _NEGATOR.finditer(without_idioms(text)))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the empty ones.

    >>> sentences("It costs $1.50. Really!")
    ['It costs $1.50.', 'Really!']
    """
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def without_idioms(text: str) -> str:
    """Return the text with idioms that look like a negation blanked out, same length.

    >>> without_idioms("No problem, done.")
    '          , done.'
    """
    return _IDIOMS.sub(lambda match: " " * len(match.group()), text)


_YES: Final = word_set("yes yeah yep correct indeed sure certainly absolutely definitely true right ja oui sí")
_NO: Final = word_set("no nope never false incorrect wrong nein non")
#: Word -> the words that cannot be true of the same thing.
_OPPOSITE: Final[dict[str, frozenset[str]]] = {
    word: word_set(others)
    for pair in LEXICON["opposites"]
    for own, others in (pair, pair[::-1])
    for word in own.split()
}
#: Characters in which the first word of a text is searched.
_LEADING_CHARACTERS: Final = 200
#: Maximum number of sentences compared, so that a long text costs no more than a page.
_MAX_SENTENCES: Final = 100
#: Share of common words from which two sentences count as equal except for a word or two.
_SAME_WORDS: Final = 0.9


def leading(text: str) -> bool | None:
    """Return True or False if a normalised text begins with a yes or a no, otherwise None.

    >>> leading("yes, you can"), leading("no problem, done"), leading("maybe")
    (True, None, None)
    """
    first = next(iter(words(without_idioms(text[:_LEADING_CHARACTERS]))), "")
    return True if first in _YES else False if first in _NO else None


def opposed(expected: str, answer: str) -> bool:
    """Return whether an expected sentence and the answer's most similar one contradict each other.

    >>> opposed("Your order has been shipped.", "Your order has not been shipped yet.")
    True
    >>> opposed("The server is not up.", "The server is down.")
    False
    """
    candidates = list(_sentences(answer))
    for sentence, own_stems in _sentences(expected):
        shared, other, other_size = max(
            (((own_stems & other_stems).total(), other, other_stems.total()) for other, other_stems in candidates),
            key=itemgetter(0),
            default=(0, "", 0),
        )
        if 2 * shared >= own_stems.total() > 0 and flips(sentence, other):
            return True
        # With several negations in a sentence, a difference of one is significant only if the other words are the same.
        if shared >= _SAME_WORDS * max(own_stems.total(), other_size) > 0 and (denials(sentence) - denials(other)) % 2:
            return True
    return False


def flips(first: str, second: str) -> bool:
    """Return whether one of two sentences about the same thing denies the other.

    A denied opposite agrees: "not up" is "down".
    """
    return (has_denial(first) != has_denial(second)) != _has_opposite(first, second)


def _has_opposite(first: str, second: str) -> bool:
    own, others = set(words(normalise(first))), set(words(normalise(second)))
    return any(_OPPOSITE.get(word, frozenset()) & (others - own) for word in own - others)


def _sentences(text: str) -> Iterator[tuple[str, Counter[str]]]:
    for sentence in sentences(text)[:_MAX_SENTENCES]:
        yield sentence, stems(sentence)


#: Markers of the past, or of the belief of others, in the clause before the fact.
_SET_ASIDE: Final = re.compile(
    r"\b(?:used to|formerly|previously|originally|initially|at first|first (?:thought|counted|said|assumed)|no longer|"
    r"(?:many|some|most)(?: people)? (?:think|believe|say|assume)|(?:often|commonly|wrongly) (?:thought|believed|said)|"
    r"contrary to|(?:moved|changed|switched|rescheduled|rebooked|updated|corrected|renamed) from|früher|anciennement|antes)\b",
    re.IGNORECASE,
)
_MOVED_ON: Final = re.compile(r"\bto\b", re.IGNORECASE)
_THAN: Final = re.compile(r"\bthan\s+(?:\w+\s+)?$", re.IGNORECASE)
_IGNORANCE: Final = re.compile(
    r"\b(?:(?:do not|don['\u2019]t) know|no idea|not (?:entirely |quite )?(?:sure|certain)|unsure|cannot say|can['\u2019]t say)\b",
    re.IGNORECASE,
)
_GUESS: Final = re.compile(r"\b(?:perhaps|maybe|possibly|might|could be|may be|guess)\b", re.IGNORECASE)
_SENTENCE_MARK: Final = re.compile(r"[.!?](?:\s|$)|\n")
_SENTENCE_REACH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Manners of speaking in the question and the expected text; an answer that uses them, too, retracts nothing."""

    past: bool = False
    than: bool = False

    @classmethod
    def of(cls, *texts: str) -> Manner:
        """Return the manner of several texts together.

        >>> Manner.of("Where was it moved from?", "previously Oslo")
        Manner(past=True, than=False)
        """
        text = "\n".join(texts)
        return cls(past=bool(_SET_ASIDE.search(text)), than=bool(re.search(r"\bthan\b", text, re.IGNORECASE)))


def asserts(text: str, start: int, end: int, manner: Manner) -> bool:
    """Return whether a text asserts `text[start:end]`.

    >>> text = "We used to open at 8 am; now we open at 9 am."
    >>> asserts(text, 19, 23, Manner()), asserts(text, 40, 44, Manner())
    (False, True)
    """
    if denied_at(text, start, end):
        return False
    before = clause_before(text, start)
    if not manner.than and _THAN.search(before):
        return False
    if not manner.past and _is_set_aside(before):
        return False
    return not (_IGNORANCE.search(text) and _is_guess(text, start, end))


def _is_set_aside(before: str) -> bool:
    """Return whether a clause marks the following fact as past or believed; "moved from A to B" marks only A."""
    cues = list(_SET_ASIDE.finditer(before))
    if not cues:
        return False
    cue = cues[-1]
    return not (cue.group().lower().endswith("from") and _MOVED_ON.search(before, cue.end()))


def _is_guess(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - _SENTENCE_REACH) : start], text[end : end + _SENTENCE_REACH]
    marks = [boundary.end() for boundary in _SENTENCE_MARK.finditer(before)]
    mark = _SENTENCE_MARK.search(after)
    if mark is not None and mark.group().startswith("?"):
        return True
    sentence = before[marks[-1] if marks else 0 :] + after[: mark.start() if mark else None]
    return bool(_GUESS.search(sentence))


_CHOICE: Final = re.compile(r"\s*,?\s*(?:or|and/or|/)\s+(?:\w+\s+){0,2}", re.IGNORECASE)
_CORRECTION: Final = re.compile(r"\b(?:actually|correction|sorry|wait|i mean|rather|instead)\b", re.IGNORECASE)
_STATED: Final = re.compile(
    r"(?:\b(?P<subject>[^\W\d]\w*)\s+)?(?:=|\b(?:is|are|was|were|be|equals?|comes to|costs?|totals?))\s*"
    r"(?:\b(?:about|exactly|now|only|on|at|in)\s+)?$",
    re.IGNORECASE,
)
#: Subjects that refer back to the question; a missing subject ("= 43") does as well.
_POINTING: Final = frozenset({"", "it", "this", "that", "answer", "result", "which", "there", "he", "she", "they"})
_LOOK_BACK: Final = 60
#: Maximum number of facts compared, so that a text of a million numbers costs no more than a long one.
_MAX_COMPARED: Final = 32


def contradicted(text: str, statements: Iterable[Fact], expected: Fact, others: Iterable[Fact]) -> bool:
    """Return whether another value of the same kind competes with the expected one.

    Args:
        text: the judged text.
        statements: the facts of the text that equal the expected one and are asserted.
        expected: the expected fact.
        others: other facts that the text asserts, without those of the query: repeating them asserts nothing.
    """
    rivals = list(islice((fact for fact in others if rival_facts(fact, expected)), _MAX_COMPARED))
    return any(_competes(text, statement, rival) for statement in islice(statements, _MAX_COMPARED) for rival in rivals)


def _competes(text: str, statement: Fact, rival: Fact) -> bool:
    between = text[min(statement.end, rival.end) : max(statement.start, rival.start)]
    if _CHOICE.fullmatch(between):
        return True
    if rival.start > statement.start and _CORRECTION.search(between):
        return True
    rival_subject = _subject(text, rival)
    if rival_subject is None:
        return False
    own_subject = _subject(text, statement)
    if rival_subject in _POINTING:
        return rival.start > statement.start
    # "20 / 4 = 5": a chain of results ends with the answer; earlier results are intermediate.
    return own_subject == rival_subject


def _subject(text: str, fact: Fact) -> str | None:
    """Return the word that a fact is stated of, "" if it is missing, or None if the fact is not stated of anything."""
    match = _STATED.search(text[max(0, fact.start - _LOOK_BACK) : fact.start])
    return None if match is None else (match["subject"] or "").casefold()


_CLAUSE_EDGE: Final = re.compile(r"[,;\n]|[.!?](?:\s|$)|\b(?:and|und|et|while|whereas|but)\b", re.IGNORECASE)
#: Maximum number of values compared, so that a text of a million numbers costs no more than a page.
_MAX_VALUES: Final = 16


def misplaced(expected: str, expected_facts: Sequence[Fact], answer: str, facts: Facts) -> Fact | None:
    """Return the first expected value that the answer assigns to another value's owner, or None.

    >>> from otel_agentic.judges.exact.facts import extract
    >>> expected, answer = "Basic costs $10 and Pro costs $25.", "Pro costs $10 and Basic costs $25."
    >>> misplaced(expected, extract(expected).all, answer, extract(answer)).value
    10.0
    """
    if len(expected_facts) < 2 or len(expected_facts) > _MAX_VALUES:  # noqa: PLR2004 — a value alone cannot be swapped
        return None
    owners = _owners(expected, expected_facts)
    for index, fact in enumerate(expected_facts):
        other_owners = [
            names
            for other, names in enumerate(owners)
            if other != index and rival_facts(expected_facts[other], fact) and names
        ]
        clauses = [clause_stems(answer, match) for match in list(facts.like(fact))[:_MAX_VALUES]]
        if (
            other_owners
            and owners[index]
            and clauses
            and all(_is_foreign(words, owners[index], other_owners) for words in clauses)
        ):
            return fact
    return None


def _owners(text: str, expected_facts: Sequence[Fact]) -> list[AbstractSet[str]]:
    clauses = [clause_stems(text, fact) for fact in expected_facts]
    return [
        own - {word for other, words in enumerate(clauses) if other != index for word in words}
        for index, own in enumerate(clauses)
    ]


def _is_foreign(clause: AbstractSet[str], own: AbstractSet[str], foreign: Sequence[AbstractSet[str]]) -> bool:
    return not clause & own and any(clause & names for names in foreign)


def clause_stems(text: str, fact: Fact) -> AbstractSet[str]:
    """Return the content words of the clause that contains a value."""
    before, after = (
        text[max(0, fact.start - _REACH_CHARACTERS) : fact.start],
        text[fact.end : fact.end + _REACH_CHARACTERS],
    )
    edges = [match.end() for match in _CLAUSE_EDGE.finditer(before)]
    edge = _CLAUSE_EDGE.search(after)
    return stems(before[edges[-1] if edges else 0 :] + " " + after[: edge.start() if edge else None]).keys()
