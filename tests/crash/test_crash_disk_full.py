"""A full disk: spans are refused at once, reads succeed, and writing resumes by itself when there is room again."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from tests.crash.outcome import lost_or_doubled
from tests.crash.sending import acknowledged, conversation, sending
from tests.live.otlp_export import readable
from tests.live.running_collector import eventually

if TYPE_CHECKING:
    from tests.crash.conftest import MakeServer
    from tests.crash.serving import Server

#: A first snapshot leaves 64 MB free.
DISK_MB = 160


class Disk(Protocol):
    """A disk that can be full."""

    folder: Path

    def fill(self, server: Server) -> None: ...
    def free(self, server: Server) -> None: ...


class SmallDisk:
    """A file system in memory, filled up by a file that grows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, server: Server) -> None:  # noqa: ARG002 — the other disk needs it
        with self._ballast.open("ab") as file:
            while (free := shutil.disk_usage(self.folder).free) > 8192:
                with suppress(OSError):  # the collector took some of it in between
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free - 8192)

    def free(self, server: Server) -> None:  # noqa: ARG002 — same
        self._ballast.unlink()


class Limited:
    """A limit on the size of the collector's files, set from outside: for those who may mount nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, server: Server) -> None:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))

    def free(self, server: Server) -> None:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk that can be full: a real one, or for those who may mount none, a limit on the collector's files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield Limited(folder)
        return
    yield SmallDisk(folder)
    # Lazily: a query process of the killed collector may take a moment to end.
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_refused_at_once_and_recovered_from_without_help(disk: Disk, make_server: MakeServer) -> None:
    server = make_server(
        db=disk.folder / "t.duckdb",
        STORE__CHECKPOINT_THRESHOLD_MB=1,
        STORE__REOPEN_S=0.2,
        STORE__SNAPSHOT_INTERVAL_S=0.5,
    )
    server.start()
    with sending(f"http://{server.http}", server.grpc) as senders:
        eventually(lambda: spans_in_snapshot(server) > 0, expected=True)
        disk.fill(server)
        answers = [post(server, number) for number in range(4)]
        in_snapshot = spans_in_snapshot(server)
        in_file = eventually_answered(server, "live")["spans"]
        disk.free(server)
        before = [sender.acknowledged for sender in senders]
        deadline = time.monotonic() + 60
        while any(sender.acknowledged == was for sender, was in zip(senders, before, strict=True)):
            assert time.monotonic() < deadline, server.log
            time.sleep(0.02)
    server.kill()

    refused = {(status, retry is not None) for status, retry in answers if status != httpx.codes.OK}
    assert {(503, True)} == refused
    assert in_snapshot
    assert in_file
    assert [] == lost_or_doubled(server.db, acknowledged(senders))


def post(server: Server, number: int) -> tuple[int, str | None]:
    """Send a large request; return its status, and when to try again."""
    spans = [readable(span) for part in range(50) for span in conversation(900 + number, part).spans]
    answer = httpx.post(
        f"http://{server.http}/v1/traces",
        content=encode_spans(spans).SerializeToString(),
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
        trust_env=False,
    )
    return answer.status_code, answer.headers.get("retry-after")


def spans_in_snapshot(server: Server) -> int:
    """Return how many spans SQL finds: there is always a snapshot, once a first one was made."""
    answer = eventually_answered(server, "query", sql="SELECT count(*) FROM spans")
    return int(answer["rows"][0][0])


def eventually_answered(server: Server, command: str, **arguments: str) -> Any:
    """Return the answer to a command; for a moment, the file may be being opened again."""
    deadline = time.monotonic() + 60
    while True:
        answer = httpx.post(f"http://{server.admin}/v1/commands/{command}", json=arguments, timeout=60, trust_env=False)
        if answer.status_code == httpx.codes.OK:
            return answer.json()
        assert httpx.codes.SERVICE_UNAVAILABLE == answer.status_code, answer.text
        assert time.monotonic() < deadline, f"{answer.text}\n{server.log}"
        time.sleep(0.05)
