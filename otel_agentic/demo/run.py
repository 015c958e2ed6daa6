"""The demo from beginning to end: collector, agents, a late span, and what came out."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from rich.console import Console

from otel_agentic.demo.backend import running_backend
from otel_agentic.demo.collector import running_collector
from otel_agentic.demo.findings import await_telemetry, find
from otel_agentic.demo.fleet import running_agents
from otel_agentic.demo.queries import PROGRESS, REVISED
from otel_agentic.demo.show import show
from otel_agentic.demo.waiting import wait_until
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.commands.client import Client
    from otel_agentic.demo.fleet import Sent, Service

CASES: Final = Path(__file__).with_name("cases.jsonl")
DB_NAME: Final = "demo.duckdb"
#: Packages that the agents need, and the collector does not.
_EXTRA: Final = (
    "langchain",
    "openinference.instrumentation.langchain",
    "opentelemetry.instrumentation.genai.langchain",
)
_SCORED_LIMIT_S: Final = 120.0


def run_demo(out: Console | None = None, keep: Path | None = None, program: str = "otel-agentic") -> int:
    """Run the demo, print what it found, and return the exit code 0. Nothing is left running.

    Args:
        out: where to print; None prints on standard output.
        keep: an existing or new folder for the DuckDB file; None makes a temporary one, which stays.
        program: how a shell starts the command line; the last line printed is a command to go on with.

    Raises:
        UsageError: the extra `demo` is not installed, or `keep` holds the file of an earlier demo.
        BackendError: something did not start, or did not arrive; names it.
    """
    _require_extra()
    db = _new_file(keep)
    out = out or Console(highlight=False)
    out.print("[dim]Starting a collector, three agents and a telemetry backend on free ports …[/]")
    with (
        _orderly_end(),
        running_backend() as backend,
        running_collector(db, CASES, backend.endpoint) as collector,
        running_agents(collector.server) as services,
    ):
        sent = _await_scores(collector.client, services)
        out.print(f"[dim]{_told(sent)}[/]")
        _send_late(collector.client, services, expected=sum(each.held_back for each in sent))
        found = find(collector.client)
        await_telemetry(backend.received, found)
    show(out, found, backend.received, db=db, program=program)
    return 0


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Let a request to terminate unwind the stack, as Ctrl-C does, so that no process stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_extra() -> None:
    missing = [name for name in _EXTRA if not _is_installed(name)]
    if missing:
        raise UsageError(f"the demo needs {', '.join(missing)}: pip install 'otel-agentic[demo]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def _new_file(keep: Path | None) -> Path:
    folder = Path(mkdtemp(prefix="otel-agentic-demo-")) if keep is None else keep.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    db = folder / DB_NAME
    if db.exists():
        raise UsageError(f"{db} is there already, from an earlier demo; give another folder, or remove it")
    return db


def _await_scores(client: Client, services: Sequence[Service]) -> list[Sent]:
    """Return what the agents sent, when all of it is stored, and each conversation closed and scored."""
    sent = [service.sent() for service in services]
    wanted = [sum(each.spans for each in sent), sum(each.conversations for each in sent)]
    wait_until(
        lambda: client.call("query", sql=PROGRESS)["rows"][0] == wanted,
        f"{wanted[0]} spans to arrive and {wanted[1]} conversations to close and be scored",
        limit_s=_SCORED_LIMIT_S,
    )
    return sent


def _send_late(client: Client, services: Sequence[Service], *, expected: int) -> None:
    """Let the spans go that were kept back until their conversations were closed, and await the new revisions."""
    for service in services:
        service.finish()
    wait_until(
        lambda: len(client.call("query", sql=REVISED)["rows"]) == expected,
        f"{expected} conversations to be scored again after their late spans",
        limit_s=_SCORED_LIMIT_S,
    )


def _told(sent: Sequence[Sent]) -> str:
    conversations, spans = sum(each.conversations for each in sent), sum(each.spans for each in sent)
    late = sum(each.held_back for each in sent)
    return f"{conversations} conversations, {spans} spans over OTLP/HTTP and OTLP/gRPC, and {late} span too late …"
