"""What the tests of the command line share: a clean environment, and a small store that is scored."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import Ran, done, run
from tests.cli.small import conversation, write_cases, write_spans

if TYPE_CHECKING:
    from tests.once_per_run import OncePerRun


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
def flights(shared_dir: Path, once_per_run: OncePerRun) -> Flights:
    """Return a store that tests copy and do not change."""
    data = shared_dir / "data" / "tau-airline"

    def fill(folder: Path) -> None:
        ran = run("ingest", "--db", folder / "t.duckdb", data / "spans.jsonl.gz")
        (folder / "ran.json").write_text(json.dumps(asdict(ran)))

    folder = once_per_run("flights", fill)
    return Flights(data=data, db=folder / "t.duckdb", ingested=Ran(**json.loads((folder / "ran.json").read_text())))


@pytest.fixture(scope="session")
def shop(once_per_run: OncePerRun) -> Shop:
    """Return a store that tests read and do not change."""
    return _shop_in(once_per_run("shop", _fill_shop))


def _fill_shop(folder: Path) -> None:
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
    result = _shop_in(folder)
    write_spans(result.spans, conversations)
    write_cases(result.cases, cases)
    done("ingest", result.spans, "--db", result.db)
    done("evaluate", "--db", result.db, "--cases", result.cases)


def _shop_in(folder: Path) -> Shop:
    return Shop(db=folder / "shop.duckdb", spans=folder / "spans.jsonl", cases=folder / "cases.jsonl")
