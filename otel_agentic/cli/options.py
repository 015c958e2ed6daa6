"""Options that several commands share, the values that they become, and the checks on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from otel_agentic.config import Settings, load_settings
from otel_agentic.errors import BadInputError, StoreBusyError, UsageError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.commands import Client


def require_paths(paths: Sequence[str]) -> None:
    """Refuse paths that are not there; `-` is standard input.

    Raises:
        BadInputError: names each of them.
    """
    missing = [path for path in paths if path != "-" and not Path(path).exists()]
    if missing:
        hint = "give an existing file, a directory, or - for standard input"
        raise BadInputError("\n".join(f"{path}: no such file; {hint}" for path in missing))


def refuse_live(settings: Settings, then: str) -> None:
    """Refuse a store that a collector holds.

    Args:
        settings: they name the store.
        then: what to do once the spans were sent to the collector instead.

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
    """Refuse to start a collector on a file that another one holds: sooner than DuckDB, which is not loaded yet, would.

    Raises:
        StoreBusyError: names the collector's process and address.
    """
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None and live.pid != os.getpid():  # in a container the one before had the same id
        raise StoreBusyError(
            f"{settings.store.db} is held by process {live.pid}, a collector at {live.admin}: one file has one collector; "
            "stop that one, or give another --db"
        )


F = TypeVar("F", bound=Callable[..., Any])

config_option = click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="A TOML settings file."
)
db_option = click.option(
    "--db",
    type=click.Path(path_type=Path),
    help="The DuckDB file; unless given, the one of the settings.",
)
format_option = click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What to print.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print nothing but errors and what --format json asks for.")
cases_option = click.option(
    "--cases",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of cases, in any format of `truth import`; remembered in the store.",
)
labels_option = click.option(
    "--labels",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A CSV of labels: conversation_id[,case_id][,verdict|reward]; remembered in the store.",
)


evaluation_option = click.option(
    "--evaluation",
    metavar="NAME",
    help="Show the scores of this evaluation, such as compat:agentest; unless given, default.",
)


def target_options(command: F) -> F:
    """Add `--db`, `--server` and `--config`."""
    server = click.option("--server", metavar="URL", help="The admin address of a running collector.")
    found: F = db_option(server(config_option(command)))
    return found


def selection_options(command: F) -> F:
    """Add `--since`, `--until` and `--agent`."""
    since = click.option(
        "--since",
        metavar="TIME",
        help="Conversations that ended at or after this time: ISO 8601, or an age such as 7d.",
    )
    until = click.option("--until", metavar="TIME", help="Conversations that ended before this time.")
    agent = click.option("--agent", metavar="GLOB", help="Agents whose name fits, such as 'support-*'.")
    found: F = since(until(agent(command)))
    return found


@contextmanager
def opened(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    progress: Callable[[str, int, int | None], None] = lambda *_: None,
    **sections: dict[str, Any],
) -> Iterator[Client]:
    """Lend a client for the store that the options name, and close it.

    Raises:
        UsageError: both `--db` and `--server` are given.
        StoreError: the file cannot be used.
    """
    from otel_agentic.commands import open_client  # noqa: PLC0415 — only commands on a store pay for it

    if db is not None and server is not None:
        raise UsageError("give --db or --server, not both: a server knows its own file")
    client = open_client(settings_of(config_file, db, **sections), server=server, progress=progress)
    try:
        yield client
    finally:
        client.close()


def make_store(settings: Settings) -> None:
    """Make the file of the store that the settings name, where there is none.

    Raises:
        StoreError: its folder is missing, or the file cannot be written.
    """
    if settings.store.db.exists():
        return
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — only commands on a store pay for it

    Engine(settings, create=True).close()


def settings_of(config_file: Path | None, db: Path | None = None, **sections: dict[str, Any]) -> Settings:
    """Return the settings in force, with what the flags say on top.

    Raises:
        ConfigError: a setting is not allowed.
    """
    if db is not None:
        sections["store"] = {**sections.get("store", {}), "db": db}
    return load_settings(config_file, **sections)


def selection_of(
    since: str | None, until: str | None, agent: str | None, evaluation: str | None = None
) -> dict[str, Any]:
    """Return `--since`, `--until`, `--agent` and `--evaluation` as command arguments; what was not given is left out.

    Raises:
        UsageError: a time cannot be read.
    """
    found = {"since_ns": time_ns(since, "--since"), "until_ns": time_ns(until, "--until"), "agent": agent}
    found["evaluation"] = evaluation
    return {name: value for name, value in found.items() if value is not None}


def time_ns(text: str | None, option: str) -> int | None:
    """Return a time given as ISO 8601 text (UTC unless it says otherwise) or as an age such as 24h, in ns.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None
    from otel_agentic.windows import parse_width  # noqa: PLC0415 — numpy is not needed for --help

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            age_ns = parse_width(text)
        except UsageError as error:
            raise UsageError(
                f"{option} {text!r}: give a time such as 2026-03-01T12:00:00Z, or an age such as 24h"
            ) from error
        return int(datetime.now(UTC).timestamp() * 1e9) - age_ns
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp()) * 1_000_000_000 + aware.microsecond * 1000


def texts_of(paths: tuple[Path, ...], what: str, file_format: str | None = None) -> list[tuple[str, str]]:
    """Return (name, text) of files of ground truth: of labels as they are, of cases as native JSON lines.

    Raises:
        UsageError: a file cannot be read; names it.
        CaseError: a file is not text, or holds cases with problems; lists them all.
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


JUDGE_HELP: Final = "Answer judge, by plug-in name; after a colon what it takes, as in langchain:openai:gpt-5-mini."


#: The settings of flags that are not settings of scoring.
_SETTINGS: Final = {"match-text": "matching.text"}


def require_own_file(client: Client, command: str, scoring: Mapping[str, Any]) -> None:
    """Refuse flags that would be ignored: a collector scores under one evaluator version, its own.

    Raises:
        UsageError: a flag is given and the command runs in a collector.
    """
    from otel_agentic.commands import RemoteClient  # noqa: PLC0415 — not needed for --help

    if not scoring or not isinstance(client, RemoteClient):
        return
    flags = " ".join(_flag(name, value) for name, value in scoring.items())
    names = ", ".join(_SETTINGS.get(name, f"scoring.{name}") for name in scoring if name != "judge")
    do = [f"start it with `otel-agentic serve --judge {scoring['judge']}`"] if "judge" in scoring else []
    do += [f"set {names} in its settings and start it again"] if names else []
    raise UsageError(
        f"{command} {flags}: a running collector holds this file and scores as it was started; {', and '.join(do)}"
    )


def _flag(name: str, value: Any) -> str:
    return f"--{name} {value}"
