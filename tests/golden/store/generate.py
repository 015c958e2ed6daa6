"""Write `duckdb-VERSION.duckdb.gz`: a store of an earlier schema, made by the DuckDB that runs this."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from otel_agentic.config import StoreSettings
from otel_agentic.store.database import open_database
from otel_agentic.store.migrations import all_migrations, migrate
from tests.store.test_store_history import fill


def main(newest: str) -> None:
    """Write the file beside this one.

    Args:
        newest: number of the newest migration that is applied, such as 0009.
    """
    known = [migration for migration in all_migrations() if migration.name[:4] <= newest]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "golden.duckdb"
        con = open_database(path, StoreSettings(), create=True)
        migrate(con, str(path), known)
        fill(con)
        con.execute("CHECKPOINT")
        con.close()
        content = gzip.compress(path.read_bytes(), 9, mtime=0)
    target = Path(__file__).parent / f"duckdb-{duckdb.__version__}.duckdb.gz"
    target.write_bytes(content)
    sys.stdout.write(f"{target}: {len(content):,} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
