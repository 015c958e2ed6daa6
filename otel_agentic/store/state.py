"""The state of an open store: whether it accepts spans, how much waits, and the size of its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """The state of a store at one moment.

    Attributes:
        problem: why spans cannot be written now, or None if they can.
        reopened: how often the file was opened again since the start, because DuckDB gave up on it.
        full: whether the last batch was refused because too much is waiting.
        queued_requests: batches waiting to be written.
        queued_spans: spans and log records in these batches.
        data_bytes: size of the DuckDB file, or None if it is missing.
        log_bytes: size of its write-ahead log, 0 without a log.
    """

    problem: str | None
    reopened: int
    full: bool
    queued_requests: int
    queued_spans: int
    data_bytes: int | None
    log_bytes: int


def file_bytes(path: Path) -> int | None:
    """Return the size of a file, or None if it is missing."""
    try:
        return path.stat().st_size
    except OSError:
        return None
