"""New stores as copies of an empty one, which the user's cache folder keeps for each schema and version of DuckDB.

Running `schema.sql` takes 0.2 s of CPU time, most of it for the comments of columns; a copy takes a fifth of that. Where
the cache folder cannot be used, the schema is created in the file itself.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from otel_agentic.config import cache_folder
from otel_agentic.errors import StoreError
from otel_agentic.store.connection import FILE_FORMAT, Limits, open_database
from otel_agentic.store.durability import replacing, sync
from otel_agentic.store.maintenance.migrations import Migration, all_migrations, migrate

_log = logging.getLogger(__name__)


def place_empty_store(path: Path, limits: Limits, known: Sequence[Migration] | None = None) -> bool:
    """Place an empty store at a free path; return whether it was possible.

    Other processes see a complete file or none, and a file that one of them places first stays.

    Args:
        path: the file.
        limits: the resources that DuckDB may use.
        known: the migrations of this release, in order; None means `all_migrations`.
    """
    try:
        content = _empty_store(limits, all_migrations() if known is None else known)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            draft = _copied(content, Path(folder))
            sync(draft)
            path.hardlink_to(draft)
    except (OSError, RuntimeError, duckdb.Error, StoreError) as error:  # RuntimeError: the user has no home folder
        _log.debug("%s is created without a copy of an empty store: %s", path, error)
        return False
    return True


def _copied(content: bytes, folder: Path) -> Path:
    """Return a new database with the tables and views of another; both are files in the folder.

    DuckDB recognises the log of a file by an identifier in both, so that a copy of the bytes would accept the log of another copy.
    """
    template, draft = folder / "template.duckdb", folder / "store.duckdb"
    template.write_bytes(content)
    source = str(template).replace("'", "''")
    with duckdb.connect(str(draft), config={"storage_compatibility_version": FILE_FORMAT, "threads": 1}) as con:
        con.execute(f"ATTACH '{source}' AS template (READ_ONLY)")
        con.execute("COPY FROM DATABASE template TO store")
    return draft


def _empty_store(limits: Limits, known: Sequence[Migration]) -> bytes:
    """Return the content of an empty store, from the cache or created for it."""
    folder = cache_folder()
    versions = (*(migration.checksum for migration in known), duckdb.__version__, FILE_FORMAT)
    file = folder / f"empty-{hashlib.sha256(' '.join(versions).encode()).hexdigest()[:16]}.duckdb.gz"
    with suppress(OSError, EOFError, zlib.error):  # missing or damaged
        is_own = file.stat().st_uid == os.geteuid()  # the file of another user might contain other views
        if is_own and (content := gzip.decompress(file.read_bytes())):
            return content
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as drafts:
        draft = Path(drafts) / "empty.duckdb"
        with open_database(draft, limits, create=True) as con:
            migrate(con, str(draft), known)
            con.execute("CHECKPOINT")
        content = draft.read_bytes()
    with replacing(file) as target:
        target.write(gzip.compress(content))
    return content
