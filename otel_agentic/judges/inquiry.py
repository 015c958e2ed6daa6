"""One question to a model until there is a verdict: retries with waiting times, methods in turn, costs counted."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.judges.apart import unobserved
from otel_agentic.judges.fence import messages
from otel_agentic.judges.forms import form_of
from otel_agentic.judges.ladder import Ladder, message_of, read_output
from otel_agentic.judges.prompts import instructions_of
from otel_agentic.judges.provider import secrets_of
from otel_agentic.judges.retrying import Backoff
from otel_agentic.judges.troubles import CallProblem, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from random import Random

    from langchain_core.language_models import BaseChatModel
    from langchain_core.rate_limiters import BaseRateLimiter

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Question, QuestionKind
    from otel_agentic.judges.ladder import Rung
    from otel_agentic.judges.prompts import Prompt
    from otel_agentic.judges.replies import Reply

#: Refusals of credentials in a row after which calls to the provider pause, and the length of the pause in seconds.
_REFUSALS: Final = 3
_PAUSE_S: Final = 300.0
#: Bounds of the polling interval of the rate limiter, in seconds.
_LOOK_S: Final = (0.005, 0.1)


@dataclass(slots=True)
class Spent:
    """The expense of one question. `tries` counts calls of the model, `latency_s` is the total of their seconds.

    `priced` becomes False with a reply that does not state its number of tokens.
    """

    tries: int = 0
    latency_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    priced: bool = True

    def count_reply(self, output: object) -> None:
        """Count the tokens of a model's output."""
        usage: Any = getattr(message_of(output), "usage_metadata", None)
        self.priced &= bool(usage)
        if usage:
            self.input_tokens += usage.get("input_tokens") or 0
            self.output_tokens += usage.get("output_tokens") or 0

    def count_error(self, error: Exception) -> None:
        """Count the tokens of a reply that the client turned into an error."""
        usage: Any = getattr(getattr(error, "completion", None), "usage", None)
        self.input_tokens += getattr(usage, "prompt_tokens", None) or 0
        self.output_tokens += getattr(usage, "completion_tokens", None) or 0


@dataclass(slots=True)
class Refusals:
    """Refusals of our credentials by a provider: after several in a row, calls pause."""

    in_a_row: int = 0
    message: str = ""
    until_s: float = float("-inf")

    def count(self, message: str, now_s: float) -> None:
        """Count a refusal."""
        self.in_a_row, self.message = self.in_a_row + 1, message
        if self.in_a_row >= _REFUSALS:
            self.until_s = now_s + _PAUSE_S

    def clear(self) -> None:
        """Reset after an accepted call."""
        self.in_a_row, self.until_s = 0, float("-inf")


@dataclass(kw_only=True)
class Inquiry:
    """Calls one model; used by one event loop."""

    model: BaseChatModel
    model_name: str
    settings: JudgeSettings
    prompts: Mapping[QuestionKind, Prompt]
    rng: Random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    refusals: Refusals = field(init=False, default_factory=Refusals)

    def __post_init__(self) -> None:
        self._ladder = Ladder(self.model, self.settings.method)
        self._secrets = secrets_of(self.model)
        self._backoff = Backoff.from_settings(self.settings)
        self._slots = asyncio.Semaphore(self.settings.concurrency)
        self._start = asyncio.Lock()
        self._limiter = _limiter(self.settings.requests_per_second)

    async def reply(self, question: Question, spent: Spent, permit: Callable[[], bool]) -> Reply | CallProblem:
        """Return the verdict of the model, or the problem.

        Args:
            question: the question.
            spent: is increased by the expense.
            permit: returns whether one more call after the first is allowed.
        """
        tries, again = 0, False
        while self.clock() >= self.refusals.until_s:
            result = await self._call(question, spent, again=again)
            if not isinstance(result, CallProblem):
                return result
            if result.kind != "unable":  # a switch of method is not a try: nothing has failed yet
                tries, again = tries + 1, result.kind == "reply"
                if result.kind not in {"again", "reply"} or tries >= self.settings.tries:
                    return replace(
                        result, message=f"{self.model_name} gave no verdict in {_times(spent.tries)}: {result.message}"
                    )
                await self.sleep(self._backoff.wait_s(tries, result.wait_s, self.rng))
            if not permit():
                message = f"{self.model_name} gave no verdict and the budget allows no other try: {result.message}"
                return replace(result, message=message)
        refused = self.refusals
        message = (
            f"{self.model_name} is not called any more, it refused {refused.in_a_row} calls in a row: {refused.message}"
        )
        return CallProblem(kind="refused", message=message)

    async def _call(self, question: Question, spent: Spent, *, again: bool) -> Reply | CallProblem:
        form = form_of(question)
        try:
            rung, model = self._ladder.current(form)
        except NotImplementedError as error:
            return CallProblem(kind="final", message=str(error))
        prompt = messages(
            question,
            instructions_of(question, self.prompts),
            rung.way,
            max_characters=self.settings.max_answer_characters,
            again=again,
        )
        async with self._slots:
            await self._await_rate()
            try:
                reply = read_output(await self._invoke(model, prompt, spent), form)
            except Exception as error:  # noqa: BLE001 — third-party clients raise any exception
                return self._problem(error, rung, spent)
        self._ladder.read_from(rung)
        self.refusals.clear()
        return reply

    async def _invoke(self, model: Any, prompt: list[Any], spent: Spent) -> object:
        began = self.clock()
        spent.tries += 1
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                with unobserved():
                    output: object = await model.ainvoke(prompt)
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no reply within {self.settings.timeout_s:g} s") from error
        finally:
            spent.latency_s += self.clock() - began
        spent.count_reply(output)
        return output

    def _problem(self, error: Exception, rung: Rung, spent: Spent) -> CallProblem:
        spent.count_error(error)
        problem = problem_of(error, self._secrets)
        if problem.kind == "refused":
            self.refusals.count(problem.message, self.clock())
        elif problem.kind == "reply":
            self._ladder.unread_from(rung)
        elif problem.kind == "unable" and not self._ladder.down(rung, str(error)):
            return CallProblem(kind="final", message=problem.message)
        return problem

    async def _await_rate(self) -> None:
        if self._limiter is not None:
            async with self._start:  # one call waits for its turn, the others queue behind it
                await self._limiter.aacquire()


def _limiter(requests_per_second: float | None) -> BaseRateLimiter | None:
    if requests_per_second is None:
        return None
    from langchain_core.rate_limiters import InMemoryRateLimiter  # noqa: PLC0415 — heavy

    least, most = _LOOK_S
    look_s = min(max(0.5 / requests_per_second, least), most)
    return InMemoryRateLimiter(requests_per_second=requests_per_second, check_every_n_seconds=look_s)


def _times(count: int) -> str:
    return "one try" if count == 1 else f"{count} tries"
