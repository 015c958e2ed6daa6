"""LangChain chat models for judging: creation from `provider:model`, identity, isolation, and a reply size limit.

A judge's model is isolated from the models of an agent in the same process. Models of one provider share their
connections within a process, and a connection belongs to the event loop that opened it. Without isolation, a judge on
its own loop would break the calls of an agent on another loop, and vice versa. The calls of a judge are not part of an
agent's conversation either, so instrumentation in the same process must not record them.

Judges run their calls on an event loop in a thread of its own, independent of the loop of their caller. There is one
such loop per process, because model clients share their connections between objects, and a connection ends with the
loop on which it was opened.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import queue
import re
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import SecretStr

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

#: Maximum size of a reply in bytes; a verdict takes a few thousand.
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
#: The maximum for a reply that is compressed although compression was not requested: it may expand a thousandfold.
_MAX_COMPRESSED_BYTES: Final = 64 * 1024
#: Options of the HTTP client: judged texts are sent to the address of the settings, and to no other.
CLIENT_OPTIONS: Final[dict[str, Any]] = {"follow_redirects": False, "headers": {"accept-encoding": "identity"}}


class ReplyTooLargeError(ConnectionError):
    """A reply is larger than any verdict; the rest of it is not read."""


async def bound_reply(response: Any) -> None:
    """Limit the number of bytes read from a response; an event hook for httpx-like clients."""
    is_uncompressed = response.headers.get("content-encoding", "identity") == "identity"
    response.stream = _bounded(response.stream, MAX_REPLY_BYTES if is_uncompressed else _MAX_COMPRESSED_BYTES)


def _bounded(stream: Any, limit_bytes: int) -> Any:
    """Return a stream, of the class that its client expects, that raises an error beyond a number of bytes."""
    stream_class = next(base for base in type(stream).__mro__ if base.__name__ == "AsyncByteStream")

    async def parts(self: Any) -> AsyncIterator[bytes]:  # noqa: ARG001 — a method
        count = 0
        async for part in stream:
            count += len(part)
            if count > limit_bytes:
                raise ReplyTooLargeError(f"the reply has more than {limit_bytes:,} bytes")
            yield part

    async def aclose(self: Any) -> None:  # noqa: ARG001 — a method
        await stream.aclose()

    return type("BoundedStream", (stream_class,), {"__aiter__": parts, "aclose": aclose})()


def own_connections(model: BaseChatModel) -> tuple[BaseChatModel, Callable[[], Awaitable[Any]] | None]:
    """Return a copy of the model with its own connections, and the function that closes them. Replies over them are bounded.

    Supported for models that use the OpenAI client, which are most of those with shared connections. Any other model,
    and a model with an HTTP client supplied by the user, is returned unchanged, with None.
    """
    openai: Any = sys.modules.get("openai")
    client = getattr(model, "root_async_client", None)
    if openai is None or not isinstance(client, openai.AsyncOpenAI) or getattr(model, "http_async_client", None):
        return model, None
    connections = openai.DefaultAsyncHttpxClient(
        timeout=client.timeout, event_hooks={"response": [bound_reply]}, **CLIENT_OPTIONS
    )
    own_client = client.with_options(http_client=connections)
    copy = cast("Any", model.model_copy())
    copy.root_async_client, copy.async_client = own_client, own_client.chat.completions
    return copy, own_client.close


def unobserved() -> AbstractContextManager[Any]:
    """Return a context in which OpenTelemetry instrumentation of model clients records nothing."""
    return _suppression()()


@cache
def _suppression() -> Callable[[], AbstractContextManager[Any]]:
    try:
        # Not a requirement: installed along with instrumentation.
        utilities = import_module("opentelemetry.instrumentation.utils")
    except ImportError:
        return nullcontext
    suppress: Callable[[], AbstractContextManager[Any]] = utilities.suppress_instrumentation
    return suppress


_Result = TypeVar("_Result")
_Work = tuple["Future[Any]", "Callable[[], Any]"]

#: Threads for models without an asynchronous client; calls that never return occupy theirs.
_MAX_THREADS: Final = 512
_CLOSE_TIMEOUT_S: Final = 5.0


class Background:
    """A running event loop. Submitted work runs until it is done, cancelled, or the loop is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads())
        self._thread = threading.Thread(target=self._loop.run_forever, name="otel-agentic-judge", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Start a coroutine on the loop; cancelling the returned future cancels it.

        Raises:
            RuntimeError: the loop is closed.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the loop of the judges is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel all running work, and end the loop and its thread."""
        if self._loop.is_closed():
            return
        ended = self.submit(_cancel_others())
        try:
            ended.result(_CLOSE_TIMEOUT_S)
        except TimeoutError:
            return  # a task refuses to end; the thread is a daemon and ends with the process
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()


#: Prevents threads that request the first loop at the same time from creating one each: a judge's concurrency limit
#: belongs to one loop.
_CREATION: Final = threading.Lock()


def shared() -> Background:
    """Return the loop of this process; it is created at the first call and closed at exit."""
    with _CREATION:
        return _of_process(os.getpid())


@cache
def _of_process(_: int) -> Background:
    """Return the loop of a process by its id, because a forked child does not inherit its parent's threads."""
    background = Background()
    atexit.register(background.close)
    return background


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class DaemonThreads(ThreadPoolExecutor):
    """A pool that creates threads on demand and does not keep a process alive: a call may never return."""

    def __init__(self, max_threads: int = _MAX_THREADS) -> None:
        super().__init__(max_workers=max_threads)
        self._max_threads = max_threads
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._count = 0
        self._count_lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread of the pool."""
        future: Future[Any] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if not self._free.acquire(blocking=False):
            self._grow()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 — as the base class has it
        """Let idle threads end, without waiting for any of them."""
        with self._count_lock:
            for _ in range(self._count):
                self._work.put(None)

    def _grow(self) -> None:
        with self._count_lock:
            if self._count >= self._max_threads:
                return
            self._count += 1
            name = f"otel-agentic-judge-{self._count}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 — raised to the caller that waits for the result
                    future.set_exception(error)
            del work, future, call  # a waiting thread must not keep its last work alive

    def _next(self) -> _Work | None:
        """Return the next work item; a thread counts as idle only when the queue is empty."""
        try:
            return self._work.get_nowait()
        except queue.Empty:
            self._free.release()
            return self._work.get()


FORM: Final = "langchain:PROVIDER:MODEL, as in langchain:openai:gpt-5-mini or langchain:ollama:llama3.1:8b"
EXTRA: Final = "pip install 'otel-agentic[judges]'"
MISSING: Final = f"{{judge}}: needs the package langchain: {EXTRA}"

#: Options that do not affect the replies of a model, or that must not be written to a file.
_NO_IDENTITY: Final = re.compile(
    r"key|token$|secret|password|credential|header|retr|timeout|client|cache|callback|verbose|metadata|profile|tags$|"
    r"limiter|stream",
    re.IGNORECASE,
)
#: Attributes that may hold the name of a model.
_NAMES: Final = ("model_name", "model", "model_id", "deployment_name", "azure_deployment")
#: Suffix of a name: a date, a snapshot, a revision of the provider.
_SNAPSHOT: Final = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|latest|v\d+(?::\d+)?))+$")
#: Prefix of a name: a path or the provider of a gateway, or a vendor in the notation of some clouds.
_PROVIDER: Final = re.compile(r"^.*/|^(?:[a-z]{2}\.)?[a-z]+\.(?=[a-z])")


def make_model(argument: str | None, options: Mapping[str, Any]) -> BaseChatModel:
    """Return the model that `--judge langchain:provider:model` names.

    Args:
        argument: `provider:model`, with LangChain's name of the provider.
        options: passed to the model unchanged.

    Raises:
        UsageError: the argument is malformed, a package is missing, or the provider rejects the options.
    """
    provider, colon, model = (argument or "").partition(":")
    if not (provider.strip() and colon and model.strip()):
        judge = "langchain" if argument is None else f"langchain:{argument}"
        raise UsageError(f"judge {judge}: the model is missing: {FORM}")
    name_options = {"model", "model_provider", "provider"} & options.keys()
    if name_options:
        raise UsageError(
            f"judge.model_options: {', '.join(sorted(name_options))}: the model is named by --judge: {FORM}"
        )
    chat_model = _create(provider, model, dict(options))
    _require_known(chat_model, options)
    # With two layers of retries, waits would multiply.
    if "max_retries" not in options and _takes(chat_model, "max_retries"):
        return _create(provider, model, {**options, "max_retries": 0})
    return chat_model


def _create(provider: str, model: str, options: dict[str, Any]) -> BaseChatModel:
    judge = f"judge langchain:{provider}:{model}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 — heavy, and an extra
    except ImportError as error:
        raise UsageError(MISSING.format(judge=judge)) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="WARNING!")  # about an unknown option, which is rejected below
            chat_model: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
            return chat_model
    except ImportError as error:
        extra = f" (or {EXTRA})" if "langchain-openai" in str(error) else ""
        raise UsageError(f"{judge}: {_one_line(error)}{extra}") from error
    except Exception as error:  # providers raise any exception
        parts = _one_line(error).split("Supported model providers are:")
        if len(parts) > 1:
            raise UsageError(
                f"{judge}: langchain does not know the provider {provider!r}; allowed: {parts[1].strip()}"
            ) from error
        raise UsageError(
            f"{judge}: the model cannot be created: {parts[0]} (judge.model_options: {', '.join(sorted(options)) or 'none'})"
        ) from error


def _require_known(model: BaseChatModel, options: Mapping[str, Any]) -> None:
    """Reject an option that the model does not know: with a misspelt base_url, texts would be sent to another server."""
    passed_on = getattr(model, "model_kwargs", None) or {}
    unknown = [name for name in options if name in passed_on and not _takes(model, name)]
    if unknown:
        raise UsageError(
            f"judge.model_options: {', '.join(sorted(unknown))}: {type(model).__name__} has no such option; options of the "
            "provider's own interface belong in model_kwargs"
        )


def _takes(model: BaseChatModel, option: str) -> bool:
    fields = type(model).model_fields
    return option in fields or any(field.alias == option for field in fields.values())


def name_of(model: BaseChatModel) -> str:
    """Return the provider's name of a model, or the name of its class if it has no name."""
    candidates = (getattr(model, name, None) for name in _NAMES)
    name = next(
        (candidate for candidate in candidates if isinstance(candidate, str) and candidate), type(model).__name__
    )
    return name.removeprefix("models/")


def base_model(name: str) -> str:
    """Return the name of a model without provider and snapshot, in lower case.

    >>> [base_model(name) for name in ("openai/GPT-5-mini-2025-08-07", "us.anthropic.claude-sonnet-4-20250514-v1:0")]
    ['gpt-5-mini', 'claude-sonnet-4']
    >>> base_model("gemini-2.5-pro")
    'gemini-2.5-pro'
    """
    return _SNAPSHOT.sub("", _PROVIDER.sub("", name.strip().lower()))


def same_models(judge: Iterable[str], agent: Iterable[str]) -> list[str]:
    """Return the agent's models that also judge it, sorted, by their names in the agent's spans.

    >>> same_models(["gpt-5-mini"], ["gpt-5", "openai/gpt-5-mini"])
    ['openai/gpt-5-mini']
    """
    judge_models = {base_model(name) for name in judge}
    return sorted({name for name in agent if base_model(name) in judge_models})


def secrets_of(model: BaseChatModel) -> list[str]:
    """Return the keys and other secrets of a model, including those in its headers."""
    fields = {name: getattr(model, name, None) for name in type(model).model_fields}
    secret_values = [value.get_secret_value() for value in fields.values() if isinstance(value, SecretStr)]
    headers = [value for name, value in fields.items() if "header" in name and isinstance(value, Mapping)]
    return [text for text in (*secret_values, *(str(value) for header in headers for value in header.values())) if text]


def identity_of(model: BaseChatModel) -> str:
    """Return a text that differs between models that may reply differently. It contains no secrets."""
    kind = type(model)
    identity = {"class": f"{kind.__module__}.{kind.__qualname__}", "model": name_of(model)}
    for source in (getattr(model, "_identifying_params", {}), _set_fields(model)):
        identity |= {str(name): value for name, value in dict(source).items()}
    return json.dumps(_plain(identity), sort_keys=True)


def _set_fields(model: BaseChatModel) -> dict[str, Any]:
    """Return the fields of a model that were set explicitly."""
    fields: frozenset[str] = getattr(model, "model_fields_set", frozenset())
    return {name: getattr(model, name, None) for name in fields}


def _plain(value: Any) -> Any:
    """Return a value reduced to plain data: the text of an object may contain its address, which differs between processes."""
    if isinstance(value, dict):
        fields = {str(name): _plain(item) for name, item in value.items() if not _NO_IDENTITY.search(str(name))}
        return {name: item for name, item in fields.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 2_000 else text[:2_000] + "…"  # noqa: PLR2004 — a line that a person reads
