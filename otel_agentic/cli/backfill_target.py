"""What a backfill works on: the store that the options name, with the files that were read into it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from otel_agentic.cli.ingest import summary_json
from otel_agentic.cli.options import opened
from otel_agentic.cli.paths import refuse_live, require_paths
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

    Progress = Callable[[str, int, int | None], None]


@contextmanager
def target_of(
    paths: tuple[str, ...],
    settings: Settings,
    given: tuple[Path | None, str | None, Path | None, dict[str, Any]],
    progress: Progress,
    *,
    dry_run: bool,
    workers: int | None,
) -> Iterator[tuple[Client, dict[str, Any] | None]]:
    """Lend a client for the store, the files read into it; of a dry run with files, for a copy that is thrown away."""
    db, server, config_file, scoring = given
    if not paths:
        with opened(db, server, config_file, scoring=scoring) as client:
            yield client, None
        return
    if server is not None:
        raise UsageError(
            "PATHS are read into a file that this process opens: give --db, or send the spans to the server"
        )
    require_paths(paths)
    refuse_live(settings, " and backfill without PATHS")
    with TemporaryDirectory() as folder:
        chosen = _copied(settings, Path(folder)) if dry_run else settings
        yield from _ingested(paths, chosen, progress, workers)


def _ingested(
    paths: tuple[str, ...], settings: Settings, progress: Progress, workers: int | None
) -> Iterator[tuple[Client, dict[str, Any]]]:
    from otel_agentic.commands import LocalClient  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline import Engine, ingest_files  # noqa: PLC0415 — not needed for --help
    from otel_agentic.pipeline.parallel import open_workers  # noqa: PLC0415 — same
    from otel_agentic.pipeline.parallel_rebuild import rebuilding_over  # noqa: PLC0415 — same

    with Engine(settings, create=True) as engine, open_workers(settings, workers) as pool:
        rebuilding_over(engine, pool)
        ingested = summary_json(ingest_files(engine, paths, progress))
        ingested["problems"] += pool.problems if pool is not None else []
    client = LocalClient(settings, lambda *_: None)
    try:
        yield client, ingested
    finally:
        client.close()


def _copied(settings: Settings, folder: Path) -> Settings:
    """Return settings of a copy of the store, or of a new one where there is none."""
    db = settings.store.db
    copy = folder / "dry-run.duckdb"
    if db.is_file():
        from otel_agentic.store.copying import copy_store  # noqa: PLC0415 — duckdb is not needed for --help

        copy_store(db, copy)
    return settings.model_copy(update={"store": settings.store.model_copy(update={"db": copy})})
