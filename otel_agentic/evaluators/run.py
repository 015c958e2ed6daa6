"""Runs evaluators on a conversation: computed ones directly, judged ones with their questions batched, each under its contract.

A score that breaks the contract becomes an abstention with the fault as explanation; an evaluator that raises does not affect others.
"""

from __future__ import annotations

import inspect
import math
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

import orjson

from otel_agentic.conversations.model import Conversation, Turn
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import MetricScore, Subject
from otel_agentic.evaluators.needs import first_missing
from otel_agentic.evaluators.registry import asks, is_plain
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.scoring.model import NotEvaluatedReason

if TYPE_CHECKING:
    from collections.abc import Generator

    from otel_agentic.evaluators.base import AnyEvaluator, Asking, AskingEvaluator, Evaluator, Metric

if TYPE_CHECKING:
    Answers = Sequence[Verdict | JudgeFailure]


def together(askings: Sequence[Asking]) -> Generator[list[Question], Answers, list[Sequence[MetricScore]]]:
    """Yield the questions of all evaluations, round by round, and return the scores of each, in their order."""
    found: dict[int, Sequence[MetricScore]] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(askings)))
    while answers:
        asked: dict[int, Sequence[Question]] = {}
        for place, given in answers.items():
            try:
                asked[place] = _questions(askings[place], given)
            except StopIteration as ended:
                found[place] = ended.value
        if not asked:
            break
        got = iter((yield [question for questions in asked.values() for question in questions]))
        answers = {place: [next(got) for _ in questions] for place, questions in asked.items()}
    return [found[place] for place in range(len(askings))]


def _questions(asking: Asking, given: Answers | None) -> Sequence[Question]:
    """Return what an evaluation asks next; one that asks wrongly is told so where it asks, and the others go on."""
    asked: object = next(asking) if given is None else asking.send(given)
    if isinstance(asked, Iterable):
        questions = list(asked)
        if all(isinstance(one, Question) for one in questions):
            return questions
    return asking.throw(TypeError(f"it yields a {type(asked).__name__}; allowed: lists of Question"))


_ALLOWED: Final = "a number, True or False, one of its labels, a MetricScore, None, or several of these"
#: The name, among `details` of an abstention, of what went wrong in an evaluator. A user's own names are others.
FAULT: Final = "otel_agentic.fault"
#: What is kept of the text of an exception, in characters.
_MAX_TOLD: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a function is asked about: a conversation, or one turn of it."""

    evaluator: str
    metrics: tuple[Metric, ...]
    conversation: Conversation
    turn: Turn | None = None

    @property
    def told(self) -> str:
        """The place in words; turns are counted from 1."""
        conversation = f"conversation {self.conversation.conversation_id}"
        return conversation if self.turn is None else f"turn {self.turn.index + 1} of {conversation}"

    def scores(self, said: object) -> Iterator[MetricScore]:
        """Yield the scores that something is which a function returned.

        Raises:
            TypeError: it is none of what is allowed.
        """
        if said is None:
            yield from self.abstentions(f"evaluator {self.evaluator} says nothing of {self.told}")
        elif isinstance(said, JudgeFailure):
            yield from self.abstentions(said.message, said.reason)
        elif isinstance(said, Iterable) and not isinstance(said, str | bytes | Mapping):
            for one in said:
                yield self.score(one)
        else:
            yield self.score(said)

    def score(self, said: object) -> MetricScore:
        """Return the score that one value is.

        Raises:
            TypeError: it is none of what is allowed.
        """
        if isinstance(said, MetricScore):
            return replace(said, turn_index=self._turn_index) if said.turn_index is None else said
        if not isinstance(said, str | Real | JudgeFailure) and said is not None:
            raise TypeError(f"it returned {type(said).__name__}; allowed: {_ALLOWED}")
        if len(self.metrics) != 1:
            names = ", ".join(metric.name for metric in self.metrics)
            raise TypeError(f"it returned {said!r}; of several metrics, a MetricScore says which is meant: {names}")
        if said is None:
            return self._abstention(self.metrics[0], f"evaluator {self.evaluator} says nothing of {self.told}")
        if isinstance(said, JudgeFailure):
            return self._abstention(self.metrics[0], said.message, said.reason)
        name = self.metrics[0].name
        if isinstance(said, str):
            return MetricScore(name=name, label=said, turn_index=self._turn_index)
        return MetricScore(name=name, value=float(said), turn_index=self._turn_index)

    def abstentions(self, explanation: str, reason: NotEvaluatedReason = "no_data") -> list[MetricScore]:
        """Return that there is no score of any metric, and why."""
        return [self._abstention(metric, explanation, reason) for metric in self.metrics]

    def failed(self, error: Exception, given: Iterable[MetricScore]) -> list[MetricScore]:
        """Return that there is no score of those metrics that were not given before a function raised.

        `details` tell what is counted as a fault of the evaluator: without the place, so that a thousand alike are one.
        """
        there = {score.name for score in given}
        text = " ".join(str(error).split())[:_MAX_TOLD]
        raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
        told = f"evaluator {self.evaluator} failed at {self.told}: {raised}"
        fault = {FAULT: f"evaluator {self.evaluator} failed: {type(error).__name__}"}
        return [replace(one, details=fault) for one in self.abstentions(told) if one.name not in there]

    @property
    def _turn_index(self) -> int | None:
        return None if self.turn is None else self.turn.index

    def _abstention(self, metric: Metric, explanation: str, reason: NotEvaluatedReason = "no_data") -> MetricScore:
        return MetricScore(name=metric.name, reason=reason, explanation=explanation, turn_index=self._turn_index)


if TYPE_CHECKING:
    #: Of a subject, a conversation or a turn; what it returns, see `evaluator`.
    Function = Callable[..., Any]

Takes = Literal["Subject", "Conversation", "Turn"]
_TAKES: Final[Mapping[Takes, type]] = {"Subject": Subject, "Conversation": Conversation, "Turn": Turn}
_VARIABLE: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def name_of(function: Function, name: str | None) -> str:
    """Return the name of the evaluator that is made of a function.

    Raises:
        UsageError: it is none that can be called so, or has no name.
    """
    own = name or getattr(function, "__name__", None)
    if not callable(function):
        raise UsageError(
            f"evaluator {own}: a {type(function).__name__} is not called with one argument; give a function"
        )
    if not own:
        raise UsageError(
            f"an evaluator made of {type(function).__name__} has no name: give one, as in name='house.brief'"
        )
    return str(own)


def whole_name(function: Function) -> str:
    """Return the name of a function with that of what it stands in."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def taken(function: Function, name: str, *, asks: bool) -> Takes:
    """Return what a function is called with, by the annotation of its first parameter.

    Raises:
        UsageError: it has none that is known, takes more, or is none that can be called so.
    """
    calls = (function, getattr(function, "__call__", None))  # noqa: B004 — it is looked at
    if any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls):
        raise UsageError(f"evaluator {name}: an async function, which nobody would await; give an ordinary one")
    if asks and not inspect.isgeneratorfunction(function):
        raise UsageError(
            f"evaluator {name}: it has rubrics and yields no questions; a function that asks is a generator function: "
            "`(verdict,) = yield [rubric_question(RUBRIC, ...)]`"
        )
    parameters = list(inspect.signature(function).parameters.values())
    required = [each for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
    known = next((each for each in get_args(Takes) if parameters and _says(parameters[0].annotation, each)), None)
    if known is None or len(required) > 1:
        raise UsageError(
            f"evaluator {name}: the function has to take one argument, and say which: {', '.join(get_args(Takes))}; as in "
            f"def {getattr(function, '__name__', 'name')}(turn: Turn)"
        )
    return cast("Takes", known)


def _says(annotation: object, name: Takes) -> bool:
    """Return whether an annotation means a type; it may be a text, of a name that is imported for type checkers alone."""
    if isinstance(annotation, str):
        return annotation.strip("'\" ").rpartition(".")[2] == name
    return annotation is _TAKES[name]


_REASONS: Final = frozenset(get_args(NotEvaluatedReason))
#: What the last bits of a sum may be beside a bound.
_SLACK: Final = 1e-9
_TEXTS: Final = ("explanation", "tool_name", "parameter")
#: Characters told of a value that is none.
_SHOWN: Final = 60


def checked_scores(
    evaluator: AnyEvaluator, conversation: Conversation | None, found: Sequence[object]
) -> tuple[list[MetricScore], list[str]]:
    """Return the scores that can be stored, and what is wrong with others: these are abstentions, or left out.

    Args:
        evaluator: whose they are.
        conversation: what they are of, None for a group.
        found: what it gave.
    """
    metrics = {metric.name: metric for metric in evaluator.metrics}
    scores: list[MetricScore] = []
    faults: dict[str, None] = {}
    for one in found:
        problem = next(_problems(one, metrics, conversation), None)
        if problem is not None:
            told = f"evaluator {evaluator.name}: {problem}"
            faults[told] = None
            one = _instead(one, metrics, conversation, told)  # noqa: PLW2901 — of the same place, and the same metric
        if isinstance(one, MetricScore):
            scores.append(_written(one))
            if one.abstained and FAULT in one.details:  # the evaluator caught what went wrong in it, and says so
                faults[str(one.details[FAULT])] = None
    return scores, list(faults)


def _written(one: MetricScore) -> MetricScore:
    """Return a score whose texts UTF-8 can hold: one lone surrogate would make the store refuse all that is written with it."""
    told: dict[str, Any] = {name: text for name in _TEXTS if (text := getattr(one, name)) and not text.isascii()}
    fit = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in told.items()}
    return one if fit == told else replace(one, **fit)


def _instead(
    one: object, metrics: Mapping[str, Metric], conversation: Conversation | None, told: str
) -> MetricScore | None:
    """Return an abstention in the place of a score that breaks the contract, None where nobody knows of what."""
    name: Any = getattr(one, "name", None)
    if isinstance(one, MetricScore) and isinstance(name, str) and name in metrics:
        there = conversation is None or next(_place_problems(one, conversation), None) is None
        place = (one.turn_index, one.position) if there else (None, None)
        return MetricScore(name=one.name, reason="no_data", explanation=told, turn_index=place[0], position=place[1])
    return None


def _problems(one: object, metrics: Mapping[str, Metric], conversation: Conversation | None) -> Iterator[str]:
    if not isinstance(one, MetricScore):
        yield f"gave a {type(one).__name__} instead of a MetricScore"
        return
    name: Any = one.name  # whatever a stranger put there; so with what follows
    metric = metrics.get(name) if isinstance(name, str) else None
    if metric is None:
        yield f"metric {one.name!r} is not among those that it names"
        return
    yield from _value_problems(one, metric)
    if one.abstained and not (isinstance(one.reason, str) and one.reason in _REASONS):
        yield f"metric {one.name!r} has neither a value nor a label, and no reason why"
    yield from _text_problems(one)
    if conversation is not None:
        yield from _place_problems(one, conversation)


def _value_problems(one: MetricScore, metric: Metric) -> Iterator[str]:
    value: Any = one.value  # whatever a stranger put there
    if value is not None:
        if not _finite(value):
            yield f"metric {one.name!r} has the value {_shown(value)}, which is no finite number"
            return
        low = -math.inf if metric.low is None else metric.low
        high = math.inf if metric.high is None else metric.high
        if not low - _SLACK <= value <= high + _SLACK:
            yield f"metric {one.name!r} has the value {value:g}, outside of {low:g} to {high:g}"
    if one.label is not None and one.label not in metric.labels:
        yield f"metric {one.name!r} has the label {one.label!r}; it names {', '.join(metric.labels) or 'none'}"


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can be
        return False


def _shown(value: object) -> str:
    told = f"{value:x}" if isinstance(value, int) else repr(value)  # Python writes no more than 4,300 decimal digits
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _text_problems(one: MetricScore) -> Iterator[str]:
    for name in _TEXTS:
        text: Any = getattr(one, name)
        if text is not None and not isinstance(text, str):
            yield f"metric {one.name!r} has {name} of type {type(text).__name__}; text is wanted"
    details: Any = one.details
    if not isinstance(details, Mapping):
        yield f"metric {one.name!r} has details of type {type(details).__name__}; a mapping is wanted"
        return
    try:
        if details:
            orjson.dumps(details, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"metric {one.name!r} has details that JSON cannot hold: {error}"


def _place_problems(one: MetricScore, conversation: Conversation) -> Iterator[str]:
    for name in ("turn_index", "position"):
        index: Any = getattr(one, name)
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            yield f"metric {one.name!r} has the {name} {index!r}, which is no whole number"
            return
    if one.turn_index is None:
        if one.position is not None:
            yield f"metric {one.name!r} names a call (position {one.position}) without its turn"
        return
    turn = next((turn for turn in conversation.turns if turn.index == one.turn_index), None)
    if turn is None:
        yield f"metric {one.name!r} is of turn {one.turn_index!r} (0-based), which the conversation has not"
    elif one.position is not None and all(call.position != one.position for call in turn.calls):
        yield f"metric {one.name!r} is of call {one.position!r} (0-based) of turn {one.turn_index}, which is not there"


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
