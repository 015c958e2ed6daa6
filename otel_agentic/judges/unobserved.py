"""A judge's own calls of a model are no conversation of an agent: instrumentation in the same process is to leave them out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def unobserved() -> AbstractContextManager[Any]:
    """Return a context in which OpenTelemetry instrumentation of model clients records nothing."""
    return _suppression()()


@cache
def _suppression() -> Callable[[], AbstractContextManager[Any]]:
    try:
        utilities = import_module(
            "opentelemetry.instrumentation.utils"
        )  # not ours to require: instrumentation brings it
    except ImportError:
        return nullcontext
    suppress: Callable[[], AbstractContextManager[Any]] = utilities.suppress_instrumentation
    return suppress
