"""Files that are no files, or far larger than they look: reading them ends, takes bounded memory, and reports the problems."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import zstandard
from inline_snapshot import snapshot

from collectors.files import FileReader
from otel_agentic.config import ReceiveSettings
from otel_agentic.errors import BadInputError
from otel_agentic.spans import Limits
from tests.cli.running import run
from tests.fuzz.seeds import TRACES, TRACES_JSON
from tests.hostile.traces import Trace
from tests.snapshots import passage, raises

ROOT: Final = Path(__file__).parents[2]
LIMITS: Final = Limits.from_settings(ReceiveSettings())
MIB: Final = 1024 * 1024
SIZE_MIB: Final = 128


def problems(*paths: Path) -> list[str]:
    return [chunk.problem for chunk in FileReader(LIMITS).read(paths) if chunk.problem is not None]


def spans_in(*paths: Path) -> int:
    return sum(len(chunk.batch.spans) for chunk in FileReader(LIMITS).read(paths))


def test_devices_pipes_and_loops_in_a_directory_are_reported_and_other_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "good.jsonl").write_bytes(TRACES_JSON)
    message = "\n".join(problems(tmp_path))
    for name, what in (
        ("gone", "No such file"),
        ("loop", "symbolic links"),
        ("pipe", "a named pipe"),
        ("zero", "a device"),
    ):
        assert f"{name}.jsonl" in message
        assert what in message
    assert spans_in(tmp_path) == 1


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/fd/../../../dev/zero"])
def test_a_device_that_is_named_is_refused_at_once(path: str) -> None:
    with raises(BadInputError, snapshot("is a device, not a regular file")):
        list(FileReader(LIMITS).read([path]))


#: Files of 128 MiB that take a few hundred kilobytes, or kilobytes: one line, zeros, a document, lengths that promise more.
BOMBS: Final = {
    "one line": (b'{"a":"', b"x"),
    "zeros": (b"", b"\0"),
    "a document": (b'{\n"a": "', b"x"),
    "opening brackets": (b"", b"["),
    "empty objects": (b'{"resourceSpans":[', b"{},"),
    "empty messages": (b"\x0a\xff\xff\xff\xff\x01", b"\x12\x00"),
    "lengths": (b"", b"\xff"),
}


def packed(name: str, packing: str) -> bytes:
    begin, unit = BOMBS[name]
    piece = unit * (MIB // len(unit))
    if packing == "gzip":
        return gzip.compress(begin + piece * SIZE_MIB, compresslevel=1, mtime=0)
    return zstandard.ZstdCompressor(level=1).compress(begin + piece * SIZE_MIB)


def read_for_growth(path: str) -> None:
    """Read a file and print by how many MiB the process grew; run in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = problems(Path(path))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    sys.stdout.write(f"{len(message)} {grown}")


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_more_memory_than_a_few_requests(name: str, packing: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(packed(name, packing))
    code = f"from tests.hostile.test_hostile_files import read_for_growth; read_for_growth({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    message, grown = map(int, done.stdout.split())
    assert message <= 2
    assert grown < 450


def test_names_of_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[2J\n.jsonl"
    path.write_bytes(b"no JSON\n")
    ran = run("ingest", tmp_path / path.name, "--db", tmp_path / "t.duckdb")
    assert "malformed" in ran.out + ran.err
    assert "\x1b" not in ran.out + ran.err


def test_a_message_of_very_many_items_is_refused_alone(tmp_path: Path) -> None:
    bomb = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 2_100_000 + b"{}]}]}]}\n"
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(TRACES_JSON + b"\n" + bomb + Trace("after").json + b"\n")
    assert ["lines.jsonl:2"] == [message.partition(": ")[0].rpartition("/")[2] for message in problems(lines)]
    assert spans_in(lines) == 3
    single = tmp_path / "single.pb"
    single.write_bytes(TRACES[:3] + b"\x0a\xfa\xff\xff\x01" + b"\x12\0" * 2_097_149)
    assert len(problems(single)) == 1


def test_a_file_of_zeros_is_given_up_soon(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(bytes(10_000_000))
    (message,) = problems(path)
    assert passage(message) == snapshot("1001 consecutive empty messages: this is not length-delimited protobuf")
