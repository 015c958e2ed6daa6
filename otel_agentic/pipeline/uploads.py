"""Parquet files that are handed to a store in pieces, and taken in table by table."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from binascii import Error as NotBase64
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.errors import BadInputError, OverloadedError, UsageError
from otel_agentic.store import importing
from otel_agentic.store.export_files import remove_work
from otel_agentic.store.export_layout import WORK, export_folder_of
from otel_agentic.store.import_check import rows_in
from otel_agentic.store.spans import last_commit_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.database import Connection

#: An upload of which nothing came for so long is over.
_STALE_S: Final = 600.0
_ID: Final = re.compile(r"[0-9a-f]{32}")


class Uploads:
    """The upload of one store, one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._id: str | None = None
        self._touched = 0.0
        self._began_ns = 0
        self._files: dict[str, list[Path]] = {}
        self._rows: dict[str, int] = {}

    @property
    def under_way(self) -> bool:
        """Whether an upload was begun, and is not over."""
        return self._id is not None and time.monotonic() - self._touched < _STALE_S

    def begin(self) -> str:
        """Return the id of a new upload.

        Raises:
            OverloadedError: another one is under way.
        """
        if self.under_way:
            raise OverloadedError("another import is under way; try again when it is done")
        self._forget()
        self._id, self._files, self._rows = uuid4().hex, {}, {}
        self._touched = time.monotonic()
        self._engine.store.forget_ids()  # what is imported is not among the ids that it remembers
        self._engine.store.write(importing.drop_orphans)
        self._began_ns = self._engine.clock()
        self._home.mkdir(parents=True)
        return self._id

    def piece(self, upload: str, table: str, data: str, *, last: bool) -> dict[str, Any]:
        """Take a piece of a file of a table; after the last one of a file of spans or log records its rows are stored.

        Raises:
            UsageError: there is no such upload or table, or the data is not base64.
            BadInputError: it is no Parquet file of that table; the upload is over.
        """
        self._check(upload)
        if table not in importing.ORDER:
            raise UsageError(f"no table {table!r} is imported; there are {', '.join(importing.ORDER)}")
        files = self._files.setdefault(table, [])
        draft = self._home / f"{table}-{len(files)}.parquet"
        try:
            content = b64decode(data, validate=True)
        except NotBase64 as error:
            raise UsageError(f"{table}: data is not base64: {error}") from error
        with draft.open("ab") as whole:
            whole.write(content)
        if not last:
            return {"rows": 0, "new": 0}
        with self._ending_where_bad():
            return self._taken(table, draft, files)

    def _taken(self, table: str, draft: Path, files: list[Path]) -> dict[str, Any]:
        with self._engine.store.read() as con:
            rows = rows_in(con, table, draft)
        self._rows[table] = self._rows.get(table, 0) + rows
        if table not in {"spans", "log_records"}:
            files.append(draft)
            return {"rows": rows, "new": 0}
        new = self._stretches(table, draft, rows)
        draft.unlink()
        return {"rows": rows, "new": new}

    @contextmanager
    def _ending_where_bad(self) -> Iterator[None]:
        """Forget the upload where what came cannot be stored: who sent it has to begin anew, and may at once."""
        try:
            yield
        except BadInputError:
            self._forget()
            raise

    def table(self, upload: str, table: str) -> dict[str, Any]:
        """Store the rows of all files of a table; return how many rows there were, and how many were new.

        Raises:
            UsageError: there is no such upload.
            BadInputError: a row cannot be stored; the upload is over.
        """
        self._check(upload)
        files = self._files.pop(table, [])
        if not files:
            return {"rows": 0, "new": 0}
        with self._ending_where_bad():
            new = self._engine.store.write(
                partial(_table, table=table, files=files, began_ns=self._began_ns, clock=self._engine.clock)
            )
        for file in files:
            file.unlink()
        return {"rows": self._rows.get(table, 0), "new": new}

    def end(self, upload: str) -> None:
        """Let what is back live, and forget the upload.

        Raises:
            UsageError: there is no such upload.
        """
        self._check(upload)
        self._engine.store.write(importing.thaw)
        self._forget()

    @property
    def _home(self) -> Path:
        return export_folder_of(self._engine.settings).resolve() / WORK / f"import-{self._id}"

    def _check(self, upload: str) -> None:
        if self._id is None or upload != self._id or not _ID.fullmatch(upload):
            raise UsageError("there is no such import under way; begin it anew")
        self._touched = time.monotonic()

    def _forget(self) -> None:
        if self._id is not None:
            remove_work(self._home)
        self._id = None

    def _stretches(self, table: str, draft: Path, rows: int) -> int:
        new = 0
        for stretch in importing.stretches(rows):
            new += self._engine.store.write(
                partial(_stretch, table=table, draft=draft, stretch=stretch, clock=self._engine.clock)
            )
            self._touched = time.monotonic()
        return new


def _stretch(con: Connection, *, table: str, draft: Path, stretch: tuple[int, int], clock: Callable[[], int]) -> int:
    # Later than whatever was committed meanwhile: who looks for what arrived since he last looked has to find these rows.
    now_ns = max(clock(), last_commit_ns(con) + 1)
    return importing.import_stretch(con, table, draft, stretch, now_ns)


def _table(con: Connection, *, table: str, files: Sequence[Path], began_ns: int, clock: Callable[[], int]) -> int:
    now_ns = max(clock(), last_commit_ns(con))  # no earlier than the rows that came with it
    return importing.import_files(con, table, files, began_ns=began_ns, now_ns=now_ns)
