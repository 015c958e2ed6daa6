"""The tau-airline users with original and changed queries, for measuring matching.

Each of the 50 cases has 4 attempts, in which a model plays the same user in other words. The case of a measurement contains the
queries of one attempt. The conversations to match are the other three attempts, or the same attempt with changes that keep
the request (politeness, contractions, misspellings) or alter it (a digit, a negation).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from otel_agentic.config import Settings
from otel_agentic.reports.doctor import read_traces
from otel_agentic.testing import conversation, turn
from otel_agentic.truth import Case, CaseTurn, read_cases, read_labels
from tests.shared import SHARED

if TYPE_CHECKING:
    import random

    from otel_agentic.conversations.model import Conversation

DATA: Final = SHARED / "data" / "tau-airline"
ATTEMPTS: Final = 4
#: Cases of one user in nearly the same words differ in a detail at most. They form one group when a model is fitted on
#: some cases and measured on others.
_USER: Final = re.compile(r"[a-z]+_[a-z]+_\d{4}")

Queries = tuple[str, ...]


@cache
def attempts() -> Mapping[str, Sequence[Conversation]]:
    """Return the conversations of tau-airline by case id, without ids that name a case."""
    labels = read_labels(DATA / "labels.csv").labels
    by_case: dict[str, list[Conversation]] = {}
    for read in read_traces(Settings(), [str(DATA / "spans.jsonl.gz")]).conversations:
        conversation = read.conversation
        case_id = labels[str(conversation.conversation_id)].case_id or ""
        by_case.setdefault(case_id, []).append(replace(conversation, case_id=None))
    return by_case


@cache
def right_cases() -> Mapping[str, Case]:
    """Return the cases of tau-airline by id, with the calls that they expect and without queries."""
    return {case.case_id: case for case in read_cases(DATA / "cases.jsonl").require()}


@cache
def texts() -> Mapping[str, Sequence[Queries]]:
    """Return the users' queries, by case id and attempt."""
    return {
        case_id: [tuple(turn.query for turn in attempt.turns if turn.query) for attempt in conversations]
        for case_id, conversations in attempts().items()
    }


@cache
def groups() -> Mapping[str, str]:
    """Return for each case the first case of the same user, or the case itself."""
    first: dict[str, str] = {}
    group_of = {}
    for case_id, queries in texts().items():
        users = {user for queries in queries for user in _USER.findall(" ".join(queries).lower())}
        group = next((first[user] for user in sorted(users) if user in first), case_id)
        first |= dict.fromkeys(users, group)
        group_of[case_id] = group
    return group_of


def case_of(case_id: str, queries: Sequence[str]) -> Case:
    """Return a case with the queries, without expectations."""
    return Case(case_id=case_id, dataset="tau", turns=tuple(CaseTurn(query=query) for query in queries))


def spoken_conversation(queries: Sequence[str]) -> Conversation:
    """Return a conversation with the queries."""
    return conversation(*(turn(query, "Done.") for query in queries))


def same(queries: Sequence[str], _: random.Random) -> Queries:
    """Return the queries."""
    return tuple(queries)


def first_half(queries: Sequence[str], _: random.Random) -> Queries:
    """Return the first half of the queries, at least one: the conversation ended early."""
    return tuple(queries[: max(1, (len(queries) + 1) // 2)])


def first_only(queries: Sequence[str], _: random.Random) -> Queries:
    """Return the first query."""
    return tuple(queries[:1])


_LIGHT: Final = (
    (r"\bI am\b|\bI'm\b|\bI\u2019m\b", ("I am", "I'm")),
    (r"\bI would\b|\bI'd\b|\bI\u2019d\b", ("I would", "I'd")),
    (r"\bI will\b|\bI'll\b|\bI\u2019ll\b", ("I will", "I'll")),
    (r"\bdo not\b|\bdon't\b|\bdon\u2019t\b", ("do not", "don't")),
    (r"(?i)\bplease,? ?", ("", "please ", "kindly ")),
    (r"(?i)\bthank you\b|\bthanks\b", ("thank you", "thanks", "many thanks")),
    (r"(?i)^(hi there|hi|hello|hey)\b", ("Hi", "Hello", "Hey", "Good morning")),
)


def reworded(queries: Sequence[str], rng: random.Random) -> Queries:
    """Return the queries with other contractions and other polite phrases."""
    rewritten = list(queries)
    for pattern, words in _LIGHT:
        rewritten = [_replaced(pattern, words, query, rng) for query in rewritten]
    return tuple(rewritten)


def _replaced(pattern: str, words: Sequence[str], query: str, rng: random.Random) -> str:
    return re.sub(pattern, lambda _: rng.choice(words), query)


def misspelt(queries: Sequence[str], rng: random.Random) -> Queries:
    """Return the queries with one misspelling in eight words: a letter dropped, doubled, or two swapped."""

    def typo(text: str) -> str:
        if len(text) < 4 or not text.isalpha() or rng.random() > 1 / 8:  # noqa: PLR2004 — short words have no typical misspelling
            return text
        at = rng.randrange(1, len(text) - 1)
        return rng.choice(
            (
                text[:at] + text[at + 1 :],
                text[:at] + text[at] + text[at:],
                text[:at] + text[at + 1] + text[at] + text[at + 2 :],
            )
        )

    return tuple(" ".join(typo(token) for token in query.split(" ")) for query in queries)


def one_digit_changed(queries: Sequence[str], rng: random.Random) -> Queries | None:
    """Return the queries with one digit changed, or None if they contain no digit; numbers of list items do not count."""
    return _digits_changed(queries, rng, every=False)


def every_digit_changed(queries: Sequence[str], rng: random.Random) -> Queries | None:
    """Return the queries with every digit changed, or None if they contain no digit."""
    return _digits_changed(queries, rng, every=True)


def _digits_changed(queries: Sequence[str], rng: random.Random, *, every: bool) -> Queries | None:
    without_numbers = [re.sub(r"(?m)^\s*\d{1,2}[.)]\s", "", query) for query in queries]
    digits = [(row, digit.start()) for row, query in enumerate(without_numbers) for digit in re.finditer(r"\d", query)]
    if not digits:
        return None
    for row, at in digits if every else [rng.choice(digits)]:
        other = rng.choice("0123456789".replace(without_numbers[row][at], ""))
        without_numbers[row] = without_numbers[row][:at] + other + without_numbers[row][at + 1 :]
    return tuple(without_numbers)


def one_negated(queries: Sequence[str], rng: random.Random) -> Queries:
    """Return the queries with a "not" somewhere in one of them."""
    row = rng.randrange(len(queries))
    return tuple(_negated(query, rng) if index == row else query for index, query in enumerate(queries))


def each_negated(queries: Sequence[str], rng: random.Random) -> Queries:
    """Return the queries with a "not" somewhere in each of them."""
    return tuple(_negated(query, rng) for query in queries)


def _negated(query: str, rng: random.Random) -> str:
    words = query.split(" ")
    words.insert(rng.randint(0, len(words)), "not")
    return " ".join(words)
