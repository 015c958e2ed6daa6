"""A store in which every name and text is hostile: markup, text of another direction, very long words, NUL, emoji."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from tests.cli.pictured import store_windows, window
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans

SCRIPT: Final = "<script>alert(1)</script>\"'&amp;`$a_b$`"
IMAGE: Final = '"><img src=x onerror=alert(1)><!--'
_TURNED: Final = "مرحبا \u202egnp.exe"
LONG: Final = "y" * 500
_LONG_TEXT: Final = "z" * 10_000
_FAMILY: Final = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL} \0 end"
_AGENTS: Final = (SCRIPT, _TURNED, LONG, "日本語")


def planted_columns(db: Path) -> list[str]:
    """Return the columns of tables in which a script is stored."""
    with duckdb.connect(db, read_only=True) as con:
        columns = con.execute(
            "SELECT table_name, column_name FROM duckdb_columns() JOIN duckdb_tables() USING (table_name) ORDER BY ALL"
        ).fetchall()
        return [
            f"{table}.{column}"
            for table, column in columns
            if con.execute(f'FROM {table} WHERE contains("{column}"::VARCHAR, $1) LIMIT 1', ["alert(1)"]).fetchall()
        ]


def build_hostile(folder: Path) -> Path:
    """Create the store in a folder and return its file."""
    db = folder / "t.duckdb"
    spans = [
        conversation(
            f"c{number}{SCRIPT}",
            query=f"{SCRIPT}{IMAGE}{_FAMILY}{_LONG_TEXT}",
            answer=f"{_TURNED}{SCRIPT}</bdi></details>",
            calls=[(IMAGE, {IMAGE: f"</style>{SCRIPT}"}, f"ok{IMAGE}"), (LONG, {}, f"Error: no{SCRIPT}{_LONG_TEXT}")],
            agent=agent,
            version=f"</svg>{SCRIPT}",
            case=SCRIPT,
        )
        for number, agent in enumerate(_AGENTS)
    ]
    tools = {"calls": [{"tool_name": IMAGE, "parameters": {IMAGE: "</title>"}}]}
    case = {"case_id": SCRIPT, "tags": [IMAGE], "tools": tools}
    done("ingest", write_spans(folder / "s.jsonl", spans), "--db", db)
    done("evaluate", "--db", db, "--cases", write_cases(folder / "c.jsonl", [case]))
    rows = [window(0, 0.5, agent=agent, service=IMAGE, agent_version=SCRIPT) for agent in _AGENTS]
    store_windows(db, rows)
    return db
