"""`otel-agentic console`: open the web console of a store in the browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.logs import log_to_stderr
from otel_agentic.cli.options import config_option, db_option, settings_of
from otel_agentic.cli.serve import console_link, run_collector
from otel_agentic.errors import UsageError
from otel_agentic.net.server_file import find_live_server
from otel_agentic.net.tickets import has_secret
from otel_agentic.render.terminal import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import Settings
    from otel_agentic.net.server_file import LiveServer

#: A free port of this machine, so that a console never takes the port of a collector.
FREE_PORT = "127.0.0.1:0"


@click.command(cls=HelpfulCommand)
@db_option
@click.option(
    "--admin", metavar="ADDR", help="Address to serve at without a collector, host:port. Default: a free port."
)
@click.option("--no-browser", is_flag=True, help="Print the link, and start no browser.")
@config_option
def console(db: Path | None, admin: str | None, config_file: Path | None, *, no_browser: bool) -> None:
    """Open the web console: reliability, failing tools, conversations, review.

    If a collector uses the store, this command prints a link to its console and ends. Otherwise it serves the console itself,
    without receiving spans, until Ctrl-C. A link is valid once, within ten minutes.
    """
    settings = settings_of(config_file, db)
    if (live := find_live_server(settings.store.db)) is not None:
        if not has_secret(settings.store.db):
            raise UsageError(f"the collector of {settings.store.db} has no console (admin.console = false)")
        _show(settings, live, browser=not no_browser)
        return
    if not settings.store.db.is_file():
        raise UsageError(f"{settings.store.db}: no such store; name one with --db, or run `otel-agentic demo`")
    settings = settings_of(config_file, db, admin={"address": admin or FREE_PORT, "console": True})
    log_to_stderr(settings.log)
    serve_console(settings, browser=not no_browser)


def serve_console(settings: Settings, *, browser: bool) -> None:
    """Serve the console of a store that no collector uses, until a signal.

    To look at a file must neither remove data from it nor send telemetry, although the settings of its collector may do so.
    """
    passive = {
        "emit": settings.emit.model_copy(update={"endpoint": None}),
        "retention": settings.retention.model_copy(update={"keep": None, "export": False}),
    }
    settings = settings.model_copy(update=passive)
    run_collector(settings, (), {}, lambda server: _show(settings, server, browser=browser, ends="; Ctrl-C stops"))


def _show(settings: Settings, server: LiveServer, *, browser: bool, ends: str = "") -> None:
    """Print a link to the console, and open it in the browser."""
    link = console_link(settings, server.admin)
    print_text(f"console of {settings.store.db}{ends}\n  {link}\n")
    if browser:
        webbrowser.open(link)
