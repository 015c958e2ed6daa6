"""Circuit breakers of a judge: one for the judge, and one for each prompt.

The circuit of the judge counts outages (timeouts, lost connections, 429, 5xx, refused credentials): while it is open, no
question is asked. The circuit of a prompt counts replies without a verdict: while it is open, questions with that prompt are
skipped and all others are asked as before.

A closed circuit admits all questions. After `judge.breaker_failures` failures in a row it opens and admits none. After the
wait it is half open: it admits a single question, whose answer closes the circuit or opens it for twice as long.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.judges.base import JudgeFailure, Verdict, metric_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Question

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
        tried, self._trying = self._trying, False
        self.failures += 1
        self.last = failure
        if not tried and (self._until_s is not None or self.failures < self._limit):
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
        self._judge = self._new()
        self._prompts: dict[tuple[str, str], _Circuit] = {}

    @property
    def state(self) -> BreakerState:
        """The most severe state among the circuits that conversations wait for: the judge's, and those of scoring's own prompts.

        Rubrics are not included: without a rubric's verdict a metric is missing, and no conversation waits.
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
            now_s, prompt = self._clock(), self._prompt(question)
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
            now_s, prompt = self._clock(), self._prompt(question)
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
                answers_again = self._judge.succeed()
                wait_s = prompt.fail(now_s, failure) if failure is not None else None
                reads_again = failure is None and prompt.succeed()
                message = (
                    "judge %s gave no verdict on %d questions in a row with prompt %s: this prompt is paused for %g s"
                )
                args = (self._name, prompt.failures, metric_of(question), wait_s)
                if answers_again or reads_again:
                    _log.warning("judge %s responds again", self._name)
        if wait_s is not None:  # the failure's own message may contain content, and is not logged
            _log.warning(message, *args)

    def release(self, question: Question) -> None:
        """Record that an admitted question has no result: another one may be tried."""
        with self._lock:
            self._judge.drop()
            self._prompt(question).drop()

    def not_asked(self, question: Question) -> NotAsked:
        """Return the failure of a question that is not asked, with the reason."""
        with self._lock:
            now_s, prompt = self._clock(), self._prompt(question)
            of_prompt = prompt.state(now_s).state != "closed"
            circuit = prompt if of_prompt else self._judge
            state, last = circuit.state(now_s), circuit.last
        why = f"judge {self._name} failed {state.failures} times in a row"
        if of_prompt:
            name = metric_of(question)
            why = f"judge {self._name} gave no verdict on {state.failures} questions in a row with prompt {name}"
        lastly = "" if last is None else f", last: {last.message[:_LAST_CHARACTERS]}"
        when = f"in {state.retry_in_s:.0f} s" if state.retry_in_s >= 1 else "soon"
        return NotAsked(
            reason="judge_error",
            message=f"not asked: {why}{lastly}; it is tried again {when} (judge.breaker_failures, judge.breaker_wait_s)",
            waits=not of_prompt or question.kind != "rubric",
        )

    def _prompt(self, question: Question) -> _Circuit:
        key = (question.kind, metric_of(question))
        return self._prompts.get(key) or self._prompts.setdefault(key, self._new())

    def _new(self) -> _Circuit:
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
        """Wait; return False, without or before the full wait, if the run gives up or should stop."""
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
