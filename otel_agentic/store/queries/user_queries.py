"""User SQL: each statement runs in a separate process (`queries.sql`), which can be killed at any moment.

DuckDB neither counts the memory of a value that it is computing nor checks for interrupts inside a call, so only a
process can enforce limits on `replace(replace(repeat(…`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import orjson

from otel_agentic import errors
from otel_agentic.errors import OtelAgenticError, QueryError

if TYPE_CHECKING:
    from otel_agentic.config import StoreSettings

#: How often a running query is checked, seconds.
_LOOK_S: Final = 0.02
#: How long Python and DuckDB may take to start and to open the file, seconds; a busy machine must not fail the query.
_START_S: Final = 30.0
#: While queries follow one another within this time, seconds, a process is started ahead for the next one: its start takes longer
#: than most queries.
_AHEAD_S: Final = 60.0
_MB: Final = 1_000_000
_PIECE_BYTES: Final = 256 * 1024
#: Without `site`, the environment and the working directory: the child process gets this process's modules, and no
#: secrets.
_PYTHON: Final = (sys.executable, "-I", "-S", "-c")
_CODE: Final = "import sys; sys.path[:] = sys.argv[1:]; from otel_agentic.store.queries.sql import main; main()"
#: Variables that the dynamic loader may need to find DuckDB's own libraries.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
#: Exit code of Python if standard output could not be flushed.
_UNWRITTEN: Final = 120
_numbers = count(1)
#: Exit code of the process if the statement is not allowed, or failed; standard error contains the error as JSON.
REFUSED: Final = 3
#: The same message whether DuckDB, the operating system or the parent process detects it.
OUT_OF_MEMORY: Final = (
    "the query needs more memory than it may have (store.query_memory_mb; store.memory_limit_mb and store.temp_limit_mb "
    "for sorts, groups and joins); narrow it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """The resources that one query may use.

    Attributes:
        timeout_s: seconds from the moment at which the file is open.
        max_rows: rows of the answer.
        max_bytes: bytes of the values in the answer.
        memory_mb: memory of its process, MB.
        memory_limit_mb: of these, what DuckDB may use for sorts, groups and joins before it spills to disk, MB.
        temp_limit_mb: disk space for spilled data, MB.
    """

    timeout_s: float
    max_rows: int
    max_bytes: int = 64 * 1024 * 1024
    memory_mb: int = 1024
    memory_limit_mb: int = 256
    temp_limit_mb: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One query.

    Attributes:
        file: a DuckDB file that no process writes to.
        is_store: whether it is a store and not the snapshot of one: its schema and its evaluations are checked first.
        sql: the statement.
        evaluation: name of the evaluation whose scores the views show; None for the default.
        spill: the folder for data that does not fit in memory.
        folder: the folder whose Parquet files may be read; None allows no file.
        as_of_ns: everything in the file was committed by then, ns since the epoch.
        limits: the resources that the query may use.
    """

    file: str
    is_store: bool
    sql: str
    evaluation: str | None
    spill: str
    folder: str | None
    as_of_ns: int
    limits: QueryLimits


class Answer(Mapping[str, Any]):
    """The answer to a query: JSON in a file without a name, parsed on first access.

    Keys: `columns`, `types`, `rows`, `truncated`, `cut_by` (the setting that cut the rows, or None), and `as_of`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    @cached_property
    def _parsed(self) -> dict[str, Any]:
        self._file.seek(0)
        parsed: dict[str, Any] = orjson.loads(self._file.read())
        return parsed

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the JSON text in pieces, so that it never has to be in memory completely."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE_BYTES):
            yield piece

    def __getitem__(self, key: str) -> Any:
        return self._parsed[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)


class UserQueries:
    """The user queries of one store: runs and ends them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The processes of the queries that run now.
        self.running: set[_Process] = set()
        #: A process that waits for the next query, and the timer that ends it.
        self._ahead: tuple[_Process, threading.Timer] | None = None
        self._last_s = -_AHEAD_S
        self._is_closed = False

    def run(
        self,
        file: Path,
        sql: str,
        limits: QueryLimits,
        *,
        as_of_ns: int,
        evaluation: str | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        folder: Path | None = None,
        is_store: bool = False,
    ) -> Answer:
        """Return the answer to one SELECT or EXPLAIN statement.

        Args:
            file: a DuckDB file that no process writes to.
            sql: the statement.
            limits: limits beyond which the rows are cut, or the process is killed.
            as_of_ns: everything in the file was committed by then, ns since the epoch.
            evaluation: name of the evaluation whose scores the views show; None for the default.
            is_cancelled: returns whether the client has disconnected.
            folder: the folder whose Parquet files may be read.
            is_store: whether the file is a store and not the snapshot of one: its schema and its evaluations are checked
                first.

        Raises:
            StoreError: the file cannot be used.
            UsageError: the store has no evaluation with this name.
            QueryError: it is not one read-only statement, fails, or exceeds a limit.
        """
        spill = file.with_name(f"{file.name}.query-{os.getpid()}-{next(_numbers)}.tmp")
        request = Request(
            file=str(file),
            is_store=is_store,
            sql=sql.encode(errors="replace").decode(),  # a lone surrogate is not valid in SQL
            evaluation=evaluation,
            spill=str(spill),
            folder=None if folder is None else str(folder),
            as_of_ns=as_of_ns,
            limits=limits,
        )
        has_room = shutil.disk_usage(file.parent).free > 2 * limits.max_bytes
        answers = file.parent if has_room else None  # None: the system's folder for temporary files
        try:
            with self._process(answers) as process, self._tracked(process):
                return process.answer(request, is_cancelled)
        finally:
            shutil.rmtree(spill, ignore_errors=True)

    def _process(self, folder: Path | None) -> _Process:
        """Return a process for a query, which was started ahead if the query before was recent, and start the next one ahead."""
        now_s = time.monotonic()
        with self._lock:
            process = self._take()
            if process is not None and not (process.folder == folder and process.is_alive):
                process.close()
                process = None
            if now_s - self._last_s < _AHEAD_S and not self._is_closed:
                ahead = _Process(folder)
                timer = threading.Timer(_AHEAD_S, self._end_ahead, [ahead])
                timer.daemon = True
                timer.start()
                self._ahead = ahead, timer
            self._last_s = now_s
        return process or _Process(folder)

    def _take(self) -> _Process | None:
        """Return the process that waits for a query, if there is one, which is not ended any more then."""
        if self._ahead is None:
            return None
        process, timer = self._ahead
        self._ahead = None
        timer.cancel()
        return process

    def _end_ahead(self, process: _Process | None = None) -> None:
        """End the process that waits for a query, or only this one."""
        with self._lock:
            if self._ahead is not None and process in {None, self._ahead[0]} and (ahead := self._take()) is not None:
                ahead.close()

    def close(self) -> None:
        """End the process that waits for a query, and start none ahead any more."""
        self._is_closed = True
        self._end_ahead()

    def end_all(self, why: str) -> int:
        """Kill every running query; return their number.

        Args:
            why: the message for the clients.
        """
        with self._lock:
            for process in self.running:
                process.end(why)
            return len(self.running)

    @contextmanager
    def _tracked(self, process: _Process) -> Iterator[None]:
        with self._lock:
            self.running.add(process)
        try:
            yield
        finally:
            with self._lock:
                self.running.discard(process)


def limits_of(settings: StoreSettings) -> QueryLimits:
    """Return the limits that the settings set for one query."""
    return QueryLimits(
        timeout_s=settings.query_timeout_s,
        max_rows=settings.query_max_rows,
        max_bytes=settings.query_max_bytes,
        memory_mb=settings.query_memory_mb,
        memory_limit_mb=settings.memory_limit_mb,
        temp_limit_mb=settings.temp_limit_mb,
    )


class _Process:
    """The process of one query, which waits until `answer` sends it. A context manager that leaves no process behind."""

    def __init__(self, folder: Path | None) -> None:
        """Start it; the folder is that of the files of its answer and its errors, None for the system's."""
        self.folder = folder
        self._ended_for: str | None = None
        with ExitStack() as files:
            self._answer = files.enter_context(tempfile.TemporaryFile(dir=folder))
            self._errors = files.enter_context(tempfile.TemporaryFile(dir=folder))
            self._child = subprocess.Popen(  # noqa: S603 — our own interpreter and code; the statement is sent through the pipe
                [*_PYTHON, _CODE, *sys.path],
                stdin=subprocess.PIPE,
                stdout=self._answer,
                stderr=self._errors,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
            self._files = files.pop_all()
        assert self._child.stdin is not None  # noqa: S101 — it is a pipe
        self._pipe = self._child.stdin  # kept open: when it closes, the child knows that this process has ended

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._child.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process, if it still runs, and close its files, unless the answer is complete."""
        self._child.kill()
        self._child.wait()
        with suppress(BrokenPipeError):
            self._pipe.close()
        self._files.close()

    def end(self, why: str) -> None:
        """Kill the process; `why` is the message for the client."""
        self._ended_for = self._ended_for or why
        self._child.kill()

    def answer(self, request: Request, is_cancelled: Callable[[], bool]) -> Answer:
        """Send the query, and wait until the answer is in its file.

        Raises:
            OtelAgenticError: there is no answer: the statement or the file was refused, or the process was killed.
        """
        with suppress(BrokenPipeError):  # the child has ended already; its exit code or its errors state why
            self._pipe.write(orjson.dumps(asdict(request)) + b"\n")
            self._pipe.flush()
        code = self._wait(request.limits, is_cancelled)
        if code != 0:
            raise self._failure(code, request.limits)
        self._files.pop_all()
        self._errors.close()
        return Answer(self._answer)

    def _wait(self, limits: QueryLimits, is_cancelled: Callable[[], bool]) -> int:
        """Return the exit code; kill the process if it exceeds its time or memory, or if the client disconnects."""
        deadline_s, has_started = time.monotonic() + _START_S, False
        memory = _Memory(self._child.pid, limits.memory_mb * _MB)
        while True:
            with suppress(subprocess.TimeoutExpired):
                return self._child.wait(_LOOK_S)
            if not has_started and os.fstat(self._answer.fileno()).st_size:
                deadline_s, has_started = time.monotonic() + limits.timeout_s, True
            if is_cancelled():
                self.end("the query was cancelled: the client disconnected")
            elif time.monotonic() > deadline_s:
                self.end(
                    _too_long(limits) if has_started else f"the query did not start within {_START_S:g} s; try again"
                )
            elif memory.is_exceeded():
                self.end(OUT_OF_MEMORY)

    def _failure(self, code: int, limits: QueryLimits) -> OtelAgenticError:
        """Return the error that explains a missing answer."""
        if self._ended_for is not None:
            return QueryError(self._ended_for)
        self._errors.seek(0)
        output = self._errors.read()
        if code == REFUSED:
            refusal = orjson.loads(output)
            kind: type[OtelAgenticError] = getattr(errors, refusal["error"])
            return kind(refusal["message"])
        return QueryError(_why_ended(code, output.decode(errors="replace").strip(), limits))


def _why_ended(code: int, output: str, limits: QueryLimits) -> str:
    if code < 0:
        ended_by = signal.Signals(-code).name
        if ended_by == "SIGXCPU":
            return _too_long(limits)
        # DuckDB and the C library abort if an allocation fails in a place that cannot report it.
        return f"the process of the query ended with {ended_by}; {OUT_OF_MEMORY}"
    if code == _UNWRITTEN:
        return "the answer could not be written: the disk is full; free some space"
    return f"the process of the query ended with exit code {code}: {output[-500:]}"


def _too_long(limits: QueryLimits) -> str:
    return f"the query took longer than {limits.timeout_s:g} s; narrow it (store.query_timeout_s)"


class _Memory:
    """Watches the memory of a process, for systems that do not enforce RLIMIT_AS, and as a second check on others."""

    def __init__(self, pid: int, max_bytes: int) -> None:
        self._pid = pid
        self._max_bytes = max_bytes
        self._next_s = 0.0

    def is_exceeded(self) -> bool:
        """Return whether the process uses more memory than allowed, as far as the system reports it."""
        if sys.platform == "linux":
            return self._linux_bytes() > self._max_bytes
        if os.name != "posix" or time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + 0.5  # `ps` starts a process of its own
        command = ["ps", "-o", "rss=", "-p", str(self._pid)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 — our own command
        return int(result.stdout.strip() or 0) * 1024 > self._max_bytes

    def _linux_bytes(self) -> int:
        try:
            with open(f"/proc/{self._pid}/statm", encoding="ascii") as file:  # noqa: PTH123 — a path of the system
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):  # the process has just ended
            return 0
