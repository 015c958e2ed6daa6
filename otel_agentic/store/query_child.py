"""The process of one user query: it opens a snapshot read-only, under limits of the operating system, and is killed at will.

`user_queries` starts it with `main` and one line of JSON on standard input, a `Request`. The answer, one JSON object, is
written to standard output, a file. Exit code 0: the answer is complete; `REFUSED`: standard error holds the message for
whoever asked. Two more layers stay, each for itself: the parser's view of the statement (`query_check`), and a hardened
DuckDB in a read-only transaction (`database`).

It imports as little as possible, since it is started for every query.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

import duckdb
import orjson

from otel_agentic.errors import QueryError, StoreError
from otel_agentic.store.database import open_database
from otel_agentic.store.evaluations import show
from otel_agentic.store.json_values import plain
from otel_agentic.store.query_check import checked

try:
    import resource
except ImportError:  # Windows: the parent watches the memory
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

#: Exit code for a statement that is not allowed, or that failed.
REFUSED: Final = 3
#: The first byte of the answer, white space in JSON: from then on the query's own time counts.
STARTED: Final = b" "
_MB: Final = 1_000_000
#: How far a query gives way to the collector, as `nice` counts.
_NICE: Final = 10
#: CPU seconds beyond those that the time limit allows: the parent kills first, this is for when there is no parent.
_CPU_SLACK_S: Final = 10
#: Rows fetched at once: one at first, for a row may be large.
_MOST_FETCHED: Final = 4096
_SCALAR_BYTES: Final = 8
_STATM: Final = "/proc/self/statm"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """What one query may take.

    Attributes:
        timeout_s: seconds from the moment that the file is open.
        max_rows: rows of the answer.
        max_bytes: bytes of the values in the answer.
        memory_mb: memory of its process, MB.
        memory_limit_mb: of these, what DuckDB may use for sorts, groups and joins before it spills to disk, MB.
        temp_limit_mb: disk space for what is spilled, MB.
    """

    timeout_s: float
    max_rows: int
    max_bytes: int = 64 * 1024 * 1024
    memory_mb: int = 1024
    memory_limit_mb: int = 256
    temp_limit_mb: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One query: the file, the statement, the evaluation that views show, where to spill, the Parquet folder, the time of the file."""

    file: str
    sql: str
    evaluation: str
    spill: str
    folder: str | None
    as_of_ns: int
    limits: QueryLimits


def main() -> NoReturn:
    """Answer the request on standard input and leave. Nothing is cleaned up: nothing was changed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    given = orjson.loads(sys.stdin.buffer.readline())
    request = Request(**{**given, "limits": QueryLimits(**given["limits"])})
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    code = 0
    try:
        _answer(request, sys.stdout.buffer)
    except (QueryError, StoreError) as error:
        sys.stderr.buffer.write(str(error).encode(errors="replace"))
        sys.stderr.buffer.flush()
        code = REFUSED
    os._exit(code)


def _leave_with_parent() -> None:
    os.read(0, 1)  # the parent writes no more, so this is the end of the pipe: the parent is gone
    os._exit(REFUSED)


def _answer(request: Request, out: BinaryIO) -> None:
    os.umask(0o077)  # what is spilled is content
    limits, folder = request.limits, request.folder and Path(request.folder)
    con = open_database(
        Path(request.file),
        limits,
        create=False,
        export_folder=folder or None,
        read_only=True,
        spill=request.spill,
    )
    _limit(limits)
    out.write(STARTED)
    out.flush()
    try:
        show(con, request.evaluation)
        statement = checked(con, request.sql, folder=folder or None)
        con.execute("BEGIN TRANSACTION READ ONLY")  # the parser is one layer, this is the other
        _write(con.execute(statement), request, out)
        out.flush()
    except OSError as error:
        raise QueryError(f"the answer cannot be written: {error.strerror}") from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise QueryError(OUT_OF_MEMORY) from error
    except (duckdb.Error, UnicodeDecodeError, RecursionError) as error:
        message, _, pointer = str(error).rstrip().partition("\n")  # what follows points into the statement
        raise QueryError(f"the query failed: {message}{_hint(error)}{pointer and chr(10)}{pointer}") from error


#: Whatever noticed it first: DuckDB, the operating system, or the parent's watch.
OUT_OF_MEMORY: Final = (
    "the query needs more memory than it may have (store.query_memory_mb; store.memory_limit_mb and store.temp_limit_mb "
    "for sorts, groups and joins); narrow it"
)


def _hint(error: Exception) -> str:
    """Return what to write instead, for an error that everybody makes once; else nothing."""
    text = str(error)
    if isinstance(error, duckdb.BinderException) and "TIMESTAMP_NS" in text and "TIMESTAMP WITH TIME ZONE" in text:
        return (
            ". Times in tables are UTC without a time zone: write `now() AT TIME ZONE 'UTC'` instead of now(), or use a view "
            "such as v_conversations, whose times have one"
        )
    return ""


def _limit(limits: QueryLimits) -> None:
    """Bound what this process may take from now on. What it has mapped already is not held against it."""
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(_NICE)
    with suppress(OSError):  # where memory runs out all the same, the kernel ends this process, not the collector
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if resource is None:
        return
    cpu_s = int(limits.timeout_s * (os.cpu_count() or 1)) + _CPU_SLACK_S
    for kind, amount in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        *([(resource.RLIMIT_AS, mapped + limits.memory_mb * _MB)] if (mapped := _mapped_bytes()) else []),
    ):
        hard = resource.getrlimit(kind)[1]
        least = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (least, least))


def _mapped_bytes() -> int:
    """Return the address space of this process, 0 where the system does not say (and does not keep RLIMIT_AS)."""
    try:
        with open(_STATM, encoding="ascii") as file:  # noqa: PTH123 — a path of the system's
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _write(found: DuckDBPyConnection, request: Request, out: BinaryIO) -> None:
    """Write the answer as JSON, row by row, as far as the limits allow."""
    described = found.description or []
    columns, types = [str(column[0]) for column in described], [str(column[1]) for column in described]
    out.write(orjson.dumps({"columns": columns, "types": types})[:-1] + b',"rows":[')
    rows = _Rows(found, request.limits)
    out.writelines((b",\n" if place else b"") + orjson.dumps(plain(list(row))) for place, row in enumerate(rows))
    as_of = datetime.fromtimestamp(request.as_of_ns // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds")
    last = {"truncated": rows.cut_by is not None, "cut_by": rows.cut_by, "as_of": as_of.replace("+00:00", "Z")}
    out.write(b"]," + orjson.dumps(last)[1:])


class _Rows:
    """The rows of an answer; `cut_by` names the setting whose limit cut them, once they were read."""

    def __init__(self, found: DuckDBPyConnection, limits: QueryLimits) -> None:
        self._found = found
        self._limits = limits
        self.cut_by: str | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        left_bytes, left_rows, count = self._limits.max_bytes, self._limits.max_rows, 1
        given = 0
        while fetched := self._found.fetchmany(count):
            for row in fetched:
                if given == left_rows:
                    self.cut_by = "store.query_max_rows"
                    return
                left_bytes -= size_of(row)
                if left_bytes < 0:
                    self.cut_by = "store.query_max_bytes"
                    return
                given += 1
                yield row
            row_bytes = max(1, (self._limits.max_bytes - left_bytes) // given)
            count = max(1, min(_MOST_FETCHED, 2 * count, left_bytes // row_bytes))


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in an answer.

    >>> size_of(("four", 1, [None, b"abc"], {"a": 1}))
    40
    """
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes | bytearray):
            total += len(each)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            total += 0 if each is value else _SCALAR_BYTES
            waiting += each
        else:
            total += _SCALAR_BYTES
    return total
