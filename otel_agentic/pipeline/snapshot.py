"""A whole store as Parquet files, in pieces: the client writes the files, so no request makes the collector write to a path."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.export_files import work_folder
from otel_agentic.store.export_layout import DAY, SINGLE_FILE, UNITS, WHOLES, day_folder, export_folder_of
from otel_agentic.store.exporting import days_of, write_day, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_agentic.pipeline.engine import Engine

#: Bytes of a file in one piece.
PIECE: Final = 4 * 1024 * 1024


def snapshot(engine: Engine, *, since_ns: int | None = None, until_ns: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the pieces of all files, one file after the other.

    A piece is `{"file", "rows", "data", "last", "done", "total"}`: the path within the folder, the number of rows in the file,
    base64 of its next bytes, whether these are the last, and how many parts of how many are done. A part without rows has no
    file: its piece has `file` null.

    Args:
        engine: the opened store. Files are written to its export folder, one at a time, and deleted again.
        since_ns: only days from the day of this time on,
        until_ns: only days that begin before this time. Tables without a time column are always complete.
    """
    folder = export_folder_of(engine.settings).resolve()
    with engine.store.read() as con:
        parts = [(unit, day) for unit in UNITS for day in days_of(con, unit, since_ns, until_ns)]
    total = len(parts) + len(WHOLES)
    with work_folder(folder) as work:
        for done, (unit, day_ns) in enumerate(parts, 1):
            for table in UNITS[unit]:
                with engine.store.read() as con:
                    draft, rows = write_day(con, work, table, day_ns)
                yield from _pieces(draft, f"{day_folder(table, day_ns)}/{DAY}", rows, done, total)
        for done, table in enumerate(WHOLES, len(parts) + 1):
            with engine.store.read() as con:
                draft, rows = write_whole(con, work, table)
            yield from _pieces(draft, f"{table}/{SINGLE_FILE}", rows, done, total)


def _pieces(draft: Path, file: str, rows: int, done: int, total: int) -> Iterator[dict[str, Any]]:
    if not rows:
        draft.unlink(missing_ok=True)
        yield {"file": None, "rows": 0, "data": "", "last": True, "done": done, "total": total}
        return
    size, read = draft.stat().st_size, 0
    with draft.open("rb") as stream:
        while read < size:
            data = stream.read(PIECE)
            read += len(data)
            piece = {"file": file, "rows": rows, "data": b64encode(data).decode(), "last": read >= size}
            yield {**piece, "done": done, "total": total}
    draft.unlink()
