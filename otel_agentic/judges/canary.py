"""Canaries: passing answers compared with a wrong expected answer, to check that the judge reads them at all."""

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
#: Number of characters by which expected answers are compared.
_COMPARED: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Number of canary questions, number of those that the judge passed, and the first of the latter."""

    total: int = 0
    fooled: int = 0
    examples: tuple[Question, ...] = ()


class CanaryWatch:
    """Chooses canaries, counts them, and warns of a judge that passes one."""

    def __init__(self, ratio: float) -> None:
        """Check a share of the passing answers, in [0, 1]."""
        self._ratio = ratio
        self._lock = threading.Lock()
        self._counts = Canaries()

    @property
    def counts(self) -> Canaries:
        """The counts so far."""
        return self._counts

    def rivals(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Question, Question | None]]:
        """Yield numbered questions, each with the question that its answer must fail, or None if it is no canary.

        The choice depends on the content of an answer alone. The wrong expected answer is the last different one before it, so
        that the same questions in the same order yield the same canaries.
        """
        last: list[Question] = []  # the last question, and the last one before it with a different expected answer
        for number, question in questions:
            rival = next((other for other in last if _differ(other, question)), None)
            chosen = rival is not None and question.kind == "answer" and _share(question) < self._ratio
            yield number, question, _against(question, rival) if chosen and rival else None
            if question.kind == "answer":
                last = [question, *([rival] if rival else [])]

    def count(self, question: Question, score: float) -> None:
        """Count the score of a canary, and warn if it passes."""
        passed = passes(score, question.threshold)
        with self._lock:
            total, fooled, examples = self._counts.total + 1, self._counts.fooled, self._counts.examples
            if passed:
                fooled, examples = fooled + 1, (*examples, question)[:_EXAMPLES]
            self._counts = Canaries(total=total, fooled=fooled, examples=examples)
        # At 1, 2, 4, 8 and so on: a judge that never reads answers is reported once per doubling. The texts are not logged,
        # since logs have other readers than the store.
        if passed and fooled.bit_count() == 1:
            _LOG.warning("the judge let a canary pass: %d of %d wrong answers passed so far", fooled, total)


def _against(question: Question, rival: Question) -> Question:
    """Return a question with the accepted answers of another one."""
    return replace(question, expected=rival.expected, also_accepted=rival.also_accepted)


def _differ(first: Question, second: Question) -> bool:
    """Return whether no accepted answer of one question contains one of the other."""
    left, right = ([normalise(text[:_COMPARED]) for text in question.accepted_answers] for question in (first, second))
    return all(bool(a and b) and a not in b and b not in a for a in left for b in right)


def _share(question: Question) -> float:
    """Return a number in [0, 1) that depends on the content alone."""
    content = repr((question.query, question.expected, question.answer)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) / 2**64
