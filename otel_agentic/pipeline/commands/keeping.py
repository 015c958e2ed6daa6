"""Commands that look after the store: how large it is, what is removed, exported and imported."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.ingest import rebuild_pending
from otel_agentic.pipeline.removal import RetentionPass
from otel_agentic.pipeline.snapshot import snapshot
from otel_agentic.pipeline.wire import plain
from otel_agentic.store.export_layout import export_folder_of
from otel_agentic.store.importing import drop_orphans
from otel_agentic.store.kept import kept
from otel_agentic.store.stats import store_stats
from otel_agentic.windows.rolling import parse_width

_PIECE: Final = 4 * 1024 * 1024


class KeepingCommands(EngineCommands):
    """Look after the store."""

    def store_stats(self) -> dict[str, Json]:
        """Return rows and bytes by table, ages, open conversations, and what retention and export have done."""
        engine = self._engine
        db, retention = engine.store.path, engine.settings.retention
        with engine.store.read() as con:
            found, so_far = store_stats(con), kept(con)
        wal = db.with_name(f"{db.name}.wal")
        told: dict[str, Json] = plain(
            {
                "db": str(db),
                "file_bytes": db.stat().st_size,
                "wal_bytes": wal.stat().st_size if wal.exists() else 0,
                **found,
                "retention": {
                    "keep": retention.keep,
                    "conversations_from_ns": so_far.conversations_from_ns or None,
                    "results_from_ns": so_far.results_from_ns or None,
                    "conversations_removed": so_far.conversations,
                    "spans_removed": so_far.spans,
                    "log_records_removed": so_far.log_records,
                },
                "export": {
                    "on": retention.export,
                    "folder": str(export_folder_of(engine.settings)),
                    **found["export"],
                },
            }
        )
        return told

    def store_vacuum(self, *, keep: str | None = None, dry_run: bool = False) -> dict[str, Json]:
        """Remove what is older than `keep`, or than the settings keep it; return counts, null where nothing is too old."""
        engine = self._engine
        age = keep or engine.settings.retention.keep
        told: dict[str, Json] = {"keep": age, "dry_run": dry_run, "removed": None}
        with engine.retaining:
            if not dry_run and not engine.uploads.is_active:  # what an import brings hangs on no conversation at first
                engine.store.write(drop_orphans)
            if age is not None:
                removing = RetentionPass(
                    engine,
                    parse_width(age),
                    stop=engine.stopping.is_set,
                    progress=lambda done, total: self._progress("removing", done, total),
                    dry_run=dry_run,
                )
                told["removed"] = removing.run().to_json()
        return told

    def store_export(self, *, since_ns: int | None = None, until_ns: int | None = None) -> Iterator[Json]:
        """Yield the store as Parquet files, in pieces."""
        return snapshot(self._engine, since_ns=since_ns, until_ns=until_ns)

    def store_backup(self) -> Iterator[Json]:
        """Yield the store's file as of now, base64, in pieces; at the end its SHA-256."""
        with self._engine.store.backup() as file:
            digest, done, total = hashlib.sha256(), 0, os.fstat(file.fileno()).st_size
            while data := file.read(_PIECE):
                digest.update(data)
                done += len(data)
                yield {"data": b64encode(data).decode(), "done": done, "total": total}
        yield {"sha256": digest.hexdigest(), "done": done, "total": total}

    def store_import_begin(self) -> dict[str, Json]:
        """Begin an import; return its id."""
        return {"upload": self._engine.uploads.begin()}

    def store_import_piece(
        self,
        *,
        upload: str,
        table: str,
        data: Annotated[str, Field(max_length=16 * 1024 * 1024)],
        last: bool,
    ) -> dict[str, Json]:
        """Take a piece of a Parquet file of a table, base64."""
        return self._engine.uploads.piece(upload, table, data, last=last)

    def store_import_table(self, *, upload: str, table: str) -> dict[str, Json]:
        """Store what came of a table."""
        return self._engine.uploads.table(upload, table)

    def store_import_end(self, *, upload: str) -> dict[str, Json]:
        """End an import: what is not a conversation yet is rebuilt, here or by the collector."""
        engine = self._engine
        engine.uploads.end(upload)
        waiting = engine.rebuilder.pending()
        if not engine.collecting:
            rebuild_pending(engine, self._progress)
        return {"rebuilt_traces": len(waiting)}
