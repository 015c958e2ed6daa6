"""`otel-agentic serve`: run a collector until it is told to stop."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import cases_option, config_option, db_option, labels_option, settings_of, texts_of
from otel_agentic.cli.own_settings import JUDGE_HELP

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings


@click.command(short_help="Receive spans, rebuild and score, emit metrics.")
@db_option
@click.option("--grpc", metavar="ADDR", help="OTLP/gRPC address, host:port; port 0 takes a free one.")
@click.option("--http", metavar="ADDR", help="OTLP/HTTP address, host:port; port 0 takes a free one.")
@click.option("--admin", metavar="ADDR", help="Admin address (queries, health, /metrics), host:port.")
@cases_option
@labels_option
@click.option("--judge", metavar="NAME", help=JUDGE_HELP)
@click.option("--emit", metavar="URL", help="OTLP endpoint that metrics and events are sent to.")
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
    )
    truth = {"cases": texts_of(cases, "cases"), "labels": texts_of(labels, "labels")}
    _log_to_stderr()
    _run(settings, truth, collectors)


def _log_to_stderr() -> None:
    """Log what we say from INFO on, and what libraries say from WARNING on: uvicorn greets at INFO."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for own in ("otel_agentic", "collectors"):
        logging.getLogger(own).setLevel(logging.INFO)


def _run(settings: Settings, truth: dict[str, list[tuple[str, str]]], extra: tuple[str, ...]) -> None:
    from otel_agentic.pipeline.live import DEFAULT_COLLECTORS, LiveCollector  # noqa: PLC0415 — not needed for --help

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    live = LiveCollector(settings, tuple(dict.fromkeys((*DEFAULT_COLLECTORS, *extra))))
    try:
        if any(truth.values()):
            live.run("truth_import", truth)
        found = live.start()
        click.echo(f"collecting into {settings.store.db}; Ctrl-C stops")
        click.echo(f"  OTLP/gRPC  {found.grpc}")
        click.echo(f"  OTLP/HTTP  {found.http}")
        click.echo(f"  admin      {found.admin}  (queries, /metrics, /healthz)")
        click.echo(f"  telemetry  {settings.emit.endpoint or 'not sent (--emit URL); /metrics is there'}")
        stop.wait()
        click.echo("stopping: writing what was accepted")
    finally:
        live.stop()


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
