"""`otel-agentic doctor`: how spans are read, what a running collector receives, whether this installation is sound."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.coverage import print_coverage
from otel_agentic.cli.doctor_live import print_live
from otel_agentic.cli.doctor_traces import print_rest, print_scopes, print_trace, scopes_of
from otel_agentic.cli.options import format_option, opened, settings_of, target_options
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.tables import Column, print_table, text
from otel_agentic.cli.text import plural
from otel_agentic.errors import BackendError, BadInputError, DecodeError, PluginError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import Settings

#: Traces that people are shown unless they ask for more.
_SHOWN: Final = 5


@click.command(short_help="Show how spans are read; check a collector or the installation.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--trace", metavar="ID", help="Show this trace only; the beginning of its id is enough.")
@click.option(
    "--traces",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show so many traces; unless given, {_SHOWN}, and all of them as JSON.",
)
@click.option("--live", is_flag=True, help="Ask the running collector; without --db and --server it is looked for.")
@target_options
@format_option
def doctor(
    paths: tuple[str, ...],
    trace: str | None,
    traces: int | None,
    live: bool,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Show how the spans of files are read: what each became, by which dialect and why, and the turns they come to.

    With --live, tell what a running collector receives, what its instrumentation leaves out and which setting records it:
    the collector that holds the database of the settings, else the one at the admin address of the settings, else the one
    that holds a database in this folder.
    Without either, check this installation.
    """
    if paths and live:
        raise UsageError("give files, or --live: a collector has its own spans")
    if not live and (db is not None or server is not None):
        raise UsageError("--db and --server go with --live; to look at files, give their paths")
    if live:
        _ask_collector(db, server, config_file, output)
    elif paths:
        _show_files(settings_of(config_file), paths, trace, traces, output)
    else:
        _check_installation(settings_of(config_file), output)


def _show_files(settings: Settings, paths: tuple[str, ...], wanted: str | None, limit: int | None, output: str) -> None:
    from otel_agentic.pipeline.coverage import by_framework, of_conversations  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.inspect import read_traces  # noqa: PLC0415 — same
    from otel_agentic.pipeline.traces import trace_json  # noqa: PLC0415 — same

    inspected = read_traces(settings, paths)
    chosen = [name for name in inspected.traces if wanted is None or name.startswith(wanted.lower())]
    if wanted is not None and not chosen:
        raise BadInputError(f"no trace {wanted!r} in these files; they hold {plural(len(inspected.traces), 'trace')}")
    told = [trace_json(inspected, name) for name in chosen]
    scopes = scopes_of(told)
    covered = by_framework(of_conversations(each.conversation for each in inspected.conversations))
    clocks = inspected.wrong_clocks(time.time_ns())
    if output == "json":
        shown = told if limit is None else told[:limit]
        problems = list(inspected.problems)
        print_json(
            {"traces": shown, "scopes": scopes, "coverage": covered, "wrong_clocks": clocks, "problems": problems}
        )
    else:
        _print_files(told, scopes, covered, _SHOWN if limit is None else limit)
        for clock in clocks:
            say(console(), f"warning: {clock['note']}", style="yellow")
    if inspected.problems:
        raise DecodeError("\n".join(inspected.problems))


def _print_files(
    traces: Sequence[dict[str, Any]], scopes: Sequence[dict[str, Any]], covered: Sequence[dict[str, Any]], limit: int
) -> None:
    out = console()
    if not traces:
        say(out, "no spans in these files")
        return
    print_scopes(out, scopes)
    for trace in traces[:limit]:
        click.echo()
        print_trace(out, trace)
    print_rest(out, len(traces) - limit, len(traces))
    if covered:
        click.echo()
        print_coverage(out, covered, "Content captured in these files, share of turns or calls that have it")


def _ask_collector(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — not needed for --help

    settings = settings_of(config_file, db)
    held = settings.store.db
    running = server is not None or find_live_server(held) is not None
    if not running and db is None:
        db, server = _found_elsewhere(settings)
        running = True
    found = _asked(db, server, config_file) if running else {}
    if "collector" not in found:  # it died without saying so, and the file itself answered
        raise BackendError(
            f"no collector holds {held}; `otel-agentic serve --db {held}` starts one, --db or --server names another"
        )
    if output == "json":
        print_json(found)
    else:
        print_live(console(), found)


def _found_elsewhere(settings: Settings) -> tuple[Path | None, str | None]:
    """Return the file or the URL of a running collector that does not hold the file of the settings; says which on stderr.

    Raises:
        BackendError: there is none.
        UsageError: there are several.
    """
    from otel_agentic.commands.client import answering_at  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.serverfile import held_in  # noqa: PLC0415 — same

    held, address, folder = settings.store.db, settings.admin.address, Path.cwd()
    if (url := answering_at(settings.admin)) is not None:
        say(console(stderr=True), f"no collector holds {held}; asking the one at {url}")
        return None, url
    match held_in(folder):
        case [db]:
            say(
                console(stderr=True),
                f"no collector holds {held} or answers at {address}; asking the one that holds {db}",
            )
            return db, None
        case []:
            raise BackendError(
                f"no collector holds {held}, answers at {address}, or holds a database in {folder}; "
                f"`otel-agentic serve --db {held}` starts one, --db or --server names another"
            )
        case several:
            raise UsageError(
                f"several collectors run in {folder}; give --db with one of {', '.join(db.name for db in several)}"
            )


def _asked(db: Path | None, server: str | None, config_file: Path | None) -> dict[str, Any]:
    with opened(db, server, config_file) as client:
        found: dict[str, Any] = client.call("live")
    return found


def _check_installation(settings: Settings, output: str) -> None:
    from otel_agentic.pipeline.inspect import installation  # noqa: PLC0415 — not needed for --help

    checks = list(installation(settings))
    if output == "json":
        print_json([{"what": check.what, "ok": check.ok, "found": check.found} for check in checks])
    else:
        rows = [("ok" if check.ok else "wrong", check.what, check.found) for check in checks]
        print_table(console(), [Column(name="state", whole=True), *text("what", "found")], rows)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        raise PluginError(f"{plural(len(wrong), 'check')} failed: {', '.join(check.what for check in wrong)}")
