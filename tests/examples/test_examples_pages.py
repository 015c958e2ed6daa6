"""The commands of docs/ run as printed, in the order of their page, and print the output that the page shows.

Each page has a folder of its own, with the store of the demo under every name that the pages use.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from otel_agentic.demo.run import CASES, DB_NAME
from tests.cli.running import COMMAND, Terminal, environment, plain_lines, run, wait_until
from tests.cli.small import SECOND_NS, conversation, write_spans
from tools.generated import ROOT
from tools.shown_commands import problem_of, shown_commands

if TYPE_CHECKING:
    from tests.demo_run import DemoRun

#: Pages of which every command runs.
_PERSONAS: Final = ("agent-developer", "on-call", "annotator", "data-scientist")
#: Pages of which the commands run that `_ELSEWHERE` does not match.
_GUIDES: Final = (
    "backfill", "calibration", "cases", "comparing", "compat", "failing-tools", "failures", "gate", "html-report",
    "judges", "matching", "monitoring", "retention", "rows", "scoring", "sql", "telemetry", "traffic", "tutorial", "windows",
)  # fmt: skip
#: Those that take long and whose commands other tests run, too.
_LONG: Final = {
    "backfill", "calibration", "cases", "comparing", "failing-tools", "gate", "html-report", "matching", "retention", "scoring",
    "sql", "telemetry", "traffic", "tutorial", "windows",
}  # fmt: skip
_BLOCK: Final = re.compile(r"^( *)```(console|text)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_VARYING: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?")
_EXPORT: Final = re.compile(r"^export (\w+)=(\S+)$")
_DEMO: Final = "otel-agentic demo --keep demo-store"
#: Commands that need another program, a paid model, a browser, a program or settings of the reader, or other data.
_ELSEWHERE: Final = re.compile(
    r"^(?!otel-agentic )|--judge langchain|my_agent\.py|^otel-agentic (demo|serve)|--web|otel-agentic\.toml|nemo\.json|--user|airline\.duckdb"
)
#: Names that pages use as an example, and those of the demo that replace them.
_NAMES: Final = {
    "conv-17": "lyon-family-1.1.0-3",
    "conv_549d841f": "lyon-family-1.1.0-3",
    "conv_5b4a8ede": "milan-weekend-1.1.0-3",
    "support-*": "trip-*",
}
_STORES: Final = (
    "demo-store/demo.duckdb", "otel-agentic.duckdb", "agents.duckdb", "t.duckdb", "main.duckdb", "branch.duckdb",
)  # fmt: skip
_ROW: Final = '{"user_input": "Where is order 17?", "reference": "In Oslo.", "response": "It is in Oslo."}\n'
_FILES: Final = {
    "labels.csv": "conversation_id,verdict\nlyon-family-1.1.0-3,fail\n",
    "human.csv": "conversation_id,verdict\nlyon-family-1.1.0-3,fail\nlyon-family-1.0.0-3,pass\n",
    "cases.yaml": "case_id: refund-1\ndataset: shop\nturns: [{query: Refund order 17, answer: Refunded.}]\n",
    "dataset.jsonl": _ROW,
    "paper.json": f"[{_ROW}]",
    "rows.jsonl": _ROW,
}
#: Exit codes besides 0: an agent is not good enough.
_ALLOWED: Final = {"gate": {0, 1}}
#: The width of the terminal on which the pages show output.
_WIDTH: Final = "110"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The commands of a console block, and the lines that the page shows as their output."""

    commands: tuple[str, ...]
    output: tuple[str, ...]


def steps(name: str) -> list[Step]:
    """Return the steps of a page; a block of text is the output of the console block before it."""
    result: list[Step] = []
    for indent, kind, block in _BLOCK.findall((ROOT / "docs" / f"{name}.md").read_text("utf-8")):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        if kind == "console":
            commands = shown_commands("\n".join(["```console", *lines, "```\n"]))
            result.append(Step(commands=tuple(commands), output=()))
        elif result:
            last = result.pop()
            result.append(Step(commands=last.commands, output=(*last.output, *lines)))
    return result


@pytest.fixture
def folder(tmp_path: Path, demo: DemoRun, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", _WIDTH)
    monkeypatch.setenv("TERM", "xterm")
    for name in _STORES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(demo.stored / DB_NAME, tmp_path / name)
    shutil.copy(CASES, tmp_path / "cases.jsonl")
    for name in ("spans.jsonl", "spans.jsonl.gz"):
        # As old as the conversations of the demo: a backfill computes all window ends since the first conversation.
        write_spans(tmp_path / name, [conversation("c1", start_ns=time.time_ns() - 3600 * SECOND_NS)])
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    return tmp_path


@contextmanager
def collector(db: Path) -> Iterator[None]:
    """Run `serve` on free ports until the end of the block."""
    free = {f"OTEL_AGENTIC_RECEIVE__{name}": "127.0.0.1:0" for name in ("GRPC", "HTTP")}
    settings = environment({**free, "OTEL_AGENTIC_ADMIN__ADDRESS": "127.0.0.1:0", "OTEL_AGENTIC_STORE__DB": str(db)})
    with subprocess.Popen([*COMMAND, "serve"], env=settings, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: db.with_name(f"{db.name}.server.json").exists() or process.poll() is not None)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
    assert 0 == process.returncode


def printed(command: str) -> list[str]:
    """Run a command that must succeed, as on a terminal; return the lines that it prints."""
    for example, name in _NAMES.items():
        command = command.replace(example, name)
    if re.search(r" > |captures/\*", command):  # for a shell
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", command], check=True, env=environment(path), stderr=subprocess.DEVNULL)
        return []
    _, *arguments = shlex.split(command, comments=True)
    ran = run(*arguments, out=Terminal())
    assert ran.code in _ALLOWED.get(arguments[0], {0}), (command, ran.err)
    return plain_lines(ran.out)


def follow(step: Step) -> None:
    """Run the commands of a step, and compare what they print with the page, apart from times."""
    lines = iter([_VARYING.sub("TIME", line).rstrip() for command in step.commands for line in printed(command)])
    for expected in step.output:
        assert _VARYING.sub("TIME", expected).rstrip() in lines, f"not printed, or not in this order: {expected}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in {"on-call", "data-scientist"} else name
        for name in _PERSONAS
    ],
)
def test_every_command_of_a_persona_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = steps(name)
    demo, export, *serve = first.commands
    variable = _EXPORT.match(export)
    assert variable is not None
    monkeypatch.setenv(variable[1], variable[2])
    assert (_DEMO, True) == (demo, (folder / variable[2]).exists())
    assert serve in ([], ["otel-agentic serve"])
    if not serve:
        for step in rest:
            follow(step)
        return
    with collector(folder / variable[2]):
        for step in rest:
            follow(step)


def test_every_command_of_a_page_is_one_that_the_command_line_takes() -> None:
    commands = [command for name in (*_PERSONAS, *_GUIDES) for step in steps(name) for command in step.commands]

    assert len(commands) > 100
    assert {} == {command: problem for command in commands if (problem := problem_of(command))}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in _LONG else name for name in _GUIDES]
)
def test_the_commands_of_a_guide_run(name: str, folder: Path) -> None:
    assert folder == Path.cwd()
    for step in steps(name):
        commands = tuple(command for command in step.commands if not _ELSEWHERE.search(command))
        follow(Step(commands=commands, output=step.output if commands == step.commands else ()))
