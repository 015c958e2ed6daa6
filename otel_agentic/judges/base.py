"""The plug-in point `Judge` (questions, verdicts, failures), and the circuit breakers that protect a failing judge.

A judge receives questions and returns one verdict for each, in the same order. A question that could not be judged yields a
`JudgeFailure`, never an exception or a score: a failure of the judge is not a failure of the agent.

There is one circuit for the judge, and one for each prompt. The circuit of the judge counts outages (timeouts, lost
connections, 429, 5xx, refused credentials): while it is open, no question is asked. The circuit of a prompt counts replies
without a verdict: while it is open, questions with that prompt are skipped and all others are asked as before. A closed circuit
admits all questions. After `judge.breaker_failures` failures in a row it opens and admits none. After the wait it is half open:
it admits a single question, whose answer closes the circuit or opens it for twice as long.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings

FailureReason = Literal["judge_error", "budget_exhausted"]
#: What failed. `outage`: the judge does not respond, possibly temporarily. `refused`: the provider rejects the credentials or
#: wants money, so a person must act. `prompt`: the judge replies, but never with a verdict to this prompt. `question`: this
#: question alone.
FailureKind = Literal["outage", "refused", "prompt", "question"]
QuestionKind = Literal["answer", "parameter", "utilization", "rubric"]
#: The requested reply, in addition to the reasons: a number, one of several labels, or a list of texts.
ReplyKind = Literal["score", "label", "texts"]
#: The field that lists the accepted answers beyond the expected one.
ALSO_ACCEPTED: Final = "also_accepted"
#: Minimum number of labels: a single one leaves nothing to choose.
_FEWEST_LABELS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyForm:
    """The form of a reply: reasons, followed by a score in [`low`, `high`], one of `labels`, or at most `most` texts."""

    kind: ReplyKind = "score"
    low: float = 0.0
    high: float = 1.0
    labels: tuple[str, ...] = ()
    most: int = 20

    def __post_init__(self) -> None:
        """Raise ValueError if no reply can have this form, or a reply would be ambiguous."""
        if self.kind == "score" and not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low {self.low:g}, high {self.high:g}; low must be below high, and both finite")
        distinct = {label.strip().casefold() for label in self.labels}
        if self.kind == "label" and (
            len(distinct) < _FEWEST_LABELS or len(distinct) < len(self.labels) or "" in distinct
        ):
            raise ValueError(f"labels {self.labels!r}; give two or more that differ in more than case and white space")
        if self.kind == "texts" and self.most < 1:
            raise ValueError(f"most {self.most}; allowed: 1 or more")


class JsonLines(str):
    """A text of JSON objects, one a line, as material of a question: a model receives it as a list, without escapes.

    Untrusted text must not become one; texts of its objects may be untrusted.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """How a model judges material of any form: instructions, and the form of its reply.

    `name` is the name of the prompt, as listed by `prompts show`; `version` increases with every change of the instructions.
    `asides` are the names of texts that may accompany questions of other rubrics about the same material in one call: facts of
    the same conversation, such as which call is meant. An annotation is never one, or it would influence other metrics.
    """

    name: str
    version: str
    instructions: str
    form: ReplyForm
    asides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One answer to be judged; all texts are untrusted input.

    `expected` is the annotated answer, `also_accepted` are further answers that are equally right, `answer` is the agent's
    answer, `not_answer` a text that it must not contain (None: no restriction). `threshold` is the score, in [0, 1], at which
    this answer passes; the score is that of the best matching accepted answer.

    For kind `parameter`, `expected` and `answer` are the expected and the actual value as JSON, and `query` names the tool and
    its parameter. For kind `utilization`, `expected` is the result of a tool call and `answer` the answer that follows it.

    For kind `rubric`, `rubric` defines how `material` (texts by name) is judged; the other texts are empty, see `rubric_question`.
    """

    query: str
    expected: str
    answer: str
    threshold: float
    not_answer: str | None = None
    kind: QuestionKind = "answer"
    rubric: Rubric | None = None
    material: tuple[tuple[str, str], ...] = ()
    also_accepted: tuple[str, ...] = ()

    @property
    def accepted_answers(self) -> tuple[str, ...]:
        """All accepted answers, in the annotated order.

        >>> Question(query="2+2?", expected="4", answer="four", threshold=0.7, also_accepted=("four",)).accepted_answers
        ('4', 'four')
        """
        return (self.expected, *self.also_accepted)

    @property
    def form(self) -> ReplyForm | None:
        """The form of the reply, None for a score from 0 to 1, as for all questions without a rubric."""
        return None if self.rubric is None else self.rubric.form

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """All texts of the question by name: the material of a rubric, or the texts of the question itself.

        Each further accepted answer is a text of its own, under the same name.
        """
        if self.rubric is not None:
            return self.material
        also = ((ALSO_ACCEPTED, text) for text in self.also_accepted)
        texts = (("query", self.query), ("expected", self.expected), *also, ("answer", self.answer))
        return texts if self.not_answer is None else (*texts, ("not_answer", self.not_answer))

    def __post_init__(self) -> None:
        """Raise ValueError if a question of kind `rubric` has no rubric, or one of another kind has one."""
        if (self.kind == "rubric") != (self.rubric is not None):
            raise ValueError(f"kind {self.kind!r}: only a question of kind 'rubric' has a rubric, see rubric_question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's answer: `score` in [0, 1] and its reasons.

    For kind `rubric`, `score` is in the range of the reply form, and 0 if that requests a `label` or `texts`.

    `model`: None for a judge without a model. `tries` counts calls of the model, `latency_s` is the total of their seconds.
    `cost_usd`: None if the price is unknown. `cached`: taken from an earlier evaluation.

    `unsure`: the judge does not decide, because `score` is between its failing and its passing threshold. The turn is then
    `not_evaluated: judge_unsure`, and its score is recorded.
    """

    score: float
    reasoning: str
    model: str | None = None
    tries: int = 1
    latency_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    cached: bool = False
    label: str | None = None
    texts: tuple[str, ...] = ()
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFailure:
    """Why there is no verdict: the judge failed after its retries, or was not called because its budget is exhausted.

    `kind` decides which questions are skipped after several failures in a row, see `Breaker`: all after an outage or a
    refusal, those of the same prompt after unreadable replies, none after failures of single questions.
    """

    reason: FailureReason
    message: str
    kind: FailureKind = "question"
    model: str | None = None
    tries: int = 0
    latency_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@runtime_checkable
class Judge(Protocol):
    """A judge of answers (entry-point group `otel_agentic.judges`).

    `name` and `version` are part of the evaluator version: with a new version, all answers are judged again. A judge
    that accepts further kinds of questions declares an attribute `kinds`, see `kinds_of`. A judge that ignores the
    threshold of a question declares `reads_threshold = False`: its verdicts then apply to any threshold. A judge whose
    scores are calibrated probabilities of being right declares `calibrated = True`: they indicate how far its verdicts
    shift a pass rate.
    """

    name: str
    version: str

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Judge:
        """Return the judge for the settings.

        Args:
            settings: limits and timeouts, for judges that call a model.
            argument: the text after the colon in `--judge name:argument`, None without a colon.

        Raises:
            UsageError: the argument is missing or not supported.
        """
        ...

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure per question, in order."""
        ...


@runtime_checkable
class StreamingJudge(Judge, Protocol):
    """A judge that yields each verdict when it is available, so that it is stored before the next one is paid for."""

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (number, verdict or failure) in order of completion, once for each numbered question.

        Questions are taken one at a time as capacity allows: the caller may stop providing them at any time.
        """
        ...


@runtime_checkable
class BudgetAwareJudge(StreamingJudge, Protocol):
    """A judge that requests permission for every call beyond the first one of a question: retries, votes, canaries.

    `permit` returns whether one more call may be spent on a question. It is called from any thread, one at a time per
    question. The owner of the budget sets it; by default it allows every call.
    """

    permit: Callable[[Question], bool]

    def estimated_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, of one call for a question."""
        ...


@runtime_checkable
class PanelJudge(BudgetAwareJudge, Protocol):
    """A judge that answers several questions about the same material in one call, a panel."""

    def panel_key(self, question: Question) -> Hashable | None:
        """Return a key that is equal for questions that may be asked in one call, None for one that is asked by itself."""
        ...

    def stream_panels(
        self, panels: Iterable[Sequence[tuple[int, Question]]]
    ) -> Iterator[tuple[int, Verdict | JudgeFailure]]:
        """Yield (number, verdict or failure) in order of completion, once for each numbered question of each panel."""
        ...

    def added_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, that a question adds to a panel."""
        ...

    def expected_tokens(self, panel: Sequence[Question]) -> tuple[int, int]:
        """Return the estimated number of input and output tokens of the call for a panel or a single question."""
        ...


class JudgeCache(Protocol):
    """Verdicts of earlier evaluations, by `question_key`. Failures are not reused: their questions are asked again."""

    def get(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Return the stored verdicts by key; keys without one are absent."""
        ...

    def put(self, key: str, verdict: Verdict | JudgeFailure, question: Question) -> None:
        """Record the result of a question, which is durable after the next `flush` at the latest.

        Args:
            key: cache key of the question, see `question_key`.
            verdict: the verdict or failure.
            question: the question; `metric_of` returns the name of its metric.
        """
        ...

    def flush(self) -> None:
        """Block until everything recorded before is durable."""
        ...


class Budget(Protocol):
    """The judge's budget for the current window; used by one thread at a time, not always the same.

    An optional attribute `used_up` is a text that names the reached limit and its setting.
    """

    def allows(self, *, calls: int, tokens: int) -> bool:
        """Return whether that many more model calls and tokens (an estimate) may be spent."""
        ...

    def spend(self, verdict: Verdict | JudgeFailure) -> None:
        """Count the cost of a verdict or failure."""
        ...


def kinds_of(judge: Judge) -> frozenset[QuestionKind]:
    """Return the kinds of questions that a judge accepts: its attribute `kinds`, by default answers only."""
    kinds: frozenset[QuestionKind] = getattr(judge, "kinds", frozenset({"answer"}))
    return kinds


def is_calibrated(judge: Judge) -> bool:
    """Return whether the scores of a judge are probabilities, see its attribute `calibrated`."""
    return bool(getattr(judge, "calibrated", False))


def metric_of(question: Question) -> str:
    """Return the name of the prompt for a question: the name of its rubric, or its kind.

    >>> metric_of(Question(query="2+2?", expected="4", answer="four", threshold=0.7))
    'answer'
    """
    return question.kind if question.rubric is None else question.rubric.name


def version_for(judge: Judge, rubric: Rubric | None) -> str:
    """Return the version of a judge for the questions of a rubric, or for questions without a rubric if it is None.

    A judge may define `version_for(rubric)`. A change of the texts that it sends along with a rubric then does not
    cause other questions to be judged again.
    """
    rubric_version: Callable[[Rubric], str] | None = getattr(judge, "version_for", None)
    return judge.version if rubric is None or rubric_version is None else rubric_version(rubric)


def rubric_question(rubric: Rubric, /, **material: str) -> Question:
    """Return a question about some material; its texts may be untrusted, its names must not be.

    Raises:
        TypeError: a text of the material is not a string, such as None for an answer that was not recorded; names it.

    >>> form = ReplyForm(kind="label", labels=("yes", "no"))
    >>> rubric_question(Rubric(name="polite", version="1", instructions="Is it polite?", form=form), answer="Hi").material
    (('answer', 'Hi'),)
    """
    for name, text in material.items():
        if not isinstance(text, str):
            raise TypeError(f"rubric {rubric.name}: the material {name!r} is {type(text).__name__}; allowed: texts")
    return Question(
        query="",
        expected="",
        answer="",
        threshold=0.0,
        kind="rubric",
        rubric=rubric,
        material=tuple(material.items()),
    )


def question_key(version: str, question: Question) -> str:
    """Return the cache key of a question: a hash of the evaluator version and the content.

    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> question_key("exact-1", question) == question_key("exact-2", question)
    False
    """
    payload = asdict(question)
    if question.rubric is None:  # verdicts stored by releases without rubrics stay valid
        del payload["rubric"], payload["material"]
    else:  # verdicts stored by releases without panels stay valid
        del payload["rubric"]["asides"]
    if not question.also_accepted:  # likewise for releases without lists of accepted answers
        del payload["also_accepted"]
    content = json.dumps([version, payload], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


State = Literal["closed", "half_open", "open"]
Admission = Literal["admitted", "judge_open", "prompt_open"]

_log = logging.getLogger(__name__)
#: The maximum wait, as a multiple of the first.
_LONGEST: Final = 20
#: By increasing severity.
_STATES: Final[tuple[State, ...]] = ("closed", "half_open", "open")
#: How often a waiting run checks whether it should stop, in seconds.
_LOOK_S: Final = 0.2
#: Characters of the last failure that are quoted in an explanation.
_LAST_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked(JudgeFailure):
    """A question that was not asked because a circuit is open: it has no cost and can be asked later.

    `waits`: a running collector postpones the question. False for a rubric without readable replies: its metric is a
    `judge_error` at once, so that a broken rubric is noticed.
    """

    waits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """The state of a breaker: failures in a row, seconds until the next try, and how often it opened."""

    state: State
    failures: int
    retry_in_s: float
    opened: int


class _Circuit:
    """Counts failures in a row; not thread-safe."""

    def __init__(self, limit: int, wait_s: float) -> None:
        self._limit = limit
        self._wait_s = wait_s
        self.failures = 0
        self.opened = 0
        self._opened_in_a_row = 0
        self._until_s: float | None = None
        self._trying = False
        self.last: JudgeFailure | None = None

    def state(self, now_s: float) -> BreakerState:
        left_s = 0.0 if self._until_s is None else max(0.0, self._until_s - now_s)
        state: State = "closed" if self._until_s is None else "open" if left_s > 0 else "half_open"
        return BreakerState(state=state, failures=self.failures, retry_in_s=left_s, opened=self.opened)

    def admits(self, now_s: float) -> bool:
        """Return whether a question is admitted; a half-open circuit admits one at a time."""
        return self._until_s is None or (not self._trying and now_s >= self._until_s)

    def enter(self) -> None:
        """Record that an admitted question is being asked."""
        self._trying = self._until_s is not None

    def drop(self) -> None:
        """Record that a question ended without a result for this circuit: another one may be tried."""
        self._trying = False

    def succeed(self) -> bool:
        """Close the circuit; return whether it was open."""
        was_open = self._until_s is not None
        self.failures, self._opened_in_a_row, self._until_s, self._trying = 0, 0, None, False
        return was_open

    def fail(self, now_s: float, failure: JudgeFailure) -> float | None:
        """Count a failure; return for how many seconds the circuit opens, or None if its state is unchanged."""
        was_trial, self._trying = self._trying, False
        self.failures += 1
        self.last = failure
        if not was_trial and (self._until_s is not None or self.failures < self._limit):
            return None
        wait_s = self._wait_s * min(2.0 ** min(self._opened_in_a_row, _LONGEST), _LONGEST)
        self.opened += 1
        self._opened_in_a_row += 1
        self._until_s = now_s + wait_s
        return wait_s


class Breaker:
    """The circuits of one judge, shared by all its callers. Thread-safe."""

    def __init__(self, settings: JudgeSettings, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with closed circuits.

        Args:
            settings: number of failures that open a circuit, and the first wait.
            name: name of the judge, for messages.
            clock: monotonic clock in seconds.
        """
        self._settings = settings
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._judge = self._new_circuit()
        self._prompts: dict[tuple[str, str], _Circuit] = {}

    @property
    def state(self) -> BreakerState:
        """The most severe state among the circuits that conversations wait for: the judge's, and the scoring prompts'.

        Rubrics are not included: without a rubric's verdict a metric is missing, and no conversation waits for it.
        """
        with self._lock:
            now_s = self._clock()
            circuits = [self._judge, *(circuit for (kind, _), circuit in self._prompts.items() if kind != "rubric")]
            states = [circuit.state(now_s) for circuit in circuits]
        worst = max(states, key=lambda state: (_STATES.index(state.state), state.retry_in_s, state.failures))
        return BreakerState(
            state=worst.state,
            failures=max(state.failures for state in states),
            retry_in_s=worst.retry_in_s,
            opened=sum(state.opened for state in states),
        )

    @property
    def outage_s(self) -> float | None:
        """Seconds until an unresponsive judge is tried again; None if waiting does not help.

        It does not help if the judge responds, or if it refuses the credentials, which is permanent.
        """
        with self._lock:
            judge = self._judge.state(self._clock())
            is_outage = self._judge.last is not None and self._judge.last.kind == "outage"
        return judge.retry_in_s if judge.state != "closed" and is_outage else None

    def admit(self, question: Question) -> Admission:
        """Return whether a question may be asked now, or which circuit is open."""
        with self._lock:
            now_s, prompt = self._clock(), self._prompt_circuit(question)
            if not prompt.admits(now_s):
                return "prompt_open"
            if not self._judge.admits(now_s):
                return "judge_open"
            self._judge.enter()
            prompt.enter()
            return "admitted"

    def record(self, question: Question, answer: Verdict | JudgeFailure) -> None:
        """Count the result of a question in the circuits that it concerns."""
        failure = answer if isinstance(answer, JudgeFailure) else None
        if failure is not None and (isinstance(failure, NotAsked) or failure.reason != "judge_error"):
            self.release(question)
            return
        with self._lock:
            now_s, prompt = self._clock(), self._prompt_circuit(question)
            if failure is not None and failure.kind in {"outage", "refused"}:
                prompt.drop()
                wait_s, failures = self._judge.fail(now_s, failure), self._judge.failures
                message = "judge %s failed %d times in a row: it is not called for %g s, and its questions wait"
                args: tuple[object, ...] = (self._name, failures, wait_s)
            elif failure is not None and failure.kind == "question":
                self._judge.drop()
                prompt.drop()
                return
            else:
                judge_recovered = self._judge.succeed()
                wait_s = prompt.fail(now_s, failure) if failure is not None else None
                prompt_recovered = failure is None and prompt.succeed()
                message = (
                    "judge %s gave no verdict on %d questions in a row with prompt %s: this prompt is paused for %g s"
                )
                args = (self._name, prompt.failures, metric_of(question), wait_s)
                if judge_recovered or prompt_recovered:
                    _log.warning("judge %s responds again", self._name)
        if wait_s is not None:  # the failure's own message may contain content, and is not logged
            _log.warning(message, *args)

    def release(self, question: Question) -> None:
        """Record that an admitted question has no result: another one may be tried."""
        with self._lock:
            self._judge.drop()
            self._prompt_circuit(question).drop()

    def not_asked(self, question: Question) -> NotAsked:
        """Return the failure of a question that is not asked, with the reason."""
        with self._lock:
            now_s, prompt = self._clock(), self._prompt_circuit(question)
            prompt_paused = prompt.state(now_s).state != "closed"
            circuit = prompt if prompt_paused else self._judge
            state, last = circuit.state(now_s), circuit.last
        why = f"judge {self._name} failed {state.failures} times in a row"
        if prompt_paused:
            name = metric_of(question)
            why = f"judge {self._name} gave no verdict on {state.failures} questions in a row with prompt {name}"
        last_failure = "" if last is None else f", last: {last.message[:_LAST_CHARACTERS]}"
        when = f"in {state.retry_in_s:.0f} s" if state.retry_in_s >= 1 else "soon"
        return NotAsked(
            reason="judge_error",
            message=f"not asked: {why}{last_failure}; it is tried again {when} (judge.breaker_failures, judge.breaker_wait_s)",
            waits=not prompt_paused or question.kind != "rubric",
        )

    def _prompt_circuit(self, question: Question) -> _Circuit:
        key = (question.kind, metric_of(question))
        return self._prompts.get(key) or self._prompts.setdefault(key, self._new_circuit())

    def _new_circuit(self) -> _Circuit:
        return _Circuit(self._settings.breaker_failures, self._settings.breaker_wait_s)


class Patience:
    """Limits how long a run waits for an unresponsive judge, in total since its last verdict."""

    def __init__(
        self,
        longest_s: float,
        stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start without any wait.

        Args:
            longest_s: seconds after which the run gives up.
            stop: returns True to end a wait early.
            sleep: waits a number of seconds.
        """
        self._longest_s = longest_s
        self._stop = stop
        self._sleep = sleep
        self._waited_s = 0.0

    def wait(self, wait_s: float) -> bool:
        """Wait, and return whether the run continues; it skips or shortens the wait if it gives up or should stop."""
        wait_s = max(wait_s, _LOOK_S)
        if self._waited_s + wait_s > self._longest_s:
            return False
        left_s = wait_s
        while left_s > 0 and not self._stop():
            step_s = min(left_s, _LOOK_S)
            self._sleep(step_s)
            left_s -= step_s
            self._waited_s += step_s
        return not self._stop()

    def answered(self) -> None:
        """Record a verdict: the judge responds again."""
        self._waited_s = 0.0
