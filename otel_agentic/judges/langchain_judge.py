"""The LLM judge: any chat model of LangChain, from a provider, a local server, or a Python object."""

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

#: Incremented when the same reply would yield another verdict, or the same question another message.
_PROTOCOL: Final = 1
#: One question waits per so many running calls, so that a free slot does not wait for this thread.
_SLOTS_A_WAITING: Final = 8
#: Estimated size of a message and its reply without prompt and material, and characters per token.
_FRAME_CHARACTERS: Final = len(SYSTEM) + 800
_CHARACTERS_A_TOKEN: Final = 4


class LangChainJudge:
    """Judges by a chat model (entry point `langchain`).

    `model` is the name of the model; `canaries` counts the canary questions and those that passed.
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
        """Create a judge from a model.

        Args:
            model: any chat model of LangChain. Its own retries multiply with ours: create it with `max_retries=0`.
            settings: limits, timeouts and prompts; None uses the defaults.
            rng: source of jitter.
            sleep: waits a number of seconds between tries.
            clock: monotonic clock in seconds.

        Raises:
            ConfigError: the prompt file of the settings is invalid.
        """
        self._settings = settings or JudgeSettings()
        self._prompts = prompt_texts(self._settings.prompt)
        self.model = name_of(model)
        self.version = self._hashed(model)
        model, close = own_connections(model)
        self._closed = weakref.finalize(self, _close, close)
        self._closed.atexit = False  # at exit, the loop that would close them has ended
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
        """Return the judge for the model that `--judge langchain:provider:model` names.

        Raises:
            UsageError: no model is named, a package is missing, or the provider does not take the options.
        """
        return cls(make_model(argument, settings.model_options), settings)

    @property
    def canaries(self) -> Canaries:
        """The number of canaries, and how many of them passed."""
        return self._watch.counts

    @property
    def reads_threshold(self) -> bool:
        """Whether a verdict depends on the threshold: only because of the votes near it."""
        return self._settings.votes > 1

    def judge(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one verdict or failure per question, in order."""
        answers = dict(self.stream(enumerate(questions)))
        return [answers[number] for number in range(len(questions))]

    def stream(self, questions: Iterable[tuple[int, Question]]) -> Generator[tuple[int, Answer], None, None]:
        """Yield (number, verdict or failure) in order of completion; takes a question whenever a call may start.

        Closing the generator, or an interrupt, cancels the running calls.
        """
        source = self._watch.rivals(questions)
        done: queue.SimpleQueue[tuple[int, Future[Answer]]] = queue.SimpleQueue()
        running: set[Future[Answer]] = set()
        limit = self._settings.concurrency + self._settings.concurrency // _SLOTS_A_WAITING

        def fill() -> None:
            while len(running) < limit and (item := next(source, None)) is not None:
                number, question, rival = item
                future = self._submit(question, rival)
                running.add(future)
                future.add_done_callback(partial(_enqueue, done, number))

        try:
            fill()
            while running:
                number, future = done.get()
                running.discard(future)
                fill()
                yield number, self._result(future)
        finally:
            for future in running:
                future.cancel()

    def estimated_tokens(self, question: Question) -> int:
        """Return the estimated number of tokens, input and output, of one call for a question."""
        material = sum(min(len(text), self._settings.max_answer_characters) for _, text in texts_of(question))
        instructions = len(instructions_of(question, self._prompts))
        return (_FRAME_CHARACTERS + instructions + material) // _CHARACTERS_A_TOKEN

    def version_for(self, rubric: Rubric) -> str:
        """Return the version for the questions of a rubric: it depends on the text around the rubric and a user's instructions.

        The rubric's own instructions are part of each question's key.
        """
        own = own_prompt(rubric, self._prompts)
        content = json.dumps([_PROTOCOL, RUBRIC_FRAME, None if own is None else own.digest])
        return f"{self.version}-{hashlib.blake2b(content.encode(), digest_size=4).hexdigest()}"

    def close(self) -> None:
        """Cancel running calls and close connections; a closed judge answers no further questions."""
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
        except Exception as error:  # noqa: BLE001 — from `permit`, or a model that breaks its contract
            message = f"{self.model}: {type(error).__name__}: {error}"
            return JudgeFailure(reason="judge_error", message=message, model=self.model)

    def _hashed(self, model: BaseChatModel) -> str:
        """Return the hash of everything besides the question that a verdict depends on."""
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


def _enqueue(done: queue.SimpleQueue[tuple[int, Future[Answer]]], number: int, future: Future[Answer]) -> None:
    done.put((number, future))
