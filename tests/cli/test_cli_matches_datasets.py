"""Cases of one id in two datasets: the table of matches distinguishes them, and names no dataset if there is only one."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import done, on_terminal
from tests.cli.small import conversation, write_cases, write_spans


def test_datasets_stand_in_the_table_where_there_are_several(tmp_path: Path) -> None:
    db = tmp_path / "shop.duckdb"
    conversations = [
        conversation("c1", query="Where is A1?", case="shop/7"),
        conversation("c2", query="Where is B2?", case="desk/7"),
        conversation("c3", query="Play music"),
    ]
    done("ingest", write_spans(tmp_path / "spans.jsonl", conversations), "--db", db)
    shop = write_cases(
        tmp_path / "shop.jsonl", [{"case_id": "7", "dataset": "shop", "turns": [{"query": "Where is A1?"}]}]
    )
    desk = write_cases(
        tmp_path / "desk.jsonl", [{"case_id": "7", "dataset": "desk", "turns": [{"query": "Where is B2?"}]}]
    )

    done("evaluate", "--db", db, "--cases", shop)
    header = on_terminal(120, "truth", "matches", "--db", db)[0]
    assert ["conversation", "case", "method", "confidence"] == header.replace("warning", "").split()
    done("evaluate", "--db", db, "--cases", desk)
    rows = [line.split() for line in on_terminal(120, "truth", "matches", "--db", db)]
    assert ["conversation", "dataset", "case", "method", "confidence"] == rows[0]
    assert {("c1", "shop", "7"), ("c2", "desk", "7"), ("c3", "—", "—")} == {tuple(row[:3]) for row in rows[2:5]}
