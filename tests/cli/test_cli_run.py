"""`otel-agentic run`: every attempt at a case is one conversation, and every failure of the program is a failed attempt."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Ran, done, run

FOLDER = Path(__file__).parent
PYTHON_AGENT = (sys.executable, FOLDER / "attempted_agent.py")
DB = "t.duckdb"
OUTCOMES = """
SELECT c.case_id, s.outcome, s.reason, c.turn_count, c.agent, c.agent_version, count(*) AS n
FROM conversations c JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND NOT s.superseded GROUP BY ALL ORDER BY ALL
"""
STATES = """
SELECT conversation_id, case_id, turn_count, closed_by FROM conversations WHERE NOT superseded ORDER BY ALL
"""


def write_cases(*queries: list[str]) -> Path:
    """Write a case for each list of queries, named after its first query."""
    turns = [[{"query": query, "answer": "It arrives on Monday."} for query in case] for case in queries]
    path = Path("cases.jsonl")
    path.write_text("".join(json.dumps({"case_id": case[0]["query"], "turns": case}) + "\n" for case in turns))
    return path


def outcomes() -> list[list[Any]]:
    """Return the number of conversations by case, outcome, reason, turns, agent and version."""
    return rows_of(OUTCOMES)


def rows_of(sql: str) -> list[list[Any]]:
    return [list(row.values()) for row in done("query", "--db", DB, "--format", "json", sql).json]


def attempted(*arguments: object) -> Ran:
    return run("run", "--db", DB, *map(str, arguments))


def test_each_failure_of_the_program_is_a_failed_attempt() -> None:
    cases = write_cases(["right"], ["wrong"], ["crash"], ["late crash"], ["silent"], ["sleep"])

    ran = attempted("--k", 1, "--cases", cases, "--timeout", 5, "--", *PYTHON_AGENT, "{query}")

    assert ran.code == 0
    assert outcomes() == [
        [case, outcome, reason, 1, "parcels", "1.0", 1]
        for case, outcome, reason in [
            ("crash", "fail", "agent_error"),
            ("late crash", "fail", "agent_error"),
            ("right", "pass", None),
            ("silent", "fail", "agent_error"),
            ("sleep", "fail", "agent_error"),
            ("wrong", "fail", "wrong_answer"),
        ]
    ]
    for line in (
        "crash 1/1: fail (agent_error): the agent ended with an error: exit code 1: no connection to the database",
        "late crash 1/1: fail (agent_error): the agent ended with an error: exit code 7",
        "right 1/1: pass",
        "silent 1/1: fail (agent_error): the agent ended with an error: no spans arrived",
        "sleep 1/1: fail (agent_error): the agent ended with an error: timed out after 5 s",
    ):
        assert line in ran.out


@pytest.mark.slow  # at the same time: a test below
def test_the_traces_of_an_attempt_without_a_conversation_id_are_one_conversation() -> None:
    cases = write_cases(["Where is it?", "And when?"])

    assert attempted("--k", 2, "--cases", cases, "--", *PYTHON_AGENT, "all").code == 0

    assert [row[:4] + row[6:] for row in outcomes()] == [["Where is it?", "pass", None, 2, 2]]


@pytest.mark.parametrize(("query", "code"), [pytest.param("right", 0, marks=pytest.mark.slow), ("late crash", 7)])
def test_without_cases_the_program_runs_once_and_its_exit_code_counts(query: str, code: int) -> None:
    ran = attempted("--", *PYTHON_AGENT, query)

    assert ran.code == code
    closed = "SELECT closed_by, conversation_id, case_id FROM conversations"
    assert rows_of(closed) == [["end_mark", "1", None]]


def test_an_agent_that_crashes_always_is_reported_under_the_name_of_its_program() -> None:
    ran = attempted("--k", 1, "--cases", write_cases(["crash"]), "--", *PYTHON_AGENT, "{query}")

    assert ran.code == 3
    assert "no spans arrived at http://127.0.0.1:" in ran.err
    assert [row[:3] for row in outcomes()] == [["crash", "fail", "agent_error"]]


@pytest.mark.slow  # one in Python is in the tests above
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_program_in_javascript_is_run_like_one_in_python() -> None:
    cases = write_cases(["Where is it?"])

    assert attempted("--k", 2, "--cases", cases, "--", "node", FOLDER / "attempted_agent.mjs", "{query}").code == 0

    assert [row[:3] + row[6:] for row in outcomes()] == [["Where is it?", "pass", None, 2]]


def test_the_program_records_content_and_sends_nothing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://elsewhere.invalid")
    monkeypatch.setenv("OPENINFERENCE_HIDE_INPUTS", "true")
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=shop")
    script = "import json, os; json.dump(dict(os.environ), open('environment.json', 'w'))"

    attempted("--k", 1, "--cases", write_cases(["Where, exactly?"]), "--", sys.executable, "-c", script)

    environment = json.loads(Path("environment.json").read_text())
    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"].startswith("http://127.0.0.1:")
    assert environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] == "SPAN_ONLY"
    assert environment["OTEL_SEMCONV_STABILITY_OPT_IN"] == "http,gen_ai_latest_experimental"
    assert environment["OTEL_RESOURCE_ATTRIBUTES"].startswith("team=shop,agentic.case.id=Where%2C%20exactly%3F,")
    assert not {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OPENINFERENCE_HIDE_INPUTS"} & environment.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--k", "2", "--", "true"), "--k: no cases to attempt; give --cases FILE"),
        (("--", "no-such-program"), "no-such-program: No such file or directory; give a program after --"),
        ((), "Missing argument 'COMMAND...'"),
    ],
)
def test_a_run_that_cannot_start_says_what_to_give(arguments: tuple[str, ...], message: str) -> None:
    ran = attempted(*arguments)

    assert ran.code == 2
    assert message in ran.err


@pytest.mark.slow  # at the same time: the tests below
def test_attempts_at_the_same_time_have_the_results_of_attempts_in_turn() -> None:
    cases = write_cases(["wrong"], ["crash"], ["first", "second"])
    command = ("--k", 2, "--cases", cases, "--", *PYTHON_AGENT)

    in_turn = attempted(*command, "{query}")
    outcomes_in_turn, states_in_turn = outcomes(), rows_of(STATES)
    Path(DB).unlink()
    at_once = attempted("--jobs", 4, *command, "{query}")

    assert at_once.code == in_turn.code == 0
    assert at_once.out.splitlines()[:6] == in_turn.out.splitlines()[:6]
    assert outcomes() == outcomes_in_turn
    assert len({state[0] for state in states_in_turn}) == 6
    assert unnamed(rows_of(STATES)) == unnamed(states_in_turn)


def unnamed(states: list[list[Any]]) -> list[list[Any]]:
    """Return the states without the ids: the number in `1#2` is by time."""
    return sorted(state[1:] for state in states)


def test_several_attempts_run_at_the_same_time() -> None:
    cases = write_cases(["meet"])

    ran = attempted("--k", 3, "--jobs", 3, "--cases", cases, "--", *PYTHON_AGENT, "{query}")

    assert [line.partition(":")[2] for line in ran.out.splitlines()[:3]] == [" pass"] * 3


def test_several_traces_of_attempts_at_the_same_time_are_one_conversation_each() -> None:
    write_cases(["Where is A1?", "And Z9?"])

    ran = attempted("--k", 2, "--jobs", 2, "--cases", "cases.jsonl", "--", *PYTHON_AGENT, "all")

    assert (ran.code, outcomes()) == (0, [["Where is A1?", "pass", None, 2, "parcels", "1.0", 2]])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the states of processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_ends_all_programs_and_their_children(number: signal.Signals) -> None:
    write_cases(["fork"])
    command = [sys.executable, "-m", "otel_agentic.cli", "run", "--db", DB, "--k", "2", "--jobs", "2"]
    command += ["--cases", "cases.jsonl", "--", *map(str, PYTHON_AGENT), "{query}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while len(children := sorted(Path().glob("*.pids"))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(60)

    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert [pid for file in children for pid in file.read_text().split() if _is_running(int(pid))] == []


def _is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended may stay a zombie, if nothing adopts it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
