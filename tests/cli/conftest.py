"""What the tests of the command line share: a clean environment, and a small store that is scored."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import Ran, done, run
from tests.cli.small import conversation, write_cases, write_spans


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolate tests from local settings: environment variables, and `otel-agentic.toml` in the working directory."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "COLUMNS")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Four conversations of a shop's agent, two of each case, scored: three of them right."""

    db: Path
    spans: Path
    cases: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """tau-airline as files, and in a store, not evaluated."""

    data: Path
    db: Path
    ingested: Ran


@pytest.fixture(scope="session")
def flights(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Flights:
    """Return a store that tests copy and do not change."""
    data, db = shared_dir / "data" / "tau-airline", tmp_path_factory.mktemp("flights") / "t.duckdb"
    return Flights(data=data, db=db, ingested=run("ingest", "--db", db, data / "spans.jsonl.gz"))


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return a store that tests read and do not change."""
    folder = tmp_path_factory.mktemp("shop")
    look_up, cancel = {"order": "A1"}, {"order": "B2"}
    conversations = [
        conversation("c1", calls=[("look_up", look_up, '{"day": "Monday"}')], case="where"),
        conversation("c2", calls=[("look_up", {"order": "A2"}, '{"day": "Friday"}')], case="where"),
        conversation("c3", query="Cancel it", answer="Done.", calls=[("cancel", cancel, "ok")], case="cancel"),
        conversation("c4", query="Cancel it", answer="Done.", calls=[("cancel", cancel, "ok")], case="cancel"),
    ]
    cases = [
        {"case_id": "where", "tools": {"calls": [{"tool_name": "look_up", "parameters": look_up}]}},
        {"case_id": "cancel", "tools": {"calls": [{"tool_name": "cancel", "parameters": cancel}]}},
    ]
    result = Shop(
        db=folder / "shop.duckdb",
        spans=write_spans(folder / "spans.jsonl", conversations),
        cases=write_cases(folder / "cases.jsonl", cases),
    )
    done("ingest", result.spans, "--db", result.db)
    done("evaluate", "--db", result.db, "--cases", result.cases)
    return result
