"""Scoring with a judge that is asked: everything is asked together, each conversation is scored once its answers are in."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from otel_agentic.judges import JudgeFailure, is_calibrated, kinds_of
from otel_agentic.judges.breaker import NotAsked
from otel_agentic.pipeline.sampling import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges import Budget, Judge, Question, Verdict
    from otel_agentic.judges.asking import AskingJudge
    from otel_agentic.pipeline.tally import Tally
    from otel_agentic.scoring import ConversationScore, MatchedConversation

    Answer = Verdict | JudgeFailure


class UntilStopped:
    """A budget that is used up once a run is to stop: what is under way is finished and kept, nothing new is asked."""

    def __init__(self, budget: Budget, stop: Callable[[], bool]) -> None:
        self._budget = budget
        self._stop = stop

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens (an estimate) may be spent."""
        return not self._stop() and self._budget.allows(calls=calls, tokens=tokens)

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count what a verdict, or a failure, has cost."""
        self._budget.spend(verdict)

    @property
    def used_up(self) -> str | None:
        """Which limit was reached."""
        told: str | None = getattr(self._budget, "used_up", None)
        return told


def score_asking(
    matched: Sequence[MatchedConversation],
    judge: AskingJudge,
    score: Callable[[Sequence[MatchedConversation], Judge], list[ConversationScore]],
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    heard: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, ConversationScore]]:
    """Yield (place, score) of each conversation as soon as the judge has said all that its score needs.

    All questions go to the judge together, so that it has work until the last one, in the order of `sampling.place_of`, in
    which the budget is spent. Should an answer raise new questions, these are asked in another round. Once `stop` says so, a
    conversation whose questions are not all answered is not yielded; nor is one, if it `waits`, for which a judge that does
    not answer was not asked.
    """
    order = {place: place_of(one.conversation.key) for place, one in enumerate(matched)}
    known = _Known(judge)
    waiting: dict[int, dict[Question, None]] = {}

    def scored(place: int) -> Iterator[tuple[int, ConversationScore]]:
        known.missing.clear()
        (found,) = score([matched[place]], known)
        if known.missing:
            waiting[place] = dict(known.missing)
        else:
            yield place, found

    for place in range(len(matched)):
        yield from scored(place)
    while waiting and not stop():
        asked, waiting = _Open({place: waiting[place] for place in sorted(waiting, key=order.__getitem__)}), {}
        questions = asked.questions
        for number, answer in answers_to(questions, judge, tally=tally, stop=stop, heard=heard, waits=waits):
            known.answers[questions[number]] = answer
            for place in asked.without(questions[number]):
                yield from scored(place)


def answers_to(
    questions: Sequence[Question],
    judge: AskingJudge,
    *,
    tally: Tally,
    stop: Callable[[], bool] = lambda: False,
    heard: Callable[[Answer], None] = lambda _: None,
    waits: bool = False,
) -> Iterator[tuple[int, Answer]]:
    """Yield (number, answer) for questions, in order of completion, and count them.

    Left out is what stays open for the next run: a question that was not asked, or not often enough, because of a stop, or,
    if it `waits`, because the judge does not answer.
    """
    for number, answer in _pumped(judge.verdicts(questions)):
        if stop() and isinstance(answer, JudgeFailure):
            continue
        if waits and isinstance(answer, NotAsked) and answer.waits:
            tally.postponed += 1
            continue
        tally.count(answer)
        heard(answer)
        yield number, answer


class _Known:
    """A judge that says what is known already, and notes what is not."""

    def __init__(self, judge: Judge) -> None:
        self.name: str = judge.name
        self.version: str = judge.version
        self.kinds = kinds_of(judge)
        self.calibrated = is_calibrated(judge)
        self.answers: dict[Question, Answer] = {}
        self.missing: dict[Question, None] = {}  # in the order of asking, which a set does not keep

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        raise NotImplementedError  # it is no plug-in: it stands for a judge while questions are gathered

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        self.missing |= dict.fromkeys(question for question in questions if question not in self.answers)
        unknown = JudgeFailure(reason="judge_error", message="not asked yet")
        return [self.answers.get(question, unknown) for question in questions]


class _Open:
    """Conversations, by place, and the questions that each still waits for."""

    def __init__(self, waiting: dict[int, dict[Question, None]]) -> None:
        self._waiting = waiting
        self._places: dict[Question, list[int]] = {}
        for place, questions in waiting.items():
            for question in questions:
                self._places.setdefault(question, []).append(place)

    @property
    def questions(self) -> list[Question]:
        """Every question once, in the order of the conversations."""
        return list(self._places)

    def without(self, question: Question) -> list[int]:
        """Take an answered question off; return the conversations that waited for no other one."""
        places = self._places[question]
        for place in places:
            del self._waiting[place][question]
        return [place for place in places if not self._waiting[place]]


def _pumped(answers: Generator[tuple[int, Answer], None, None]) -> Iterator[tuple[int, Answer]]:
    """Yield what a generator gives; a thread takes it from there, for a judge is asked on whenever an answer is taken.

    Whoever scores and stores between two answers would otherwise leave it idle.
    """
    taken: SimpleQueue[tuple[int, Answer] | BaseException | None] = SimpleQueue()
    left = threading.Event()

    def pump() -> None:
        try:
            with closing(answers):
                for answer in answers:
                    taken.put(answer)
                    if left.is_set():
                        return
            taken.put(None)
        except BaseException as error:  # noqa: BLE001 — raised where the answers are taken
            taken.put(error)

    threading.Thread(target=pump, name="otel-agentic-asking", daemon=True).start()
    try:
        while (answer := taken.get()) is not None:
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        left.set()
