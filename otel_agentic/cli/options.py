"""Options shared by several commands, their conversion to values, and their checks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from otel_agentic.cli.help import SharedOption
from otel_agentic.errors import BadInputError, StoreBusyError, UsageError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from otel_agentic.commands import Client
    from otel_agentic.config import Settings


def require_paths(paths: Sequence[str]) -> None:
    """Reject paths that do not exist; `-` is standard input.

    Raises:
        BadInputError: paths are missing; names all of them.
    """
    missing_paths = [path for path in paths if path != "-" and not Path(path).exists()]
    if missing_paths:
        hint = "give an existing file, a directory, or - for standard input"
        raise BadInputError("\n".join(f"{path}: no such file; {hint}" for path in missing_paths))


def refuse_live(settings: Settings, then: str) -> None:
    """Reject a store that a collector holds.

    Args:
        settings: the settings with the path of the store.
        then: the instruction that follows "send the spans to it" in the message.

    Raises:
        StoreBusyError: names the collector's process and address.
    """
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None:
        raise StoreBusyError(
            f"{settings.store.db} is held by the collector with process id {live.pid}: send the spans to it "
            f"({live.http or live.grpc}){then}, or give another --db"
        )


def refuse_second(settings: Settings) -> None:
    """Refuse to start a collector on a file that another one holds, before DuckDB is loaded.

    Raises:
        StoreBusyError: names the collector's process and address.
    """
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None and live.pid != os.getpid():  # in a container, the previous collector had the same process id
        raise StoreBusyError(
            f"{settings.store.db} is held by process {live.pid}, a collector at {live.admin}: a file can have only one "
            "collector; stop that one, or give another --db"
        )


F = TypeVar("F", bound=Callable[..., Any])
#: Progress of a long command: the stage, how much of it is done, and the total if it is known.
Progress = Callable[[str, int, int | None], None]
#: Values of settings by name, given as flags.
Section = dict[str, object]

FILE: Final = click.Path(path_type=Path, dir_okay=False)
FOLDER: Final = click.Path(path_type=Path, file_okay=False)

config_option = click.option("--config", "config_file", type=FILE, cls=SharedOption, hidden=True)
db_option = click.option("--db", type=click.Path(path_type=Path), cls=SharedOption, hidden=True)
quiet_option = click.option("--quiet", is_flag=True, help="Print only errors and the output of --format json.")
cases_option = click.option(
    "--cases", multiple=True, type=FILE, help="A file of cases, in any format of `truth import`; kept in the store."
)
labels_option = click.option(
    "--labels",
    multiple=True,
    type=FILE,
    help="A CSV of labels: conversation_id[,case_id][,verdict|reward]; kept in the store.",
)
evaluation_option = click.option(
    "--evaluation",
    metavar="NAME",
    help="Show the scores of this evaluation, such as compat:agentest. Default: `default`.",
)
JUDGE_HELP: Final = "Answer judge, by plug-in name; its argument follows a colon, as in langchain:openai:gpt-5-mini."
judge_option = click.option("--judge", metavar="NAME", help=JUDGE_HELP)


def output_option(*formats: str, note: str = "") -> Callable[[F], F]:
    """Return the option `--format` with these formats; the first one is the default.

    Args:
        formats: the names.
        note: the end of the help text.
    """
    return click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help=f"Output format{note}.",
    )


format_option = output_option("table", "json")


_EARLIER_FILE: Final = f"{__name__}.earlier_file"


def file_option(help_text: str, *, alias: str | None = None) -> Callable[[F], F]:
    """Return the option `-o/--output FILE`, which the command receives as `file`.

    Args:
        help_text: the help text.
        alias: the earlier name of the option, which is hidden and accepted with a warning.
    """

    def merge(context: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
        earlier: Path | None = context.meta.get(_EARLIER_FILE)
        return earlier if value is None else value

    def warn(context: click.Context, _: click.Parameter, value: Path | None) -> None:
        if value is not None:
            click.echo(f"otel-agentic: {alias} is deprecated; use -o or --output", err=True)
            context.meta[_EARLIER_FILE] = value

    option = click.option("-o", "--output", "file", type=FILE, callback=merge, help=help_text)
    if alias is None:
        return option
    earlier = click.option(alias, type=FILE, hidden=True, is_eager=True, expose_value=False, callback=warn)
    return lambda command: option(earlier(command))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The store of a command: a file, or the one that a running collector holds."""

    db: Path | None
    server: str | None
    config_file: Path | None

    @property
    def options(self) -> str:
        """The given options as text, with which another command selects the same store; empty without any."""
        values = {"--db": self.db, "--server": self.server, "--config": self.config_file}
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in values.items() if value is not None)

    def settings(self, **sections: Section) -> Settings:
        """Return the effective settings, with the values of flags applied.

        Raises:
            ConfigError: a setting is invalid.
        """
        return settings_of(self.config_file, self.db, **sections)

    @contextmanager
    def open(self, progress: Progress = lambda *_: None, **sections: Section) -> Iterator[Client]:
        """Open a client for the store, and close it on exit.

        Raises:
            UsageError: both `--db` and `--server` are given.
            StoreError: the file cannot be used.
        """
        from otel_agentic.commands import open_client  # noqa: PLC0415 — only commands on a store need it

        if self.db is not None and self.server is not None:
            raise UsageError("give --db or --server, not both: a server has its own file")
        client = open_client(self.settings(**sections), server=self.server, progress=progress)
        try:
            yield client
        finally:
            client.close()


def target_options(command: F) -> F:
    """Add `--db`, `--server` and `--config`; the command receives them as `target`."""
    server = click.option("--server", cls=SharedOption, hidden=True)
    return db_option(server(config_option(_grouped(command, Target, "target"))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options that select conversations, as text."""

    since: str | None
    until: str | None
    agent: str | None
    agent_version: str | None
    environment: str | None
    evaluation: str | None = None

    @property
    def arguments(self) -> Section:
        """The arguments for a command of `otel_agentic.commands`; None for options that are not given.

        Raises:
            UsageError: a time cannot be read.
        """
        since_ns, until_ns = time_ns(self.since, "--since"), time_ns(self.until, "--until")
        return {
            "since_ns": since_ns,
            "until_ns": until_ns,
            "agent": self.agent,
            "agent_version": self.agent_version,
            "environment": self.environment,
            "evaluation": self.evaluation,
        }


#: The last one comes first in help pages.
_SELECTION_OPTIONS: Final = (
    click.option("--environment", metavar="NAME", help="Conversations of this deployment environment."),
    click.option("--agent-version", metavar="VERSION", help="Conversations of this version of an agent."),
    click.option("--agent", metavar="GLOB", help="Agents whose name matches, such as 'support-*'."),
    click.option("--until", metavar="TIME", help="Conversations that ended before this time."),
    click.option(
        "--since",
        metavar="TIME",
        help="Conversations that ended at or after this time: ISO 8601, or an age such as 7d.",
    ),
)


def conversation_options(command: F) -> F:
    """Add the options of `Selection` except `--evaluation`; the command receives them as `selection`."""
    decorated = _grouped(command, Selection, "selection", without=("evaluation",))
    for option in _SELECTION_OPTIONS:
        decorated = option(decorated)
    return decorated


def selection_options(command: F) -> F:
    """Add the options of `Selection`; the command receives them as `selection`."""
    decorated = evaluation_option(_grouped(command, Selection, "selection"))
    for option in _SELECTION_OPTIONS:
        decorated = option(decorated)
    return decorated


def _grouped(command: F, kind: type[Any], name: str, without: Sequence[str] = ()) -> F:
    """Return a command that receives the options that are fields of a dataclass as one argument."""
    members = [field.name for field in fields(kind) if field.name not in without]

    @wraps(command)
    def grouped(**options: Any) -> Any:
        group = kind(**{member: options.pop(member) for member in members})
        return command(**{name: group}, **options)

    return cast("F", grouped)


def present(**values: object) -> Section:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def create_store(settings: Settings) -> None:
    """Create the configured store if its file does not exist.

    Raises:
        StoreError: its folder is missing, or the file cannot be written.
    """
    if settings.store.db.exists():
        return
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — only commands on a store need it

    Engine(settings, create=True).close()


def settings_of(config_file: Path | None, db: Path | None = None, **sections: Section) -> Settings:
    """Return the effective settings, with the values of flags applied.

    Raises:
        ConfigError: a setting is invalid.
    """
    from otel_agentic.config import load_settings  # noqa: PLC0415 — pydantic is not needed for --help

    if db is not None:
        sections["store"] = {**sections.get("store", {}), "db": db}
    return load_settings(config_file, **sections)


def time_ns(text: str | None, option: str) -> int | None:
    """Return a time in ns, from ISO 8601 text (UTC unless it has an offset) or an age such as 24h.

    Raises:
        UsageError: the text is neither.
    """
    if text is None:
        return None
    from otel_agentic.windows import time_ns as ns_of  # noqa: PLC0415 — numpy is not needed for --help

    return ns_of(text, option)


def truth_of(settings: Settings, cases: tuple[Path, ...], labels: tuple[Path, ...]) -> dict[str, list[tuple[str, str]]]:
    """Return the ground truth that options name, else that of the settings, as arguments of a command. Raises what `texts_of` raises."""
    return {
        "cases": texts_of(cases or _files_in(settings.truth.cases), "cases"),
        "labels": texts_of(labels or _files_in(settings.truth.labels), "labels"),
    }


def _files_in(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return files, and the files in folders, sorted by name, without hidden ones."""
    return tuple(
        file
        for path in paths
        for file in (sorted(path.glob("[!.]*.*")) if path.is_dir() else [path])
        if not file.is_dir()
    )


def texts_of(paths: tuple[Path, ...], what: str, file_format: str | None = None) -> list[tuple[str, str]]:
    """Return (name, text) of ground truth files: labels unchanged, cases as native JSON lines.

    Raises:
        UsageError: a file cannot be read; the message names it.
        CaseError: a file is not text, or contains invalid cases; lists all problems.
    """
    if not paths:
        return []
    if what == "cases":
        from otel_agentic.evaluation.case_files import native_texts  # noqa: PLC0415 — pydantic models are not needed for --help

        return native_texts(paths, file_format)
    from otel_agentic.truth.load import decoded  # noqa: PLC0415 — same

    try:
        return [(str(path), decoded(read_regular(path), str(path), what)) for path in paths]
    except OSError as error:
        raise UsageError(f"{what} file {error.filename}: {error.strerror}; give a readable file") from error


def numbers_of(text: str | None, option: str) -> list[int] | None:
    """Return a list such as `1,3,5`.

    Raises:
        UsageError: a part is not a whole number.
    """
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: give whole numbers such as 1,3,5") from error


#: Flags whose setting is not in the section `scoring`.
_SETTINGS: Final = {"match-text": "matching.text"}


def require_own_file(client: Client, command: str, scoring: Section) -> None:
    """Reject flags that a collector would ignore, since it scores under its own evaluator version only.

    Raises:
        UsageError: a flag is given and the command runs in a collector.
    """
    if not scoring or not client.is_remote:
        return
    flags = " ".join(f"--{name} {value}" for name, value in scoring.items())
    names = ", ".join(_SETTINGS.get(name, f"scoring.{name}") for name in scoring if name != "judge")
    do = [f"start it with `otel-agentic serve --judge {scoring['judge']}`"] if "judge" in scoring else []
    do += [f"set {names} in its settings and restart it"] if names else []
    raise UsageError(
        f"{command} {flags}: a running collector holds the store and scores with its own settings; {', and '.join(do)}"
    )
