"""A newcomer with a LangGraph agent of their own has a right table of pass^3 by version after three commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.running import run_process

AGENT = Path(__file__).with_name("langgraph_agent.py")
K = 4


@pytest.mark.slow
@pytest.mark.parametrize("instrumentation", ["openinference", "genai"])
def test_three_commands_lead_to_a_right_table_by_version(tmp_path: Path, instrumentation: str) -> None:
    cases = [
        {
            "case_id": f"track-{parcel}",
            "turns": [
                {
                    "query": f"Where is parcel {parcel}?",
                    "answer": "Monday",
                    "tools": {"calls": [{"tool_name": "track", "parameters": {"parcel": parcel, "carrier": "UPS"}}]},
                }
            ],
        }
        for parcel in ("A1", "Z9")
    ]
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    command = ("run", "--k", str(K), "--cases", "cases.jsonl", "--", sys.executable, str(AGENT), instrumentation)

    for version in ("1.0", "1.1"):
        ran = run_process(*command, version, "{query}", cwd=tmp_path)
        assert ran.code == 0, ran.err
    groups = json.loads(run_process("report", "--by", "version", "--format", "json", cwd=tmp_path).out)["groups"]

    # Version 1.1 fails 2 of 4 attempts at one of two cases: pass^3 is the mean of C(4, 3) / C(4, 3) and C(2, 3) / C(4, 3).
    assert [
        (group["agent"], group["agent_version"], group["c"], group["n"], group["per_case"]["pass_pow_k"]["3"]["value"])
        for group in groups
    ] == [("parcels", "1.0", 2 * K, 2 * K, 1.0), ("parcels", "1.1", 2 * K - 2, 2 * K, 0.5)]
    assert 'parameter carrier was "DHL", expected "UPS"' in ran.out
