"""How an open store does: whether it takes spans, what waits, and how large its files are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """One moment of a store.

    Attributes:
        trouble: why spans cannot be written now; None while they can.
        reopened: how often the file was opened again since the start, because DuckDB gave up on it.
        full: whether the last batch that came was refused because too much waits.
        queued_requests: batches that wait to be written.
        queued_spans: spans and log records in them.
        data_bytes: size of the DuckDB file; None where it is gone.
        log_bytes: size of its write-ahead log, 0 where there is none.
    """

    trouble: str | None
    reopened: int
    full: bool
    queued_requests: int
    queued_spans: int
    data_bytes: int | None
    log_bytes: int


def file_bytes(path: Path) -> int | None:
    """Return the size of a file, None where it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return None
