"""Runs the command line as people do: in this process where that is enough, else as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest

from otel_agentic.cli import main

COMMAND: Final = (sys.executable, "-m", "otel_agentic.cli")
_LIMIT_S: Final = 120
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command did: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines on standard error."""
        return self.err.splitlines()


class Terminal(StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def run(*arguments: str | Path, out: StringIO | None = None, err: StringIO | None = None) -> Ran:
    """Run a command in this process; `out` and `err` are standard output and error, pipes unless given."""
    out, err = out or StringIO(), err or StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:  # `serve` ends with its process, and leaves its own
            signal.signal(number, handler)
    code = stopped.value.code
    assert isinstance(code, int)
    return Ran(code=code, out=out.getvalue(), err=err.getvalue())


def done(*arguments: str | Path) -> Ran:
    """Run a command in this process that must succeed."""
    ran = run(*arguments)
    assert 0 == ran.code, ran.err
    return ran


def on_terminal(width: int, *arguments: str | Path) -> list[str]:
    """Return the lines that a command prints on a terminal of that width, without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        ran = run(*arguments, out=Terminal())
    assert 0 == ran.code, ran.err
    return plain_lines(ran.out)


def wrapped_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines without those that stay whole: commands to copy, of which a shell would run the parts as two."""
    return [line for line in lines if ": otel-agentic " not in line]


def plain_lines(output: str) -> list[str]:
    """Return the lines that a terminal shows, without its colours."""
    return _COLOURS.sub("", output).splitlines()


def run_process(*arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ran:
    """Run a command as a process of its own."""
    ran = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        env=environment(env),
        text=True,
        timeout=_LIMIT_S,
    )
    return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without local settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**own, **(more or {})}


def wait_until(holds: Callable[[], bool], limit_s: float = 120.0) -> None:
    """Return as soon as something holds; fail when it does not come to hold in time."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
