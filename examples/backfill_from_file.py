"""Score the spans of a file: OTLP/JSON lines, as the OpenTelemetry Collector's file exporter writes them.

    python backfill_from_file.py

The same on the command line:

    otel-agentic backfill spans.jsonl --db example.duckdb --cases cases.jsonl --window 24h --step 1h
    otel-agentic report --db example.duckdb -k 1,3
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from sample_spans import CASES, requests

from otel_agentic import Commands, Engine, load_settings
from otel_agentic.commands.ingest import ingest_files


def main(folder: Path) -> None:
    """Write a file of eight attempts, five of them right, and report on it."""
    spans = folder / "spans.jsonl"
    spans.write_text("".join(json.dumps(request) + "\n" for request in requests()))

    with Engine(load_settings(store={"db": folder / "example.duckdb"}), create=True) as engine:
        done = ingest_files(engine, [str(spans)], lambda *_: None)
        print(f"{done.receipt.accepted} spans stored, {done.receipt.rejected} rejected")
        again = ingest_files(engine, [str(spans)], lambda *_: None)
        print(f"once more: {again.receipt.duplicate} duplicates, nothing changes")

        commands = Commands(engine)
        events = list(commands.backfill(cases=[("cases.jsonl", CASES)], windows=["24h"], step_ns=3_600 * 10**9))
        filled = events[-1]["result"]  # before it: how far it was
        print(f"{filled['scoring']['scored']} conversations scored: {filled['scoring']['outcomes']}")
        print(f"{filled['windows']['rows_changed']} rows of the table windows are new")

        (group,) = commands.report(k=[1, 3])["groups"]
        pooled = group["pooled"]
        for name, key in (("pass@3", "pass_at_k"), ("pass^3", "pass_pow_k")):
            estimate = pooled[key]["3"]
            print(f"{name}: {estimate['value']:.3f}, 95 % in [{estimate['lower']:.3f}, {estimate['upper']:.3f}]")
        print(f"tier: {group['tier']}")
        for row in commands.tools_failing():
            print(f"fault: {row['tool']}, {row['parameter']}: expected {row['expected']}, actual {row['actual']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
