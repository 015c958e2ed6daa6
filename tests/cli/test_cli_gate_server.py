"""Gates on a running collector: the same verdict over the wire, and baselines kept in its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.judged_runs import judged_store
from tests.cli.running import done, run
from tests.live.running_collector import live_settings, running


@pytest.mark.slow  # as for every command: tests/cli/test_cli_serve.py
def test_a_running_collector_gives_the_same_verdict_and_keeps_baselines(tmp_path: Path) -> None:
    db = judged_store(tmp_path, {name: [True, name != "A"] for name in "ABC"}, metrics="ragas.tool_calls")
    arguments = (
        "--min-n",
        "1",
        "--min-pass-pow-k",
        "2=0.7",
        "--threshold",
        "ragas.tool_call_f1<=0.9",
        "--format",
        "json",
    )
    alone = run("gate", "--db", db, *arguments)
    done("gate", "--db", db, "--min-n", "1", "--save-baseline", tmp_path / "base.json")
    with running(live_settings(db)) as (_, server):
        there = run("gate", "--server", server.admin, *arguments)
        assert (1, alone.out, "") == (there.code, there.out, there.err)
        assert (
            "baseline main saved"
            in done("gate", "--server", server.admin, "--min-n", "1", "--save-baseline", "main").out
        )
        assert 0 == run("gate", "--db", db, "--min-n", "1", "--baseline", "main").code
        assert 0 == run("gate", "--server", server.admin, "--min-n", "1", "--baseline", tmp_path / "base.json").code
        unknown = run("gate", "--server", server.admin, "--threshold", "politeness=1")
        assert (2, "") == (unknown.code, unknown.out)
        assert "no metric 'politeness'" in unknown.err
        ran = run("suite", "trend", "regression", "--server", server.admin)
        assert 3 == ran.code
