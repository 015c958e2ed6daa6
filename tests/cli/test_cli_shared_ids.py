"""What a person reads about conversation ids that were used more than once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.testing import batch
from tests.cli.running import done, run
from tests.conversations.rebuilding import run as agent_run
from tests.conversations.wire import json_of, requests_of
from tests.snapshots import passage


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spans of two services that use the thread id "1"; of the first one, two attempts and two turns with one query."""
    spans = [
        agent_run(0, id="1", trace="a", query="Hi", service="x", attributes={"agentic.conversation.end": True}),
        agent_run(9, id="1", trace="b", query="Hi", service="x"),
        agent_run(19, id="1", trace="c", query="Hi", service="x"),
        agent_run(29, id="1", trace="d", query="Hi", service="y"),
    ]
    path = tmp_path_factory.mktemp("shared") / "spans.jsonl"
    path.write_bytes(json_of(requests_of(batch(*spans))[0]) + b"\n")
    return path


@pytest.fixture(scope="module")
def db(file: Path) -> Path:
    """A store of these spans."""
    path = file.parent / "t.duckdb"
    done("ingest", file, "--db", path)
    return path


def test_doctor_counts_them_and_gives_the_reason_of_each(file: Path) -> None:
    ran = done("doctor", file)

    assert passage(ran.out) == snapshot(
        "conversation 1#2, id from gen_ai.conversation.id of span invoke_agent 9; a conversation of its own because of an end mark before it"
    )
    assert passage(ran.out) == snapshot("a conversation of its own because of service y, which nothing connects with x")
    assert passage(ran.out) == snapshot(
        """\
note: 1 conversation id is shared by 3 conversations, which are counted separately (id, id#2, id@service)
note: 1 conversation may be several attempts under one reused id, counted as one: use a new conversation id for each attempt, set agentic.attempt.id on its spans, or mark its end with agentic.conversation.end
"""
    )
    reuse = json.loads(done("doctor", file, "--format", "json").out)["id_reuse"]
    assert {"shared_ids": 1, "conversations": 3, "possible": 1, "notes": reuse["notes"]} == reuse


def test_the_report_says_how_many_conversations_share_an_id(db: Path) -> None:
    note = "1 conversation id is shared by 3 conversations, which are counted separately (id, id#2, id@service)"

    assert passage(done("report", "--db", db).out) == note
    assert note in json.loads(done("report", "--db", db, "--format", "json").out)["id_reuse"]["notes"]


def test_a_shared_id_is_refused_with_the_names_to_use(db: Path) -> None:
    ran = run("conversations", "show", "1", "--db", db)
    assert (ran.code, ran.err) == snapshot(
        (
            3,
            "otel-agentic: several conversations share the id '1'; use the name of one: '1#1', '1#2', '1@y'\n",
        )
    )

    for name in ("1#1", "1#2", "1@y"):
        lines = done("conversations", "show", name, "--db", db).out.splitlines()
        assert f"conversation {name.removesuffix('#1')}" == lines[0]
