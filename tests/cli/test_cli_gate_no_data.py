"""A gate without data: a condition without data fails, unless it may have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.judged_runs import judged_store, write_run
from tests.cli.running import Ran, done, run
from tests.snapshots import passage


@pytest.fixture(scope="module")
def perfect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of clerk, 3 of 3 right, each of a case of its own; no metric was computed."""
    return judged_store(tmp_path_factory.mktemp("perfect"), {name: [True] for name in "ABC"})


def gate(db: Path, *arguments: str) -> Ran:
    few = () if "--min-n" in arguments else ("--min-n", "1")
    return run("gate", "--db", db, *few, *arguments)


def rows(db: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a gate by condition."""
    return {row["condition"]: row for row in gate(db, *arguments, "--format", "json").json["rows"]}


def test_conversations_without_scores_fail_with_advice(tmp_path: Path) -> None:
    files = write_run(tmp_path, {"A": [True]})
    done("ingest", files.spans, "--db", tmp_path / "raw.duckdb", "--quiet")

    ran = gate(tmp_path / "raw.duckdb", "--min-pass-pow-k", "3=0.7")
    assert 1 == ran.code
    assert passage(ran.out) == snapshot("none of 1 conversation was evaluated: 1 x not_scored")
    assert passage(ran.out) == snapshot("gate failed: 3 of 3 conditions of clerk do not hold, 3 for want of data")
    assert passage(ran.out) == snapshot(
        "`otel-agentic evaluate` scores them, with `--cases FILE` against annotated cases"
    )
    assert passage(ran.out) == snapshot("--allow-no-data NAME lets it pass")


def test_a_metric_that_was_never_computed_fails_with_the_command_that_computes_it(perfect: Path) -> None:
    ran = gate(perfect, "--threshold", "helpfulness=3.5", "--format", "json")
    row = next(row for row in ran.json["rows"] if row["kind"] == "metric")
    assert (1, "no_data", None) == (ran.code, row["verdict"], row["value"])
    assert passage(row["reason"]) == snapshot("run `otel-agentic evaluate --metrics agentest.helpfulness`")


@pytest.mark.parametrize(
    "allowed", [("--allow-no-data", "helpfulness"), ("--allow-no-data", "metric"), ("--allow-no-data",)]
)
def test_what_may_have_no_data_passes_without(perfect: Path, allowed: tuple[str, ...]) -> None:
    ran = gate(perfect, "--threshold", "helpfulness=3.5", *allowed)
    assert 0 == ran.code
    assert "no data, allowed" in " ".join(ran.out.split())
    assert passage(ran.out) == snapshot("gate passed: 2 conditions of clerk hold; 1 without data, which is allowed")


def test_to_allow_one_thing_allows_no_other(perfect: Path) -> None:
    assert 1 == gate(perfect, "--threshold", "helpfulness=3.5", "--allow-no-data", "coherence").code
    assert 1 == gate(perfect, "--threshold", "helpfulness=3.5", "--allow-no-data", "pass^3").code


def test_no_conversation_at_all_is_no_data(perfect: Path) -> None:
    ran = gate(perfect, "--environment", "nowhere")
    assert 1 == ran.code
    assert passage(ran.out) == snapshot("no closed conversation in this selection")
    assert 0 == gate(perfect, "--environment", "nowhere", "--allow-no-data").code


def test_coverage_without_scores_is_zero_and_fails(tmp_path: Path) -> None:
    files = write_run(tmp_path, {"A": [True]})
    done("ingest", files.spans, "--db", tmp_path / "raw.duckdb", "--quiet")
    row = rows(tmp_path / "raw.duckdb", "--min-coverage", "0.5")["coverage"]
    assert ("fail", 0.0) == (row["verdict"], row["value"])


def test_fewer_attempts_than_k_are_no_data_where_the_estimator_needs_k(perfect: Path) -> None:
    for estimator in ("per_case", "unbiased"):
        row = rows(perfect, "--min-pass-pow-k", "5=0.1", "--estimator", estimator)["pass^5"]
        assert ("no_data", None) == (row["verdict"], row["value"]), estimator
