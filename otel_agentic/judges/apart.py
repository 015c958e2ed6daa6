"""Isolation of a judge's model from the models of an agent in the same process.

Models of one provider share their connections within a process, and a connection belongs to the event loop that opened it: a
judge on its own loop would break the calls of an agent on another loop, and vice versa. Moreover, the judge's own calls are no
conversation of an agent: instrumentation in the same process must not record them.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from otel_agentic.judges.bounded import CLIENT_OPTIONS, bound_reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.language_models import BaseChatModel


def own_connections(model: BaseChatModel) -> tuple[BaseChatModel, Callable[[], Awaitable[Any]] | None]:
    """Return a copy of the model with its own connections, and the function that closes them. Replies over them are bounded.

    Supported for models on the OpenAI client, which are most of those with shared connections. Any other model, and one
    with a client of the user's, is returned as it is, with None.
    """
    openai: Any = sys.modules.get("openai")
    client = getattr(model, "root_async_client", None)
    if openai is None or not isinstance(client, openai.AsyncOpenAI) or getattr(model, "http_async_client", None):
        return model, None
    connections = openai.DefaultAsyncHttpxClient(
        timeout=client.timeout, event_hooks={"response": [bound_reply]}, **CLIENT_OPTIONS
    )
    own = client.with_options(http_client=connections)
    copy = cast("Any", model.model_copy())
    copy.root_async_client, copy.async_client = own, own.chat.completions
    return copy, own.close


def unobserved() -> AbstractContextManager[Any]:
    """Return a context in which OpenTelemetry instrumentation of model clients records nothing."""
    return _suppression()()


@cache
def _suppression() -> Callable[[], AbstractContextManager[Any]]:
    try:
        utilities = import_module(
            "opentelemetry.instrumentation.utils"
        )  # not a requirement: installed along with instrumentation
    except ImportError:
        return nullcontext
    suppress: Callable[[], AbstractContextManager[Any]] = utilities.suppress_instrumentation
    return suppress
