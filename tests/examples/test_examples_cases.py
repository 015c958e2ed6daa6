"""The sample files of cases are as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from otel_agentic.evaluation.case_files import read_file

CASES: Final = Path(__file__).parents[2] / "examples" / "cases"

#: Format, and ids of the cases, of each file.
HELD: Final = {
    "shop.yaml": ("native", ["refund-1", "refund-2", "hours-1"]),
    "shop.csv": ("native", ["refund-1", "refund-2", "hours-1"]),
    "fair_forge.json": ("fair-forge", ["sums-1"]),
    "ragas.jsonl": ("ragas", ["row-1", "row-2", "row-3"]),
    "outcome.json": ("outcome", ["invoice-1", "invoice-2"]),
    "adk.evalset.json": ("adk", ["lamp-1", "heating-1"]),
    "tau_bench.json": ("tau-bench", ["0"]),
}


def test_every_sample_is_tested() -> None:
    assert HELD.keys() == {path.name for path in CASES.iterdir()}


@pytest.mark.parametrize("name", sorted(HELD))
def test_a_sample_is_read_in_its_format(name: str) -> None:
    file = read_file(CASES / name)
    assert HELD[name] == (file.format, [case.case_id for case in file.require()])


def test_the_samples_of_the_shop_hold_the_same_cases() -> None:
    assert read_file(CASES / "shop.yaml").require() == read_file(CASES / "shop.csv").require()


def test_both_recordings_of_fair_forge_are_attempts_at_one_case() -> None:
    attempts = read_file(CASES / "fair_forge.json").conversations
    assert [("sums-1", "sums-1"), ("sums-2", "sums-1")] == [
        (str(attempt.conversation_id), attempt.case_id) for attempt in attempts
    ]
