"""`otel-agentic store`: size, retention, export, import, backup and upgrade of the store."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import (
    config_option,
    db_option,
    format_option,
    make_store,
    opened,
    quiet_option,
    settings_of,
    target_options,
    time_ns,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.render.terminal import print_json
from otel_agentic.errors import BackendError, BadInputError, StoreBusyError, UsageError
from otel_agentic.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

if TYPE_CHECKING:
    Progress = Callable[[str, int, int | None], None]

#: Where a file of an export may lie, and nowhere else: what another side tells is no path to be trusted.
_FILE: Final = re.compile(r"(?P<table>[a-z_]{1,40})/(?:day=\d{4}-\d\d-\d\d/(?:hour-\d\d|day)|all)\.parquet")
_PIECE: Final = 4 * 1024 * 1024


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds something: files of two exports would tell things twice.

    Raises:
        UsageError: it is not empty, or no folder.
    """
    try:
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: not empty; give a folder that is empty, or not there yet")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; give a folder that can be written") from error


def receive(folder: Path, pieces: Iterable[Mapping[str, Any]], progress: Progress) -> dict[str, Any]:
    """Write the files whose pieces come, each whole or not at all; return rows by table, files and bytes.

    Raises:
        BackendError: a piece names a path that no export has.
        BadInputError: a file cannot be written.
    """
    from otel_agentic.store.maintenance.export import move_durably, work_folder  # noqa: PLC0415 — only this command pays for it

    tables: dict[str, int] = {}
    files = size = 0
    try:
        with work_folder(folder) as made:
            draft = made / "draft.parquet"
            for piece in pieces:
                progress("exporting", piece["done"], piece["total"])
                if piece["file"] is None:
                    continue
                name = _FILE.fullmatch(piece["file"])
                if name is None:
                    raise BackendError(f"the collector names a file that no export has: {piece['file']!r}")
                data = b64decode(piece["data"])
                with draft.open("ab") as whole:
                    whole.write(data)
                size += len(data)
                if piece["last"]:
                    move_durably(draft, folder / piece["file"])
                    files += 1
                    tables[name["table"]] = tables.get(name["table"], 0) + piece["rows"]
    except OSError as error:
        raise BadInputError(
            f"{folder}: cannot be written: {error.strerror}; make room, or give another folder"
        ) from error
    return {"folder": str(folder), "files": files, "bytes": size, "tables": tables}


def receive_backup(target: Path, pieces: Iterable[Mapping[str, Any]], progress: Progress) -> dict[str, Any]:
    """Write a backup, and verify it before it takes its name; return its path, size, and rows by table.

    Raises:
        BackendError: what came is not what was sent.
        StoreError: what was written cannot be opened as a store.
        BadInputError: the file cannot be written.
    """
    from otel_agentic.store.durability import replacing  # noqa: PLC0415 — same
    from otel_agentic.store.maintenance.backup import verify  # noqa: PLC0415 — only this command pays for it

    digest, sent = hashlib.sha256(), None
    try:
        with replacing(target) as file:
            for piece in pieces:
                progress("backing up", piece["done"], piece["total"])
                if "sha256" in piece:
                    sent = piece["sha256"]
                    continue
                data = b64decode(piece["data"])
                digest.update(data)
                file.write(data)
            if digest.hexdigest() != sent:
                raise BackendError(f"{target}: the backup did not come whole; nothing was written, try again")
            file.flush()
            found = verify(Path(file.name))
    except OSError as error:
        raise BadInputError(
            f"{target}: cannot be written: {error.strerror}; make room, or give another path"
        ) from error
    return {"file": str(target), "bytes": target.stat().st_size, "tables": found.rows, "sha256": sent}


def find_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of an export by table, in order.

    Raises:
        BadInputError: there is no such folder, or no file of an export in it.
    """
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; give what `store export` or a collector wrote")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*/**/*.parquet")):
        name = _FILE.fullmatch(path.relative_to(folder).as_posix())
        if name is not None and path.is_file():
            found.setdefault(name["table"], []).append(path)
    if not found:
        raise BadInputError(f"{folder}: no files of an export in it, such as spans/day=2026-03-01/hour-09.parquet")
    return found


def send(client: Client, files: Mapping[str, list[Path]], progress: Progress) -> dict[str, Any]:
    """Hand files to a store, table by table; return rows and new rows by table.

    Raises:
        BadInputError: a file is no Parquet file of its table, or holds a row that cannot be stored.
        OverloadedError: another import is under way.
    """
    from otel_agentic.store.maintenance.import_files import ORDER  # noqa: PLC0415 — same

    upload = client.call("store_import_begin")["upload"]
    total = sum(len(paths) for table, paths in files.items() if table in ORDER)
    tables: dict[str, dict[str, int]] = {}
    done = 0
    for table in ORDER:
        counts = {"rows": 0, "new": 0}
        for path in files.get(table, ()):
            told = _send_file(client, upload, table, path)
            counts = {name: counts[name] + told[name] for name in counts}
            done += 1
            progress("importing", done, total)
        if table in files:
            counts["new"] += client.call("store_import_table", upload=upload, table=table)["new"]
            tables[table] = counts
    rebuilt = client.call("store_import_end", upload=upload)["rebuilt_traces"]
    left_out = sorted(files.keys() - set(ORDER))
    return {"tables": tables, "files": total, "rebuilt_traces": rebuilt, "tables_left_out": left_out}


def _send_file(client: Client, upload: str, table: str, path: Path) -> dict[str, int]:
    size, read, told = path.stat().st_size, 0, {"rows": 0, "new": 0}
    try:
        with open_regular(path) as whole:
            while data := whole.read(_PIECE):
                read += len(data)
                told = client.call(
                    "store_import_piece", upload=upload, table=table, data=b64encode(data).decode(), last=read >= size
                )
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give a folder that can be read") from error
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    return told


@click.group(short_help="Look after the store: size, age, export, import, backup, upgrade.")
def store() -> None:
    """Look after the store: how large it is, what is removed because it is old, Parquet files out of it and into it."""


@store.command(short_help="Show how large the store is.")
@target_options
@format_option
def stats(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """Show rows and bytes of each table, the age of what it holds, and what retention and export have done."""
    with opened(db, server, config_file) as client:
        found = client.call("store_stats")
    if output == "json":
        print_json(found)
        return
    from otel_agentic.cli.render.store import print_stats  # noqa: PLC0415 — not needed for --help

    print_stats(found)


@store.command(short_help="Remove what is old, and give its room back.")
@target_options
@click.option("--keep", metavar="AGE", help="Remove what is older, such as 12h or 30d; unless given, retention.keep.")
@click.option("--dry-run", is_flag=True, help="Only count what would be removed.")
@format_option
@quiet_option
def vacuum(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    keep: str | None,
    dry_run: bool,
    output: str,
    quiet: bool,
) -> None:
    """Remove conversations and spans that are older than they are to be kept, and write the file anew without its gaps.

    A file that a collector holds keeps its size; it uses the room again.
    """
    with progress_bar(quiet=quiet) as progress, opened(db, server, config_file, progress) as client:
        told = client.call("store_vacuum", keep=keep, dry_run=dry_run)
        local = _is_local(client)
    told["file"] = None
    if local and not dry_run:
        told["file"] = _compacted(settings_of(config_file, db))
    if output == "json":
        print_json(told)
    elif not quiet:
        from otel_agentic.cli.render.store import print_vacuum  # noqa: PLC0415 — same

        print_vacuum(told, local=local)


@store.command(name="export", short_help="Write the store as Parquet files.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@target_options
@click.option("--since", metavar="TIME", help="Days from this one on: ISO 8601, or an age such as 7d.")
@click.option("--until", metavar="TIME", help="Days that begin before this time.")
@format_option
@quiet_option
def export_(
    folder: Path,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    output: str,
    quiet: bool,
) -> None:
    """Write the whole store as Parquet files into FOLDER, which must be empty or not there: `store import` reads them back.

    One file a day of spans, log records and conversations, one file of each other table, ground truth among them.
    """
    require_empty(folder)
    chosen = {"since_ns": time_ns(since, "--since"), "until_ns": time_ns(until, "--until")}
    # A file that this process opens is exported through FOLDER itself; a collector has a folder of its own.
    with (
        progress_bar(quiet=quiet) as progress,
        opened(db, server, config_file, retention={"export_folder": folder.absolute()}) as client,
    ):
        told = receive(folder, client.stream("store_export", **chosen), progress)
    _told(told, output, quiet=quiet, verb="wrote")


@store.command(name="import", short_help="Read Parquet files of an export into the store.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@target_options
@format_option
@quiet_option
def import_(
    folder: Path, db: Path | None, server: str | None, config_file: Path | None, output: str, quiet: bool
) -> None:
    """Read what `store export`, or a collector, wrote into FOLDER. What the store has already is left alone.

    A file that is not there is made. To import twice changes nothing.
    """
    files = find_files(folder)
    if server is None:
        make_store(settings_of(config_file, db))
    with progress_bar(quiet=quiet) as progress, opened(db, server, config_file, progress) as client:
        told = send(client, files, progress)
    _told(told, output, quiet=quiet, verb="read")


@store.command(short_help="Copy the store, also while a collector holds it.")
@click.argument("backup_file", metavar="BACKUP", type=click.Path(path_type=Path, dir_okay=False))
@target_options
@click.option("--force", is_flag=True, help="Replace BACKUP where it exists.")
@format_option
@quiet_option
def backup(
    backup_file: Path,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    force: bool,
    output: str,
    quiet: bool,
) -> None:
    """Write the store as one verified DuckDB file to BACKUP, readable only by its owner.

    The backup holds everything acknowledged before the command started. A running collector keeps receiving and streams the
    copy to this command. `store restore` puts it back. The redaction key, a file next to the store, is not included.
    """
    if backup_file.exists() and not force:
        raise UsageError(f"{backup_file} exists already; give --force to replace it, or another path")
    if server is None and backup_file.resolve() == settings_of(config_file, db).store.db.resolve():
        raise UsageError(f"{backup_file} is the store itself; give another path")
    with progress_bar(quiet=quiet) as progress, opened(db, server, config_file) as client:
        found = receive_backup(backup_file, client.stream("store_backup"), progress)
    _print_copied(found, output, quiet=quiet, verb="wrote")


@store.command(short_help="Put a backup in the place of the store.")
@click.argument("backup_file", metavar="BACKUP", type=click.Path(path_type=Path, dir_okay=False))
@db_option
@config_option
@click.option("--force", is_flag=True, help="Replace the store where it exists: what it holds is lost.")
@format_option
@quiet_option
def restore(
    backup_file: Path, db: Path | None, config_file: Path | None, force: bool, output: str, quiet: bool
) -> None:
    """Copy BACKUP, made by `store backup` or kept by an upgrade, to the place of the store, after it was verified.

    No collector may hold the store. A backup of an earlier release is upgraded when a collector starts, or by `store upgrade`.
    """
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same
    from otel_agentic.store.maintenance.backup import restore_backup  # noqa: PLC0415 — same

    target = settings_of(config_file, db).store.db
    if (live := find_live_server(target)) is not None:
        raise StoreBusyError(f"{target} is held by the collector with process id {live.pid}: stop it first")
    found = restore_backup(backup_file, target, overwrite=force)
    told = {"file": str(target), "bytes": target.stat().st_size, "tables": found.rows, "pending": list(found.pending)}
    _print_copied(told, output, quiet=quiet, verb="restored")


def _print_copied(told: dict[str, Any], output: str, *, quiet: bool, verb: str) -> None:
    if output == "json":
        print_json(told)
    elif not quiet:
        from otel_agentic.cli.render.store import print_copied  # noqa: PLC0415 — same

        print_copied(told, verb)


@store.command(short_help="Bring a store of an earlier release up to date.")
@db_option
@config_option
@format_option
@quiet_option
def upgrade(db: Path | None, config_file: Path | None, output: str, quiet: bool) -> None:
    """Bring the schema of a store up to date with this release, after a copy of the file.

    `serve` and `ingest` do the same when they open a store. Commands that read say that an upgrade is needed, and change
    nothing. Where an upgrade fails, nothing is changed; to go back to an earlier release, `store restore` the copy.
    """
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — not needed for --help

    settings = settings_of(config_file, db)
    with Engine(settings, upgrade=True) as engine:
        done = engine.store.upgraded
    found = {
        "db": str(settings.store.db),
        "applied": list(done.applied) if done else [],
        "copy": str(done.copy) if done else None,
    }
    if output == "json":
        print_json(found)
    elif not quiet:
        from otel_agentic.cli.render.store import print_upgrade  # noqa: PLC0415 — same

        print_upgrade(found)


def _told(told: dict[str, Any], output: str, *, quiet: bool, verb: str) -> None:
    if output == "json":
        print_json(told)
    elif not quiet:
        from otel_agentic.cli.render.store import print_moved  # noqa: PLC0415 — same

        print_moved(told, verb)


def _is_local(client: Client) -> bool:
    from otel_agentic.commands import LocalClient  # noqa: PLC0415 — same

    return isinstance(client, LocalClient)


def _compacted(settings: Settings) -> dict[str, int]:
    from otel_agentic.store.maintenance.vacuum import compact  # noqa: PLC0415 — same

    before, after = compact(settings.store.db)
    return {"bytes_before": before, "bytes_after": after}
