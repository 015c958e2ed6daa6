"""Dialogues with a judge: generators that yield questions, are sent the answers, and return a result.

Scoring and every evaluator that asks a judge is such a generator. `run_dialogues` runs many of them and asks the judge
about all of them together, which keeps a slow judge busy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from otel_agentic.judges.asking_judge import ask as answers_of
from otel_agentic.judges.base import JudgeFailure, Question, Verdict

if TYPE_CHECKING:
    from otel_agentic.judges.base import Judge

T = TypeVar("T")
Answer: TypeAlias = Verdict | JudgeFailure
#: Yields questions, independent ones together, is sent one answer to each of them in the same order, and returns a
#: result.
Dialogue: TypeAlias = Generator[Sequence[Question], Sequence[Answer], T]
#: Yields (index of the question, answer) in order of completion; an omitted question stays unanswered.
Ask: TypeAlias = Callable[[Sequence[Question]], Iterable[tuple[int, Answer]]]

_NOT_STARTED: Final = None


def ask_of(judge: Judge) -> Ask:
    """Return a function that asks a judge directly, without cache, budget or concurrency."""
    return lambda questions: enumerate(answers_of(judge, questions))


def run_dialogues(dialogues: Iterable[Dialogue[T]], ask: Ask) -> Iterator[tuple[int, T]]:
    """Yield (index, result) of dialogues, each as soon as its own questions are answered.

    Every question is asked once per round, in the order of the dialogues. A dialogue that raises ends the run; a
    dialogue with an unanswered question has no result.

    Args:
        dialogues: the dialogues; all of them are started before the first question is asked.
        ask: asks the judge.
    """
    unfinished: dict[int, _Waiting[T]] = {}
    try:
        for index, dialogue in enumerate(dialogues):
            state = unfinished[index] = _Waiting(index=index, dialogue=dialogue)
            if state.advance(_NOT_STARTED):
                yield index, unfinished.pop(index).result
        waiting = list(unfinished.values())
        while waiting:
            answered, waiting = _answered(sorted(waiting, key=lambda state: state.index), ask), []
            for state in answered:
                if state.advance([state.answers[question] for question in state.questions]):
                    yield state.index, unfinished.pop(state.index).result
                else:
                    waiting.append(state)
    finally:
        for state in unfinished.values():
            state.dialogue.close()


def _answered(waiting: Sequence[_Waiting[T]], ask: Ask) -> Iterator[_Waiting[T]]:
    """Ask the questions of all dialogues once; yield each dialogue whose questions are all answered."""
    waiting_for: dict[Question, list[_Waiting[T]]] = {}
    for state in waiting:
        for question in state.missing:
            waiting_for.setdefault(question, []).append(state)
    questions = list(waiting_for)
    for number, answer in ask(questions):
        yield from (state for state in waiting_for[questions[number]] if state.receive(questions[number], answer))


def together(dialogues: Sequence[Dialogue[T]]) -> Dialogue[list[T]]:
    """Return the results of independent dialogues, in order; their questions are asked together, round by round."""
    states = [_Waiting(index=index, dialogue=dialogue) for index, dialogue in enumerate(dialogues)]
    waiting = [state for state in states if not state.advance(_NOT_STARTED)]
    while waiting:
        questions = [question for state in waiting for question in state.questions]
        answers = dict(zip(questions, (yield questions), strict=True))
        waiting = [state for state in waiting if not state.advance([answers[question] for question in state.questions])]
    return [state.result for state in states]


@dataclass(slots=True, kw_only=True)
class _Waiting(Generic[T]):
    """A dialogue between two rounds of questions."""

    index: int
    dialogue: Dialogue[T]
    result: Any = None
    questions: Sequence[Question] = ()
    answers: dict[Question, Answer] = field(default_factory=dict)
    missing: dict[Question, None] = field(default_factory=dict)

    def advance(self, answers: Sequence[Answer] | None) -> bool:
        """Continue with the answers to `questions`, or start; return whether the dialogue ended with `result`."""
        try:
            # A dialogue that yields no question at all continues at once.
            self.questions = next(self.dialogue) if answers is _NOT_STARTED else self.dialogue.send(answers)
            while not self.questions:
                self.questions = self.dialogue.send(())
        except StopIteration as ended:
            self.result = ended.value
            return True
        self.answers, self.missing = {}, dict.fromkeys(self.questions)
        return False

    def receive(self, question: Question, answer: Answer) -> bool:
        """Store an answer; return whether all questions are answered now."""
        self.answers[question] = answer
        self.missing.pop(question, None)
        return not self.missing
