"""The judge that asks a model: any chat model of LangChain, of a provider, of a server at home, or a Python object."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import random
import threading
import time
import weakref
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.config import JudgeSettings
from otel_agentic.judges.apart import own_connections
from otel_agentic.judges.background import shared
from otel_agentic.judges.base import JudgeFailure, Question, QuestionKind, Verdict
from otel_agentic.judges.canary import Canaries, CanaryWatch
from otel_agentic.judges.deliberation import Deliberation
from otel_agentic.judges.fence import FRAME, RUBRIC_FRAME, SYSTEM, texts_of
from otel_agentic.judges.inquiry import Inquiry
from otel_agentic.judges.prompts import instructions_of, own_prompt, prompt_texts
from otel_agentic.judges.provider import identity_of, make_model, name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

    from langchain_core.language_models import BaseChatModel

    from otel_agentic.judges.base import Rubric

    Answer = Verdict | JudgeFailure

#: Changed whenever the same reply of a model would make another verdict, or the same question another message.
_PROTOCOL: Final = 1
#: For so many calls under way one question waits, so that a slot that becomes free does not wait for this thread.
_SLOTS_A_WAITING: Final = 8
#: What a message and its reply take beside prompt and material, and how much text is one token.
_FRAME_CHARACTERS: Final = len(SYSTEM) + 800
_CHARACTERS_A_TOKEN: Final = 4


class LangChainJudge:
    """Judges by a chat model (entry point `langchain`).

    `model` is the name of the model; `canaries` says how many of them it was asked and let pass.
    """

    name: str = "langchain"
    kinds: frozenset[QuestionKind] = frozenset({"answer", "parameter", "utilization", "rubric"})

    def __init__(
        self,
        model: BaseChatModel,
        settings: JudgeSettings | None = None,
        *,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take a model.

        Args:
            model: any chat model of LangChain. Its own retries come on top of ours: give it `max_retries=0`.
            settings: limits and manners; None takes the defaults.
            rng: the source of jitter.
            sleep: waits so many seconds between tries.
            clock: seconds that only grow.

        Raises:
            ConfigError: the prompt file of the settings is none.
        """
        self._settings = settings or JudgeSettings()
        self._prompts = prompt_texts(self._settings.prompt)
        self.model = name_of(model)
        self.version = self._hashed(model)
        model, close = own_connections(model)
        self._closed = weakref.finalize(self, _close, close)
        self._closed.atexit = False  # the loop that would close them is gone by then
        self.permit: Callable[[Question], bool] = _always
        self._watch = CanaryWatch(self._settings.canary_ratio)
        inquiry = Inquiry(
            model=model,
            model_name=self.model,
            settings=self._settings,
            prompts=self._prompts,
            rng=rng or random.Random(),  # noqa: S311 — jitter is no secret
            sleep=sleep,
            clock=clock,
        )
        self._deliberation = Deliberation(inquiry=inquiry, watch=self._watch, settings=self._settings)
        self._open: set[Future[Answer]] = set()
        self._open_lock = threading.Lock()

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:
        """Return the judge by the model that `--judge langchain:provider:model` names.

        Raises:
            UsageError: no model is named, a package is missing, or the provider does not take the options.
        """
        return cls(make_model(argument, settings.model_options), settings)

    @property
    def canaries(self) -> Canaries:
        """How many canaries were asked, and how many passed."""
        return self._watch.seen

    @property
    def reads_threshold(self) -> bool:
        """Whether a verdict depends on the threshold: only by the votes that are asked for near it."""
        return self._settings.votes > 1

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        """Return a verdict or failure a question, in their order."""
        answers = dict(self.stream(enumerate(questions)))
        return [answers[number] for number in range(len(questions))]

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Generator[tuple[int, Answer], None, None]:
        """Yield (number, verdict or failure) as they come; takes a question whenever a call may start.

        Closing it, or an interrupt, cancels the calls under way.
        """
        source = self._watch.rivals(questions)
        done: queue.SimpleQueue[tuple[int, Future[Answer]]] = queue.SimpleQueue()
        under_way: set[Future[Answer]] = set()
        most = self._settings.concurrency + self._settings.concurrency // _SLOTS_A_WAITING

        def fill() -> None:
            while len(under_way) < most and (taken := next(source, None)) is not None:
                number, question, rival = taken
                future = self._submit(question, rival)
                under_way.add(future)
                future.add_done_callback(partial(_put, done, number))

        try:
            fill()
            while under_way:
                number, future = done.get()
                under_way.discard(future)
                fill()
                yield number, self._result(future)
        finally:
            for future in under_way:
                future.cancel()

    def estimated_tokens(self, question: Question) -> int:
        """Return about how many tokens one call for a question takes, both ways."""
        shown = sum(min(len(text), self._settings.max_answer_characters) for _, text in texts_of(question))
        told = len(instructions_of(question, self._prompts))
        return (_FRAME_CHARACTERS + told + shown) // _CHARACTERS_A_TOKEN

    def version_for(self, rubric: Rubric) -> str:
        """Return the version as far as it concerns a rubric: with what is said around it, and a user's own instructions.

        What of a rubric is its own stands in the key of each question.
        """
        own = own_prompt(rubric, self._prompts)
        content = json.dumps([_PROTOCOL, RUBRIC_FRAME, None if own is None else own.digest])
        return f"{self.version}-{hashlib.blake2b(content.encode(), digest_size=4).hexdigest()}"

    def close(self) -> None:
        """Cancel what is under way and close what was opened; a closed judge answers nothing any more."""
        self._closed()
        with self._open_lock:
            open_now = list(self._open)
        for future in open_now:
            future.cancel()

    def _submit(self, question: Question, rival: Question | None) -> Future[Answer]:
        if not self._closed.alive:
            refused: Future[Answer] = Future()
            refused.cancel()
            return refused
        permit = partial(self.permit, question)
        future = shared().submit(self._deliberation.answer(question, rival, permit))
        with self._open_lock:
            self._open.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: Future[Answer]) -> None:
        with self._open_lock:
            self._open.discard(future)

    def _result(self, future: Future[Answer]) -> Answer:
        try:
            return future.result()
        except CancelledError:
            return JudgeFailure(reason="judge_error", message="the judge is closed", model=self.model)
        except Exception as error:  # noqa: BLE001 — of `permit`, or of a model that breaks its contract
            told = f"{self.model}: {type(error).__name__}: {error}"
            return JudgeFailure(reason="judge_error", message=told, model=self.model)

    def _hashed(self, model: BaseChatModel) -> str:
        """Return the hash of what a verdict depends on besides the question."""
        settings = self._settings.model_dump(include={"method", "votes", "max_answer_characters"})
        settings["vote_band"] = self._settings.vote_band if self._settings.votes > 1 else None
        prompts = {kind: prompt.digest for kind, prompt in self._prompts.items() if kind != "rubric"}
        content = json.dumps([_PROTOCOL, FRAME, identity_of(model), settings, prompts], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _close(close: Callable[[], Awaitable[None]] | None) -> None:
    if close is not None:
        with suppress(RuntimeError):  # the loop is closed, and its connections with it
            shared().submit(_awaited(close))


async def _awaited(close: Callable[[], Awaitable[None]]) -> None:
    await close()


def _always(_: Question) -> bool:
    return True


def _put(done: queue.SimpleQueue[tuple[int, Future[Answer]]], number: int, future: Future[Answer]) -> None:
    done.put((number, future))
