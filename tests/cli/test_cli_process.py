"""What only a process shows: how it starts, how it ends, and how it looks on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli import cli
from tests.cli.running import COMMAND, done, environment, on_terminal, plain_lines, run, wait_until, wrapped_lines
from tests.cli.small import conversation, write_spans
from tests.snapshots import passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_HEAVY = ("duckdb", "scipy", "numpy", "httpx", "grpc", "starlette", "uvicorn", "opentelemetry.sdk", "langchain_core")
_HEAVY_FOR_IMPORT = (*_HEAVY, "click", "pydantic", "rich", "yaml")
_HELP = (("--help",), ("report", "--help"), ("serve", "-h"), ("truth", "import", "--help"))
_LOADED = f"""
import sys
from otel_agentic.cli import main
for arguments in {_HELP!r}:
    try:
        main(list(arguments))
    except SystemExit:
        print(arguments, *(name for name in {_HEAVY!r} if name in sys.modules), file=sys.stderr)
"""


def test_help_loads_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, check=True, env=environment(), text=True)

    assert [str(arguments) for arguments in _HELP] == ran.stderr.splitlines()
    assert len(_HELP) == ran.stdout.count("Usage: ")


def test_the_import_of_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, otel_agentic; print(*(name for name in {_HEAVY_FOR_IMPORT!r} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment(), text=True)

    assert "" == ran.stdout.strip()


def test_a_query_of_a_closed_file_loads_nothing_heavy_in_the_process_of_the_command(shop: Shop) -> None:
    arguments = ["query", "SELECT 42 AS answer", "--db", str(shop.db), "--format", "csv"]
    code = f"""
import sys
from otel_agentic.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    print(end.code, *(name for name in {_HEAVY!r} if name in sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment(), text=True)

    assert ["answer", "42", "0"] == ran.stdout.split()


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = """
import sys
from otel_agentic.cli import cli, main
try:
    main(["--help"])
except SystemExit:
    print("imported", *(name for name in cli.list_commands(None) if f"otel_agentic.cli.{name}" in sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment(), text=True)

    assert "imported" == ran.stdout.splitlines()[-1]


def test_the_list_of_commands_has_the_short_help_of_each() -> None:
    output = " ".join(run("--help").out.split())
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}

    assert dict.fromkeys(commands, True) == {
        name: command is not None and f"{name} {command.get_short_help_str(limit=200)}" in output
        for name, command in commands.items()
    }


def test_help_fits_eighty_columns_and_cuts_no_sentence() -> None:
    output = "\n".join(on_terminal(80, "--help"))

    assert "..." not in output.partition("Commands:")[2]
    assert all(len(line) <= 80 for line in output.splitlines())


def test_the_version_is_printed() -> None:
    assert run("--version").out.startswith("otel-agentic, version ")


@pytest.mark.parametrize(
    "command",
    [
        ("query", "SELECT * FROM range(1200)"),
        pytest.param(("query", "SELECT * FROM range(90000)", "--format", "csv"), marks=pytest.mark.slow),
        pytest.param(("query", "SELECT * FROM range(90000)", "--format", "json"), marks=pytest.mark.slow),
    ],
    ids=["table", "csv", "json"],
)
def test_a_reader_that_goes_away_is_no_failure(shop: Shop, command: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*COMMAND, *command, "--db", str(shop.db)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        output = process.stderr.read()

    assert (0, b"") == (process.returncode, output)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks /proc whether the command has opened the file")
@pytest.mark.parametrize(
    "command",
    [("query", "SELECT sum(random()) FROM range(10000000000)"), pytest.param(("ingest", "-"), marks=pytest.mark.slow)],
)
def test_ctrl_c_ends_at_once_with_130_and_without_a_traceback(command: tuple[str, ...], tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    if command[0] == "query":  # of its own: the process that runs the query may outlive the command by a moment
        done("ingest", write_spans(tmp_path / "spans.jsonl", [conversation("c1")]), "--db", db)
    reader, writer = os.pipe()  # without data or an end: a long input
    with subprocess.Popen(
        [*COMMAND, *command, "--db", str(db)], stdin=reader, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stderr is not None
        try:
            wait_until(lambda: _holds(process.pid, db) or process.poll() is not None)
            time.sleep(0.3)  # it holds the file a moment before it reads or asks
            process.send_signal(signal.SIGINT)
            code = process.wait(10)
            output = process.stderr.read()
        finally:
            process.kill()
    os.close(reader)
    os.close(writer)

    # A shell reports 130 for both: if the interrupt comes while a string is executed (a dataclass that is being created),
    # CPython ends the process by the signal itself, even if the exception was handled.
    assert code in {130, -signal.SIGINT}
    assert b"" == output.strip()


def _holds(pid: int, path: Path) -> bool:
    """Return whether a process, or a child of it such as the one that runs a query, has a file open."""
    names = set()
    with contextlib.suppress(FileNotFoundError):  # ended, or closed while it is looked at
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        children = " ".join(thread.read_text(encoding="ascii") for thread in threads).split()
        for process in (str(pid), *children):
            for opened in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    names.add(opened.readlink())
    return path in names


def test_a_database_that_a_foreign_process_holds_is_busy_and_its_pid_is_named(tmp_path: Path) -> None:
    spans = write_spans(tmp_path / "spans.jsonl", [conversation("c1")])
    done("ingest", spans, "--db", "t.duckdb")
    hold = "import duckdb, sys; con = duckdb.connect('t.duckdb'); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        serve = run("serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--db", "t.duckdb")
        for ran in (run("report", "--db", "t.duckdb"), run("ingest", spans, "--db", "t.duckdb"), serve):
            assert (4, 1) == (ran.code, len(ran.lines))
            assert passage(ran.err, pid=holder.pid) == snapshot("t.duckdb is held by process <pid>")
        holder.terminate()


def test_a_real_terminal_is_used_to_its_width_and_no_further(shop: Shop) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 90, 0, 0))
    command = [*COMMAND, "report", "--by", "case", "--db", str(shop.db)]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment({"TERM": "xterm"}))
    os.close(theirs)
    output = bytearray()
    with contextlib.suppress(OSError):  # on Linux, reading a closed terminal is an error
        while part := os.read(ours, 65536):
            output += part
    os.close(ours)

    assert 0 == process.wait(30)
    lines = plain_lines(output.decode())
    assert 80 < max(map(len, wrapped_lines(lines))) <= 90


_RATES = ["pass@k", "pass^k"]
_NEXT_TO = [f"{rate}, {role}" for role in ("pooled", "per case") for rate in _RATES]
_GROUP = ["case", "correct", "coverage", "tier"]


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (60, [["estimate", "k", *_RATES]] * 2),
        (80, [["k", *_NEXT_TO]] * 2),
        (100, [[*_GROUP, "estimate", "k", *_RATES]]),
        (150, [[*_GROUP, "k", *_NEXT_TO]]),
    ],
)
def test_rates_stay_whole_and_are_laid_out_by_the_width(shop: Shop, width: int, headers: list[list[str]]) -> None:
    lines = on_terminal(width, "report", "--by", "case", "--metrics", "none", "--details", "--db", shop.db)
    tables = lines[: lines.index("Tool correctness: mean score (conversations)")]

    assert headers == [re.split(" {2,}", line.strip()) for line in tables if "pass@k" in line]
    assert [] == [line for line in tables if line.count("[") != line.count("]")]
    assert 4 * 2 * 2 == sum(line.count("[") for line in tables)
    assert width >= max(map(len, lines))
