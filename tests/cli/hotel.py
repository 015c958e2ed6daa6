"""A hotel clerk of two versions, the second of which books the wrong city: a store to ask about failing tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cli.running import done
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans

DAY_NS: Final = 24 * 3600 * SECOND_NS
ROME: Final = {"city": "Rome", "nights": 2}
PARIS: Final = {"city": "Paris", "nights": 2}
CASES: Final[list[dict[str, Any]]] = [
    {
        "case_id": "rome",
        "tools": {
            "calls": [{"tool_name": "book", "parameters": ROME}, {"tool_name": "pay", "required": False}],
            "order": "relative",
        },
    },
    {"case_id": "talk", "turns": [{"query": "Hi", "answer": "Hello"}]},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation of the store: its calls, the version that made it, and how many days after the first."""

    name: str
    calls: tuple[tuple[str, dict[str, Any], str], ...]
    version: str
    day: int


BOOK_ROME: Final = ("book", ROME, '{"code": "AB12"}')
CONVERSATIONS: Final = (
    Conversation(name="c1", calls=(BOOK_ROME,), version="1.9", day=0),
    Conversation(name="c2", calls=(), version="1.9", day=1),
    Conversation(name="c3", calls=(("book", PARIS, "ok"),), version="1.10", day=2),
    Conversation(name="c4", calls=(("book", PARIS, "ok"), ("drop", {"all": True}, "ok")), version="1.10", day=3),
    Conversation(name="c5", calls=(("book", {"city": "Oslo", "nights": 2}, "ok"),), version="1.10", day=4),
    Conversation(name="c6", calls=(("book", ROME, "Error: no room"), BOOK_ROME), version="1.10", day=5),
)


def build_hotel(folder: Path) -> Path:
    """Return a new store in a folder, ingested and evaluated."""
    requests = [
        conversation(
            item.name,
            query="A room in Rome, please",
            answer="Booked: AB12.",
            calls=item.calls,
            version=item.version,
            case="rome",
            start_ns=NOON_NS + item.day * DAY_NS,
        )
        for item in CONVERSATIONS
    ]
    requests.append(conversation("c7", query="Hi", answer="Hello", case="talk"))
    db = folder / "hotel.duckdb"
    done("ingest", write_spans(folder / "spans.jsonl", requests), "--db", db)
    done("evaluate", "--db", db, "--cases", write_cases(folder / "cases.jsonl", CASES))
    return db
