"""What there is to measure a judge of answers with: pairs of an expected and a given answer, each known right or wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.answer_changes import RIGHT, WRONG
from otel_agentic.config import Settings
from otel_agentic.judges import Question
from otel_agentic.pipeline.inspect import read_traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Half = Literal["tuned", "held_out"]
WRITTEN: Final = Path(__file__).parents[1] / "tests" / "judges" / "exact_pairs.jsonl"
THRESHOLD: Final = 0.7
#: Answers of tau-airline that are looked at, evenly spread: more say the same.
_TAU_ANSWERS: Final = 400
#: Shorter ones are greetings, and like each other.
_TELLING_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An answer to a question and whether it is right. `case` tells what it repeats; `about` how it came to be."""

    question: Question
    right: bool
    case: str
    about: str


def written(half: Half) -> list[Pair]:
    """Return the pairs written and labelled by hand of one half."""
    rows = [json.loads(line) for line in WRITTEN.read_text(encoding="utf-8").splitlines()]
    return [
        Pair(
            question=_question(row["query"], row["expected"], row["answer"]),
            right=row["right"],
            case=f"{row['query']}\n{row['expected']}",
            about=row["kind"],
        )
        for row in rows
        if row["half"] == half
    ]


def of_captures(folder: Path) -> list[Pair]:
    """Return the recorded answers of the captures against the truth of their own turn, and of the other turns."""
    pairs = {}
    for path in sorted(folder.glob("*/expected.json")):
        truth = _truth(path)
        recorded = {query: answer for query, answer in _answers(path.parent) if query in truth}
        for query, expected in truth.items():
            for other, answer in recorded.items():
                right = query == other
                if right or truth[other] != expected:
                    about = "its own turn" if right else "another turn"
                    pair = Pair(question=_question(query, expected, answer), right=right, case=query, about=about)
                    pairs[query, expected, answer] = pair
    return list(pairs.values())


def changed(answers: Iterable[tuple[str, str]]) -> Iterator[Pair]:
    """Yield pairs of real answers, given as (query, answer), and what rules make of them."""
    for query, answer in answers:
        for right, changes in ((True, RIGHT), (False, WRONG)):
            for about, change in changes.items():
                made = change(answer)
                if made is not None:
                    yield Pair(question=_question(query, answer, made), right=right, case=answer, about=about)


def tau_answers(folder: Path) -> list[tuple[str, str]]:
    """Return distinct (query, answer) of tau-airline, evenly spread."""
    found = {
        answer: query for query, answer in _answers(folder / "spans.jsonl.gz") if len(answer) > _TELLING_CHARACTERS
    }
    every = max(1, len(found) // _TAU_ANSWERS)
    return [(query, answer) for answer, query in sorted(found.items())][::every]


def _truth(path: Path) -> dict[str, str]:
    """Return the answers that a capture must give, by query, where a query is asked once."""
    turns = [turn for told in json.loads(path.read_text(encoding="utf-8"))["conversations"] for turn in told["turns"]]
    queries = [turn["query"] for turn in turns]
    return {turn["query"]: turn["answer"] for turn in turns if turn["answer"] and queries.count(turn["query"]) == 1}


@cache
def _answers(path: Path) -> tuple[tuple[str, str], ...]:
    """Return (query, answer) of the turns that spans come to."""
    rebuilt = read_traces(Settings(), [str(path)]).conversations
    turns = (turn for each in rebuilt for turn in each.conversation.turns)
    return tuple((turn.query, turn.answer) for turn in turns if turn.query and turn.answer)


def _question(query: str, expected: str, answer: str) -> Question:
    return Question(query=query, expected=expected, answer=answer, threshold=THRESHOLD)
