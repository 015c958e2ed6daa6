"""What the commands of `store` print for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.render.terminal import Column, console, print_table, say
from otel_agentic.cli.render.text import moment, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def size_text(count: int | None) -> str:
    """Return a number of bytes as people read it.

    >>> size_text(12), size_text(262_144), size_text(3_200_000_000)
    ('12 B', '262 kB', '3.2 GB')
    """
    if count is None:
        return ""
    unit = min(len(_UNITS) - 1, max(0, len(str(count)) - 1) // 3)
    size = count / 1000**unit
    return f"{size:,.1f} {_UNITS[unit]}" if unit >= _UNITS.index("GB") else f"{size:,.0f} {_UNITS[unit]}"


def print_stats(found: Mapping[str, Any]) -> None:
    """Print how large a store is, and what it holds."""
    out = console()
    say(out, str(found["db"]), style="bold")
    say(
        out,
        f"{size_text(found['file_bytes'])} ({size_text(found['free_bytes'])} free to be used again), "
        f"log {size_text(found['wal_bytes'])}, schema {found['schema']}",
    )
    talks = found["conversations"]
    span = f", {moment(talks['oldest'])} to {moment(talks['newest'])}" if talks["oldest"] else ""
    say(out, f"{plural(talks['closed'], 'conversation')} closed, {talks['open']:,} open{span}")
    _print_kept(found)
    rows = [
        (
            row["table"],
            f"{row['rows']:,}",
            size_text(row["bytes"]) if row["bytes"] else "",
            moment(row["oldest"]),
            moment(row["newest"]),
        )
        for row in sorted(found["tables"], key=lambda row: (-row["bytes"], -row["rows"], row["table"]))
        if row["rows"]
    ]
    columns = [
        Column(name="table", whole=True),
        Column(name="rows", right=True),
        Column(name="on disk", right=True),
        Column(name="oldest", whole=True, spare=1),
        Column(name="newest", whole=True),
    ]
    print_table(out, columns, rows)


def _print_kept(found: Mapping[str, Any]) -> None:
    out, kept, export = console(), found["retention"], found["export"]
    said = f"what is older than {kept['keep']} is removed" if kept["keep"] else "all is kept"
    if kept["conversations_removed"] or kept["spans_removed"]:
        said += (
            f"; removed so far: {plural(kept['conversations_removed'], 'conversation')}, "
            f"{plural(kept['spans_removed'], 'span')}"
        )
    say(out, said)
    if export["on"] or export["written"]:
        newest = f", the newest {moment(export['newest_hour'])}" if export["newest_hour"] else ""
        say(
            out,
            f"exported to {export['folder']}: {plural(export['written'], 'hour')}{newest}; {export['waiting']:,} waiting",
        )


def print_vacuum(told: Mapping[str, Any], *, local: bool) -> None:
    """Print what was removed, and what became of the file."""
    out, removed = console(), told["removed"]
    if removed is None:
        say(out, "all is kept (neither --keep nor retention.keep is given)")
    else:
        verb = "would remove" if told["dry_run"] else "removed"
        say(
            out,
            f"{verb} what is older than {told['keep']}: {plural(removed['conversations'], 'conversation')}, "
            f"{plural(removed['spans'], 'span')}, {plural(removed['log_records'], 'log record')}",
        )
    if told["file"] is not None:
        say(
            out, f"file: {size_text(told['file']['bytes_before'])} before, {size_text(told['file']['bytes_after'])} now"
        )
    elif not local and not told["dry_run"]:
        say(out, "a collector holds the file: it keeps its size, and its free room is used again")


def print_copied(told: Mapping[str, Any], verb: str) -> None:
    """Print what a backup holds, or a store that was restored from one."""
    tables = told["tables"]
    say(
        console(),
        f"{verb} {told['file']}: {size_text(told['bytes'])}, {plural(tables['spans'], 'span')}, "
        f"{plural(tables['conversations'], 'conversation')} in all revisions",
    )
    if told.get("pending"):
        say(
            console(), f"it is of an earlier release; `otel-agentic store upgrade` applies {', '.join(told['pending'])}"
        )


def print_upgrade(found: Mapping[str, Any]) -> None:
    """Print what an upgrade did."""
    if not found["applied"]:
        say(console(), f"{found['db']} is up to date")
        return
    say(console(), f"{found['db']} was upgraded: {', '.join(found['applied'])}")
    say(console(), f"a copy from before is kept as {found['copy']}; remove it once you need no way back")


def print_moved(told: Mapping[str, Any], verb: str) -> None:
    """Print what was exported or imported."""
    out = console()
    if verb == "wrote" and not told["files"]:
        say(out, "nothing to write: the store holds nothing of that time")
        return
    if verb == "wrote":
        say(out, f"wrote {plural(told['files'], 'file')}, {size_text(told['bytes'])}, into {told['folder']}")
        print_table(
            out,
            [Column(name="table", whole=True), Column(name="rows", right=True)],
            [(table, f"{rows:,}") for table, rows in told["tables"].items()],
        )
        return
    say(out, f"read {plural(told['files'], 'file')}; {plural(told['rebuilt_traces'], 'trace')} to be rebuilt")
    print_table(
        out,
        [Column(name="table", whole=True), Column(name="rows", right=True), Column(name="new", right=True)],
        [(table, f"{counts['rows']:,}", f"{counts['new']:,}") for table, counts in told["tables"].items()],
    )
    if told["tables_left_out"]:
        say(out, f"left out, for they are no tables of a store: {', '.join(told['tables_left_out'])}")
