"""The interface of clients, which run commands on a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import Any, ClassVar, TypeVar

from otel_agentic.errors import BackendError
from otel_agentic.results import from_json

T = TypeVar("T")


class Client(ABC):
    """Runs commands by name; see `otel_agentic.commands`. An argument of None means the default of the command."""

    #: Whether a running collector runs the commands, with its own settings.
    is_remote: ClassVar[bool] = False

    @abstractmethod
    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value.

        Raises:
            OtelAgenticError: any error of the command, of the same class as in the process that ran it.
        """

    @abstractmethod
    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""

    def get(self, kind: type[T], name: str, /, **arguments: Any) -> T:
        """Run a command and return its result as a type of `otel_agentic.results`.

        Raises:
            BackendError: the result has another shape, because the collector has another version.
        """
        return typed(kind, name, self.call(name, **arguments))

    def stream_of(self, kind: type[T], name: str, /, **arguments: Any) -> Generator[T]:
        """Yield the results of a command that streams as a type of `otel_agentic.results`; see `get`."""
        with closing(self.stream(name, **arguments)) as stream:
            for item in stream:
                yield typed(kind, name, item)

    @abstractmethod
    def close(self) -> None:
        """Release the file or the connection."""


def typed(kind: type[T], name: str, payload: Any) -> T:
    """Return the JSON value that a command returned as a type of `otel_agentic.results`.

    Raises:
        BackendError: it has another shape.
    """
    try:
        return from_json(kind, payload)
    except ValueError as error:
        raise BackendError(f"unexpected result of {name}; is the collector of the same version? {error}") from error


def present(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}
