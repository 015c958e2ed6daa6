"""`otel-agentic serve`: run a collector until a signal stops it."""

from __future__ import annotations

import gc
import getpass
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.logs import log_to_stderr
from otel_agentic.cli.options import (
    cases_option,
    config_option,
    db_option,
    judge_option,
    labels_option,
    present,
    refuse_second,
    settings_of,
    truth_of,
)
from otel_agentic.render.terminal import print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

_log = logging.getLogger(__name__)
#: The interval at which the main thread checks for signals, seconds.
_SIGNAL_S = 0.5


@click.command(cls=HelpfulCommand)
@db_option
@click.option("--grpc", metavar="ADDR", help="OTLP/gRPC address, host:port; port 0 selects a free one.")
@click.option("--http", metavar="ADDR", help="OTLP/HTTP address, host:port; port 0 selects a free one.")
@click.option("--admin", metavar="ADDR", help="Admin address (queries, health, /metrics), host:port.")
@cases_option
@labels_option
@judge_option
@click.option("--emit", metavar="URL", help="Send metrics and events to this OTLP endpoint.")
@click.option(
    "--keep",
    metavar="AGE",
    help="Remove conversations and spans older than this age, such as 12h or 30d. Default: keep all.",
)
@click.option(
    "--export",
    metavar="FOLDER",
    help="Write closed hours as Parquet files into this folder, readable while the collector runs.",
)
@click.option("--insecure", is_flag=True, help="Allow a public address without a token.")
@click.option(
    "--collector",
    "collectors",
    metavar="NAME",
    multiple=True,
    help="A collector in addition to OTLP, by plug-in name; repeatable.",
)
@config_option
def serve(
    db: Path | None,
    grpc: str | None,
    http: str | None,
    admin: str | None,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    judge: str | None,
    emit: str | None,
    keep: str | None,
    export: str | None,
    insecure: bool,
    collectors: tuple[str, ...],
    config_file: Path | None,
) -> None:
    """Receive spans over OTLP, rebuild and score conversations, and emit pass@K and pass^K.

    Runs until Ctrl-C or SIGTERM, and then writes the spans that it accepted. While it runs, every other command on the
    same --db connects to it automatically.
    """
    settings = settings_of(
        config_file,
        db,
        receive=present(grpc=grpc, http=http, insecure=insecure or None),
        admin=present(address=admin),
        scoring=present(judge=judge),
        emit=present(endpoint=emit),
        retention=present(keep=keep, export=True if export else None, export_folder=export),
    )
    refuse_second(settings)
    truth = truth_of(settings, cases, labels)
    log_to_stderr(settings.log)
    warn_of_export(settings)
    from otel_agentic.live.collector import DEFAULT_COLLECTORS  # noqa: PLC0415 — not needed for --help

    names = tuple(dict.fromkeys((*DEFAULT_COLLECTORS, *collectors)))
    run_collector(settings, names, truth, lambda server: say(settings, *addresses(settings, server)))


def run_collector(
    settings: Settings,
    names: tuple[str, ...],
    truth: dict[str, list[tuple[str, str]]],
    announce: Callable[[LiveServer], None],
) -> None:
    """Run a collector until a signal stops it.

    Args:
        settings: the settings.
        names: the receivers, by plug-in name; none for a console on a file.
        truth: the files of cases and labels to import first.
        announce: receives the addresses once the collector is ready.
    """
    from otel_agentic.engine.workers import (  # noqa: PLC0415 — not needed for --help
        collector_workers,
        share_heaps,
        tune_interpreter,
    )
    from otel_agentic.evaluation.scope import NO_CASES  # noqa: PLC0415 — not needed for --help
    from otel_agentic.live.collector import LiveCollector  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net import raise_file_limit  # noqa: PLC0415 — not needed for --help

    share_heaps()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    raise_file_limit(settings.receive.max_connections)
    live = LiveCollector(settings, names, collector_workers(settings))
    try:
        if any(truth.values()):
            live.run("truth_import", truth)
        server = live.start()
        tune_interpreter()
        announce(server)
        if names and not live.engine.runner.truth().index:
            _log.warning("%s", NO_CASES)
        while not stop.wait(_SIGNAL_S):  # if the system delivers a signal to another thread, nothing ends a longer wait
            pass
        say(settings, "stopping: writing accepted spans")
    finally:
        gc.unfreeze()
        all_stopped = live.stop()
    if not all_stopped:  # a thread is still inside DuckDB or a judge: a normal exit of Python would abort the process
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def addresses(settings: Settings, server: LiveServer) -> tuple[str, ...]:
    """Return the lines with the addresses and the output of a collector."""
    # A link opens a session, so it is shown to a person and not written to a log.
    link = console_link(settings, server.admin) if sys.stdout.isatty() else "`otel-agentic console` opens it"
    console = (f"  console    {link}",) if settings.admin.console else ()
    return (
        f"collecting into {settings.store.db}; Ctrl-C stops",
        f"  OTLP/gRPC  {server.grpc}",
        f"  OTLP/HTTP  {server.http}",
        f"  admin      {server.admin}  (queries, /metrics, /healthz)",
        *console,
        f"  telemetry  {settings.emit.endpoint or 'not sent (--emit URL); /metrics is available'}",
    )


def console_link(settings: Settings, admin: str) -> str:
    """Return a link that opens the console of a store once, within ten minutes, as the current user.

    Raises:
        ConfigError: the secret next to the store cannot be used.
    """
    from otel_agentic.net.tickets import new_ticket, secret_of  # noqa: PLC0415 — not needed for --help

    return f"{admin}/login?ticket={new_ticket(secret_of(settings.store.db), getpass.getuser())}"


def say(settings: Settings, *lines: str) -> None:
    """Print lines to the user; if the log format is JSON, log them instead."""
    for line in lines:
        if settings.log.format == "json":
            _log.info("%s", " ".join(line.split()))
        else:
            print_text(f"{line}\n")


def warn_of_export(settings: Settings) -> None:
    """Warn at startup if the export folder cannot be written; otherwise this shows only after the first closed hour."""
    from otel_agentic.config import export_folder_of  # noqa: PLC0415 — not needed for --help

    if not settings.retention.export:
        return
    folder = export_folder_of(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("%s: %s: cannot export to this folder (--export, retention.export_folder)", folder, error.strerror)
