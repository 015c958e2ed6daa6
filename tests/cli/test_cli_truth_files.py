"""Files of cases from the command line: every format in and out, and the messages about them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.truth.files import FORMAT_NAMES
from otel_agentic.truth.formats import FORMATS
from otel_agentic.truth.formats.base import case_schema
from tests.cli.running import done, run
from tests.cli.small import conversation, write_spans
from tests.live.running_collector import live_settings, running
from tests.snapshots import exactly, passage

YAML = """
cases:
  - case_id: where
    tags: [regression]
    turns:
      - query: Where is my order?
        answer: It arrives on Monday.
  - case_id: cancel
    tools: {calls: [{tool_name: cancel, parameters: {order: B2}, match: {order: casefold}}]}
dataset: shop
"""


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one conversation, for tests to copy."""
    folder = tmp_path_factory.mktemp("stored")
    spans = write_spans(folder / "spans.jsonl", [conversation("c1")])
    done("ingest", spans, "--db", folder / "t.duckdb", "--quiet")
    return folder / "t.duckdb"


@pytest.fixture
def db(stored: Path, tmp_path: Path) -> Path:
    """A store with one conversation, and a file of two cases next to it."""
    (tmp_path / "shop.yaml").write_text(YAML, encoding="utf-8")
    return Path(shutil.copy(stored, tmp_path / "t.duckdb"))


def test_the_formats_offered_are_those_that_there_are() -> None:
    assert list(FORMATS) == list(FORMAT_NAMES)


def test_cases_in_yaml_are_imported_scored_and_listed_with_the_version_of_their_dataset(db: Path) -> None:
    lines = done("truth", "import", "shop.yaml", "--db", db).out.splitlines()
    assert lines[0] == snapshot("2 new case versions; 2 cases now current")
    (version,) = {row["dataset_version"] for row in done("truth", "list", "--db", db, "--format", "json").json}
    assert [f"dataset shop: 2 cases, now version {version}"] == lines[1:]
    assert done("truth", "import", "shop.yaml", "--db", db).out == snapshot(
        "0 new case versions; 2 cases now current\n"
    )
    assert {"pass": 1} == done("evaluate", "--db", db, "--format", "json").json["outcomes"]


def test_evaluate_takes_cases_of_any_format(db: Path) -> None:
    done("truth", "import", "shop.yaml", "--db", db)
    done("truth", "export", "--db", db, "--output", "shop.parquet")
    scored = done("evaluate", "--db", db, "--cases", "shop.parquet", "--format", "json").json
    assert (2, 0, {"pass": 1}) == (scored["cases"], scored["new_case_versions"], scored["outcomes"])


def test_the_versions_of_a_dataset_are_listed_newest_first(db: Path, tmp_path: Path) -> None:
    assert passage(done("truth", "datasets", "--db", db).out) == snapshot("no dataset was imported")
    done("truth", "import", "shop.yaml", "--db", db)
    (tmp_path / "shop.yaml").write_text(YAML.replace("Monday", "Friday"), encoding="utf-8")
    done("truth", "import", "shop.yaml", "--db", db)
    result = done("truth", "datasets", "--db", db, "--format", "json").json
    assert [("shop", 2, True), ("shop", 2, False)] == [(row["dataset"], row["cases"], row["current"]) for row in result]
    table = done("truth", "datasets", "--db", db, "--dataset", "shop").out
    assert [row["version"] in table for row in result] == [True, True]
    assert ("current" in table, "past" in table) == (True, True)


@pytest.mark.parametrize(
    "name", ["out.yaml", *(pytest.param(f"out.{end}", marks=pytest.mark.slow) for end in ("jsonl", "csv", "parquet"))]
)
def test_an_export_by_ending_can_be_imported_again_without_a_change(db: Path, name: str) -> None:
    done("truth", "import", "shop.yaml", "--db", db)
    ran = done("truth", "export", "--db", db, "--output", name)
    form = "native" if name.endswith("jsonl") else name.rsplit(".", 1)[1]
    assert (f"2 cases written to {name}, format {form}\n", "") == (ran.out, ran.err)
    assert f"{name}: 2 cases, ok\n" == done("truth", "validate", name).out
    assert done("truth", "import", name, "--db", db).out == snapshot("0 new case versions; 2 cases now current\n")


@pytest.mark.parametrize(
    "form",
    ["outcome", "adk", *(pytest.param(form, marks=pytest.mark.slow) for form in ("fair-forge", "ragas", "tau-bench"))],
)
def test_an_export_for_another_tool_names_what_was_lost_and_reads_back(db: Path, form: str) -> None:
    done("truth", "import", "shop.yaml", "--db", db)
    ran = done("truth", "export", "--db", db, "--format", form, "--output", "out.json", "--losses-format", "json")
    losses: list[dict[str, Any]] = json.loads(ran.err)
    assert "tags" in {loss["field"] for loss in losses} or form == "outcome"
    assert {"cancel", "where"} >= {loss["case_id"] for loss in losses} != set()
    assert all(loss["reason"] and loss["dataset"] == "shop" for loss in losses)
    assert exactly(done("truth", "validate", "out.json").out, form=form) == snapshot("out.json: 2 cases (<form>), ok\n")
    lines = done("truth", "export", "--db", db, "--format", form).err.splitlines()
    assert len(losses) + 1 == len(lines)
    assert lines[-1].endswith("lost or changed")


def test_native_cases_go_to_standard_output_and_one_dataset_may_be_chosen(db: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"case_id": "x"}\n', encoding="utf-8")
    done("truth", "import", "shop.yaml", "more.jsonl", "--db", db)
    assert done("truth", "export", "--db", db, "--dataset", "more").out == snapshot(
        '{"case_id": "x", "dataset": "more"}\n'
    )
    ran = run("truth", "export", "--db", db, "--dataset", "nope")
    assert (ran.code, ran.err) == snapshot(
        (3, "otel-agentic: no case of dataset 'nope' is current; datasets: more, shop\n")
    )


def test_an_export_overwrites_nothing(db: Path, tmp_path: Path) -> None:
    done("truth", "import", "shop.yaml", "--db", db)
    (tmp_path / "mine.yaml").write_text("# mine\n", encoding="utf-8")
    ran = run("truth", "export", "--db", db, "--output", "mine.yaml")
    assert (ran.code, ran.err) == snapshot((2, "otel-agentic: mine.yaml exists; give another file, or move it away\n"))
    assert "# mine\n" == (tmp_path / "mine.yaml").read_text(encoding="utf-8")


def test_an_empty_export_is_reported(db: Path) -> None:
    ran = run("truth", "export", "--db", db)
    assert (ran.code, "no current cases" in ran.err) == snapshot((3, True))


def test_fields_that_a_case_cannot_hold_are_reported_on_import_and_check(db: Path, tmp_path: Path) -> None:
    rows = [{"user_input": "Hi", "reference": "Hello", "retrieved_contexts": ["x"]}] * 2
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    left_out = "retrieved_contexts left out of 2 cases: cases do not have this field"
    assert exactly(done("truth", "validate", "rows.jsonl").out, left_out=left_out) == snapshot(
        "rows.jsonl: 2 cases (ragas), ok\n  <left_out>\n"
    )
    assert f"rows.jsonl: {left_out}" == done("truth", "import", "rows.jsonl", "--db", db).out.splitlines()[-1]
    result = done("truth", "import", "rows.jsonl", "--db", db, "--format", "json").json
    assert [{"file": "rows.jsonl", "field": "retrieved_contexts", "cases": 2}] == result["left_out"]


def test_a_format_is_forced_where_the_shape_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"case_id": "a", "user_input": "Hi"}\n', encoding="utf-8")
    assert passage(run("truth", "validate", "x.jsonl").err) == snapshot(
        "x.jsonl: the records look like native and ragas; choose one with --file-format NAME"
    )
    (checked,) = done("truth", "validate", "x.jsonl", "--file-format", "ragas", "--format", "json").json
    assert ("ragas", 1, []) == (checked["format"], checked["count"], checked["problems"])


def test_labels_and_cases_in_csv_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("conversation_id,case_id,verdict\nc1,a,maybe\n", encoding="utf-8")
    (tmp_path / "cases.csv").write_text("case_id,reviewed\na,maybe\n", encoding="utf-8")
    ran = run("truth", "validate", "labels.csv", "cases.csv")
    assert ran.out == snapshot("labels.csv: 0 labels, 1 problem\ncases.csv: 0 cases, 1 problem\n")
    assert ran.lines == snapshot(
        [
            "otel-agentic: labels.csv:2:verdict: found 'maybe'; allowed: pass, true, 1, fail, false, 0, or empty",
            'otel-agentic: cases.csv:2: reviewed: found "maybe"; allowed: true or false',
        ]
    )
    assert 3 == ran.code


def test_import_makes_the_store_and_takes_cases_and_labels_together(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("conversation_id,case_id,verdict\nc1,a,pass\n", encoding="utf-8")
    (tmp_path / "cases.csv").write_text("case_id,query,answer\na,Hi,Hello\n", encoding="utf-8")
    new = tmp_path / "new.duckdb"

    result = done("truth", "import", "labels.csv", "cases.csv", "--db", new, "--format", "json").json

    assert (1, 1, 1) == (result["new_case_versions"], result["cases"], result["labels"])
    (label,) = done(
        "query", "SELECT conversation_id, case_id, verdict FROM labels", "--db", new, "--format", "json"
    ).json
    assert {"conversation_id": "c1", "case_id": "a", "verdict": True} == label


def test_a_csv_of_neither_cases_nor_labels_is_refused_with_both_shapes(db: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("conversation,verdict\nc1,pass\n", encoding="utf-8")
    ran = run("truth", "import", "odd.csv", "--db", db)
    assert (3, True, True) == (ran.code, "case_id" in ran.err, "conversation_id[,case_id]" in ran.err)


def test_a_running_collector_takes_and_gives_cases_of_any_format(db: Path) -> None:
    with running(live_settings(db)):
        done("truth", "import", "shop.yaml", "--db", db)
        assert done("truth", "export", "--db", db, "--output", "out.csv").out == snapshot(
            "2 cases written to out.csv, format csv\n"
        )
        output = done("truth", "import", "out.csv", "--db", db).out
        assert ["shop"] == [row["dataset"] for row in done("truth", "datasets", "--db", db, "--format", "json").json]
    assert output == snapshot("0 new case versions; 2 cases now current\n")


def test_the_schema_is_printed() -> None:
    assert case_schema() == done("truth", "schema").json
