# mypy: ignore-errors
# (the frameworks are installed where captures are made, not here)
"""Plays the story against a framework in this process, and checks that the framework gives the answers of the script."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.record import recording
from tools.capture_generators.story import STORY, delegation, expected, interleaved

if TYPE_CHECKING:
    from tools.capture_generators.shapes import Conversation

    #: Takes conversation and query, returns the answer.
    Say = Callable[[Conversation, str], str | None]

#: Fields that are missing in a capture without content.
HIDDEN = ("query", "answer", "arguments", "result")

#: What the clients send as their key: the scripted model asks for none.
KEY = "none"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """How a capture is made.

    `instrument` takes tracer and logger provider and starts the recording of spans; `speaker` takes the model's base URL.
    With `around`, the conversations are played one after the other, each inside what `around` returns for a tracer.
    """

    name: str
    instrument: Callable[[Any, Any], object]
    speaker: Callable[[str], Say]
    conversations: tuple[Conversation, ...] = STORY
    _: KW_ONLY
    around: Callable[[Any, Conversation], AbstractContextManager[Any]] | None = None
    answer_tool: str | None = None
    count: bool = False
    logs: bool = False


def record(plan: Plan, **notes: Any) -> None:
    """Record `captures/<name>` in a process of its own: providers are set once a process. Notes: see `expected`.

    Raises:
        RuntimeError: the recording failed; its process has printed the reason.
    """
    process = multiprocessing.get_context("fork").Process(target=_record, args=(plan, notes))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{plan.name} was not recorded: exit code {process.exitcode}")


def _record(plan: Plan, notes: dict[str, Any]) -> None:
    with (
        recording(plan.name, service="travel-desk", logs=plan.logs) as capture,
        ModelServer(plan.conversations, answer_tool=plan.answer_tool) as server,
    ):
        spans, records = capture.providers()
        plan.instrument(spans, records)
        say = plan.speaker(server.url)
        if plan.around is None:
            _play(server, say, interleaved(plan.conversations), count=plan.count)
        else:
            _play_apart(server, say, plan, spans.get_tracer("travel_desk.web"))
        capture.truth = expected(plan.conversations, **notes)


def _play_apart(server: ModelServer, say: Say, plan: Plan, tracer: Any) -> None:
    for index, conversation in enumerate(plan.conversations):
        turns = ((index, number, turn) for number, turn in enumerate(conversation.turns))
        with plan.around(tracer, conversation) if plan.around else nullcontext():
            _play(server, say, turns, count=plan.count)


def _play(server: ModelServer, say: Say, turns: Iterable[tuple[int, int, Any]], *, count: bool) -> None:
    for index, turn_index, turn in turns:
        server.now(index, turn_index, count=count)
        answer = say(server.conversations[index], turn.query)
        if (answer or "").strip() != turn.answer:
            raise ValueError(f"{turn.query!r} was answered by {answer!r}, not {turn.answer!r}")


def instrumented(*names: str) -> Callable[[Any, Any], None]:
    """Return an `instrument` that starts the instrumentors named `module:Class`.

    Names, so that a framework's file also serves where another library instruments it.
    """

    def instrument(spans: Any, records: Any) -> None:
        for name in names:
            module, _, kind = name.partition(":")
            instrumentor = getattr(importlib.import_module(module), kind)()
            instrumentor.instrument(tracer_provider=spans, logger_provider=records)

    return instrument


def hiding(instrument: Callable[[Any, Any], object], **environment: str) -> Callable[[Any, Any], object]:
    """Return the `instrument` with these environment variables set before it: those that keep content out."""

    def quiet(spans: Any, records: Any) -> object:
        os.environ |= environment
        return instrument(spans, records)

    return quiet


def in_session(speaker: Callable[[str], Say], **attributes: str) -> Callable[[str], Say]:
    """Return the speaker with OpenInference's session id, and other attributes, set around each turn."""
    # Only here: the speakers also serve where OpenInference is not installed.
    from openinference.instrumentation import using_attributes  # type: ignore[import-not-found]  # noqa: PLC0415

    def speaking(url: str) -> Say:
        say = speaker(url)

        def say_in_session(conversation: Conversation, query: str) -> str | None:
            with using_attributes(session_id=conversation.id, **attributes):
                return say(conversation, query)

        return say_in_session

    return speaking


def delegated(name: str, arguments: Callable[[str], dict[str, Any]], *, result: Any = None) -> Conversation:
    """Return the conversation with a sub-agent behind the tool `name`; `arguments` returns the arguments for a task.

    `result` is None if the framework adds words of its own to the sub-agent's answer.
    """
    plain = delegation(name)
    first, *others = plain.turns
    (call,) = first.steps[0]
    task = call.inner.query if call.inner else ""
    delegating_call = replace(call, arguments=arguments(task), result=result)
    return replace(plain, turns=(replace(first, steps=((delegating_call,),)), *others))


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; all share one event loop, because their clients keep connections."""
    return _loop().run_until_complete(coroutine)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()
