"""The JSON that commands print: the keys and types of every command with `--format json`, on one filled store."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inline_snapshot import external_file

from tests.cli.running import run
from tests.cli.small import NOON_NS, conversation, write_cases, write_spans

if TYPE_CHECKING:
    import pytest

_DAY_NS: Final = 24 * 3600 * 10**9
_A1: Final = {"order": "A1"}
_CASES: Final[list[dict[str, Any]]] = [
    {
        "case_id": "where",
        "dataset": "orders",
        "tags": ["regression"],
        "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}],
        "tools": {"calls": [{"tool_name": "look_up", "parameters": _A1}], "order": "relative"},
    },
    {"case_id": "cancel", "turns": [{"query": "Cancel it", "answer": "Done."}]},
]
#: Two versions of an agent: the second one breaks the case `where` in each way that a tool call can fail.
_CONVERSATIONS: Final[list[dict[str, Any]]] = [
    {"name": "c1", "case": "where", "calls": [("look_up", _A1, '{"day": "Monday"}')]},
    {"name": "c2", "case": "where", "calls": [("look_up", _A1, '{"day": "Monday"}')]},
    {"name": "c3", "case": "where", "version": "1.1", "calls": [("look_up", {"order": "B2"}, "ok")]},
    {"name": "c4", "case": "where", "version": "1.1", "answer": "I do not know.", "calls": []},
    {"name": "c5", "case": "where", "version": "1.1", "calls": [("look_up", _A1, "Error: gone"), ("drop", _A1, "ok")]},
    {"name": "c6", "query": "Cancel it", "answer": "Done."},
    {"name": "c7", "query": "Play music", "answer": "No."},
    {"name": "c8", "case": "where", "content": False},
]
_LABELS: Final = "conversation_id,verdict\nc1,pass\nc5,fail\n"
_TURN_LABELS: Final = "conversation_id,turn,verdict\nc1,1,pass\nc2,1,fail\nc3,1,pass\nc4,1,fail\nc5,,fail\n"
_ROWS: Final[list[dict[str, Any]]] = [
    {
        "user_input": [
            {"type": "human", "content": "Where is A1?"},
            {"type": "ai", "content": "", "tool_calls": [{"name": "look_up", "args": {"order": "A1"}}]},
            {"type": "tool", "content": "Monday"},
            {"type": "ai", "content": "On Monday."},
        ],
        "reference": "On Monday.",
        "reference_tool_calls": [{"name": "look_up", "args": {"order": "A1"}}],
    },
    {"user_input": "Where is B2?", "response": "I do not know."},
]

#: The command lines, in order.
_COMMANDS: Final = (
    "ingest spans.jsonl --format json",
    "truth validate cases.jsonl --format json",
    "truth import cases.jsonl --labels labels.csv --format json",
    "evaluate --metrics all --match-text auto --format json",
    "evaluate --rows rows.jsonl --metrics ragas.tool_calls --format json",
    "backfill --window 7d --step 1d --dry-run --format json",
    "backfill --window 7d --window n2 --step 1d --format json",
    "judge calibrate --labels turns.csv --random-sample --format json",
    "judge cache --format json",
    "report -k 1,3 --metrics all --window 7d --format json",
    "report --by case --format json",
    "report --compare version=1.0,1.1 --format json",
    "gate --min-n 1 --min-success 0.1 --min-pass-pow-k 3=0.9 --threshold layers.tool_f1=0.5 --save-baseline first --format json",
    "gate --min-n 1 --min-success 0.1 --allow-no-data --agent-version 1.0 --save-baseline baseline.json --format json",
    "gate --min-n 1 --baseline baseline.json --max-regression success --agent-version 1.1 --format json",
    "suite list --format json",
    "suite trend regression --format json",
    "tools failing --format json",
    "tools failing --show 1 --format json",
    "failures --format json",
    "failures --show 1 --format json",
    "query 'SELECT 1 AS n' --format json",
    "conversations list --format json",
    "conversations show c5 --format json",
    "conversations export",
    "truth datasets --format json",
    "truth list --format json",
    "truth matches --format json",
    "truth matches --clusters --format json",
    "truth export --format native",
    "truth promote --format jsonl --failing",
    "prompts show --format json",
    "store stats --format json",
    "store export exported --format json",
    "store import exported --format json",
    "store backup backup.duckdb --format json",
    "store restore backup.duckdb --force --format json",
    "store vacuum --keep 30d --dry-run --format json",
    "store vacuum --keep 30d --format json",
    "store upgrade --format json",
    "doctor --format json",
    "doctor spans.jsonl --format json",
    "plugins --format json",
)
_NAMES: Final = {
    dict: "empty object",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def test_the_shapes_of_json_are_the_golden_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_AGENTIC_STORE__DB", "desk.duckdb")
    write_spans(tmp_path / "spans.jsonl", list(_exported()))
    write_cases(tmp_path / "cases.jsonl", _CASES)
    write_cases(tmp_path / "rows.jsonl", _ROWS)
    (tmp_path / "labels.csv").write_text(_LABELS, encoding="utf-8")
    (tmp_path / "turns.csv").write_text(_TURN_LABELS, encoding="utf-8")
    assert "\n".join(map(_section, _COMMANDS)) == external_file("golden/json.txt")


def _exported() -> Iterator[dict[str, Any]]:
    for day, fields in enumerate(_CONVERSATIONS):
        case = fields.get("case")
        yield conversation(**fields | {"case": case and f"orders/{case}", "start_ns": NOON_NS + day * _DAY_NS})


def _section(line: str) -> str:
    """Run a command; return its line, its exit code, and a line for each key that it prints with the types of values."""
    ran = run(*shlex.split(line))
    documents = [json.loads(ran.out)] if ran.out[:2] in {"{\n", "[\n"} else map(json.loads, ran.out.splitlines())
    types: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for path, name in _types(document, ""):
            types[path].add(name)
    return "\n".join(
        [
            f"$ {line}",
            f"exit code {ran.code}",
            *(f"  {path}: {'|'.join(sorted(types[path]))}" for path in sorted(types)),
            "",
        ]
    )


def _types(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the type of a JSON value and of all below it; `[]` is an element of a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            name = "{k}" if key.isdigit() else key  # an estimate has a key for each k
            yield from _types(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path or "[]", "list"
        for item in value:
            yield from _types(item, f"{path}[]")
    if not isinstance(value, list) and not (isinstance(value, dict) and value):
        yield path, _NAMES[type(value)]
