"""Canaries: passing answers held against a wrong expected answer, to see whether the judge looks at all."""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.votes import passes
from otel_agentic.truth.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_agentic.judges.base import Question

_LOG: Final = logging.getLogger(__name__)
_EXAMPLES: Final = 5
#: Expected answers are compared by so much of them.
_COMPARED: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """How many canaries a judge was asked, how many of them it let pass, and the first of these."""

    asked: int = 0
    fooled: int = 0
    examples: tuple[Question, ...] = ()


class CanaryWatch:
    """Chooses the canaries, counts them, and warns of a judge that lets one pass."""

    def __init__(self, ratio: float) -> None:
        """Watch a share of the passing answers, in [0, 1]."""
        self._ratio = ratio
        self._lock = threading.Lock()
        self._seen = Canaries()

    @property
    def seen(self) -> Canaries:
        """What was asked so far."""
        return self._seen

    def rivals(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Question, Question | None]]:
        """Yield numbered questions, each with the one that its answer would have to fail; None where it is no canary.

        Which answers are chosen depends on their content alone. The wrong expected answer is the last other one before it,
        so that the same questions in the same order make the same canaries.
        """
        last: list[Question] = []  # the last question, and the last one before it that expects something else
        for number, question in questions:
            rival = next((other for other in last if _differ(other, question)), None)
            chosen = rival is not None and question.kind == "answer" and _share(question) < self._ratio
            yield number, question, _against(question, rival) if chosen and rival else None
            if question.kind == "answer":
                last = [question, *([rival] if rival else [])]

    def tell(self, question: Question, score: float) -> None:
        """Count the score of a canary, and warn where it passes."""
        passed = passes(score, question.threshold)
        with self._lock:
            asked, fooled, examples = self._seen.asked + 1, self._seen.fooled, self._seen.examples
            if passed:
                fooled, examples = fooled + 1, (*examples, question)[:_EXAMPLES]
            self._seen = Canaries(asked=asked, fooled=fooled, examples=examples)
        # At 1, 2, 4, 8 and so on: a judge that never looks is told once a doubling. The texts are not told: a log is read
        # by others than the store.
        if passed and fooled.bit_count() == 1:
            _LOG.warning("the judge let a canary pass: %d of %d wrong answers passed so far", fooled, asked)


def _against(question: Question, rival: Question) -> Question:
    """Return a question with the accepted answers of another one."""
    return replace(question, expected=rival.expected, also_accepted=rival.also_accepted)


def _differ(one: Question, other: Question) -> bool:
    """Return whether no accepted answer of either says one of the other."""
    left, right = ([normalise(text[:_COMPARED]) for text in question.accepted_answers] for question in (one, other))
    return all(
        bool(first and second) and first not in second and second not in first for first in left for second in right
    )


def _share(question: Question) -> float:
    """Return a number in [0, 1) that depends on the content alone."""
    content = repr((question.query, question.expected, question.answer)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) / 2**64
