"""`otel-agentic ingest`: files into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import (
    config_option,
    db_option,
    format_option,
    quiet_option,
    refuse_live,
    require_paths,
    settings_of,
)
from otel_agentic.cli.progress import progress_bar
from otel_agentic.cli.render.coverage import print_coverage
from otel_agentic.cli.render.terminal import console, print_json, say
from otel_agentic.cli.render.text import plural
from otel_agentic.errors import DecodeError
from otel_agentic.results import from_json
from otel_agentic.results.store import Coverage

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.commands.ingest import IngestResult


@click.command(short_help="Read files of spans into the store.")
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

    A part that cannot be read is reported with file and line, counted as rejected, and loses nothing else. Spans that
    are stored already are counted as duplicate: to read a file twice changes nothing.
    """
    settings = settings_of(config_file, db)
    require_paths(paths)
    refuse_live(settings, ", stop it first")
    with progress_bar(quiet=quiet) as progress:
        from otel_agentic.commands.ingest import ingest_files  # noqa: PLC0415 — not needed for --help
        from otel_agentic.engine.engine import Engine  # noqa: PLC0415

        with Engine(settings, create=True, upgrade=True) as engine:
            done = ingest_files(engine, paths, progress)
    summary = summary_json(done)
    if output == "json":
        print_json(summary)
    elif not quiet:
        _print(summary)
    if done.problems:
        raise DecodeError("\n".join(done.problems))


def summary_json(done: IngestResult) -> dict[str, Any]:
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
        "altered": dict(receipt.altered),
        "conversations": len(saved),
        "revised": sum(item.revision > 1 for item in saved),
        "turns": sum(item.turn_count for item in saved),
        "tool_calls": sum(item.call_count for item in saved),
        "coverage": list(done.coverage),
        "problems": list(done.problems),
    }


def _print(summary: dict[str, Any]) -> None:
    out = console()
    spans = summary["spans"]
    say(
        out,
        f"{spans['stored']:,} spans and log records stored, {spans['duplicate']:,} duplicate, "
        f"{spans['rejected']:,} rejected, {spans['ignored']:,} ignored",
        style="bold",
    )
    for reason, count in sorted(summary["reasons"].items()):
        say(out, f"  {count:,} x {reason}")
    if summary["altered"]:
        say(out, "mended, cut or redacted in what was read:")
    for reason, count in sorted(summary["altered"].items()):
        say(out, f"  {count:,} x {reason}")
    if summary["conversations"]:
        revised = f" ({plural(summary['revised'], 'new revision')})" if summary["revised"] else ""
        turns, calls = plural(summary["turns"], "turn"), plural(summary["tool_calls"], "tool call")
        say(out, f"{plural(summary['conversations'], 'conversation')} new or changed{revised}: {turns}, {calls}")
    else:
        say(out, "no conversation is new or changed")
    if summary["coverage"]:
        click.echo()
        print_coverage(
            out,
            from_json(list[Coverage], summary["coverage"]),
            "Content captured in the store, share of turns or calls that have it",
        )
