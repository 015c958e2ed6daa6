"""Evaluators over conversations: those that compute one after the other, those that ask all together.

Whatever an evaluator does, each conversation gets what the others say of it: one that raises, or breaks its contract, has
abstained.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.checked import checked_scores
from otel_agentic.evaluators.needs import first_missing
from otel_agentic.evaluators.registry import asks, is_plain
from otel_agentic.judges.base import JudgeFailure, Question, Verdict

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import Asking, AskingEvaluator, Evaluator, Subject
    from otel_agentic.scoring.model import NotEvaluatedReason

#: What a stranger's evaluator may raise: one that ends the process, or whose own task was cancelled, fails like any other.
RAISED: Final = (Exception, SystemExit, CancelledError)
#: An evaluator that has not come to an end by then never will.
_ROUNDS: Final = 50
Answer: TypeAlias = Verdict | JudgeFailure
#: Gives (number, answer) for some questions, in order of completion; one that is left out stays open.
Ask: TypeAlias = Callable[[Sequence[Question]], Iterable[tuple[int, Answer]]]


class Ran(NamedTuple):
    """What an evaluator says of the subject at a `place`; `faults` are what it did wrong, one sentence each."""

    place: int
    evaluator: Evaluator | AskingEvaluator
    scores: tuple[MetricScore, ...]
    faults: tuple[str, ...] = ()


def evaluate(
    evaluators: Sequence[Evaluator | AskingEvaluator], subjects: Sequence[Subject], ask: Ask | None = None
) -> Iterator[Ran]:
    """Yield what each evaluator says of each conversation: at least one score, or one abstention.

    All questions that can be asked at once are given to `ask` together; a conversation goes on as soon as its own answers
    are in. What it raises anew is asked in another round. An evaluator whose questions were not all answered is left out.

    Args:
        evaluators: those that compute, and those that ask.
        subjects: the conversations.
        ask: asks a judge; None where no evaluator asks.
    """
    waiting: list[_Open] = []
    for place, subject in enumerate(subjects):
        for evaluator in evaluators:
            lacking = first_missing(subject, evaluator.needs)
            if lacking is not None:
                yield Ran(place, evaluator, abstentions(evaluator, *lacking))
            elif asks(evaluator):
                waiting.append(_Open(place=place, evaluator=evaluator, subject=subject))
            elif is_plain(evaluator):
                yield _computed(place, evaluator, subject)
    if waiting and ask is not None:
        yield from _asked(waiting, ask)


def abstentions(
    evaluator: Evaluator | AskingEvaluator, reason: NotEvaluatedReason, explanation: str
) -> tuple[MetricScore, ...]:
    """Return that there is no score of any metric of an evaluator, and why."""
    return tuple(MetricScore(name=metric.name, reason=reason, explanation=explanation) for metric in evaluator.metrics)


def _computed(place: int, evaluator: Evaluator, subject: Subject) -> Ran:
    try:
        found = list(evaluator.evaluate(subject))
    except RAISED as error:
        return _failed(place, evaluator, error)
    return _checked(place, evaluator, subject, found)


def _checked(place: int, evaluator: Evaluator | AskingEvaluator, subject: Subject, found: Sequence[object]) -> Ran:
    scores, faults = checked_scores(evaluator, subject.conversation, found)
    if scores:
        return Ran(place, evaluator, tuple(scores), tuple(faults))
    told = faults[0] if faults else f"evaluator {evaluator.name} has nothing to say of this conversation"
    return Ran(place, evaluator, abstentions(evaluator, "no_data", told), tuple(faults))


def _failed(place: int, evaluator: Evaluator | AskingEvaluator, error: BaseException) -> Ran:
    told = f"evaluator {evaluator.name} failed: {type(error).__name__}"
    detail = " ".join(str(error).split())[:300]
    return Ran(place, evaluator, abstentions(evaluator, "no_data", f"{told}: {detail}" if detail else told), (told,))


@dataclass(slots=True, kw_only=True)
class _Open:
    """An evaluator that asks about a conversation, between two rounds."""

    place: int
    evaluator: AskingEvaluator
    subject: Subject
    asking: Asking | None = None
    questions: Sequence[Question] = ()
    answers: dict[Question, Answer] = field(default_factory=dict)
    missing: set[Question] = field(default_factory=set)

    def step(self) -> Ran | None:
        """Go on with the answers that are in: return what came out, None where there are more questions."""
        try:
            for _ in range(_ROUNDS):
                self._go_on()
                if self.missing:
                    return None
            return self.unending()
        except StopIteration as ended:
            found = ended.value
        except RAISED as error:
            return _failed(self.place, self.evaluator, error)
        if found is None or isinstance(found, str):
            return _failed(self.place, self.evaluator, TypeError("ask(subject) must return its scores"))
        try:
            return _checked(self.place, self.evaluator, self.subject, list(found))
        except TypeError as error:
            return _failed(self.place, self.evaluator, error)

    def unending(self) -> Ran:
        """Return that it asks on and on."""
        return _failed(self.place, self.evaluator, RuntimeError(f"it asks on after {_ROUNDS} rounds"))

    def _go_on(self) -> None:
        if self.asking is None:
            self.asking = self.evaluator.ask(self.subject)
            given = next(self.asking)
        else:
            given = self.asking.send([self.answers[question] for question in self.questions])
        strangers: list[Any] = list(given)
        strange = next((one for one in strangers if not isinstance(one, Question)), None)
        if strange is not None:
            message = f"ask(subject) yields lists of Question, not of {type(strange).__name__}"
            raise TypeError(message)
        self.questions = strangers
        self.answers = {}
        self.missing = set(self.questions)

    def heard(self, question: Question, answer: Answer) -> bool:
        """Note an answer; return whether it was the last one that was missing."""
        self.answers[question] = answer
        self.missing.discard(question)
        return not self.missing

    def close(self) -> None:
        """End the evaluation where it stands."""
        if self.asking is not None and hasattr(self.asking, "close"):
            self.asking.close()


def _asked(begun: Sequence[_Open], ask: Ask) -> Iterator[Ran]:
    waiting: list[_Open] = []
    try:
        for one in begun:
            found = one.step()
            if found is None:
                waiting.append(one)
            else:
                yield found
        for _ in range(_ROUNDS):
            if not waiting:
                return
            asked, waiting = sorted(waiting, key=lambda one: one.place), []  # as given, not as answered
            for ran in _round(asked, ask):
                if isinstance(ran, Ran):
                    yield ran
                else:
                    waiting.append(ran)
        for one in waiting:
            yield one.unending()
    finally:
        for one in begun:
            _end(one)


def _end(one: _Open) -> None:
    with suppress(*RAISED):  # what is left open says nothing, however it ends
        one.close()


def _round(asked: Sequence[_Open], ask: Ask) -> Iterator[Ran | _Open]:
    """Ask everything once; yield what came out, and whoever has more questions."""
    places: dict[Question, list[_Open]] = {}
    for one in asked:
        for question in dict.fromkeys(one.questions):
            places.setdefault(question, []).append(one)
    questions = list(places)
    for number, answer in ask(questions):
        question = questions[number]
        for one in places[question]:
            if one.heard(question, answer):
                found = one.step()
                yield one if found is None else found
