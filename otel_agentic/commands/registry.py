"""The registry of commands, and what each command works with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from otel_agentic.errors import UsageError
from otel_agentic.results import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import OnScored

#: Receives progress: the stage, how much of it is done, and the total if it is known.
Progress = Callable[[str, int, int | None], None]
#: The role that a token needs to run a command: `query` for those that only read, else `admin`.
CommandRole = Literal["query", "admin"]
F = TypeVar("F", bound=Callable[..., Any])

#: The modules of this package that define commands.
_MODULES: Final = ("evaluation", "backfill", "reports", "gate", "conversations", "truth", "store")


class Context:
    """What a command works with."""

    def __init__(
        self,
        engine: Engine,
        progress: Progress = lambda *_: None,
        *,
        scored: OnScored = lambda *_: None,
        gone: Callable[[], bool] = lambda: False,
        locks: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None,
    ) -> None:
        """Keep the resources.

        Args:
            engine: the opened store.
            progress: receives the progress of a long command.
            scored: receives what an evaluation scored (a running collector emits it).
            gone: returns whether the requester has disconnected; a query is then stopped.
            locks: what a running collector holds while it scores, and while it computes windows; None without one.
        """
        self.engine = engine
        self.progress = progress
        self.on_scored = scored
        self.gone = gone
        self.locks = locks

    def showing(self, evaluation: str) -> Engine:
        """Return the engine with a store whose queries show the scores of an evaluation.

        Raises:
            UsageError: the store has no evaluation of that name.
        """
        from otel_agentic.store.selection import require_evaluation  # noqa: PLC0415 — DuckDB is not needed for --help

        with self.engine.store.read() as con:
            require_evaluation(con, evaluation)
        return self.engine.showing(evaluation)

    @property
    def scoring_lock(self) -> AbstractContextManager[Any]:
        """The lock that a running collector holds while it scores."""
        return nullcontext() if self.locks is None else self.locks[0]

    @property
    def windows_lock(self) -> AbstractContextManager[Any]:
        """The lock that a running collector holds while it computes windows."""
        return nullcontext() if self.locks is None else self.locks[1]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: a function of a `Context` and keyword arguments."""

    name: str
    role: CommandRole
    function: Callable[..., Any] = field(repr=False)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature without the context."""
        full = inspect.signature(self.function)
        return full.replace(parameters=list(full.parameters.values())[1:])

    @property
    def streams(self) -> bool:
        """Whether the command yields objects instead of returning one."""
        return str(self.signature.return_annotation).startswith("Iterator[")

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(self.function)

    def run(self, context: Context, arguments: Mapping[str, Any]) -> Any:
        """Run the command with untrusted arguments and return its typed result.

        Raises:
            UsageError: an argument is missing, unknown or of the wrong type; the message names it.
        """
        try:
            return self._checked(context, **arguments)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(
                f"command {self.name}, argument {where}: {first['msg']}, got {first.get('input')!r}"
            ) from error


_COMMANDS: Final[dict[str, Command]] = {}


def command(name: str, *, role: CommandRole = "admin") -> Callable[[F], F]:
    """Register a function as the command of a name."""

    def register(function: F) -> F:
        _COMMANDS[name] = Command(name=name, role=role, function=function)
        return function

    return register


def registered() -> Mapping[str, Command]:
    """Return every command by name."""
    for module in _MODULES:
        import_module(f"otel_agentic.commands.{module}")
    return _COMMANDS


class Commands(Context):
    """The commands on one engine as methods, such as `Commands(engine).report(k=[1, 3])`; results are JSON values."""

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command with untrusted arguments and return its typed result, or an iterator of them.

        Raises:
            UsageError: there is no such command, or an argument is missing, unknown or of the wrong type.
        """
        commands = registered()
        if name not in commands:
            raise UsageError(f"no command {name!r}; there are {', '.join(commands)}")
        return commands[name].run(self, arguments)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command like `run` and return its result as a JSON value, or an iterator of JSON values."""
        return json_of(self.run(name, arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        commands = {} if name.startswith("_") else registered()
        if name not in commands:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(_call_trusted, commands[name].function, self)


def json_of(result: Any) -> Any:
    """Return a result as a JSON value; of an iterator of results, an iterator of JSON values."""
    return _each_json(result) if inspect.isgenerator(result) else to_json(result)


def _call_trusted(function: Callable[..., Any], context: Context, **arguments: Any) -> Any:
    return json_of(function(context, **arguments))


def _each_json(results: Iterator[Any]) -> Iterator[Any]:
    try:
        for result in results:
            yield to_json(result)
    finally:
        results.close()  # type: ignore[attr-defined]  # a generator
