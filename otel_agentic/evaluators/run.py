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

    from otel_agentic.evaluators.base import AnyEvaluator, AskingEvaluator, Evaluator, JudgeDialogue, Metric

if TYPE_CHECKING:
    Answers = Sequence[Verdict | JudgeFailure]


def together(askings: Sequence[JudgeDialogue]) -> Generator[list[Question], Answers, list[Sequence[MetricScore]]]:
    """Yield the questions of all evaluations, round by round, and return the scores of each, in their order."""
    results: dict[int, Sequence[MetricScore]] = {}
    answers: dict[int, Answers | None] = dict.fromkeys(range(len(askings)))
    while answers:
        requested: dict[int, Sequence[Question]] = {}
        for position, verdicts in answers.items():
            try:
                requested[position] = _questions(askings[position], verdicts)
            except StopIteration as ended:
                results[position] = ended.value
        if not requested:
            break
        actual = iter((yield [question for questions in requested.values() for question in questions]))
        answers = {index: [next(actual) for _ in questions] for index, questions in requested.items()}
    return [results[index] for index in range(len(askings))]


def _questions(requests: JudgeDialogue, verdicts: Answers | None) -> Sequence[Question]:
    """Return the next questions of an evaluation; an invalid question raises inside it, and the others continue."""
    requested: object = next(requests) if verdicts is None else requests.send(verdicts)
    if isinstance(requested, Iterable):
        questions = list(requested)
        if all(isinstance(question, Question) for question in questions):
            return questions
    return requests.throw(TypeError(f"it yields a {type(requested).__name__}; allowed: lists of Question"))


_ALLOWED: Final = "a number, True or False, one of its labels, a MetricScore, None, or several of these"
#: The name, among `details` of an abstention, of what went wrong in an evaluator. A user's own names are others.
FAULT: Final = "otel_agentic.fault"
#: Characters of the text of an exception that are stored.
_EXCEPTION_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a function is asked about: a conversation, or one turn of it."""

    evaluator: str
    metrics: tuple[Metric, ...]
    conversation: Conversation
    turn: Turn | None = None

    @property
    def description(self) -> str:
        """The place in words; turns are counted from 1."""
        conversation = f"conversation {self.conversation.conversation_id}"
        return conversation if self.turn is None else f"turn {self.turn.index + 1} of {conversation}"

    def scores(self, stated: object) -> Iterator[MetricScore]:
        """Yield the scores of a value that a function returned.

        Raises:
            TypeError: the value is of an unsupported type.
        """
        if stated is None:
            yield from self.abstentions(f"evaluator {self.evaluator} returned None for {self.description}")
        elif isinstance(stated, JudgeFailure):
            yield from self.abstentions(stated.message, stated.reason)
        elif isinstance(stated, Iterable) and not isinstance(stated, str | bytes | Mapping):
            for item in stated:
                yield self.score(item)
        else:
            yield self.score(stated)

    def score(self, stated: object) -> MetricScore:
        """Return the score of one value.

        Raises:
            TypeError: the value is of an unsupported type.
        """
        if isinstance(stated, MetricScore):
            return replace(stated, turn_index=self._turn_index) if stated.turn_index is None else stated
        if not isinstance(stated, str | Real | JudgeFailure) and stated is not None:
            raise TypeError(f"it returned {type(stated).__name__}; allowed: {_ALLOWED}")
        if len(self.metrics) != 1:
            names = ", ".join(metric.name for metric in self.metrics)
            raise TypeError(
                f"it returned {stated!r}; with several metrics, return a MetricScore that names one of: {names}"
            )
        if stated is None:
            return self._abstention(self.metrics[0], f"evaluator {self.evaluator} returned None for {self.description}")
        if isinstance(stated, JudgeFailure):
            return self._abstention(self.metrics[0], stated.message, stated.reason)
        name = self.metrics[0].name
        if isinstance(stated, str):
            return MetricScore(name=name, label=stated, turn_index=self._turn_index)
        return MetricScore(name=name, value=float(stated), turn_index=self._turn_index)

    def abstentions(self, explanation: str, reason: NotEvaluatedReason = "no_data") -> list[MetricScore]:
        """Return that there is no score of any metric, and why."""
        return [self._abstention(metric, explanation, reason) for metric in self.metrics]

    def failed(self, error: Exception, provided: Iterable[MetricScore]) -> list[MetricScore]:
        """Return abstentions for the metrics without a score before the function raised.

        `details` hold the fault of the evaluator, without the location, so that equal faults count as one.
        """
        there = {score.name for score in provided}
        text = " ".join(str(error).split())[:_EXCEPTION_CHARACTERS]
        raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
        explanation = f"evaluator {self.evaluator} failed at {self.description}: {raised}"
        fault = {FAULT: f"evaluator {self.evaluator} failed: {type(error).__name__}"}
        return [
            replace(abstention, details=fault)
            for abstention in self.abstentions(explanation)
            if abstention.name not in there
        ]

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
    """Return the name of the evaluator of a function.

    Raises:
        UsageError: the name is invalid or missing.
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
    """Return the qualified name of a function."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def argument_kind(function: Function, name: str, *, asks: bool) -> Takes:
    """Return the kind of argument of a function, by the annotation of its first parameter.

    Raises:
        UsageError: the
    annotation is missing or unknown, or the function has more parameters or is async.
    """
    calls = (function, getattr(function, "__call__", None))  # noqa: B004 — it is looked at
    if any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls):
        raise UsageError(f"evaluator {name}: async functions are not supported; pass an ordinary function")
    if asks and not inspect.isgeneratorfunction(function):
        raise UsageError(
            f"evaluator {name}: it has rubrics and yields no questions; a function that asks is a generator function: "
            "`(verdict,) = yield [rubric_question(RUBRIC, ...)]`"
        )
    parameters = list(inspect.signature(function).parameters.values())
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in _VARIABLE
    ]
    known = next((arg for arg in get_args(Takes) if parameters and _says(parameters[0].annotation, arg)), None)
    if known is None or len(required) > 1:
        raise UsageError(
            f"evaluator {name}: the function must take one argument, annotated with one of: {', '.join(get_args(Takes))}; as in "
            f"def {getattr(function, '__name__', 'name')}(turn: Turn)"
        )
    return cast("Takes", known)


def _says(annotation: object, name: Takes) -> bool:
    """Return whether an annotation means a type; it may be a text, of a name that is imported for type checkers alone."""
    if isinstance(annotation, str):
        return annotation.strip("'\" ").rpartition(".")[2] == name
    return annotation is _TAKES[name]


_REASONS: Final = frozenset(get_args(NotEvaluatedReason))
#: Tolerance of bounds for rounding errors.
_SLACK: Final = 1e-9
_TEXTS: Final = ("explanation", "tool_name", "parameter")
#: Characters shown of an invalid value.
_VALUE_CHARACTERS: Final = 60


def checked_scores(
    evaluator: AnyEvaluator, conversation: Conversation | None, returned: Sequence[object]
) -> tuple[list[MetricScore], list[str]]:
    """Return the scores that can be stored, and the faults of the others, which become abstentions or are dropped.

    Args:
        evaluator: the evaluator that returned them.
        conversation: their conversation, None for a group.
        returned: the returned objects.
    """
    metrics = {metric.name: metric for metric in evaluator.metrics}
    scores: list[MetricScore] = []
    faults: dict[str, None] = {}
    for item in returned:
        problem = next(_problems(item, metrics, conversation), None)
        if problem is not None:
            explanation = f"evaluator {evaluator.name}: {problem}"
            faults[explanation] = None
            item = _instead(item, metrics, conversation, explanation)  # noqa: PLW2901 — of the same place, and the same metric
        if isinstance(item, MetricScore):
            scores.append(_written(item))
            if item.abstained and FAULT in item.details:  # the evaluator caught and reported its own fault
                faults[str(item.details[FAULT])] = None
    return scores, list(faults)


def _written(score: MetricScore) -> MetricScore:
    """Return a score whose texts UTF-8 can hold: one lone surrogate would make the store refuse all that is written with it."""
    payload: dict[str, Any] = {name: text for name in _TEXTS if (text := getattr(score, name)) and not text.isascii()}
    fit = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in payload.items()}
    return score if fit == payload else replace(score, **fit)


def _instead(
    item: object, metrics: Mapping[str, Metric], conversation: Conversation | None, explanation: str
) -> MetricScore | None:
    """Return an abstention in place of a score that violates the contract, None if its metric is unknown."""
    name: Any = getattr(item, "name", None)
    if isinstance(item, MetricScore) and isinstance(name, str) and name in metrics:
        there = conversation is None or next(_place_problems(item, conversation), None) is None
        index = (item.turn_index, item.position) if there else (None, None)
        return MetricScore(
            name=item.name, reason="no_data", explanation=explanation, turn_index=index[0], position=index[1]
        )
    return None


def _problems(item: object, metrics: Mapping[str, Metric], conversation: Conversation | None) -> Iterator[str]:
    if not isinstance(item, MetricScore):
        yield f"gave a {type(item).__name__} instead of a MetricScore"
        return
    name: Any = item.name  # untrusted, as are the other fields
    metric = metrics.get(name) if isinstance(name, str) else None
    if metric is None:
        yield f"metric {item.name!r} is not among those that it names"
        return
    yield from _value_problems(item, metric)
    if item.abstained and not (isinstance(item.reason, str) and item.reason in _REASONS):
        yield f"metric {item.name!r} has neither a value nor a label, and no reason why"
    yield from _text_problems(item)
    if conversation is not None:
        yield from _place_problems(item, conversation)


def _value_problems(score: MetricScore, metric: Metric) -> Iterator[str]:
    value: Any = score.value  # untrusted
    if value is not None:
        if not _finite(value):
            yield f"metric {score.name!r} has the value {_value_text(value)}, which is no finite number"
            return
        low = -math.inf if metric.low is None else metric.low
        high = math.inf if metric.high is None else metric.high
        if not low - _SLACK <= value <= high + _SLACK:
            yield f"metric {score.name!r} has the value {value:g}, outside of {low:g} to {high:g}"
    if score.label is not None and score.label not in metric.labels:
        yield f"metric {score.name!r} has the label {score.label!r}; it names {', '.join(metric.labels) or 'none'}"


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can be
        return False


def _value_text(value: object) -> str:
    message = f"{value:x}" if isinstance(value, int) else repr(value)  # Python writes no more than 4,300 decimal digits
    return message if len(message) <= _VALUE_CHARACTERS else f"{message[:_VALUE_CHARACTERS]}…"


def _text_problems(score: MetricScore) -> Iterator[str]:
    for name in _TEXTS:
        text: Any = getattr(score, name)
        if text is not None and not isinstance(text, str):
            yield f"metric {score.name!r} has {name} of type {type(text).__name__}; text is wanted"
    details: Any = score.details
    if not isinstance(details, Mapping):
        yield f"metric {score.name!r} has details of type {type(details).__name__}; a mapping is wanted"
        return
    try:
        if details:
            orjson.dumps(details, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"metric {score.name!r} has details that JSON cannot hold: {error}"


def _place_problems(score: MetricScore, conversation: Conversation) -> Iterator[str]:
    for name in ("turn_index", "position"):
        index: Any = getattr(score, name)
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            yield f"metric {score.name!r} has the {name} {index!r}, which is no whole number"
            return
    if score.turn_index is None:
        if score.position is not None:
            yield f"metric {score.name!r} names a call (position {score.position}) without its turn"
        return
    turn = next((turn for turn in conversation.turns if turn.index == score.turn_index), None)
    if turn is None:
        yield f"metric {score.name!r} is of turn {score.turn_index!r} (0-based), which the conversation has not"
    elif score.position is not None and all(call.position != score.position for call in turn.calls):
        yield f"metric {score.name!r} is of call {score.position!r} (0-based) of turn {score.turn_index}, which is not there"


#: Exceptions of third-party evaluators: one that exits the process, or whose own task was cancelled, fails like any
#: other.
RAISED: Final = (Exception, SystemExit, CancelledError)
#: An evaluator that has not come to an end by then never will.
_ROUNDS: Final = 50
Answer: TypeAlias = Verdict | JudgeFailure
#: Gives (number, answer) for some questions, in order of completion; one that is left out stays open.
Ask: TypeAlias = Callable[[Sequence[Question]], Iterable[tuple[int, Answer]]]


class Ran(NamedTuple):
    """The scores of an evaluator for the subject with an index; `faults` are its contract violations, one sentence each."""

    place: int
    evaluator: Evaluator | AskingEvaluator
    scores: tuple[MetricScore, ...]
    faults: tuple[str, ...] = ()


def evaluate(
    evaluators: Sequence[Evaluator | AskingEvaluator], subjects: Sequence[Subject], ask: Ask | None = None
) -> Iterator[Ran]:
    """Yield the result of each evaluator for each conversation: at least one score or abstention.

    All questions that can be asked at once are passed to `ask` together; a conversation continues as soon as its own
    answers arrive. Its further questions are asked in another round. An evaluator whose questions were not all answered
    is omitted.

    Args:
        evaluators: those that compute, and those that ask.
        subjects: the conversations.
        ask: asks a judge; may be None if no evaluator asks.
    """
    waiting: list[_Open] = []
    for index, subject in enumerate(subjects):
        for evaluator in evaluators:
            lacking = first_missing(subject, evaluator.needs)
            if lacking is not None:
                yield Ran(index, evaluator, abstentions(evaluator, *lacking))
            elif asks(evaluator):
                waiting.append(_Open(place=index, evaluator=evaluator, subject=subject))
            elif is_plain(evaluator):
                yield _computed(index, evaluator, subject)
    if waiting and ask is not None:
        yield from _ask_all(waiting, ask)


def abstentions(
    evaluator: Evaluator | AskingEvaluator, reason: NotEvaluatedReason, explanation: str
) -> tuple[MetricScore, ...]:
    """Return that there is no score of any metric of an evaluator, and why."""
    return tuple(MetricScore(name=metric.name, reason=reason, explanation=explanation) for metric in evaluator.metrics)


def _computed(index: int, evaluator: Evaluator, subject: Subject) -> Ran:
    try:
        results = list(evaluator.evaluate(subject))
    except RAISED as error:
        return _failed(index, evaluator, error)
    return _checked(index, evaluator, subject, results)


def _checked(index: int, evaluator: Evaluator | AskingEvaluator, subject: Subject, result: Sequence[object]) -> Ran:
    scores, faults = checked_scores(evaluator, subject.conversation, result)
    if scores:
        return Ran(index, evaluator, tuple(scores), tuple(faults))
    message = faults[0] if faults else f"evaluator {evaluator.name} returned no score for this conversation"
    return Ran(index, evaluator, abstentions(evaluator, "no_data", message), tuple(faults))


def _failed(index: int, evaluator: Evaluator | AskingEvaluator, error: BaseException) -> Ran:
    message = f"evaluator {evaluator.name} failed: {type(error).__name__}"
    detail = " ".join(str(error).split())[:300]
    return Ran(
        index, evaluator, abstentions(evaluator, "no_data", f"{message}: {detail}" if detail else message), (message,)
    )


@dataclass(slots=True, kw_only=True)
class _Open:
    """An evaluator that asks about a conversation, between two rounds."""

    place: int
    evaluator: AskingEvaluator
    subject: Subject
    dialogue: JudgeDialogue | None = None
    questions: Sequence[Question] = ()
    answers: dict[Question, Answer] = field(default_factory=dict)
    missing: set[Question] = field(default_factory=set)

    def step(self) -> Ran | None:
        """Continue with the answers: return the result, or None if there are more questions."""
        try:
            for _ in range(_ROUNDS):
                self._go_on()
                if self.missing:
                    return None
            return self.unending()
        except StopIteration as ended:
            result = ended.value
        except RAISED as error:
            return _failed(self.place, self.evaluator, error)
        if result is None or isinstance(result, str):
            return _failed(self.place, self.evaluator, TypeError("ask(subject) must return its scores"))
        try:
            return _checked(self.place, self.evaluator, self.subject, list(result))
        except TypeError as error:
            return _failed(self.place, self.evaluator, error)

    def unending(self) -> Ran:
        """Return that it asks on and on."""
        return _failed(self.place, self.evaluator, RuntimeError(f"it asks on after {_ROUNDS} rounds"))

    def _go_on(self) -> None:
        if self.dialogue is None:
            self.dialogue = self.evaluator.ask(self.subject)
            replies = next(self.dialogue)
        else:
            replies = self.dialogue.send([self.answers[question] for question in self.questions])
        third_party: list[Any] = list(replies)
        strange = next(
            (other_third_party for other_third_party in third_party if not isinstance(other_third_party, Question)),
            None,
        )
        if strange is not None:
            message = f"ask(subject) yields lists of Question, not of {type(strange).__name__}"
            raise TypeError(message)
        self.questions = third_party
        self.answers = {}
        self.missing = set(self.questions)

    def receive(self, question: Question, answer: Answer) -> bool:
        """Note an answer; return whether it was the last one that was missing."""
        self.answers[question] = answer
        self.missing.discard(question)
        return not self.missing

    def close(self) -> None:
        """End the evaluation early."""
        if self.dialogue is not None and hasattr(self.dialogue, "close"):
            self.dialogue.close()


def _ask_all(begun: Sequence[_Open], ask: Ask) -> Iterator[Ran]:
    waiting: list[_Open] = []
    try:
        for evaluation in begun:
            result = evaluation.step()
            if result is None:
                waiting.append(evaluation)
            else:
                yield result
        for _ in range(_ROUNDS):
            if not waiting:
                return
            requested, waiting = sorted(waiting, key=lambda item: item.place), []  # as given, not as answered
            for ran in _round(requested, ask):
                if isinstance(ran, Ran):
                    yield ran
                else:
                    waiting.append(ran)
        for evaluation in waiting:
            yield evaluation.unending()
    finally:
        for evaluation in begun:
            _end(evaluation)


def _end(evaluation: _Open) -> None:
    with suppress(*RAISED):  # an evaluation that did not finish has no result, even if closing it fails
        evaluation.close()


def _round(evaluations: Sequence[_Open], ask: Ask) -> Iterator[Ran | _Open]:
    """Ask all questions once; yield the results, and the evaluations with more questions."""
    waiting_for: dict[Question, list[_Open]] = {}
    for evaluation in evaluations:
        for question in dict.fromkeys(evaluation.questions):
            waiting_for.setdefault(question, []).append(evaluation)
    questions = list(waiting_for)
    for number, answer in ask(questions):
        question = questions[number]
        for evaluation in waiting_for[question]:
            if evaluation.receive(question, answer):
                result = evaluation.step()
                yield evaluation if result is None else result
