"""The transfer of whole stores in and out, as Parquet files in pieces."""

from __future__ import annotations

import re
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.errors import BadInputError, OverloadedError, UsageError
from otel_agentic.store.maintenance import import_files as importing
from otel_agentic.store.maintenance.export import (
    DAY,
    SINGLE_FILE,
    UNITS,
    WHOLES,
    WORK,
    day_folder,
    days_of,
    remove_work,
    work_folder,
    write_day,
    write_whole,
)
from otel_agentic.store.maintenance.import_files import rows_in

if TYPE_CHECKING:
    from otel_agentic.store import Store

#: An upload expires after this time without a request.
_STALE_S: Final = 600.0
_ID: Final = re.compile(r"[0-9a-f]{32}")
#: Bytes of a file in one piece.
PIECE: Final = 4 * 1024 * 1024


class Uploads:
    """The upload of a store; only one at a time."""

    def __init__(self, store: Store, export_folder: Path) -> None:
        self._store = store
        self._export_folder = export_folder
        self._id: str | None = None
        self._touched = 0.0
        self._began_ns = 0
        self._files: dict[str, list[Path]] = {}
        self._rows: dict[str, int] = {}

    @property
    def is_active(self) -> bool:
        """Whether an upload was started and has neither ended nor expired."""
        return self._id is not None and time.monotonic() - self._touched < _STALE_S

    def begin(self) -> str:
        """Start an upload and return its id.

        Raises:
            OverloadedError: another upload is active.
        """
        if self.is_active:
            raise OverloadedError("another import is running; try again after it ended")
        self._forget()
        self._id, self._files, self._rows = uuid4().hex, {}, {}
        self._touched = time.monotonic()
        self._store.forget_ids()  # the remembered ids do not include the imported ones
        self._store.write(importing.drop_orphans)
        self._began_ns = self._store.clock()
        self._home.mkdir(parents=True)
        return self._id

    def piece(self, upload: str, table: str, data: str, *, last: bool) -> dict[str, Any]:
        """Append a piece to a file of a table; the last piece of a file of spans or log records stores its rows.

        Raises:
            UsageError: the upload or table is unknown, or the data is not base64.
            BadInputError: the file is not a Parquet file of that table; the upload ends.
        """
        self._check(upload)
        if table not in importing.ORDER:
            raise UsageError(f"table {table!r} cannot be imported; allowed: {', '.join(importing.ORDER)}")
        files = self._files.setdefault(table, [])
        draft = self._home / f"{table}-{len(files)}.parquet"
        try:
            content = b64decode(data, validate=True)
        except NotBase64 as error:
            raise UsageError(f"{table}: data is not base64: {error}") from error
        with draft.open("ab") as stream:
            stream.write(content)
        if not last:
            return {"rows": 0, "new": 0}
        with self._abort_on_bad_input():
            return self._store_file(table, draft, files)

    def _store_file(self, table: str, draft: Path, files: list[Path]) -> dict[str, Any]:
        with self._store.read() as con:
            rows = rows_in(con, table, draft)
        self._rows[table] = self._rows.get(table, 0) + rows
        if table not in {"spans", "log_records"}:
            files.append(draft)
            return {"rows": rows, "new": 0}
        new = self._store_ranges(table, draft, rows)
        draft.unlink()
        return {"rows": rows, "new": new}

    @contextmanager
    def _abort_on_bad_input(self) -> Iterator[None]:
        """End the upload if its content cannot be stored, so that the client can start again at once."""
        try:
            yield
        except BadInputError:
            self._forget()
            raise

    def table(self, upload: str, table: str) -> dict[str, Any]:
        """Store the rows of all files of a table; return the numbers of rows and of new rows.

        Raises:
            UsageError: the upload is unknown.
            BadInputError: a row cannot be stored; the upload ends.
        """
        self._check(upload)
        files = self._files.pop(table, [])
        if not files:
            return {"rows": 0, "new": 0}
        with self._abort_on_bad_input():
            new = self._store.write(
                lambda con: importing.import_files(
                    con, table, files, began_ns=self._began_ns, now_ns=self._store.clock()
                )
            )
        for file in files:
            file.unlink()
        return {"rows": self._rows.get(table, 0), "new": new}

    def end(self, upload: str) -> None:
        """Delete the tombstones of the imported conversations, and end the upload.

        Raises:
            UsageError: the upload is unknown.
        """
        self._check(upload)
        self._store.write(importing.delete_tombstones)
        self._forget()

    @property
    def _home(self) -> Path:
        return self._export_folder.resolve() / WORK / f"import-{self._id}"

    def _check(self, upload: str) -> None:
        if self._id is None or upload != self._id or not _ID.fullmatch(upload):
            raise UsageError("this import is not running; start it again")
        self._touched = time.monotonic()

    def _forget(self) -> None:
        if self._id is not None:
            remove_work(self._home)
        self._id = None

    def _store_ranges(self, table: str, draft: Path, rows: int) -> int:
        new = 0
        for row_range in importing.row_ranges(rows):
            now_ns = self._store.clock()
            work = partial(importing.import_rows, table=table, file=draft, row_range=row_range, now_ns=now_ns)
            new += self._store.write(work)
            self._touched = time.monotonic()
        return new


def snapshot(
    store: Store, export_folder: Path, *, since_ns: int | None = None, until_ns: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the pieces of all files, one file after the other.

    A piece is `{"file", "rows", "data", "last", "done", "total"}`: the path within the folder, the number of rows in
    the file, base64 of its next bytes, whether these are the last, and the numbers of finished and of all parts. A part
    without rows has no file: its piece has `file` null.

    Args:
        store: the store.
        export_folder: files are written to this folder, one at a time, and deleted again.
        since_ns: only days from the day of this time on; None for all.
        until_ns: only days that begin before this time; None for all. Tables without a time column are always complete.
    """
    folder = export_folder.resolve()
    with store.read() as con:
        parts = [(unit, day) for unit in UNITS for day in days_of(con, unit, since_ns, until_ns)]
    total = len(parts) + len(WHOLES)
    with work_folder(folder) as work:
        for done, (unit, day_ns) in enumerate(parts, 1):
            for table in UNITS[unit]:
                with store.read() as con:
                    draft, rows = write_day(con, work, table, day_ns)
                yield from _pieces(draft, f"{day_folder(table, day_ns)}/{DAY}", rows, done, total)
        for done, table in enumerate(WHOLES, len(parts) + 1):
            with store.read() as con:
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
