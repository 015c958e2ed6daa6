"""`otel-agentic store`: how large the store is, what is removed, and the way out of it and in again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from otel_agentic.cli.output import print_json
from otel_agentic.cli.progress import progress_bar
from otel_agentic.errors import StoreBusyError, UsageError

if TYPE_CHECKING:
    from otel_agentic.commands import Client
    from otel_agentic.config import Settings


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
    from otel_agentic.cli.store_show import print_stats  # noqa: PLC0415 — not needed for --help

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
        from otel_agentic.cli.store_show import print_vacuum  # noqa: PLC0415 — same

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
    from otel_agentic.cli.store_files import receive, require_empty  # noqa: PLC0415 — same

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
    from otel_agentic.cli.store_files import find_files, send  # noqa: PLC0415 — same

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
    from otel_agentic.cli.store_files import receive_backup  # noqa: PLC0415 — same

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
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — same
    from otel_agentic.store.backup import restore_backup  # noqa: PLC0415 — same

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
        from otel_agentic.cli.store_show import print_copied  # noqa: PLC0415 — same

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
    from otel_agentic.pipeline import Engine  # noqa: PLC0415 — not needed for --help

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
        from otel_agentic.cli.store_show import print_upgrade  # noqa: PLC0415 — same

        print_upgrade(found)


def _told(told: dict[str, Any], output: str, *, quiet: bool, verb: str) -> None:
    if output == "json":
        print_json(told)
    elif not quiet:
        from otel_agentic.cli.store_show import print_moved  # noqa: PLC0415 — same

        print_moved(told, verb)


def _is_local(client: Client) -> bool:
    from otel_agentic.commands import LocalClient  # noqa: PLC0415 — same

    return isinstance(client, LocalClient)


def _compacted(settings: Settings) -> dict[str, int]:
    from otel_agentic.store.compacting import compact  # noqa: PLC0415 — same

    before, after = compact(settings.store.db)
    return {"bytes_before": before, "bytes_after": after}
