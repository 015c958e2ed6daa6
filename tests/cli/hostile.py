"""A store in which every name and text is hostile: markup, scripts, text of another direction, and very long words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.cli.pictured import store_windows, window
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans

SCRIPT: Final = "<script>alert(1)</script>\"'&amp;`$a_b$`"
IMAGE: Final = '"><img src=x onerror=alert(1)><!--'
_TURNED: Final = "مرحبا \u202egnp.exe"
LONG: Final = "y" * 500
_AGENTS: Final = (SCRIPT, _TURNED, LONG, "日本語")


def build_hostile(folder: Path) -> Path:
    """Create the store in a folder and return its file."""
    db = folder / "t.duckdb"
    spans = [
        conversation(
            f"c{number}{SCRIPT}",
            query=f"{SCRIPT}{IMAGE}",
            answer=f"{_TURNED}{SCRIPT}</bdi></details>",
            calls=[(IMAGE, {IMAGE: f"</style>{SCRIPT}"}, f"ok{IMAGE}"), (LONG, {}, f"Error: no{SCRIPT}")],
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
