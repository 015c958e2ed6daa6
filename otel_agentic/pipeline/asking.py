"""Scoring with an LLM judge: all questions are sent together, and each conversation is scored once its answers are in."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from otel_agentic.judges import JudgeFailure, is_calibrated, kinds_of
from otel_agentic.judges.breaker import NotAsked
from otel_agentic.pipeline.sampling import position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges import Budget, Judge, Question, Verdict
    from otel_agentic.judges.asking import AskingJudge
    from otel_agentic.pipeline.tally import Tally
    from otel_agentic.scoring import ConversationScore, MatchedConversation

    Answer = Verdict | JudgeFailure


class StoppableBudget:
    """A budget that is exhausted once a run stops: requested answers are awaited and kept, no new question is asked."""

    def __init__(self, budget: Budget, stop: Callable[[], bool]) -> None:
        self._budget = budget
        self._stop = stop

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether the given number of further model calls and tokens (an estimate) may be spent."""
        return not self._stop() and self._budget.allows(calls=calls, tokens=tokens)

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Add the cost of a verdict or a failure."""
        self._budget.spend(verdict)

    @property
    def used_up(self) -> str | None:
        """The limit that was reached, or None."""
        limit: str | None = getattr(self._budget, "used_up", None)
        return limit


def score_asking(
    matched: Sequence[MatchedConversation],
    judge: AskingJudge,
    score: Callable[[Sequence[MatchedConversation], Judge], list[ConversationScore]],
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    on_answer: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, ConversationScore]]:
    """Yield (index, score) of each conversation as soon as the judge has answered everything that its score needs.

    All questions are sent to the judge together, so that it is busy until the last one, in the order of
    `sampling.position_of`, in which the budget is spent. If an answer raises new questions, they are asked in another round.
    A conversation is not yielded if `stop` returned True before all its questions were answered or, with `waits`, if the
    judge was unavailable.
    """
    order = {index: position_of(item.conversation.key) for index, item in enumerate(matched)}
    known = _RecordingJudge(judge)
    waiting: dict[int, dict[Question, None]] = {}

    def scored(index: int) -> Iterator[tuple[int, ConversationScore]]:
        known.missing.clear()
        (result,) = score([matched[index]], known)
        if known.missing:
            waiting[index] = dict(known.missing)
        else:
            yield index, result

    for index in range(len(matched)):
        yield from scored(index)
    while waiting and not stop():
        pending, waiting = (
            _PendingQuestions({index: waiting[index] for index in sorted(waiting, key=order.__getitem__)}),
            {},
        )
        questions = pending.questions
        for number, answer in answers_to(questions, judge, tally=tally, stop=stop, on_answer=on_answer, waits=waits):
            known.answers[questions[number]] = answer
            for index in pending.without(questions[number]):
                yield from scored(index)


def answers_to(
    questions: Sequence[Question],
    judge: AskingJudge,
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    on_answer: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, Answer]]:
    """Yield (index, answer) for questions, in order of completion, and count the answers.

    Questions left for the next run are omitted: those not asked, or not often enough, because of a stop or, with `waits`,
    because the judge is unavailable.
    """
    for number, answer in _prefetched(judge.verdicts(questions)):
        if stop() and isinstance(answer, JudgeFailure):
            continue
        if waits and isinstance(answer, NotAsked) and answer.waits:
            tally.postponed += 1
            continue
        tally.count(answer)
        on_answer(answer)
        yield number, answer


class _RecordingJudge:
    """A judge that returns known answers and records the questions without one."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self.answers: dict[Question, Answer] = {}
        self.missing: dict[Question, None] = {}  # a dict keeps the order of the questions

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        raise NotImplementedError  # not a plug-in: it replaces a judge while questions are collected

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        self.missing |= dict.fromkeys(question for question in questions if question not in self.answers)
        unknown = JudgeFailure(reason="judge_error", message="not asked yet")
        return [self.answers.get(question, unknown) for question in questions]


class _PendingQuestions:
    """Conversations, by index, with the questions that each still waits for."""

    def __init__(self, waiting: dict[int, dict[Question, None]]) -> None:
        self._waiting = waiting
        self._indices: dict[Question, list[int]] = {}
        for index, questions in waiting.items():
            for question in questions:
                self._indices.setdefault(question, []).append(index)

    @property
    def questions(self) -> list[Question]:
        """Every question once, in the order of the conversations."""
        return list(self._indices)

    def without(self, question: Question) -> list[int]:
        """Remove an answered question; return the conversations that wait for no other one."""
        indices = self._indices[question]
        for index in indices:
            del self._waiting[index][question]
        return [index for index in indices if not self._waiting[index]]


def _prefetched(answers: Generator[tuple[int, Answer], None, None]) -> Iterator[tuple[int, Answer]]:
    """Yield the items of a generator that a thread consumes.

    The judge is asked the next question when an answer is consumed; without the thread it would be idle while the caller
    scores and stores.
    """
    answers_queue: SimpleQueue[tuple[int, Answer] | BaseException | None] = SimpleQueue()
    closed = threading.Event()

    def pump() -> None:
        try:
            with closing(answers):
                for answer in answers:
                    answers_queue.put(answer)
                    if closed.is_set():
                        return
            answers_queue.put(None)
        except BaseException as error:  # noqa: BLE001 — raised in the consuming thread
            answers_queue.put(error)

    threading.Thread(target=pump, name="otel-agentic-asking", daemon=True).start()
    try:
        while (answer := answers_queue.get()) is not None:
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        closed.set()
