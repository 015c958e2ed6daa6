"""Files of spans that a command reads into a store: refused before a database is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agentic.errors import BadInputError, StoreBusyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import Settings


def require_paths(paths: Sequence[str]) -> None:
    """Refuse paths that are not there; `-` is standard input.

    Raises:
        BadInputError: names each of them.
    """
    missing = [path for path in paths if path != "-" and not Path(path).exists()]
    if missing:
        hint = "give an existing file, a directory, or - for standard input"
        raise BadInputError("\n".join(f"{path}: no such file; {hint}" for path in missing))


def refuse_live(settings: Settings, then: str) -> None:
    """Refuse a store that a collector holds.

    Args:
        settings: they name the store.
        then: what to do once the spans were sent to the collector instead.

    Raises:
        StoreBusyError: names the collector's process and address.
    """
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None:
        raise StoreBusyError(
            f"{settings.store.db} is held by the collector with process id {live.pid}: send the spans to it "
            f"({live.http or live.grpc}){then}, or give another --db"
        )


def refuse_second(settings: Settings) -> None:
    """Refuse to start a collector on a file that another one holds: sooner than DuckDB, which is not loaded yet, would.

    Raises:
        StoreBusyError: names the collector's process and address.
    """
    from otel_agentic.pipeline.serverfile import find_live_server  # noqa: PLC0415 — not needed for --help

    live = find_live_server(settings.store.db)
    if live is not None and live.pid != os.getpid():  # in a container the one before had the same id
        raise StoreBusyError(
            f"{settings.store.db} is held by process {live.pid}, a collector at {live.admin}: one file has one collector; "
            "stop that one, or give another --db"
        )
