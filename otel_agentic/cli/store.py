"""`otel-agentic store`: size, retention, export, import, backup and upgrade of the store."""

from __future__ import annotations

import hashlib
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.options import (
    FILE,
    FOLDER,
    Target,
    config_option,
    create_store,
    db_option,
    format_option,
    quiet_option,
    settings_of,
    target_options,
    time_ns,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.errors import BackendError, BadInputError, StoreBusyError, UsageError
from otel_agentic.regular_files import open_regular
from otel_agentic.render.store import (
    print_copied,
    print_erased,
    print_exported,
    print_imported,
    print_stats,
    print_upgrade,
    print_vacuum,
)
from otel_agentic.render.terminal import print_result
from otel_agentic.results.store import (
    BackupPiece,
    Erasures,
    ExportedStore,
    FilePiece,
    FileSize,
    ImportedRows,
    ImportedStore,
    StoreCopy,
    StoreStats,
    Upgrade,
    Vacuum,
)

if TYPE_CHECKING:
    from otel_agentic.cli.options import Progress
    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

#: The only valid paths of export files: a path received from a collector is untrusted input.
_FILE: Final = re.compile(r"(?P<table>[a-z_]{1,40})/(?:day=\d{4}-\d\d-\d\d/(?:hour-\d\d|day)|all)\.parquet")
_PIECE: Final = 4 * 1024 * 1024


def require_empty(folder: Path) -> None:
    """Reject a folder that is not empty, since the files of two exports would contain duplicates.

    Raises:
        UsageError: the folder is not empty, or not a folder.
    """
    try:
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: not empty; give an empty or new folder")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; give a writable folder") from error


def receive(folder: Path, pieces: Iterable[FilePiece], progress: Progress) -> ExportedStore:
    """Write the files of a stream of pieces, each one atomically.

    Raises:
        BackendError: a piece has an invalid path.
        BadInputError: a file cannot be written.
    """
    from otel_agentic.store.maintenance.export import move_durably, work_folder  # noqa: PLC0415 — only this command needs it

    tables: dict[str, int] = {}
    files = size = 0
    try:
        with work_folder(folder) as work:
            draft = work / "draft.parquet"
            for piece in pieces:
                progress("exporting", piece.done, piece.total)
                if piece.file is None:
                    continue
                name = _FILE.fullmatch(piece.file)
                if name is None:
                    raise BackendError(f"the collector sent an invalid file name: {piece.file!r}")
                data = b64decode(piece.data)
                with draft.open("ab") as file:
                    file.write(data)
                size += len(data)
                if piece.last:
                    move_durably(draft, folder / piece.file)
                    files += 1
                    tables[name["table"]] = tables.get(name["table"], 0) + piece.rows
    except OSError as error:
        raise BadInputError(
            f"{folder}: cannot be written: {error.strerror}; free space, or give another folder"
        ) from error
    return ExportedStore(folder=str(folder), files=files, bytes=size, tables=tables)


def receive_backup(target: Path, pieces: Iterable[BackupPiece], progress: Progress) -> StoreCopy:
    """Write a backup and verify it before it is renamed to its path.

    Raises:
        BackendError: the received data differ from the sent data.
        StoreError: the written file cannot be opened as a store.
        BadInputError: the file cannot be written.
    """
    from otel_agentic.store.durability import replacing  # noqa: PLC0415 — same
    from otel_agentic.store.maintenance.backup import verify  # noqa: PLC0415 — only this command needs it

    digest, sent_digest = hashlib.sha256(), None
    try:
        with replacing(target) as file:
            for piece in pieces:
                progress("backing up", piece.done, piece.total)
                if piece.data is None:
                    sent_digest = piece.sha256
                    continue
                data = b64decode(piece.data)
                digest.update(data)
                file.write(data)
            if digest.hexdigest() != sent_digest:
                raise BackendError(f"{target}: the backup was received incompletely; nothing was written, try again")
            file.flush()
            backup = verify(Path(file.name))
    except OSError as error:
        raise BadInputError(
            f"{target}: cannot be written: {error.strerror}; free space, or give another path"
        ) from error
    return StoreCopy(file=str(target), bytes=target.stat().st_size, tables=backup.rows, sha256=sent_digest)


def find_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of an export by table, in order.

    Raises:
        BadInputError: the folder does not exist, or contains no export file.
    """
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; give a folder written by `store export` or a collector")
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*/**/*.parquet")):
        name = _FILE.fullmatch(path.relative_to(folder).as_posix())
        if name is not None and path.is_file():
            files.setdefault(name["table"], []).append(path)
    if not files:
        raise BadInputError(f"{folder}: no export files, such as spans/day=2026-03-01/hour-09.parquet")
    return files


def send(client: Client, files: Mapping[str, list[Path]], progress: Progress) -> ImportedStore:
    """Send files to a store, table by table.

    Raises:
        BadInputError: a file is not a Parquet file of its table, or contains a row that cannot be stored.
        OverloadedError: another import is in progress.
    """
    from otel_agentic.store.maintenance.import_files import ORDER  # noqa: PLC0415 — same

    upload = client.call("store_import_begin")["upload"]
    total = sum(len(paths) for table, paths in files.items() if table in ORDER)
    tables: dict[str, ImportedRows] = {}
    done = 0
    for table in ORDER:
        rows = new_rows = 0
        for path in files.get(table, ()):
            imported_rows = _send_file(client, upload, table, path)
            rows, new_rows, done = rows + imported_rows.rows, new_rows + imported_rows.new, done + 1
            progress("importing", done, total)
        if table in files:
            new_rows += client.get(ImportedRows, "store_import_table", upload=upload, table=table).new
            tables[table] = ImportedRows(rows=rows, new=new_rows)
    rebuilt = client.call("store_import_end", upload=upload)["rebuilt_traces"]
    left_out = sorted(files.keys() - set(ORDER))
    return ImportedStore(tables=tables, files=total, rebuilt_traces=rebuilt, tables_left_out=left_out)


def _send_file(client: Client, upload: str, table: str, path: Path) -> ImportedRows:
    size, read, counts = path.stat().st_size, 0, ImportedRows(rows=0, new=0)
    try:
        with open_regular(path) as file:
            while data := file.read(_PIECE):
                read += len(data)
                piece = {"upload": upload, "table": table, "data": b64encode(data).decode(), "last": read >= size}
                counts = client.get(ImportedRows, "store_import_piece", **piece)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give a readable folder") from error
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    return counts


@click.group(cls=HelpfulGroup)
def store() -> None:
    """Manage the store: size, retention, Parquet export and import, backup and upgrade."""


@store.command(short_help="Show the size of the store.")
@target_options
@format_option
def stats(target: Target, output: str) -> None:
    """Show rows, bytes and age of each table, and the state of retention and export."""
    with target.open() as client:
        result = client.get(StoreStats, "store_stats")
    print_result(result, output, print_stats)


@store.command(short_help="Remove old data, and free its disk space.")
@target_options
@click.option(
    "--keep", metavar="AGE", help="Remove data older than this age, such as 12h or 30d. Default: retention.keep."
)
@click.option("--dry-run", is_flag=True, help="Only count the data to remove.")
@format_option
@quiet_option
def vacuum(
    target: Target,
    keep: str | None,
    dry_run: bool,
    output: str,
    quiet: bool,
) -> None:
    """Remove conversations and spans older than the retention age, and rewrite the file without gaps.

    A file that a collector holds keeps its size; the collector reuses the space.
    """
    with progress_bar(quiet=quiet) as progress, target.open(progress) as client:
        result = client.get(Vacuum, "store_vacuum", keep=keep, dry_run=dry_run)
        local = not client.is_remote
    if local and not dry_run:
        result = replace(result, file=_compacted(target.settings()))
    print_result(result, output, partial(print_vacuum, local=local), quiet=quiet)


@store.command(short_help="Erase a conversation, or everything of a person.")
@target_options
@click.option("--user", metavar="ID", help="Erase the conversations and the feedback of this end user.")
@click.option("--conversation", metavar="ID", help="Erase this conversation.")
@click.option("--environment", metavar="NAME", help="Only in this environment. Default: in all environments.")
@click.option("--dry-run", is_flag=True, help="Only count what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@format_option
@quiet_option
def erase(
    target: Target,
    user: str | None,
    conversation: str | None,
    environment: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
    quiet: bool,
) -> None:
    """Erase a conversation or a person from tables, exported Parquet files, snapshots, annotations and cases.

    A conversation belongs to a person if a span of it has the person's id, for example as `user.id`. Backups, folders of `store
    export` and telemetry that was sent are not changed. A file that a collector holds is rewritten by `store vacuum`, once the
    collector has stopped.
    """
    arguments = {"user": user, "conversation_id": conversation, "environment": environment}
    with target.open() as client:
        result = client.get(Erasures, "store_erase", **arguments, dry_run=True)
        if not dry_run:
            if not yes:
                _confirm_erasure(result)
            result = client.get(Erasures, "store_erase", **arguments)
        local = not client.is_remote
    if local and not dry_run:
        result = replace(result, file=_compacted(target.settings()))
    print_result(result, output, print_erased, quiet=quiet)


def _confirm_erasure(expected: Erasures) -> None:
    """Ask on a terminal whether to erase.

    Raises:
        UsageError: there is no terminal, or the answer is no.
    """
    print_erased(expected, stderr=True)
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError("pass --yes to erase this, or --dry-run to only count it")
    if not click.confirm("This cannot be undone. Erase it?", err=True):
        raise UsageError("nothing was erased")


@store.command(name="export", short_help="Write the store as Parquet files.")
@click.argument("folder", type=FOLDER)
@target_options
@click.option("--since", metavar="TIME", help="Only days from this time on: ISO 8601, or an age such as 7d.")
@click.option("--until", metavar="TIME", help="Only days that begin before this time.")
@format_option
@quiet_option
def export_(
    folder: Path,
    target: Target,
    since: str | None,
    until: str | None,
    output: str,
    quiet: bool,
) -> None:
    """Write the whole store as Parquet files into FOLDER, which must be empty or new. `store import` reads them.

    There is one file per day of spans, log records and conversations, and one file for each other table, including ground
    truth.
    """
    require_empty(folder)
    time_range = {"since_ns": time_ns(since, "--since"), "until_ns": time_ns(until, "--until")}
    # A local store is exported through FOLDER itself; a collector has its own folder.
    with (
        progress_bar(quiet=quiet) as progress,
        target.open(retention={"export_folder": folder.absolute()}) as client,
    ):
        result = receive(folder, client.stream_of(FilePiece, "store_export", **time_range), progress)
    print_result(result, output, print_exported, quiet=quiet)


@store.command(name="import", short_help="Read Parquet files of an export into the store.")
@click.argument("folder", type=FOLDER)
@target_options
@format_option
@quiet_option
def import_(folder: Path, target: Target, output: str, quiet: bool) -> None:
    """Read the files in FOLDER that `store export` or a collector wrote. Existing rows of the store are not changed.

    The store is created if it does not exist. Importing twice changes nothing.
    """
    files = find_files(folder)
    if target.server is None:
        create_store(target.settings())
    with progress_bar(quiet=quiet) as progress, target.open(progress) as client:
        result = send(client, files, progress)
    print_result(result, output, print_imported, quiet=quiet)


@store.command(short_help="Copy the store, also while a collector holds it.")
@click.argument("backup_file", metavar="BACKUP", type=FILE)
@target_options
@click.option("--force", is_flag=True, help="Replace BACKUP if it exists.")
@format_option
@quiet_option
def backup(
    backup_file: Path,
    target: Target,
    force: bool,
    output: str,
    quiet: bool,
) -> None:
    """Write the store as one verified DuckDB file to BACKUP, readable only by its owner.

    The backup contains all data acknowledged before the command started. A running collector keeps receiving and streams the
    copy to this command. `store restore` restores it. The redaction key, a file next to the store, is not included.
    """
    if backup_file.exists() and not force:
        raise UsageError(f"{backup_file} already exists; give --force to replace it, or another path")
    if target.server is None and backup_file.resolve() == target.settings().store.db.resolve():
        raise UsageError(f"{backup_file} is the store itself; give another path")
    with progress_bar(quiet=quiet) as progress, target.open() as client:
        result = receive_backup(backup_file, client.stream_of(BackupPiece, "store_backup"), progress)
    print_result(result, output, partial(print_copied, verb="wrote"), quiet=quiet)


@store.command(short_help="Restore a backup of the store.")
@click.argument("backup_file", metavar="BACKUP", type=FILE)
@db_option
@config_option
@click.option("--force", is_flag=True, help="Replace the store if it exists; its data are lost.")
@format_option
@quiet_option
def restore(
    backup_file: Path, db: Path | None, config_file: Path | None, force: bool, output: str, quiet: bool
) -> None:
    """Verify BACKUP, written by `store backup` or kept by an upgrade, and copy it to the path of the store.

    No collector may hold the store. A backup of an earlier release is upgraded when a collector starts, or by `store upgrade`.
    """
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same
    from otel_agentic.store.maintenance.backup import restore_backup  # noqa: PLC0415 — same

    target = settings_of(config_file, db).store.db
    if (live := find_live_server(target)) is not None:
        raise StoreBusyError(f"{target} is held by the collector with process id {live.pid}: stop it first")
    restored_store = restore_backup(backup_file, target, overwrite=force)
    result = StoreCopy(
        file=str(target), bytes=target.stat().st_size, tables=restored_store.rows, pending=list(restored_store.pending)
    )
    print_result(result, output, partial(print_copied, verb="restored"), quiet=quiet)


@store.command(short_help="Upgrade a store of an earlier release.")
@db_option
@config_option
@format_option
@quiet_option
def upgrade(db: Path | None, config_file: Path | None, output: str, quiet: bool) -> None:
    """Copy the file of a store, then upgrade its schema to this release.

    `serve` and `ingest` do the same when they open a store. Commands that read report that an upgrade is needed, and change
    nothing. A failed upgrade changes nothing. To return to an earlier release, run `store restore` with the copy.
    """
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — not needed for --help

    settings = settings_of(config_file, db)
    with Engine(settings, upgrade=True) as engine:
        done = engine.store.upgraded
    result = Upgrade(
        db=str(settings.store.db),
        applied=list(done.applied) if done else [],
        copy=str(done.copy) if done else None,
    )
    print_result(result, output, print_upgrade, quiet=quiet)


def _compacted(settings: Settings) -> FileSize:
    from otel_agentic.store.maintenance.vacuum import compact  # noqa: PLC0415 — same

    before, after = compact(settings.store.db)
    return FileSize(bytes_before=before, bytes_after=after)
