"""Calls of a model for one question: methods of requesting a verdict, retries with backoff, costs.

The methods, the most reliable first, are structured output, tool call and plain text. The first two are tried with a
schema that states bounds and, if the provider rejects the bounds, without them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar

from otel_agentic.judges.base import Question
from otel_agentic.judges.call_problems import CallProblem, Kind, problem_of
from otel_agentic.judges.chat_models import secrets_of, unobserved
from otel_agentic.judges.messages import (
    SCHEMA_NAME,
    Reply,
    UnreadableReplyError,
    Way,
    messages,
    read_message,
    schema_of,
    validated,
)
from otel_agentic.judges.prompts import Prompt, instructions_of

if TYPE_CHECKING:
    from random import Random

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.rate_limiters import BaseRateLimiter
    from langchain_core.runnables import Runnable

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import QuestionKind, ReplyForm
    from otel_agentic.judges.messages import Message, PanelForm
    from otel_agentic.judges.panels import Panel

    AnyForm = ReplyForm | PanelForm | None

#: Larger exponents have no effect: 2**30 seconds are 34 years.
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waiting times that double with each try, with jitter, up to a maximum. All in seconds."""

    first_s: float
    longest_s: float

    @classmethod
    def from_settings(cls, settings: JudgeSettings) -> Backoff:
        """Return the waiting times of the settings."""
        return cls(first_s=settings.backoff_s, longest_s=settings.backoff_max_s)

    def wait_s(self, tries: int, asked_s: float | None, rng: Random) -> float:
        """Return the waiting time after a number of tries, in seconds.

        Half of it is fixed and half is random, so that calls that failed together are not repeated together. A waiting
        time requested by the provider is observed in full, with up to a tenth added. No waiting time exceeds the
        maximum.

        Args:
            tries: number of calls so far, at least 1.
            asked_s: waiting time requested by the provider, or None.
            rng: source of jitter.

        >>> from random import Random
        >>> backoff = Backoff(first_s=1.0, longest_s=30.0)
        >>> [2 ** (tries - 2) <= backoff.wait_s(tries, None, Random(7)) <= 2 ** (tries - 1) for tries in (1, 2, 3)]
        [True, True, True]
        >>> backoff.wait_s(1, 3600.0, Random(7))
        30.0
        """
        if asked_s is not None:
            return min(asked_s * (1 + rng.random() / 10), self.longest_s)
        wait_s = min(self.first_s * 2.0 ** min(tries - 1, _MAX_DOUBLINGS), self.longest_s)
        return wait_s * (0.5 + rng.random() / 2)


_WAYS: Final[tuple[Way, ...]] = ("structured", "tool", "text")
#: Methods for panels; a model that only writes text is asked one question at a time.
_PANEL_WAYS: Final[tuple[Way, ...]] = ("structured", "tool")
#: Replies without a verdict after which a method that has never returned one is abandoned.
_PATIENCE: Final = 3
#: Maximum number of reply forms with a prepared model, because an evaluator may create new forms without limit.
_MAX_FORMS: Final = 256
#: Errors of a model that does not support a method.
_CANNOT: Final = (NotImplementedError, ValueError, TypeError, AttributeError, ImportError)
#: Texts with which a provider reports that it rejects the schema.
_OF_SCHEMA: Final = re.compile(
    r"m(?:in|ax)(?:imum|items)|invalid.{0,20}schema|schema.{0,40}invalid", re.IGNORECASE | re.DOTALL
)


class Rung(NamedTuple):
    """A method of requesting a verdict; `bounded`: its schema states bounds."""

    way: Way
    bounded: bool


class Ladder:
    """Falls back to the next method if a model does not support one, and remembers it. Used by one event loop.

    `exhausted`: no method is left, the last one was abandoned, too.
    """

    def __init__(
        self,
        model: BaseChatModel,
        method: Literal["auto", "structured", "tool", "text"],
        ways: Sequence[Way] = _WAYS,
    ) -> None:
        """Begin with the most reliable method.

        Args:
            model: the model to call.
            method: `auto` for all methods in turn, or the only one allowed.
            ways: the methods that can be used at all.
        """
        self._model = model
        ways = [way for way in ways if method in {"auto", way}]
        self.exhausted = not ways
        self._rungs = [Rung(way, bounded) for way in ways for bounded in ((False,) if way == "text" else (True, False))]
        self._prepared: dict[tuple[Rung, AnyForm], Runnable[Any, Any]] = {}
        self._proven: set[Way] = set()
        self._unread: Counter[Way] = Counter()

    def down(self, rung: Rung, refusal: str = "") -> bool:
        """Abandon a rung that the model does not support; return whether there is another one.

        Args:
            rung: the rung that was used.
            refusal: the error. If it is about the schema, the same method is tried without bounds.
        """
        if self._rungs[0] != rung:  # another call has abandoned it already
            return True
        keeps_way = rung.bounded and _OF_SCHEMA.search(refusal)
        remaining = self._rungs[1:] if keeps_way else [other for other in self._rungs if other.way != rung.way]
        self._rungs = remaining or self._rungs
        self.exhausted = not remaining
        return bool(remaining)

    def read_from(self, rung: Rung) -> None:
        """Remember that a method returned a verdict."""
        self._proven.add(rung.way)

    def unread_from(self, rung: Rung) -> None:
        """Remember that a method returned a reply without a verdict; abandon a method that never returns one."""
        self._unread[rung.way] += 1
        if rung.way not in self._proven and self._unread[rung.way] >= _PATIENCE:
            self.down(rung)

    def unread(self) -> None:
        """Remember that the current method returned nothing."""
        self.unread_from(self._rungs[0])

    def current(self, form: AnyForm = None) -> tuple[Rung, Runnable[Any, Any]]:
        """Return the current rung, and the runnable to invoke with messages.

        Args:
            form: the requested form of the reply, see `schema_of`.

        Raises:
            NotImplementedError: the model does not support the only method allowed.
        """
        while True:
            rung = self._rungs[0]
            try:
                return rung, self._runnable_for(rung, form)
            except _CANNOT as error:
                if not self.down(rung, str(error)):
                    raise NotImplementedError(
                        f"the model does not support the method {rung.way!r} (judge.method): {str(error) or type(error).__name__}"
                    ) from error

    def _runnable_for(self, rung: Rung, form: AnyForm) -> Runnable[Any, Any]:
        if (rung, form) not in self._prepared:
            if len(self._prepared) >= _MAX_FORMS:
                self._prepared.clear()
            bind = {"structured": _structured, "tool": _with_tool}.get(rung.way)
            schema = schema_of(form, bounded=rung.bounded)
            self._prepared[rung, form] = self._model if bind is None else bind(self._model, schema)
        return self._prepared[rung, form]


def _structured(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 — heavy

    if type(model).with_structured_output is BaseChatModel.with_structured_output:
        raise NotImplementedError("it has no structured output of its own")  # the default implementation is a tool call
    # LangChain's warning recommends another method; falling back is the task of `Ladder`.
    warnings.filterwarnings("ignore", message=".*structured output", category=UserWarning)
    return _unparsed(model.with_structured_output(schema, include_raw=True))


def _unparsed(chain: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the part of a chain that calls the model, without its parser; the entire chain if it has another structure.

    `read_output` parses the reply, and the chain's parser would take as much time again as the call.
    """
    from langchain_core.runnables import RunnableParallel, RunnableSequence  # noqa: PLC0415 — heavy

    first = chain.first if isinstance(chain, RunnableSequence) else None
    steps = dict(first.steps__) if isinstance(first, RunnableParallel) else {}
    return steps["raw"] if set(steps) == {"raw"} else chain


def _with_tool(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    try:
        return model.bind_tools([schema], tool_choice=SCHEMA_NAME)
    except (ValueError, TypeError):  # some models support tools, but not a forced tool
        return model.bind_tools([schema])


def message_of(output: object) -> AIMessage | None:
    """Return the message in the output of a model, or None."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 — heavy

    raw = output.get("raw") if isinstance(output, dict) else output
    return raw if isinstance(raw, AIMessage) else None


def read_output(output: object, form: ReplyForm | None = None) -> Reply:
    """Return the verdict in the output of a model, for any method.

    The model's own text takes precedence, because the parser of a client silently repairs damaged replies.

    Args:
        output: the output of the model.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is no verdict.
    """
    message = message_of(output)
    if message is not None:
        return read_message(message, form)
    parsed = output.get("parsed", output) if isinstance(output, dict) else output
    dump = getattr(parsed, "model_dump", None)
    values = dump() if dump is not None else parsed
    if isinstance(values, dict):
        return validated(values, form)
    raise UnreadableReplyError("unreadable", f"the model returned a {type(output).__name__}, not a message")


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

    def split(self, count: int) -> list[Spent]:
        """Return equal shares of the expense of a panel, whose sum is the whole; the first one has the calls."""
        return [
            Spent(
                tries=self.tries if index == 0 else 0,
                latency_s=self.latency_s / count,
                input_tokens=self.input_tokens // count + (index < self.input_tokens % count),
                output_tokens=self.output_tokens // count + (index < self.output_tokens % count),
                priced=self.priced,
            )
            for index in range(count)
        ]


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


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Request(Protocol[T_co]):
    """The content of one call: a question, or a panel of questions."""

    @property
    def form(self) -> AnyForm: ...

    def messages(
        self, prompts: Mapping[QuestionKind, Prompt], way: Way, *, max_characters: int, again: bool = False
    ) -> list[Message]: ...

    def read(self, output: object) -> T_co: ...


class _Single(NamedTuple):
    """One question in one call."""

    question: Question

    @property
    def form(self) -> ReplyForm | None:
        return self.question.form

    def messages(
        self, prompts: Mapping[QuestionKind, Prompt], way: Way, *, max_characters: int, again: bool = False
    ) -> list[Message]:
        instructions = instructions_of(self.question, prompts)
        return messages(self.question, instructions, way, max_characters=max_characters, again=again)

    def read(self, output: object) -> Reply:
        return read_output(output, self.form)


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
        self._panel_ladder = Ladder(self.model, self.settings.method, _PANEL_WAYS)
        self._panel_too_long: float = math.inf
        self._secrets = secrets_of(self.model)
        self._backoff = Backoff.from_settings(self.settings)
        self._slots = asyncio.Semaphore(self.settings.concurrency)
        self._start = asyncio.Lock()
        self._limiter = _limiter(self.settings.requests_per_second)

    async def reply(self, question: Question, spent: Spent, permit: Callable[[], bool]) -> Reply | CallProblem:
        """Return the verdict of the model, or the problem.

        Args:
            question: the question.
            spent: the expense of the question, updated in place.
            permit: returns whether one more call after the first is allowed.
        """
        return await self._reply(_Single(question), self._ladder, spent, permit, frozenset({"again", "reply"}))

    async def panel_reply(
        self, panel: Panel, spent: Spent, permit: Callable[[], bool]
    ) -> Mapping[str, Reply] | CallProblem:
        """Return the verdicts of the model by field of the panel, without those that are unreadable, or the problem.

        An unreadable reply is not requested again, because its questions can be asked one by one.
        """
        result = await self._reply(panel, self._panel_ladder, spent, permit, frozenset({"again"}))
        if isinstance(result, CallProblem) and result.kind == "long":
            self._panel_too_long = min(self._panel_too_long, self.characters_of(panel))
        elif isinstance(result, CallProblem) and result.kind == "again":
            self._panel_ladder.unread()  # a model that is too slow for every panel may still answer single questions
        return result

    def can_ask(self, panel: Panel) -> bool:
        """Return whether the model may support a panel: by its methods of replying, and by the panel's length."""
        if self._panel_ladder.exhausted:
            return False
        return math.isinf(self._panel_too_long) or self.characters_of(panel) < self._panel_too_long

    def characters_of(self, request: Panel | Question) -> int:
        """Return the number of characters of the messages for a panel or a question, with the schema of the reply."""
        content = _Single(request) if isinstance(request, Question) else request
        messages = content.messages(self.prompts, "structured", max_characters=self.settings.max_answer_characters)
        return sum(len(text) for _, text in messages) + len(json.dumps(schema_of(content.form)))

    async def _reply(
        self,
        request: _Request[T],
        ladder: Ladder,
        spent: Spent,
        permit: Callable[[], bool],
        retried: frozenset[Kind],
    ) -> T | CallProblem:
        """Return the reply to a request, or the problem; `retried` are the problems after which it is repeated."""
        tries, again = 0, False
        while self.clock() >= self.refusals.until_s:
            result = await self._call(request, ladder, spent, again=again)
            if not isinstance(result, CallProblem):
                return result
            if result.kind != "unable":  # a switch of method is not a try: nothing has failed yet
                tries, again = tries + 1, result.kind == "reply"
                if result.kind not in retried or tries >= self.settings.tries:
                    return replace(
                        result, message=f"{self.model_name} gave no verdict in {_times(spent.tries)}: {result.message}"
                    )
                await self.sleep(self._backoff.wait_s(tries, result.wait_s, self.rng))
            if not permit():
                message = f"{self.model_name} gave no verdict and the budget allows no other try: {result.message}"
                return replace(result, message=message)
        refusals = self.refusals
        message = f"{self.model_name} is not called any more, it refused {refusals.in_a_row} calls in a row: {refusals.message}"
        return CallProblem(kind="refused", message=message)

    async def _call(self, request: _Request[T], ladder: Ladder, spent: Spent, *, again: bool) -> T | CallProblem:
        try:
            rung, model = ladder.current(request.form)
        except NotImplementedError as error:
            return CallProblem(kind="final", message=str(error))
        max_characters = self.settings.max_answer_characters
        prompt = request.messages(self.prompts, rung.way, max_characters=max_characters, again=again)
        async with self._slots:
            await self._await_rate()
            try:
                reply = request.read(await self._invoke(model, prompt, spent))
            except Exception as error:  # noqa: BLE001 — third-party clients raise any exception
                return self._problem(error, ladder, rung, spent)
        ladder.read_from(rung)
        self._ladder.read_from(rung)  # a method that works for panels works for single questions
        self.refusals.clear()
        return reply

    async def _invoke(self, model: Any, prompt: list[Any], spent: Spent) -> object:
        start_s = self.clock()
        spent.tries += 1
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                with unobserved():
                    output: object = await model.ainvoke(prompt)
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no reply within {self.settings.timeout_s:g} s") from error
        finally:
            spent.latency_s += self.clock() - start_s
        spent.count_reply(output)
        return output

    def _problem(self, error: Exception, ladder: Ladder, rung: Rung, spent: Spent) -> CallProblem:
        spent.count_error(error)
        problem = problem_of(error, self._secrets)
        if problem.kind == "refused":
            self.refusals.count(problem.message, self.clock())
        elif problem.kind == "reply":
            ladder.unread_from(rung)
        elif problem.kind == "unable" and not ladder.down(rung, str(error)):
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

    shortest_s, longest_s = _LOOK_S
    interval_s = min(max(0.5 / requests_per_second, shortest_s), longest_s)
    return InMemoryRateLimiter(requests_per_second=requests_per_second, check_every_n_seconds=interval_s)


def _times(count: int) -> str:
    return "one try" if count == 1 else f"{count} tries"
