"""A process that may open few files accepts fewer connections and keeps serving those who send."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cli.running import COMMAND, environment, wait_until
from tests.collectors.raw import answers, connect, post, spans, until_closed

if TYPE_CHECKING:
    import socket

_FREE: Final = "127.0.0.1:0"
#: Uses up all file descriptors but one while it listens; the last one is the connection that it then accepts.
_EXHAUSTED: Final = """
import asyncio, os, resource, sys
from otel_agentic.net import Address, listen_bounded

async def greet(reader, writer):
    writer.write(b"hello")
    writer.close()

async def main():
    listener = listen_bounded(Address(host="127.0.0.1", port=0), 1000)
    server = await asyncio.start_server(greet, sock=listener, backlog=2048)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    await asyncio.to_thread(int)  # imports what a thread takes while files can be opened
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        print(listener.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for file in taken:
        os.close(file)
    print("free again", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


def test_under_a_low_limit_idle_connections_shut_no_sender_out(tmp_path: Path) -> None:
    db, log = tmp_path / "t.duckdb", tmp_path / "log"
    listen = ("--grpc", _FREE, "--http", _FREE, "--admin", _FREE)
    # A shell sets the limit, hard and soft, as a service manager does.
    command = ("sh", "-c", 'ulimit -n 90; exec "$@"', "sh", *COMMAND, "serve", "--db", str(db), *listen)
    with (
        log.open("wb") as message,
        subprocess.Popen(command, stdout=message, stderr=message, env=environment()) as process,
    ):
        try:
            result = tmp_path / "t.duckdb.server.json"
            wait_until(lambda: result.exists() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            urls = json.loads(result.read_bytes())
            with ExitStack() as idle:
                for port in ("http", "grpc", "admin"):
                    for _ in range(150):
                        idle.enter_context(connect(urls[port]))
                sent = [_sent(urls["http"], trace) for trace in range(1, 21)]
                with connect(urls["admin"]) as caller:
                    caller.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    ready = answers(until_closed(caller))
        finally:
            process.terminate()

    lines = log.read_text().splitlines()
    assert ([[200]] * 20, [200]) == (sent, ready)
    assert 0 == process.returncode
    assert len(lines) < 20
    assert [] == [line for line in lines if "Traceback" in line or "ERROR" in line]


def _sent(endpoint: str, trace: int) -> list[int]:
    with connect(endpoint) as connection:
        connection.sendall(post(spans("chat", trace_id=trace.to_bytes(16, "big")), "Connection: close"))
        return answers(until_closed(connection))


def test_without_a_file_descriptor_connections_are_closed_and_one_line_is_logged() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _EXHAUSTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        endpoint = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        refused = [_greeting(connect(endpoint)) for _ in range(50)]
        process.stdin.write("\n")
        process.stdin.flush()
        assert "free again" == process.stdout.readline().strip()
        served = _greeting(connect(endpoint))
        complaints = process.communicate("\n")[1]

    assert ({b""}, b"hello") == (set(refused), served)
    assert 1 == len(complaints.splitlines()), complaints
    assert "ulimit -n" in complaints


def _greeting(connection: socket.socket) -> bytes:
    with connection:
        return until_closed(connection)
