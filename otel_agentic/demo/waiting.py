"""Waiting for something that another process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S: Final = 0.1


def wait_until(is_true: Callable[[], bool], what: str, *, limit_s: float) -> None:
    """Return when a condition holds.

    Args:
        is_true: the condition, asked every 100 ms; it may raise.
        what: what is waited for, for the message.
        limit_s: how long to wait, seconds.

    Raises:
        BackendError: it did not hold in time; names what was waited for.
    """
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise BackendError(f"the demo waited {limit_s:g} s for {what}, in vain")
        time.sleep(_POLL_S)
