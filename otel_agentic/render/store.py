"""The terminal output of the `store` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.render.terminal import Column, console, numbers, print_table, say
from otel_agentic.render.text import moment, plural, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.results.store import (
        Erasures,
        ExportedStore,
        ImportedStore,
        StoreCopy,
        StoreStats,
        Upgrade,
        Vacuum,
    )

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def size_text(count: int | None) -> str:
    """Return a number of bytes with a decimal unit.

    >>> size_text(12), size_text(262_144), size_text(3_200_000_000)
    ('12 B', '262 kB', '3.2 GB')
    """
    if count is None:
        return ""
    unit = min(len(_UNITS) - 1, max(0, len(str(count)) - 1) // 3)
    size = count / 1000**unit
    return f"{size:,.1f} {_UNITS[unit]}" if unit >= _UNITS.index("GB") else f"{size:,.0f} {_UNITS[unit]}"


def print_stats(statistics: StoreStats) -> None:
    """Print the size of a store and the number of its rows."""
    out = console()
    say(out, str(statistics.db), style="bold")
    say(
        out,
        f"{size_text(statistics.file_bytes)} ({size_text(statistics.free_bytes)} free to be used again), "
        f"log {size_text(statistics.wal_bytes)}, schema {statistics.schema}",
    )
    talks = statistics.conversations
    span = f", {moment(talks.oldest)} to {moment(talks.newest)}" if talks.oldest else ""
    say(out, f"{plural(talks.closed, 'conversation')} closed, {talks.open:,} open{span}")
    _print_retention(statistics)
    rows = [
        (
            row.table,
            f"{row.rows:,}",
            size_text(row.bytes) if row.bytes else "",
            moment(row.oldest),
            moment(row.newest),
        )
        for row in sorted(statistics.tables, key=lambda row: (-row.bytes, -row.rows, row.table))
        if row.rows
    ]
    columns = [
        Column(name="table", unfolded=True),
        *numbers("rows", "on disk"),
        Column(name="oldest", unfolded=True, spare=1),
        Column(name="newest", unfolded=True),
    ]
    print_table(out, columns, rows)


def _print_retention(statistics: StoreStats) -> None:
    out, retention, export = console(), statistics.retention, statistics.export
    sentence = f"data older than {retention.keep} is removed" if retention.keep else "all data is kept"
    if retention.conversations_removed or retention.spans_removed:
        sentence += (
            f"; removed so far: {plural(retention.conversations_removed, 'conversation')}, "
            f"{plural(retention.spans_removed, 'span')}"
        )
    say(out, sentence)
    if export.on or export.written:
        newest = f", the newest {moment(export.newest_hour)}" if export.newest_hour else ""
        say(
            out,
            f"exported to {export.folder}: {plural(export.written, 'hour')}{newest}; {export.waiting:,} waiting",
        )


def print_vacuum(result: Vacuum, *, local: bool) -> None:
    """Print the number of removed rows, and the size of the file."""
    out, removed = console(), result.removed
    if removed is None:
        say(out, "all data is kept (neither --keep nor retention.keep is given)")
    else:
        verb = "would remove" if result.dry_run else "removed"
        say(
            out,
            f"{verb} data older than {result.keep}: {plural(removed.conversations, 'conversation')}, "
            f"{plural(removed.spans, 'span')}, {plural(removed.log_records, 'log record')}",
        )
    if result.file is not None:
        say(
            out,
            f"file: {size_text(result.file.bytes_before)} before, {size_text(result.file.bytes_after)} now",
        )
    elif not local and not result.dry_run:
        say(out, "a collector holds the file: it keeps its size, and its free room is used again")


#: Erased conversations and cases that are listed by name.
_MOST_NAMES: Final = 20


def print_erased(result: Erasures, *, stderr: bool = False) -> None:
    """Print the erased rows, or in a dry run those to erase."""
    out = console(stderr=stderr)
    verb = "would erase" if result.dry_run else "erased"
    names = [item.conversation_id for item in result.conversations]
    say(out, f"{verb} {plural(len(names), 'conversation')}{_listed(names)}")
    if result.cases:
        cases = [f"{case.case_id} ({case.dataset})" if case.dataset else case.case_id for case in result.cases]
        say(out, f"{verb} {plural(len(cases), 'case')} made from them{_listed(cases)}")
    rows = sorted(result.rows.items(), key=lambda item: (-item[1], item[0]))
    print_table(out, [Column(name="table", unfolded=True), *numbers("rows")], [(name, f"{n:,}") for name, n in rows])
    if result.files:
        say(out, f"exported: {plural(result.file_rows, 'row')} in {plural(result.files, 'file')}")
    if result.dry_run:
        return
    if result.judge_verdicts:
        say(
            out,
            f"{plural(result.judge_verdicts, 'verdict')} of judges taken out of the cache; their cost stays counted",
        )
    if result.left:
        say(out, f"{plural(result.left, 'row')} arrived meanwhile: run the command again")
    else:
        say(out, "a search afterwards found nothing in the tables and exported files")
    if result.file is None:
        say(
            out,
            "the collector holds the file: free blocks of it may contain erased text until they are used again, or until "
            "`otel-agentic store vacuum` rewrites it after a stop",
        )
    else:
        say(
            out,
            f"the file was rewritten: {size_text(result.file.bytes_before)} before, {size_text(result.file.bytes_after)} now",
        )
    say(out, "not changed: backups, copies of upgrades, other exports, and telemetry that was sent")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f": {', '.join(map(safe, names[:_MOST_NAMES]))}{more}" if names else ""


def print_copied(result: StoreCopy, verb: str) -> None:
    """Print the content of a backup, or of a store that was restored from one."""
    tables = result.tables
    say(
        console(),
        f"{verb} {result.file}: {size_text(result.bytes)}, {plural(tables['spans'], 'span')}, "
        f"{plural(tables['conversations'], 'conversation')} in all revisions",
    )
    if result.pending:
        say(
            console(),
            f"the store is from an earlier release; `otel-agentic store upgrade` applies {', '.join(result.pending)}",
        )


def print_upgrade(result: Upgrade) -> None:
    """Print the result of an upgrade."""
    if not result.applied:
        say(console(), f"{result.db} is up to date")
        return
    say(console(), f"{result.db} was upgraded: {', '.join(result.applied)}")
    say(console(), f"a copy from before is kept as {result.copy}; remove it once you need no way back")


def print_exported(result: ExportedStore) -> None:
    """Print the number of exported files and rows."""
    out = console()
    if not result.files:
        say(out, "nothing to write: the store holds nothing of that time")
        return
    say(out, f"wrote {plural(result.files, 'file')}, {size_text(result.bytes)}, into {result.folder}")
    columns = [Column(name="table", unfolded=True), Column(name="rows", right=True)]
    print_table(out, columns, [(table, f"{rows:,}") for table, rows in result.tables.items()])


def print_imported(result: ImportedStore) -> None:
    """Print the number of imported files and rows."""
    out = console()
    say(out, f"read {plural(result.files, 'file')}; {plural(result.rebuilt_traces, 'trace')} to be rebuilt")
    columns = [Column(name="table", unfolded=True), Column(name="rows", right=True), Column(name="new", right=True)]
    rows = [(table, f"{counts.rows:,}", f"{counts.new:,}") for table, counts in result.tables.items()]
    print_table(out, columns, rows)
    if result.tables_left_out:
        say(out, f"left out, because a store has no such tables: {', '.join(result.tables_left_out)}")
