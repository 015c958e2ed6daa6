"""Query the store in SQL from Python: it is an ordinary DuckDB file.

    python query_duckdb.py                 # creates a small store first
    python query_duckdb.py my.duckdb       # queries yours

A running collector locks the file: stop the collector first, or query it with `otel-agentic query`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import duckdb
from sample_spans import CASES, requests

from otel_agentic import Commands, Engine, load_settings
from otel_agentic.commands.ingest import ingest_files

QUESTIONS = {
    "How reliable is each agent?": "SELECT agent, agent_version, correct, evaluated, coverage FROM v_reliability",
    "Which tool fails, and how?": "SELECT tool, dimension, fault, parameter, faults FROM v_failing_tools",
    "Which conversations failed?": (
        "SELECT conversation_id, reason, explanation FROM v_conversations WHERE outcome = 'fail' ORDER BY ALL"
    ),
    "What do the columns mean?": (
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'tool_calls' AND comment IS NOT NULL LIMIT 3"
    ),
}


def make_store(db: Path) -> None:
    """Fill a store from a file of spans; see `backfill_from_file.py`."""
    spans = db.with_name("spans.jsonl")
    spans.write_text("".join(json.dumps(request) + "\n" for request in requests()))
    with Engine(load_settings(store={"db": db}), create=True) as engine:
        ingest_files(engine, [str(spans)], lambda *_: None)
        Commands(engine).evaluate(cases=[("cases.jsonl", CASES)])


def ask(db: Path) -> None:
    """Print the answer to each question."""
    with duckdb.connect(str(db), read_only=True) as connection:
        for question, sql in QUESTIONS.items():
            print(question)
            for row in connection.execute(sql).fetchall():
                print("  ", *row, sep=" | ")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ask(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            database = Path(temporary) / "example.duckdb"
            make_store(database)
            ask(database)
