"""Production conversations become cases: the selection, the written files, and rejected input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.truth import parse_cases, read_cases
from tests.cli.running import done, on_terminal, run
from tests.cli.small import NOON_NS, SECOND_NS, conversation, spans_of, write_spans
from tests.snapshots import opening, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_conversations_that_recorded_nothing_are_left_out_with_a_reason(shared_dir: Path, tmp_path: Path) -> None:
    db = tmp_path / "nocontent.duckdb"
    done("ingest", shared_dir / "data" / "tau-airline" / "variant-nocontent.jsonl.gz", "--db", db)

    early = done("truth", "promote", "--db", db)
    assert early.err == snapshot(
        "nothing to promote in this selection; 20 conversations not evaluated yet, see `otel-agentic evaluate`\n"
    )
    done("evaluate", "--db", db)
    ran = done("truth", "promote", "--db", db, "--output", tmp_path / "none.jsonl")
    assert "" == ran.out
    assert opening(ran.lines[1]) == snapshot(
        "left out, no query was captured, so that no conversation could match such a case: "
    )
    assert ran.lines[1].endswith(" and 17 more")
    assert not (tmp_path / "none.jsonl").exists()
    lines = on_terminal(80, "truth", "matches", "--clusters", "--db", db)
    assert lines[0] == snapshot("20 unmatched conversations in 1 cluster, by first query")
    assert lines[3].startswith("(not captured)")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a help desk, which tests do not change: two that ask the same, one like them, one other."""
    folder = tmp_path_factory.mktemp("desk")
    db = folder / "desk.duckdb"
    conversations = [
        conversation("c1", query="Where is order A1?", calls=[("look_up", {"order": "A1"}, "Monday")]),
        conversation("c2", query="where is order A1", answer="On Friday."),
        conversation("c3", query="Where is order B2?"),
        conversation("c4", query="Play music", answer="No."),
    ]
    done("ingest", write_spans(folder / "spans.jsonl", conversations), "--db", db)
    done("evaluate", "--db", db)
    return db


def test_conversations_in_which_the_same_was_asked_become_one_case(desk: Path) -> None:
    result = {
        tuple(item["promoted_from"]): item
        for item in map(json.loads, done("truth", "promote", "c1", "c2", "c1", "c3", "--db", desk).out.splitlines())
    }

    assert {("c1", "c2"), ("c3",)} == set(result)
    (turn,) = result["c1", "c2"]["turns"]
    calls = [{"tool_name": "look_up", "parameters": {"order": "A1"}, "step": 1}]
    assert turn == snapshot(
        {"query": "Where is order A1?", "answer": "It arrives on Monday.", "tools": {"calls": calls}}
    )


def test_of_a_cluster_the_newest_conversation_is_promoted(desk: Path) -> None:
    result = [json.loads(line) for line in done("truth", "promote", "--unmatched", "--db", desk).out.splitlines()]

    assert 2 == len(result)
    assert passage(result[0]["notes"]) == snapshot("3 of 4 unmatched conversations begin like it")
    assert passage(result[1]["notes"]) == snapshot("Promoted because no case matches it.")


def test_yaml_is_written_for_people(desk: Path, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    done("truth", "promote", "c4", "--db", desk, "--output", file, "--dataset", "music")

    assert file.read_text("utf-8").startswith("- case_id: production-")
    assert passage(file.read_text("utf-8")) == snapshot("  dataset: music\n  reviewed: false\n")
    lines = done("truth", "promote", "c4", "--db", desk, "--dataset", "music").out
    assert parse_cases("lines.jsonl", lines).require() == read_cases(file).require()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nope",), 3, "no conversation 'nope'; `otel-agentic conversations list` shows them"),
        (
            ("c1", "--failing"),
            2,
            "give conversations, or choose them by --failing, --unmatched, --since, --until, --agent and --agent-version",
        ),
        (("c1", "--since", "7d"), 2, "give conversations, or choose them by"),
        (("--dataset", ""), 2, "a dataset needs a name"),
        (
            ("--output", "there.jsonl"),
            2,
            "there.jsonl exists, and may hold your annotations; give another file, or move it away",
        ),
        (
            ("--output", "no/where.jsonl"),
            2,
            "--output no/where.jsonl: No such file or directory; give a file that can be written",
        ),
    ],
)
def test_conversations_that_cannot_be_promoted_are_reported(
    desk: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "there.jsonl").write_text("mine")
    ran = run("truth", "promote", *arguments, "--db", desk)

    assert (code, "") == (ran.code, ran.out)
    assert message in ran.err
    assert "mine" == (tmp_path / "there.jsonl").read_text()


def in_staging(name: str, **options: Any) -> dict[str, Any]:
    """A conversation of another environment, a day later."""
    message = json.dumps(conversation(name, start_ns=NOON_NS + 86_400 * SECOND_NS, **options))
    result: dict[str, Any] = json.loads(message.replace('"production"', '"staging"'))
    for span in spans_of(result):
        span["traceId"] = span["traceId"][::-1]
    return result


def test_a_session_of_the_same_id_in_another_environment_is_promoted_too(tmp_path: Path) -> None:
    db, drafts = tmp_path / "two.duckdb", tmp_path / "drafts.jsonl"
    conversations = [conversation("s1", query="Where is A1?"), in_staging("s1", query="Cancel B2")]
    done("ingest", write_spans(tmp_path / "spans.jsonl", conversations), "--db", db)
    done("evaluate", "--db", db)
    done("truth", "promote", "--environment", "staging", "--db", db, "--output", drafts)
    done("truth", "import", drafts, "--db", db)
    done("evaluate", "--db", db)

    other = done("truth", "promote", "--db", db)
    assert ["Where is A1?"] == [json.loads(line)["turns"][0]["query"] for line in other.out.splitlines()]
    named = done("truth", "promote", "s1", "--environment", "staging", "--dataset", "elsewhere", "--db", db)
    assert "" == named.out
    assert opening(named.err.splitlines()[1]) == snapshot(
        "left out, already an active case: s1 (case production-b10740e30f83 of dataset production)"
    )


def test_an_id_that_two_environments_have_wants_the_environment(tmp_path: Path) -> None:
    db = tmp_path / "two.duckdb"
    done("ingest", write_spans(tmp_path / "spans.jsonl", [conversation("c1"), in_staging("c1")]), "--db", db)

    ran = run("truth", "promote", "c1", "--db", db)
    assert (ran.code, ran.err) == snapshot(
        (3, "otel-agentic: conversation 'c1' exists in environments 'production', 'staging'; give --environment\n")
    )
    assert 1 == len(done("truth", "promote", "c1", "--environment", "staging", "--db", db).out.splitlines())


def test_a_passing_conversation_is_promoted_by_name_alone(shop: Shop) -> None:
    failing = done("truth", "promote", "--db", shop.db)
    named = done("truth", "promote", "c1", "--db", shop.db)

    assert [["c2"]] == [json.loads(line)["promoted_from"] for line in failing.out.splitlines()]
    assert passage(failing.err) == snapshot("1 case of 1 conversation written, dataset production: drafts")
    assert json.loads(named.out)["notes"] == snapshot("Promoted by name; it passed case where of dataset cases.")
