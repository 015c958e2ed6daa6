"""Commands on the store itself."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.commands.registry import Context, command
from otel_agentic.config import export_folder_of
from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.engine.erasure import Eraser
from otel_agentic.engine.retention import RetentionPass
from otel_agentic.engine.transfer import snapshot
from otel_agentic.reports.conversations import by_framework, id_reuse_of, of_view, wrong_clocks_of
from otel_agentic.results.store import Erasures
from otel_agentic.store.connection import DEFAULT, require_evaluation, to_json_value
from otel_agentic.store.conversations import retention_state
from otel_agentic.store.maintenance import vacuum as stats
from otel_agentic.store.maintenance.import_files import drop_orphans
from otel_agentic.store.queries import conversations as browse
from otel_agentic.store.queries.user_queries import limits_of
from otel_agentic.windows.model import parse_width

_PIECE: Final = 4 * 1024 * 1024


@command("query", role="query")
def query(context: Context, *, sql: str, fresh: bool = False, evaluation: str = DEFAULT) -> Mapping[str, Any]:
    """Return the rows of one read-only SQL statement, run in a separate process on a snapshot of the store.

    Args:
        context: the store and its resources.
        sql: the statement.
        fresh: use a new snapshot, which contains everything acknowledged until now, instead of the last one.
        evaluation: name of the evaluation whose scores the views show.
    """
    store = context.engine.store
    with store.read() as con:
        require_evaluation(con, evaluation)
    snapshot = store.snapshots.latest(fresh=fresh)
    return store.user_queries.run(
        snapshot.path,
        sql,
        limits_of(context.engine.settings.store),
        as_of_ns=snapshot.as_of_ns,
        evaluation=evaluation,
        is_cancelled=context.is_disconnected,
        folder=export_folder_of(context.engine.settings).resolve(),
    )


@command("store_summary", role="query")
def store_summary(context: Context) -> dict[str, Any]:
    """Return counts and content coverage of the store."""
    with context.engine.store.read() as con:
        counts = {**browse.counts(con), "coverage": by_framework(of_view(browse.coverage(con)))}
    reuse = id_reuse_of(context.engine.store)
    shown_reuse = {} if reuse is None else {"id_reuse": reuse}
    return {**counts, "wrong_clocks": wrong_clocks_of(context.engine.store), **shown_reuse}


@command("live", role="query")
def live(context: Context) -> dict[str, Any]:
    """Return the received spans by scope and dialect, counts and coverage. A running collector adds its own state."""
    with context.engine.store.read() as con:
        spans = browse.received(con)
    for row in spans:
        row["framework"] = framework_of(row["scope"], row["dialect"]).name
    return {"spans": to_json_value(spans), **store_summary(context)}


@command("collector", role="query")
def collector(context: Context) -> dict[str, Any]:  # noqa: ARG001 — a running collector answers instead
    """Return the state of the running collector, as in the result of `live`; an empty object without one."""
    return {}


@command("store_stats", role="query")
def store_stats(context: Context) -> dict[str, Any]:
    """Return rows and bytes by table, ages, open conversations, and the state of retention and export."""
    engine = context.engine
    db, retention = engine.store.path, engine.settings.retention
    with engine.store.read() as con:
        statistics, so_far = stats.store_stats(con), retention_state(con)
    wal = db.with_name(f"{db.name}.wal")
    payload: dict[str, Any] = to_json_value(
        {
            "db": str(db),
            "file_bytes": db.stat().st_size,
            "wal_bytes": wal.stat().st_size if wal.exists() else 0,
            **statistics,
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
                **statistics["export"],
            },
        }
    )
    return payload


@command("store_vacuum")
def store_vacuum(context: Context, *, keep: str | None = None, dry_run: bool = False) -> dict[str, Any]:
    """Remove data older than `keep`, by default the configured age; return counts, null if no data is too old."""
    engine = context.engine
    age = keep or engine.settings.retention.keep
    payload: dict[str, Any] = {"keep": age, "dry_run": dry_run, "removed": None}
    with engine.retention_lock:
        if not dry_run and not engine.uploads.is_active:  # imported rows belong to no conversation at first
            engine.store.write(drop_orphans)
        if age is not None:
            retention_pass = RetentionPass(
                engine,
                parse_width(age),
                stop=engine.stopping.is_set,
                progress=lambda done, total: context.progress("removing", done, total),
                dry_run=dry_run,
            )
            payload["removed"] = retention_pass.run().to_json()
    return payload


@command("store_erase")
def store_erase(
    context: Context,
    *,
    user: str | None = None,
    conversation_id: str | None = None,
    environment: str | None = None,
    dry_run: bool = False,
) -> Erasures:
    """Erase everything stored about a conversation, or about all conversations and the feedback of an end user.

    Args:
        context: the store and its resources.
        user: an end user, as the spans name them.
        conversation_id: a conversation; either this or `user` is given.
        environment: only in this environment.
        dry_run: only count what would be erased.
    """
    engine = context.engine
    eraser = Eraser(engine)
    with engine.retention_lock:
        erasure = eraser.find(user=user, conversation_id=conversation_id, environment=environment)
        return eraser.count(erasure) if dry_run else eraser.erase(erasure)


@command("store_export")
def store_export(context: Context, *, since_ns: int | None = None, until_ns: int | None = None) -> Iterator[Any]:
    """Yield the store as Parquet files, in pieces."""
    engine = context.engine
    return snapshot(engine.store, export_folder_of(engine.settings), since_ns=since_ns, until_ns=until_ns)


@command("store_backup")
def store_backup(context: Context) -> Iterator[Any]:
    """Yield the store's current file in base64 pieces, and its SHA-256 at the end."""
    with context.engine.store.backup() as file:
        digest, done, total = hashlib.sha256(), 0, os.fstat(file.fileno()).st_size
        while data := file.read(_PIECE):
            digest.update(data)
            done += len(data)
            yield {"data": b64encode(data).decode(), "done": done, "total": total}
    yield {"sha256": digest.hexdigest(), "done": done, "total": total}


@command("store_import_begin")
def store_import_begin(context: Context) -> dict[str, Any]:
    """Begin an import; return its id."""
    return {"upload": context.engine.uploads.begin()}


@command("store_import_piece")
def store_import_piece(
    context: Context,
    *,
    upload: str,
    table: str,
    data: Annotated[str, Field(max_length=16 * 1024 * 1024)],
    last: bool,
) -> dict[str, Any]:
    """Receive a base64 piece of a Parquet file of a table."""
    return context.engine.uploads.piece(upload, table, data, last=last)


@command("store_import_table")
def store_import_table(context: Context, *, upload: str, table: str) -> dict[str, Any]:
    """Store the received rows of a table."""
    return context.engine.uploads.table(upload, table)


@command("store_import_end")
def store_import_end(context: Context, *, upload: str) -> dict[str, Any]:
    """End an import: rebuild the conversations, here or in the collector."""
    engine = context.engine
    engine.uploads.end(upload)
    pending = engine.rebuilder.pending()
    if not engine.collecting:
        rebuild_pending(engine, context.progress)
    return {"rebuilt_traces": len(pending)}
