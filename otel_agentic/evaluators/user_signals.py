"""Implicit signals of users: repeated requests, rejections, thanks, and conversations that were abandoned.

They need neither a case nor a judge. They are conservative: a doubtful message is not counted as a signal.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    calls_in_order,
    none_of,
    turn_missing,
)
from otel_agentic.evaluators.recovery import ERROR, RAW_OUTPUT, turn_end
from otel_agentic.scoring.state import CAPTURE
from otel_agentic.truth.sentences import Spoken, asks_for_another, contradict, resemble, stems

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, Turn

REPEATED_REQUEST: Final = "agentic.user.repeated_request"
REJECTION: Final = "agentic.user.rejection"
THANKS: Final = "agentic.user.thanks"
ABANDONED: Final = "agentic.user.abandoned"

#: Similarity in percent (rapidfuzz, InDel) of the words of two messages: of the same words, and of another wording.
_REPEATED: Final = 90
_REPHRASED: Final = 75
#: A message with fewer words and figures that are not common is no request that can be recognised again.
_FEWEST_WORDS: Final = 3
#: With fewer such words, two messages of similar words may be answers to two questions.
_FEWEST_REPHRASED: Final = 5
#: Earlier messages with which a message is compared, and the characters of a message that are read.
_MAX_EARLIER: Final = 50
_CHARACTERS: Final = 2_000
#: A farewell contains at most this many other words that are not common.
_WORDS_OF_FAREWELL: Final = 2
#: A message that a program wrote, such as a serialised history, whose keys repeat in every turn.
_JSON: Final = regex.compile(r"\s*(?:\[\s*)?\{\s*[\"'}]")
_SENTENCE: Final = regex.compile(r"[.!?;\n\u3002\uff01\uff1f]+")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc", "'"))


class _Phrases(NamedTuple):
    rejections: regex.Pattern[str]
    thanks: regex.Pattern[str]
    farewells: regex.Pattern[str]


@cache
def _phrases() -> _Phrases:
    text = files("otel_agentic.evaluators").joinpath("user_words.toml").read_text("utf-8")
    lists = tomllib.loads(text)
    openings, rejections, thanks, farewells = (
        "|".join(lists[name]) for name in ("openings", "rejections", "thanks", "farewells")
    )
    return _Phrases(
        rejections=regex.compile(
            rf"\W*(?:(?:{openings})\b[\s,:\u2013\u2014-]*){{0,3}}(?:{rejections})\b", regex.IGNORECASE
        ),
        thanks=regex.compile(rf"(?<!\w)(?:{thanks})(?!\w)", regex.IGNORECASE),
        farewells=regex.compile(rf"(?<!\w)(?:{farewells}|{thanks})(?!\w)", regex.IGNORECASE),
    )


class UserSignals(BuiltInEvaluator):
    """What the messages of a user, and the end of a conversation, reveal about their satisfaction."""

    name = "user.signals"
    default = False

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the scores of each message after the first one, and that of the end of the conversation."""
        turns = subject.conversation.turns
        return [*_repetitions(turns), *_wordings(turns), abandoned(subject.conversation)]


def _repetitions(turns: Sequence[Turn]) -> Iterator[MetricScore]:
    earlier: list[tuple[int, Spoken]] = []
    for turn in turns:
        lack = turn_missing(turn, "queries")
        if lack is not None:
            yield none_of(REPEATED_REQUEST, *lack, turn_index=turn.index)
            continue
        query = turn.query or ""
        if len(query) > _CHARACTERS or _JSON.match(query) or _is_polite(query):
            continue
        spoken = Spoken.of([query])
        if _is_request(spoken):
            if earlier:
                yield _repetition(turn, spoken, earlier[-_MAX_EARLIER:])
            earlier.append((turn.index, spoken))


def _is_polite(message: str) -> bool:
    """Return whether a message thanks or takes leave without a question: it may repeat that, but requests nothing."""
    return (
        "?" not in message
        and "\uff1f" not in message
        and _phrases().farewells.search(message[:_CHARACTERS]) is not None
    )


def _is_request(spoken: Spoken) -> bool:
    """Return whether a message can be recognised again: it has enough words, and is no answer to a yes-no question."""
    if not spoken.sentences or spoken.sentences[0].affirms is not None:
        return False
    return len(stems(spoken.words)) + len(spoken.figures) >= _FEWEST_WORDS


def _repetition(turn: Turn, spoken: Spoken, earlier: Sequence[tuple[int, Spoken]]) -> MetricScore:
    for index, other in reversed(earlier):
        label = repetition(spoken, other)
        if label is not None:
            explanation = f"the message of turn {turn.index + 1} has the words of turn {index + 1}"
            if label == "rephrased":
                explanation = f"the message of turn {turn.index + 1} has most of the words of turn {index + 1}"
            return MetricScore(
                name=REPEATED_REQUEST,
                label=label,
                explanation=explanation,
                turn_index=turn.index,
                details={"of": index},
            )
    return MetricScore(name=REPEATED_REQUEST, label="new", turn_index=turn.index)


def repetition(message: Spoken, earlier: Spoken) -> str | None:
    """Return `repeated` or `rephrased` if a message is an earlier one in the same or in similar words, otherwise None.

    >>> first = Spoken.of(["Where is my order 17? It should be here."])
    >>> repetition(Spoken.of(["Where is my order 17? It should be here!"]), first)
    'repeated'
    >>> repetition(Spoken.of(["Where is my order 18? It should be here."]), first)
    """
    from rapidfuzz import fuzz  # noqa: PLC0415 — slow to import, and few evaluations need it

    if message.figures != earlier.figures or contradict(message, earlier) or asks_for_another(message, earlier):
        return None
    if fuzz.ratio(" ".join(message.words), " ".join(earlier.words)) >= _REPEATED:
        return "repeated"
    remaining = _without_equal_sentences(message, earlier), _without_equal_sentences(earlier, message)
    sorted_stems = [" ".join(sorted(part)) for part in remaining]
    if min(map(len, remaining)) < _FEWEST_REPHRASED or not resemble(message, earlier):
        return None
    return "rephrased" if fuzz.ratio(*sorted_stems) >= _REPHRASED else None


def _without_equal_sentences(message: Spoken, other: Spoken) -> list[str]:
    """Return the stems of a message without the sentences of the other one: users repeat formulas, too."""
    formulas = [sentence.words for sentence in other.sentences]
    return [word for sentence in message.sentences if sentence.words not in formulas for word in sentence.stems]


def _wordings(turns: Sequence[Turn]) -> Iterator[MetricScore]:
    for turn in turns[1:]:
        lack = turn_missing(turn, "queries")
        if lack is not None:
            yield none_of(REJECTION, *lack, turn_index=turn.index)
            yield none_of(THANKS, *lack, turn_index=turn.index)
            continue
        rejection = _rejection(turn.query or "")
        explanation = "" if rejection is None else f"the user states: {rejection!r}"
        label = "none" if rejection is None else "rejected"
        yield MetricScore(name=REJECTION, label=label, explanation=explanation, turn_index=turn.index)
        thanks = _phrases().thanks.search((turn.query or "")[:_CHARACTERS])
        yield MetricScore(name=THANKS, label="none" if thanks is None else "thanks", turn_index=turn.index)


def _rejection(message: str) -> str | None:
    """Return the sentence that rejects what the agent did, or None; a question is no rejection."""
    text = message[:_CHARACTERS].translate(_APOSTROPHES)
    position = 0
    for end in [*_SENTENCE.finditer(text), None]:
        sentence = text[position : len(text) if end is None else end.start()]
        is_question = end is not None and ("?" in end[0] or "\uff1f" in end[0])
        if not is_question and _phrases().rejections.match(sentence):
            return " ".join(sentence.split())
        position = len(text) if end is None else end.end()
    return None


def abandoned(conversation: Conversation) -> MetricScore:
    """Return how a conversation ended."""
    last = conversation.turns[-1]
    lack = _unknown_end(conversation, last)
    if lack is not None:
        return none_of(ABANDONED, *lack)
    calls = calls_in_order(last)
    if last.query is not None and _is_farewell(last.query):
        return _ended("completed", "the last message is a farewell", last)
    end = turn_end(last)
    if end.label in {ERROR, RAW_OUTPUT}:
        return _ended("after_error", f"the last turn ended {end.explanation}", last)
    if calls and all(call.error is not None for call in calls if call.step == calls[-1].step):
        return _ended("after_error", f"the last call, of {calls[-1].name}, returned an error", last)
    if last.answer is None and not calls:
        return _ended("unanswered", "the last message got neither an answer nor a call", last)
    return _ended("completed", "the last message got an answer, or a successful call", last)


def _unknown_end(conversation: Conversation, last: Turn) -> Missing | None:
    if conversation.closed_by is None:
        return "no_data", "the conversation is still open"
    if last.answer is None and last.error is None and not last.answer_captured:
        return "content_not_captured", f"the answer of turn {last.index + 1} was not recorded; {CAPTURE}"
    return None


def _ended(label: str, explanation: str, last: Turn) -> MetricScore:
    return MetricScore(name=ABANDONED, label=label, explanation=f"{explanation} (turn {last.index + 1})")


def _is_farewell(message: str) -> bool:
    """Return whether a message thanks or takes leave, and requests nothing."""
    text = message[:_CHARACTERS]
    if "?" in text or _phrases().farewells.search(text) is None:
        return False
    return len(stems(Spoken.of([_phrases().farewells.sub(" ", text)]).words)) <= _WORDS_OF_FAREWELL
