"""`otel-agentic serve`: run a collector until it is told to stop."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.logs import log_to_stderr
from otel_agentic.cli.options import (
    JUDGE_HELP,
    cases_option,
    config_option,
    db_option,
    labels_option,
    refuse_second,
    settings_of,
    texts_of,
)
from otel_agentic.cli.render.terminal import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

_log = logging.getLogger(__name__)
#: How often the main thread looks for signals, seconds.
_SIGNAL_S = 0.5


@click.command(short_help="Receive spans, rebuild and score, emit metrics.")
@db_option
@click.option("--grpc", metavar="ADDR", help="OTLP/gRPC address, host:port; port 0 takes a free one.")
@click.option("--http", metavar="ADDR", help="OTLP/HTTP address, host:port; port 0 takes a free one.")
@click.option("--admin", metavar="ADDR", help="Admin address (queries, health, /metrics), host:port.")
@cases_option
@labels_option
@click.option("--judge", metavar="NAME", help=JUDGE_HELP)
@click.option("--emit", metavar="URL", help="OTLP endpoint that metrics and events are sent to.")
@click.option(
    "--keep",
    metavar="AGE",
    help="Remove conversations and spans that are older: a time such as 12h or 30d; unset: all is kept.",
)
@click.option(
    "--export", metavar="FOLDER", help="Write closed hours as Parquet files into this folder, readable while this runs."
)
@click.option("--insecure", is_flag=True, help="Allow a public address without a token.")
@click.option("--collector", "collectors", metavar="NAME", multiple=True, help="A way in beside OTLP, by plug-in name.")
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

    Runs until Ctrl-C or SIGTERM, and then writes what it accepted. While it runs, every other command on the same --db
    asks it by itself.
    """
    settings = settings_of(
        config_file,
        db,
        receive=_given(grpc=grpc, http=http, insecure=insecure or None),
        admin=_given(address=admin),
        scoring=_given(judge=judge),
        emit=_given(endpoint=emit),
        retention=_given(keep=keep, export=True if export else None, export_folder=export),
    )
    refuse_second(settings)
    truth = {"cases": texts_of(cases, "cases"), "labels": texts_of(labels, "labels")}
    log_to_stderr(settings.log)
    warn_of_export(settings)
    _run(settings, truth, collectors)


def _run(settings: Settings, truth: dict[str, list[tuple[str, str]]], extra: tuple[str, ...]) -> None:
    from otel_agentic.live.collector import DEFAULT_COLLECTORS, LiveCollector  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net import raise_file_limit  # noqa: PLC0415 — not needed for --help

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    raise_file_limit(settings.receive.max_connections)
    live = LiveCollector(settings, tuple(dict.fromkeys((*DEFAULT_COLLECTORS, *extra))))
    try:
        if any(truth.values()):
            live.run("truth_import", truth)
        found = live.start()
        gc.freeze()  # else each full collection looks through all that is loaded: a third of the time of OTLP/JSON
        say(settings, *addresses(settings, found))
        while not stop.wait(_SIGNAL_S):  # where the system gave a signal to another thread, nothing ends a longer wait
            pass
        say(settings, "stopping: writing what was accepted")
    finally:
        gc.unfreeze()
        ended = live.stop()
    if not ended:  # a thread is inside DuckDB or a judge: Python would abort the process for it, instead of leaving it
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def addresses(settings: Settings, found: LiveServer) -> tuple[str, ...]:
    """Return the lines that tell where a collector listens, and where it writes."""
    return (
        f"collecting into {settings.store.db}; Ctrl-C stops",
        f"  OTLP/gRPC  {found.grpc}",
        f"  OTLP/HTTP  {found.http}",
        f"  admin      {found.admin}  (queries, /metrics, /healthz)",
        f"  telemetry  {settings.emit.endpoint or 'not sent (--emit URL); /metrics is there'}",
    )


def say(settings: Settings, *lines: str) -> None:
    """Tell whoever started the collector; as entries of the log where that is read by a machine."""
    for line in lines:
        if settings.log.format == "json":
            _log.info("%s", " ".join(line.split()))
        else:
            print_text(f"{line}\n")


def warn_of_export(settings: Settings) -> None:
    """Say at once where nothing can be exported: until the first hour is closed nobody else would notice."""
    from otel_agentic.store.maintenance.export import export_folder_of  # noqa: PLC0415 — not needed for --help

    if not settings.retention.export:
        return
    folder = export_folder_of(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "%s: %s: nothing can be exported there (--export, retention.export_folder)", folder, error.strerror
        )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
