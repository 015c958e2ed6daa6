"""Connections of our own for a chat model.

Models of one provider share their connections within a process, and a connection belongs to the event loop that opened it.
A judge on its own loop would break the calls of an agent on another one, and the other way round.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.language_models import BaseChatModel


def own_connections(model: BaseChatModel) -> tuple[BaseChatModel, Callable[[], Awaitable[Any]] | None]:
    """Return a model that talks over connections of its own, and how to close these.

    That is known for models on the OpenAI client, which are most of those with shared connections. Another model, or one
    that was given a client, comes back as it is, with nothing to close.
    """
    openai: Any = sys.modules.get("openai")
    client = getattr(model, "root_async_client", None)
    if openai is None or not isinstance(client, openai.AsyncOpenAI) or getattr(model, "http_async_client", None):
        return model, None
    own = client.with_options(http_client=openai.DefaultAsyncHttpxClient(timeout=client.timeout))
    copy = cast("Any", model.model_copy())
    copy.root_async_client, copy.async_client = own, own.chat.completions
    return copy, own.close
