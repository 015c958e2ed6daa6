"""Files of cases on their way to a store: any format in, native JSON lines out."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import CaseError, UsageError
from otel_agentic.evaluation.case_files import native_texts, read_file, write_cases
from otel_agentic.truth import Case, CaseTurn, parse_cases
from tests.snapshots import raises

CASES = [
    Case(
        case_id="007",
        dataset="travel",
        tags=("x",),
        turns=(CaseTurn(query="Hi", answer=("Hello", "Hi")),),
        minimum_steps=2,
    ),
    Case(case_id="b", dataset="travel", answer_threshold=0.5, reviewed=False, verdict="pass"),
]


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.yaml", "cases.csv", "cases.parquet", "cases.pq"])
def test_a_file_of_any_syntax_gives_back_what_was_written(tmp_path: Path, name: str) -> None:
    form = {"jsonl": "native", "pq": "parquet"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1])
    assert (None, ()) == write_cases(CASES, form, tmp_path / name)
    assert CASES == list(read_file(tmp_path / name).require())


def test_what_is_sent_on_is_native_and_keeps_names_and_datasets(tmp_path: Path) -> None:
    (tmp_path / "travel.yaml").write_text("- case_id: a\n  goal: über\n", encoding="utf-8")
    ((name, text),) = native_texts([tmp_path / "travel.yaml"])
    assert str(tmp_path / "travel.yaml") == name
    (case,) = parse_cases("other.jsonl", text).require()
    assert ("travel", "a", "über") == (case.dataset, case.case_id, case.goal)


def test_a_parquet_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    write_cases(CASES, "parquet", tmp_path / "cases")
    assert CASES == list(read_file(tmp_path / "cases").require())


def test_problems_of_all_files_are_reported_at_once_with_their_locations(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("case_id,reviewed\nx,maybe\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("- case_id: y\n  tags: 3\n", encoding="utf-8")
    with pytest.raises(CaseError) as raised:
        native_texts([tmp_path / "a.csv", tmp_path / "b.yaml"])
    assert str(raised.value).split("\n") == [
        f'{tmp_path}/a.csv:2: reviewed: found "maybe"; allowed: true or false',
        f"{tmp_path}/b.yaml:2: tags: found 3; allowed: a list",
    ]


def test_files_that_cannot_be_read_or_written_are_reported(tmp_path: Path) -> None:
    with raises(
        UsageError,
        snapshot("cases file <tmp_path>/absent.jsonl: No such file or directory; give a readable file"),
        tmp_path=tmp_path,
    ):
        read_file(tmp_path / "absent.jsonl")
    with raises(UsageError, snapshot("No such file or directory; pass --output FILE in a writable folder")):
        write_cases(CASES, "native", tmp_path / "absent" / "x.jsonl")
    with raises(UsageError, snapshot("Parquet cannot be written to a terminal; pass --output FILE")):
        write_cases(CASES, "parquet", None)
