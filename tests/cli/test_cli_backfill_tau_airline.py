"""The published trials of tau-airline over their days, typed as a user does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.running import Ran, done
from tests.snapshots import passage

RATES = """
SELECT strftime("end", '%d') AS day, n, c FROM windows
WHERE k = 1 AND estimator = 'bayesian' AND date_part('day', "end") % 2 = 0 ORDER BY "end"
"""


@pytest.fixture(scope="module")
def data(shared_dir: Path) -> Path:
    return shared_dir / "data" / "tau-airline"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("airline") / "t.duckdb"


@pytest.fixture(scope="module")
def backfill(data: Path, db: Path) -> Ran:
    """The output of the command that reads, scores and computes everything."""
    truth = ("--cases", data / "cases.jsonl", "--labels", data / "labels.csv")
    return done("backfill", "--db", db, data / "spans.jsonl.gz", *truth, *options())


def options() -> tuple[str, ...]:
    return ("--since", "2026-03-02T09:00:00Z", "--window", "48h", "--step", "24h")


@pytest.mark.slow  # of a small store: tests/backfill/test_backfill_run.py and tests/cli/test_cli_backfill.py
def test_every_second_end_gives_the_published_rate_of_a_trial(backfill: Ran, db: Path) -> None:
    result = [(row["day"], row["c"] / row["n"]) for row in done("query", RATES, "--db", db, "--format", "json").json]

    assert [("04", 0.42), ("06", 0.44), ("08", 0.40), ("10", 0.42)] == result
    assert passage(backfill.out) == snapshot("200 conversations scored: 116 fail, 84 pass")
    assert passage(backfill.out) == snapshot("9 window ends, 2026-03-02 09:00 to 2026-03-10 09:00 UTC, every 1d")


@pytest.mark.slow  # of a small store: tests/backfill/test_backfill_run.py and tests/cli/test_cli_backfill.py
def test_the_same_again_changes_nothing(backfill: Ran, db: Path) -> None:
    rows = ("query", "SELECT * FROM windows ORDER BY ALL", "--db", db, "--format", "json")
    before = done(*rows).json
    again = done("backfill", "--db", db, *options()).out

    assert backfill.code == 0
    assert before == done(*rows).json
    assert passage(again) == snapshot("no rows of table windows changed")


@pytest.mark.slow
def test_promtool_makes_blocks_of_the_history(backfill: Ran, db: Path, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    out = tmp_path / "history.txt"
    done("backfill", "--db", db, "--window", "24h", "--step", "1h", "--emit", "openmetrics", "--output", out)
    blocks = tmp_path / "blocks"
    ran = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", out, blocks],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )

    assert backfill.code == 0
    assert 0 == ran.returncode, ran.stderr
    assert [path for path in blocks.iterdir() if (path / "meta.json").is_file()]
