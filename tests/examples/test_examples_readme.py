"""The commands of README.md work as they are printed, one after the other, in a folder that has the files they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from inline_snapshot import snapshot

from tests.cli.running import environment, run, run_process, wait_until
from tests.cli.small import conversation, write_cases, write_spans
from tests.snapshots import item, opening, passage
from tools.shown_commands import shown_commands

_ROOT: Final = Path(__file__).parents[2]
_README: Final = (_ROOT / "README.md").read_text(encoding="utf-8")
_BIN: Final = Path(sys.executable).parent
_COMMANDS: Final = tuple(shown_commands(_README))
#: Commands that a test cannot run: installing, building, a user's own agent, a paid model, serving until interrupted.
_NOT_HERE: Final = re.compile(r"^(pip|make|source) |my_agent\.py|--judge langchain:|^otel-agentic (serve|console) ")
_OWN: Final = tuple(command for command in _COMMANDS if not _NOT_HERE.search(command))
#: Exit codes besides 0: a gate may find that an agent is not good enough.
_ALLOWED: Final = {"gate": {0, 1}}
_PORTS: Final = {f"OTEL_AGENTIC_RECEIVE__{name}": "127.0.0.1:0" for name in ("GRPC", "HTTP")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with the files that the README names."""
    monkeypatch.chdir(tmp_path)
    requests = [
        conversation(f"c{number}-{version}", version=version, answer="It arrives on Monday." if number else "No idea.")
        for version in ("1.0.0", "1.1.0")
        for number in range(4)
    ]
    write_spans(tmp_path / "spans.jsonl.gz", requests)
    write_cases(
        tmp_path / "cases.jsonl",
        [{"case_id": "where", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]}],
    )
    (tmp_path / "labels.csv").write_text("conversation_id,case_id\nc1-1.0.0,where\n", encoding="utf-8")
    shutil.copy(_ROOT / "examples" / "custom_evaluators.py", tmp_path / "checks.py")
    return tmp_path


def test_there_are_commands_to_install_and_to_run() -> None:
    assert opening(_COMMANDS[0]) == snapshot("pip install otel-agentic")
    assert item(_COMMANDS) == snapshot("otel-agentic demo")
    assert len(_OWN) > 8


def test_every_console_line_is_a_command_as_it_is_typed() -> None:
    blocks = re.findall(r"^```console\n(.*?)^```", _README, re.MULTILINE | re.DOTALL)

    assert [] == [line for block in blocks for line in block.splitlines() if not line.startswith("$ ")]


def test_the_commands_run_in_their_order(folder: Path) -> None:
    assert folder == Path.cwd()
    for command in _OWN:
        program, *arguments = shlex.split(command, comments=True)
        if arguments == ["demo"]:
            continue  # tests/demo runs it
        ran = run(*arguments)
        assert (program, True) == ("otel-agentic", ran.code in _ALLOWED.get(arguments[0], {0})), (command, ran)


def test_doctor_finds_the_collector_that_serve_started(folder: Path) -> None:
    (serve,) = [command for command in _COMMANDS if command.startswith("otel-agentic serve ")]
    settings = {**_PORTS, "OTEL_AGENTIC_ADMIN__ADDRESS": "127.0.0.1:0", "PATH": f"{_BIN}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["sh", "-c", f"exec {serve}"], env=environment(settings), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: bool([*folder.glob("*.server.json")]) or process.poll() is not None)
            ran = run("doctor", "--live")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()

    assert (0, 0) == (process.returncode, ran.code), ran.err
    assert passage(ran.out) == snapshot("the collector is ready")
    assert "agents.duckdb" in ran.err


@pytest.mark.slow
def test_a_shell_runs_the_commands_too(folder: Path) -> None:
    for command in _OWN:
        path = {"PATH": f"{_BIN}:{os.environ['PATH']}"}
        ran = subprocess.run(
            ["sh", "-c", command], env=environment(path), cwd=folder, capture_output=True, check=False, text=True
        )
        assert ran.returncode in _ALLOWED.get(shlex.split(command)[1], {0}), (command, ran.stderr)
    assert 0 == run_process("--help").code
