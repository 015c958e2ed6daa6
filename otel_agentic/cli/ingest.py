"""`otel-agentic ingest`: read span files into the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.help import HelpfulCommand
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
from otel_agentic.errors import DecodeError
from otel_agentic.render.coverage import print_coverage
from otel_agentic.render.terminal import console, print_result, say
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.results.store import Ingested


@click.command(cls=HelpfulCommand)
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
    """Read OTLP files (JSON lines, protobuf, gzip, zstd), directories or `-` into the store, and close conversations.

    A part that cannot be read is reported with file and line and counted as rejected; the rest is stored. Spans that are
    already stored are counted as duplicates: reading a file twice changes nothing.
    """
    settings = settings_of(config_file, db)
    require_paths(paths)
    refuse_live(settings, ", stop it first")
    with progress_bar(quiet=quiet) as progress:
        from otel_agentic.commands.ingest import ingest_files  # noqa: PLC0415 — not needed for --help
        from otel_agentic.engine.engine import Engine  # noqa: PLC0415

        with Engine(settings, create=True, upgrade=True) as engine:
            ingested = ingest_files(engine, paths, progress).summary
    print_result(ingested, output, _print, quiet=quiet)
    if ingested.problems:
        raise DecodeError("\n".join(ingested.problems))


def _print(ingested: Ingested) -> None:
    out = console()
    spans = ingested.spans
    say(
        out,
        f"{spans.stored:,} spans and log records stored, {spans.duplicate:,} duplicate, "
        f"{spans.rejected:,} rejected, {spans.ignored:,} ignored",
        style="bold",
    )
    for reason, count in sorted(ingested.reasons.items()):
        say(out, f"  {count:,} x {reason}")
    if ingested.altered:
        say(out, "repaired, truncated or redacted:")
    for reason, count in sorted(ingested.altered.items()):
        say(out, f"  {count:,} x {reason}")
    if ingested.conversations:
        revised = f" ({plural(ingested.revised, 'new revision')})" if ingested.revised else ""
        turns, calls = plural(ingested.turns, "turn"), plural(ingested.tool_calls, "tool call")
        say(out, f"{plural(ingested.conversations, 'conversation')} new or changed{revised}: {turns}, {calls}")
    else:
        say(out, "no conversations new or changed")
    if ingested.coverage:
        click.echo()
        title = "Content captured in the store, share of turns or calls that have it"
        print_coverage(out, ingested.coverage, title)
