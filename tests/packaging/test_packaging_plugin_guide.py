"""The package of docs/plugins.md, installed for real, and used through the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from otel_agentic.config import ConversationSettings, DialectSettings
from otel_agentic.dialects import Reader, ToolCall
from otel_agentic.testing import span

ROOT: Final = Path(__file__).parents[2]
GUIDE: Final = ROOT / "docs" / "plugins.md"
PLUGIN: Final = ROOT / "examples" / "plugin"
_BLOCK: Final = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)

_SEND_TO_COLLECTOR: Final = """
import pathlib, socket, sys
from otel_agentic import plugins
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine

with Engine(Settings(store=StoreSettings(db=pathlib.Path("lines.duckdb"))), create=True) as engine:
    collector = plugins.get("collectors", "lines").load().from_settings(engine.settings)
    collector.start(engine.store)
    host, _, port = collector.endpoint.removeprefix("tcp://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rwb") as stream:
        for line in (pathlib.Path(sys.argv[1]).read_bytes(), b"no JSON\\n"):
            stream.write(line)
            stream.flush()
            print(stream.readline().decode(), end="")
    collector.stop(1.0)
"""

#: A real model of LangChain without a provider behind it.
_ASK_A_MODEL: Final = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from otel_agentic import evaluate

replies = iter(['{"reasoning": "A guest would smile.", "label": "polite"}', '{"reasoning": "No.", "label": "Rude"}'])
turns = [{"query": query, "answer": answer} for query, answer in (("Hello", "Welcome!"), ("My order?", "Go away."))]
found = evaluate(
    {"conversation_id": "c", "turns": turns},
    {"case_id": "c", "turns": [{"query": "Hello"}]},
    judge=GenericFakeChatModel(messages=replies),
    metrics="acme.tone",
)
for row in found.metrics:
    print(row["metric"], row["label"])
"""


def acme_spans(path: Path, conversations: int) -> Path:
    """Write runs of an Acme agent as one OTLP/JSON document."""
    spans = []
    for number in range(conversations):
        attributes = {
            "acme.step": "run",
            "acme.chat": f"chat-{number}",
            "acme.agent": "clerk",
            "acme.asked": "Where is my order?",
            "acme.answered": "your order is in the post",
            "agentic.case.id": "order",
        }
        begins_ns = 1_760_000_000_000_000_000 + number * 1_000_000_000
        span = {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{1:016x}",
            "name": "acme run",
            "startTimeUnixNano": str(begins_ns),
            "endTimeUnixNano": str(begins_ns + 1_000_000),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        spans.append(span)
    document = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "acme"}, "spans": spans}]}]}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the package is installed."""
    source, target = tmp_path_factory.mktemp("acme") / "plugin", tmp_path_factory.mktemp("acme-installed")
    shutil.copytree(PLUGIN, source)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """Run Python in a folder with the package importable; return its output."""
    path = os.pathsep.join([str(installed), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_dialect_judge_and_estimator_of_the_guide_are_used_from_spans_to_report(
    installed: Path, tmp_path: Path
) -> None:
    command = ("-m", "otel_agentic.cli")
    spans = acme_spans(tmp_path / "spans.jsonl", conversations=6)
    case = {"case_id": "order", "turns": [{"query": "Where is my order?", "answer": "In the post"}]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    database = ("--db", "t.duckdb")

    run(installed, tmp_path, *command, "ingest", str(spans), *database)
    run(installed, tmp_path, *command, "evaluate", *database, "--cases", "cases.jsonl", "--judge", "keywords")
    query = ("--estimator", "rule_of_three", "-k", "1", "--format", "json")
    (group,) = json.loads(run(installed, tmp_path, *command, "report", *database, *query))["groups"]

    assert ("clerk", 6, 6) == (group["agent"], group["n"], group["c"])
    estimate = group["estimates"]["rule_of_three"]["pass_pow_k"]["1"]
    assert {"value": 1.0, "lower": 0.5, "upper": 1.0} == estimate
    read_by = run(
        installed, tmp_path, *command, "query", *database, "SELECT DISTINCT dialect FROM spans", "--format", "csv"
    )
    assert ["dialect", "acme"] == read_by.split()


@pytest.mark.slow
def test_evaluators_of_the_guide_score_by_function_class_and_judge(installed: Path, tmp_path: Path) -> None:
    command = ("-m", "otel_agentic.cli")
    spans = acme_spans(tmp_path / "spans.jsonl", conversations=2)
    case = {"case_id": "order", "turns": [{"query": "Where is my order?", "answer": "In the post"}]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    database = ("--db", "t.duckdb")

    run(installed, tmp_path, *command, "ingest", str(spans), *database)
    run(
        installed,
        tmp_path,
        *command,
        "evaluate",
        *database,
        "--cases",
        "cases.jsonl",
        "--metrics",
        "acme.brief,acme.calls",
    )
    query = "SELECT name, value, turn_index FROM scores WHERE evaluator LIKE 'acme.%' ORDER BY ALL"
    rows = run(installed, tmp_path, *command, "query", *database, query, "--format", "csv").splitlines()
    prompt = run(installed, tmp_path, *command, "prompts", "show", "--metric", "acme.tone", "--format", "json")
    output = run(installed, tmp_path, "-c", _ASK_A_MODEL)

    assert ["acme.brief,1.0,0", "acme.brief,1.0,0", "acme.calls,0.0,", "acme.calls,0.0,"] == rows[1:]
    (question,) = json.loads(prompt)
    assert ("acme.tone", "acme-agentic 1.0", ["acme.tone"]) == (
        question["metric"],
        question["source"],
        question["metrics"],
    )
    assert ["acme.tone polite", "acme.tone rude"] == output.splitlines()


def test_the_collector_of_the_guide_answers_once_its_spans_are_stored(installed: Path, tmp_path: Path) -> None:
    spans = acme_spans(tmp_path / "spans.jsonl", conversations=3)

    answers = run(installed, tmp_path, "-c", _SEND_TO_COLLECTOR, str(spans)).splitlines()

    assert "stored 3" == answers[0]
    assert answers[1].startswith("refused: ")


def test_the_settings_of_the_guide_read_a_framework_without_code() -> None:
    given: dict[str, Any] = {}
    for text in _BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        given |= tomllib.loads(text)["dialects"]
    reader = Reader.from_settings(ConversationSettings(), DialectSettings(**given))
    call = {"acme.op": "call", "acme.call": '{"tool": "look_up", "args": {"order": "A1"}, "returned": "Monday"}'}

    read = reader.read(span(scope="acme.loop", attributes=call)).event

    assert isinstance(read, ToolCall)
    assert ("custom", "look_up", {"order": "A1"}, "Monday") == (
        read.header.dialect,
        read.name,
        read.arguments,
        read.result,
    )
    assert "openinference" == reader.read(span(scope="acme.agents", attributes=call)).event.header.dialect
