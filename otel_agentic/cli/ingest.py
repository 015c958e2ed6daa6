"""`otel-agentic ingest`: files into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import config_option, db_option, format_option, quiet_option, settings_of
from otel_agentic.cli.output import console, print_json, progress_bar, table
from otel_agentic.errors import DecodeError, StoreBusyError

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.pipeline import Ingested


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@db_option
@format_option
@quiet_option
@config_option
def ingest(
    paths: tuple[str, ...],
    db: Path | None,
    output: str,
    quiet: bool,
    config_file: Path | None,
) -> None:
    """Read OTLP files (JSON lines, protobuf, gzip, zstd), directories or `-` into the store; conversations close.

    A part that cannot be read is reported with file and line, counted as rejected, and loses nothing else.
    """
    settings = settings_of(config_file, db)
    _refuse_live(settings)
    with progress_bar(quiet=quiet) as progress:
        from otel_agentic.pipeline import Engine, ingest_files  # noqa: PLC0415 — not needed for --help

        with Engine(settings, create=True) as engine:
            done = ingest_files(engine, paths, progress)
    summary = summary_json(done)
    if output == "json":
        print_json(summary)
    elif not quiet:
        _print(summary)
    if done.problems:
        raise DecodeError("\n".join(done.problems))


def summary_json(done: Ingested) -> dict[str, Any]:
    """Return what an ingest did as JSON can say it."""
    receipt, saved = done.receipt, done.rebuilt.saved
    return {
        "spans": {
            "stored": receipt.accepted,
            "duplicate": receipt.duplicate,
            "rejected": receipt.rejected,
            "ignored": receipt.ignored,
        },
        "reasons": dict(receipt.reasons),
        "conversations": len(saved),
        "revised": sum(item.revision > 1 for item in saved),
        "turns": sum(item.turn_count for item in saved),
        "tool_calls": sum(item.call_count for item in saved),
        "coverage": list(done.coverage),
        "problems": list(done.problems),
    }


def _refuse_live(settings: Settings) -> None:
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None:
        raise StoreBusyError(
            f"{settings.store.db} is held by the collector with process id {live.pid}: send the spans to it "
            f"({live.http or live.grpc}), stop it first, or give another --db"
        )


def _print(summary: dict[str, Any]) -> None:
    out = console()
    spans = summary["spans"]
    out.print(
        f"[bold]{spans['stored']:,}[/] spans and log records stored, {spans['duplicate']:,} duplicate, "
        f"{spans['rejected']:,} rejected, {spans['ignored']:,} ignored"
    )
    for reason, count in sorted(summary["reasons"].items()):
        out.print(f"  {count:,} x {reason}", markup=False)
    revised = f" ({summary['revised']:,} of them new revisions)" if summary["revised"] else ""
    out.print(
        f"[bold]{summary['conversations']:,}[/] conversations new or changed{revised}: "
        f"{summary['turns']:,} turns, {summary['tool_calls']:,} tool calls"
    )
    if summary["coverage"]:
        out.print(coverage_table(summary["coverage"]))


def coverage_table(rows: list[dict[str, Any]]) -> Any:
    """Return the content coverage, shares in percent, as a table."""
    columns = ("query", "answer", "arguments", "results", "conversation_id")
    shown = [
        (row["service"], row["dialect"], f"{row['turns']:,}", *(_percent(row[name]) for name in columns))
        for row in rows
    ]
    names = ("query", "answer", "arguments", "results", "conversation id")
    return table(
        "Content captured, by service", ("service", "dialect", "turns", *names), shown, right=("turns", *names)
    )


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.0%}"
