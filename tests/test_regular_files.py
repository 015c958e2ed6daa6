"""A file that a user names is opened without waiting: pipes, devices and folders are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agentic.cli import cli
from otel_agentic.config import load_settings
from otel_agentic.errors import ConfigError
from otel_agentic.regular_files import open_regular, read_regular


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe without a writer."""
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    return path


def test_a_regular_file_is_read_and_a_folder_a_device_and_a_pipe_are_not(tmp_path: Path, pipe: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    assert (b"abc", b"ab") == (read_regular(file), read_regular(file, 2))
    for bad, reason in (
        (tmp_path, "Is a directory"),
        (pipe, "is a named pipe, not"),
        ("/dev/zero", "is a device, not"),
    ):
        with pytest.raises(OSError, match=reason):
            open_regular(bad)


def test_standard_input_may_be_a_pipe() -> None:
    code = "from otel_agentic.regular_files import read_regular; print(read_regular('/dev/stdin'))"
    process = subprocess.run([sys.executable, "-c", code], input=b"x", capture_output=True, check=True)
    assert b"b'x'" == process.stdout.strip()


@pytest.mark.parametrize(
    "command",
    [
        ["truth", "import", "PIPE", "--db", "DB"],
        ["truth", "import", "--labels", "PIPE", "--db", "DB"],
        ["truth", "validate", "PIPE"],
        ["ingest", "PIPE", "--db", "DB"],
        ["evaluate", "--rows", "PIPE"],
        ["evaluate", "--db", "DB", "--cases", "PIPE"],
        ["gate", "--db", "DB", "--baseline", "PIPE"],
        ["report", "--config", "PIPE"],
        ["serve", "--config", "PIPE"],
        ["serve", "--db", "DB", "--cases", "PIPE"],
    ],
    ids=" ".join,
)
def test_a_command_refuses_a_pipe_at_once(command: list[str], pipe: Path, tmp_path: Path) -> None:
    given = [part.replace("PIPE", str(pipe)).replace("DB", str(tmp_path / "t.duckdb")) for part in command]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code != 0
    assert "named pipe" in f"{result.output}{result.exception}"


def test_settings_name_the_pattern_that_cannot_be_used() -> None:
    with pytest.raises(ConfigError, match=r"error_patterns.*look-ahead"):
        load_settings(conversations={"error_patterns": ["ok", "(?=a)b"]})
