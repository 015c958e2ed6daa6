"""`otel-agentic label` and `truth annotations`: on a file, and on a running collector."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import done, run
from tests.cli.small import conversation, write_spans
from tests.live.running_collector import live_settings, running

CASES = '{"case_id": "where", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}\n'


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one scored conversation, whose answer is wrong."""
    folder = tmp_path_factory.mktemp("scored")
    spans = write_spans(folder / "spans.jsonl", [conversation("c1", query="Which hotel?", answer="The Savoy.")])
    (folder / "cases.jsonl").write_text(CASES, encoding="utf-8")
    done("ingest", spans, "--db", folder / "t.duckdb", "--quiet")
    done("evaluate", "--db", folder / "t.duckdb", "--cases", folder / "cases.jsonl", "--quiet")
    return folder / "t.duckdb"


@pytest.fixture
def db(scored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(scored, tmp_path / "t.duckdb"))


def test_people_label_disagree_adjudicate_and_withdraw(db: Path) -> None:
    assert done("label", "c1", "pass", "--as", "ana", "--db", db).out == snapshot("""\
c1: pass by ana
outcome: pass (set by annotators; computed: fail)
""")
    assert done("label", "c1", "fail", "--as", "ben", "--note", "no date", "--db", db).out == snapshot("""\
c1: fail by ben
annotators disagree (ana pass, ben fail): no verdict counts; decide with --adjudicate
outcome: fail (computed)
""")
    lines = done("truth", "annotations", "--disagreements", "--db", db).out.splitlines()
    assert [("ana", "pass"), ("ben", "fail")] == [
        (annotator, verdict)
        for line in lines
        for annotator, verdict in (("ana", "pass"), ("ben", "fail"))
        if annotator in line.split() and verdict in line.split()
    ]
    assert lines[-2:] == snapshot(
        [
            "agreement between annotators: 0%, Cohen's kappa .000, Krippendorff's alpha .000 (1 item judged by two or more of ana, ben)",
            "1 item without a verdict, because annotators disagree: `otel-agentic label ID pass|fail --adjudicate` decides",
        ]
    )
    assert done("label", "c1", "pass", "--as", "eve", "--adjudicate", "--db", db).out == snapshot("""\
c1: pass by eve
outcome: pass (set by adjudication; computed: fail)
""")
    assert done("label", "c1", "--retract", "--adjudicate", "--as", "eve", "--db", db).out == snapshot("""\
c1: 1 verdict of eve withdrawn
annotators disagree (ana pass, ben fail): no verdict counts; decide with --adjudicate
outcome: fail (computed)
""")


def test_a_file_of_labels_is_imported_as_it_is_and_an_import_without_a_row_withdraws_it(db: Path) -> None:
    (db.parent / "labels.csv").write_text("conversation_id,verdict\nc1,pass\n", encoding="utf-8")
    assert done("truth", "import", "labels.csv", "--db", db).out == snapshot(
        "0 new case versions; 1 case and 1 label now current\n"
    )
    query = ("query", "SELECT conversation_id, verdict FROM labels", "--db", db, "--format", "csv")
    assert done(*query).out.splitlines() == ["conversation_id,verdict", "c1,True"]
    (db.parent / "labels.csv").write_text("conversation_id,verdict\n", encoding="utf-8")
    done("truth", "import", "labels.csv", "--db", db)
    assert done(*query).out.splitlines() == ["conversation_id,verdict"]


def test_a_running_collector_records_it_and_scores_again(db: Path) -> None:
    with running(live_settings(db)) as (_, server):
        result = done("label", "c1", "pass", "--as", "ana", "--server", server.admin, "--format", "json").json
        ran = run("label", "c2", "pass", "--db", db)
    assert (True, "pass", "annotators", "fail") == tuple(
        result[name] for name in ("rescored", "outcome", "outcome_source", "computed_outcome")
    )
    assert (ran.code, ran.err) == snapshot(
        (3, "otel-agentic: conversation 'c2': not in the store; `otel-agentic conversations list` lists them\n")
    )


def test_frozen_verdicts_are_judged_again(db: Path) -> None:
    assert run("judge", "drift", "--db", db).err == snapshot(
        "otel-agentic: no anchors are frozen; `otel-agentic judge drift --freeze` stores the current verdicts\n"
    )
    done("label", "c1", "fail", "--turn", "1", "--name", "answer", "--as", "ana", "--db", db)
    assert done("judge", "drift", "--freeze", "--db", db).out == snapshot("answer: 1 anchor frozen\n")
    ran = done("judge", "drift", "--fail-on-drift", "--db", db)
    assert ran.out.splitlines()[1:] == snapshot(
        [
            "name    n  agreement then  now   to pass  to fail  p (verdicts)  p (agreement)",
            "──────────────────────────────────────────────────────────────────────────────",
            "answer  1  1.00            1.00        0        0  1.00          1.00",
            "answer: no drift: all verdicts are the same",
        ]
    )
    assert done("judge", "calibrate", "--db", db).out.splitlines()[0].startswith("Judge exact")
