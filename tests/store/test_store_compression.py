"""Wide text is small on disk, in new files and in those of earlier schemas."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from otel_agentic.testing import NOON_NS, batch, span
from tests.store.store_queries import rows

if TYPE_CHECKING:
    from tests.store.conftest import OpenStore

SPANS = 3000
_COMPRESSION = """
SELECT DISTINCT column_name, compression FROM pragma_storage_info('{0}')
WHERE segment_type <> 'VALIDITY' AND column_name IN ('attributes', 'events', 'body') ORDER BY ALL
"""


def test_the_text_of_spans_takes_less_than_half_of_its_bytes_on_disk(open_store: OpenStore) -> None:
    rng = random.Random(5)  # noqa: S311 — no secret
    words = ["".join(rng.choices("abcdefghijklmnop", k=6)) for _ in range(2000)]
    texts = [" ".join(rng.choices(words, k=300)) for _ in range(SPANS)]
    with open_store() as store:
        path = store.path
    empty = path.stat().st_size
    with open_store() as store:
        store.accept(
            batch(*(span(f"s{index}", start_ns=NOON_NS, attributes={"said": text}) for index, text in enumerate(texts)))
        )

    assert path.stat().st_size - empty < 0.5 * sum(map(len, texts))


def test_every_column_still_says_what_it_holds(open_store: OpenStore) -> None:
    with open_store() as store:
        silent = rows(
            store,
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL "
            "AND table_name IN ('spans', 'log_records')",
        )

    assert [] == silent
