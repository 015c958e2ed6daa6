"""The registry of commands, and the context of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from otel_agentic.errors import UsageError
from otel_agentic.results import to_json

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluation.run import OnScored

#: A callback for progress: the stage, the amount that is done, and the total if it is known.
Progress = Callable[[str, int, int | None], None]
#: The role of a token that may run a command: `query` for commands that only read, `review` and `feedback` for those that
#: record verdicts of annotators and of end users, else `admin`.
CommandRole = Literal["query", "review", "feedback", "admin"]
F = TypeVar("F", bound=Callable[..., Any])

#: The commands of each module of this package: to run one, only its module is imported.
_MODULES: Final = {
    "evaluation": "evaluate evaluate_forecast judge_calibrate judge_freeze judge_drift judge_cache judge_clear backfill",
    "reports": "report report_pictures report_conversations monitors acknowledge_alarm tools_failing failures "
    "failures_merged conversations_list conversations_open conversations_show conversations_export",
    "gates": "suites suite_trend gate gate_save_baseline",
    "browsing": "conversations_page matches_page conversation_spans span",
    "truth": "truth_import truth_list truth_case truth_propose truth_save truth_datasets truth_export truth_matches "
    "truth_clusters truth_promote",
    "matches": "truth_choices truth_map",
    "annotations": "label feedback truth_annotations",
    "store": "query store_summary live collector store_stats store_vacuum store_erase store_export store_backup store_import_begin "
    "store_import_piece store_import_table store_import_end",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}


class Context:
    """The resources of a command."""

    def __init__(
        self,
        engine: Engine,
        progress: Progress = lambda *_: None,
        *,
        scored: OnScored = lambda *_: None,
        is_disconnected: Callable[[], bool] = lambda: False,
        locks: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None,
    ) -> None:
        """Store the resources.

        Args:
            engine: the opened store.
            progress: receives the progress of a long command.
            scored: receives the conversations that an evaluation scored (a running collector emits their scores).
            is_disconnected: returns whether the requester has disconnected; a query is then stopped.
            locks: the locks that a running collector holds while it scores and while it computes windows; None without
                one.
        """
        self.engine = engine
        self.progress = progress
        self.on_scored = scored
        self.is_disconnected = is_disconnected
        self.locks = locks

    def showing(self, evaluation: str) -> Engine:
        """Return the engine with a store whose queries show the scores of an evaluation.

        Raises:
            UsageError: the store has no evaluation with this name.
        """
        from otel_agentic.store.connection import require_evaluation  # noqa: PLC0415 — DuckDB is not needed for --help

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
    """A command: a function of a `Context` and keyword arguments.

    The fields of a parameter whose type is a dataclass, such as a `Selection`, are arguments of the command.
    """

    name: str
    role: CommandRole
    function: Callable[..., Any] = field(repr=False)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature without the context."""
        own = inspect.signature(self.function)
        parameters: list[inspect.Parameter] = []
        for parameter in list(own.parameters.values())[1:]:
            parameters += (
                [
                    parameter.replace(
                        name=part.name,
                        default=inspect.Parameter.empty if part.default is MISSING else part.default,
                        annotation=part.type,
                    )
                    for part in fields(self._dataclasses[parameter.name])
                ]
                if parameter.name in self._dataclasses
                else [parameter]
            )
        return own.replace(parameters=parameters)

    @property
    def streams(self) -> bool:
        """Whether the command yields objects instead of returning one."""
        return str(self.signature.return_annotation).startswith("Iterator[")

    def grouped(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, with those that are fields of a dataclass parameter combined into one object."""
        remaining = dict(arguments)
        groups = {
            name: {part.name: remaining.pop(part.name) for part in fields(kind) if part.name in remaining}
            for name, kind in self._dataclasses.items()
        }
        if unknown_names := remaining.keys() & groups.keys():
            raise UsageError(f"command {self.name}, argument {min(unknown_names)}: Unexpected keyword argument")
        return remaining | groups

    def run_trusted(self, context: Context, **arguments: Any) -> Any:
        """Run the command with arguments of the right types and return its result as a JSON value."""
        grouped = self.grouped(arguments)
        objects = {name: kind(**grouped[name]) for name, kind in self._dataclasses.items()}
        with _out_of_memory_explained(self.name, context):
            return json_of(self._explained(context, self.function(context, **grouped | objects)))

    @cached_property
    def _dataclasses(self) -> dict[str, Any]:
        """The parameters whose type is a dataclass, with their types."""
        module_globals = self.function.__globals__
        parameters = inspect.signature(self.function).parameters.values()
        kinds = {parameter.name: module_globals.get(parameter.annotation) for parameter in parameters}
        return {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(self.function)

    def run(self, context: Context, arguments: Mapping[str, Any]) -> Any:
        """Run the command with untrusted arguments and return its typed result.

        Raises:
            UsageError: an argument is missing, unknown or of the wrong type; the message names it.
            StoreUnusableError: its queries need more memory than DuckDB may use.
        """
        from otel_agentic.store.connection import run_within_memory  # noqa: PLC0415 — DuckDB is not needed for --help

        def work() -> Any:
            return self._checked(context, **self.grouped(arguments))

        try:
            with _out_of_memory_explained(self.name, context):
                result = run_within_memory(work, context.engine.memory_lock) if self.role == "query" else work()
                return self._explained(context, result)
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join(str(part) for part in first["loc"] if part not in self._dataclasses)
            raise UsageError(
                f"command {self.name}, argument {location}: {first['msg']}, got {first.get('input')!r}"
            ) from error

    def _explained(self, context: Context, result: Any) -> Any:
        """Return the result; an iterator, whose queries run later, raises the same errors as the command."""
        return _iterate(self.name, context, result) if inspect.isgenerator(result) else result


def _iterate(name: str, context: Context, results: Iterator[Any]) -> Iterator[Any]:
    with _out_of_memory_explained(name, context):
        yield from results


def _out_of_memory_explained(name: str, context: Context) -> AbstractContextManager[None]:
    from otel_agentic.store.connection import out_of_memory_explained  # noqa: PLC0415 — DuckDB is not needed for --help

    return out_of_memory_explained(f"command {name}", context.engine.settings.store)


_COMMANDS: Final[dict[str, Command]] = {}


def command(name: str, *, role: CommandRole = "admin") -> Callable[[F], F]:
    """Return a decorator that registers a function as a command."""

    def register(function: F) -> F:
        if _MODULE_OF.get(name) != function.__module__.rpartition(".")[2]:
            raise ValueError(f"command {name}: `_MODULES` does not list it under its module {function.__module__}")
        _COMMANDS[name] = Command(name=name, role=role, function=function)
        return function

    return register


def registered() -> Mapping[str, Command]:
    """Return every command by name."""
    return {name: _command(name) for name in _MODULE_OF}


def _command(name: str) -> Command:
    import_module(f"otel_agentic.commands.{_MODULE_OF[name]}")
    return _COMMANDS[name]


class Commands(Context):
    """The commands on one engine as methods, such as `Commands(engine).report(k=[1, 3])`; results are JSON values."""

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command with untrusted arguments and return its typed result, or an iterator of them.

        Raises:
            UsageError: the command is unknown, or an argument is missing, unknown or of the wrong type.
        """
        if name not in _MODULE_OF:
            raise UsageError(f"unknown command {name!r}; allowed: {', '.join(_MODULE_OF)}")
        return _command(name).run(self, arguments)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command like `run` and return its result as a JSON value, or an iterator of JSON values."""
        return json_of(self.run(name, arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _MODULE_OF:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(_command(name).run_trusted, self)


def json_of(result: Any) -> Any:
    """Return a result as a JSON value; for an iterator of results, an iterator of JSON values."""
    return _each_json(result) if inspect.isgenerator(result) else to_json(result)


def _each_json(results: Iterator[Any]) -> Iterator[Any]:
    try:
        for result in results:
            yield to_json(result)
    finally:
        results.close()  # type: ignore[attr-defined]  # a generator
