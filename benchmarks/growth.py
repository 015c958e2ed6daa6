"""Measure growing stores: CPU time and memory of each command, a window tick, further chats, a restart, retention, disk space.

python -m benchmarks.growth                              # 100,000 and 1,000,000 spans
python -m benchmarks.growth --spans 10000000             # ten million; takes about 10 GB of disk and an hour
python -m benchmarks.growth --spans 1000000 --folder DIR --only "report" --only "failures"

Chats of `benchmarks.agent_traffic` go through the pipeline once; SQL then multiplies the rows of their conversations, with other
ids and earlier times. Each command runs as a child of a process without imports, because a child's memory includes what its
parent had when it was started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from benchmarks.agent_traffic import TURNS, small_chats
from benchmarks.cpu_time import cpu_of
from benchmarks.end_to_end import Clock, Stages
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.live.loops import WindowLoop
from otel_agentic.telemetry import Telemetry

if TYPE_CHECKING:
    from otel_agentic.store.connection import Connection

_SPANS: Final = (100_000, 1_000_000)
#: Conversations that go through the pipeline, one a second, with eight spans each.
_CHATS: Final = 1000
_SPANS_A_CHAT: Final = 8
#: Conversations in one portion of a collector at about a thousand spans a second.
_SMALL_PORTION: Final = 100
#: One chat in so many has a failing tool, and another one a wrong argument.
_SHARE: Final = 20
#: Agents and versions that the copies are divided among.
_AGENTS: Final = 5
_VERSIONS: Final = 2
#: Copies that one statement adds, which bounds the memory of sorting them.
_COPIES: Final = 25
_MEMORY: Final = "3GB"
_START_S: Final = 120
#: The commands, without `--db`. An id of the store replaces `{id}`.
_COMMANDS: Final = (
    "report",
    "report --format json",
    "report --by version",
    "report --window 24h",
    "report --criterion tools",
    "tools failing",
    "tools failing --format json",
    "failures",
    "failures --show 1",
    "conversations list",
    "conversations list --outcome fail",
    "conversations show {id}",
    "suite list",
    "truth list",
    "gate --min-success 0.5",
    "evaluate",
    "judge cache",
    "store stats",
    "query FROM+v_reliability",
    "query FROM+v_metrics",
)
#: The child's CPU seconds, its largest resident memory in KiB and its exit code, as JSON on standard output.
_PARENT: Final = """
import json, resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
error = ended.stderr.decode("utf-8", "replace")[-300:]
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss, ended.returncode, error]))
"""


def main() -> None:
    """Build each store and measure the commands on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, action="append", help="the size of a store; repeatable")
    parser.add_argument("--folder", type=Path, help="keep the stores here, and use those that are there")
    parser.add_argument(
        "--only",
        action="append",
        help="only commands that begin with this, `tick`, `further`, `restart` or `retention`",
    )
    parser.add_argument("--tick", type=Path, metavar="DB", help=argparse.SUPPRESS)
    parser.add_argument("--further", type=Path, metavar="DB", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tick is not None:
        _ticks(options.tick)
        return
    if options.further is not None:
        _further_chats(options.further)
        return
    with _folder(options.folder) as folder:
        for spans in options.spans or _SPANS:
            _measure(grown_store(folder, spans), spans, tuple(options.only or ("",)))


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _settings(db: Path) -> Settings:
    return Settings.model_validate({"store": {"db": db}})


def grown_store(folder: Path, spans: int, spans_a_chat: int = _SPANS_A_CHAT) -> Path:
    """Return the store with so many spans, and on average so many in each chat (see `TURNS`); it is built if it is missing."""
    name = "" if spans_a_chat == _SPANS_A_CHAT else f"-{spans_a_chat}"
    source, db = folder / f"chats{name}.duckdb", folder / f"growth{name}-{spans}.duckdb"
    if not source.exists():
        _score_chats(source, TURNS[spans_a_chat])
    if not db.exists():
        unfinished = db.with_suffix(".part")
        shutil.copy(source, unfinished)
        with duckdb.connect(unfinished) as con:
            _multiply(con, source, spans // (_CHATS * spans_a_chat))
        unfinished.rename(db)
    return db


def _score_chats(db: Path, turns: Sequence[int]) -> None:
    """Store, rebuild and score the chats."""
    workload = small_chats(_CHATS, turns=turns)
    workload = type(workload)(
        name=workload.name,
        requests=[_with_faults(body, turns) for body in workload.requests],
        spans=workload.spans,
        cases=workload.cases,
    )
    with Engine(_settings(db), create=True, collecting=True) as engine:
        engine.runner.remember([TruthFile(name="cases.jsonl", text=workload.cases)], [])
        stages = Stages(engine, workload, Clock())
        for name, work in stages.all():
            work()
            if name == "match and score":
                break  # without windows
        stages.close()


def _with_faults(body: bytes, turns: Sequence[int]) -> bytes:
    """Return a request in which some chats have a failing tool in their last turn, and others a wrong argument."""
    request = ExportTraceServiceRequest.FromString(body)
    for span in request.resource_spans[0].scope_spans[0].spans:
        number, turn = divmod(int.from_bytes(span.trace_id, "big") - 1, 2)
        if turn + 1 < turns[number % len(turns)]:
            continue
        if number % _SHARE == 0 and span.name.startswith("execute_tool"):
            span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "the catalogue is closed"
        if number % _SHARE == 1:
            for attribute in span.attributes:
                attribute.value.string_value = attribute.value.string_value.replace(
                    f'"catalogue": {turn}', '"catalogue": 7'
                )
    return request.SerializeToString()


def _multiply(con: duckdb.DuckDBPyConnection, source: Path, copies: int) -> None:
    """Replace the rows of all conversations by copies with other ids; the newest copy ends now, and others before it."""
    con.execute(f"SET enable_progress_bar = false; SET memory_limit = '{_MEMORY}'")
    con.execute(f"ATTACH '{source}' AS source (READ_ONLY)")
    ((newest_ns,),) = con.execute("SELECT max(epoch_ns(ended_at)) FROM source.conversations").fetchall()
    shift_ns: int = time.time_ns() - newest_ns
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = 'source' AND NOT internal ORDER BY table_name, column_index"
    ).fetchall():
        columns.setdefault(table, {})[column] = kind
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'source'").fetchall()
    for (table,) in tables:
        if table in {"subjects", "annotations"} or not {"trace_id", "conversation_id"} & columns[table].keys():
            continue
        changed = [
            f"{sql} AS {name}"
            for name, kind in columns[table].items()
            if (sql := _copied(table, name, kind)) is not None
        ]
        con.execute(f"DELETE FROM {table}")  # noqa: S608 — our own table names, here and below
        insert = (
            f"INSERT INTO {table} BY NAME SELECT s.* REPLACE ({', '.join(changed)}) "  # noqa: S608
            f"FROM source.{table} s, range($first, $last) c(copy) ORDER BY copy DESC"
        )
        for last in range(copies, 0, -_COPIES):  # the oldest first, as they would have been stored
            parameters = {"first": max(0, last - _COPIES), "last": last, "shift": shift_ns}
            con.execute(insert, {name: value for name, value in parameters.items() if f"${name}" in insert})
    subjects = (
        "INSERT INTO subjects BY NAME SELECT s.* REPLACE (subject + 100 * (n + 1) AS subject, "  # noqa: S608
        f"agent || '-' || n % {_AGENTS} AS agent, '1.' || n // {_AGENTS} AS agent_version) "
        f"FROM source.subjects s, range({_AGENTS * _VERSIONS}) r(n)"
    )
    con.execute(subjects)
    con.execute("DELETE FROM subjects WHERE subject IN (SELECT subject FROM source.subjects)")
    con.execute("DELETE FROM window_changes")
    con.execute("DETACH source")
    con.execute("CHECKPOINT")


def _copied(table: str, name: str, kind: str) -> str | None:
    """Return the expression of a column of a copy, or None if all copies have the same value."""
    number = f"(copy % {_AGENTS * _VERSIONS})"
    if kind == "TIMESTAMP_NS":
        is_event = name not in {"received_at", "received_until", "received_from", "scored_at", "metrics_at", "built_at"}
        shift = "$shift" if is_event else "0"
        return f"make_timestamp_ns(epoch_ns({name}) + {shift} - copy * {_CHATS} * 1000000000)"
    expressions = {
        "trace_id": "md5(trace_id || copy)",
        "score_id": "substr(md5(score_id || copy), 1, length(score_id))",
        "conversation_id": "conversation_id || '~' || copy",
        "explicit_id": "explicit_id || '~' || copy",
        "subject": f"subject + 100 * ({number} + 1)",
    }
    if table in {"conversations", "results"}:
        expressions["agent"] = f"agent || '-' || {number} % {_AGENTS}"
        expressions["agent_version"] = f"'1.' || {number} // {_AGENTS}"
    return expressions.get(name)


def _measure(db: Path, spans: int, only: tuple[str, ...]) -> None:
    """Print the size of a store, and the CPU time and memory of each command on it."""
    print(f"\n{spans:,} spans: {db.stat().st_size / spans:,.0f} bytes a span")
    rows = _run(*_cli(db, "query", "SELECT min(conversation_id) AS id FROM conversations", "--format", "json"))
    name = json.loads(rows)[0]["id"]
    for command in _COMMANDS:
        if command.startswith(only):
            arguments = [term.replace("+", " ").replace("{id}", name) for term in command.split()]
            _show(command, _child(_cli(db, *arguments)))
    if "tick".startswith(only):
        print(_run(sys.executable, "-m", "benchmarks.growth", "--tick", str(db)), end="")
    if "further".startswith(only):
        copy = db.with_name("further.duckdb")
        shutil.copy(db, copy)
        print(_run(sys.executable, "-m", "benchmarks.growth", "--further", str(copy)), end="")
        copy.unlink()
    if "retention".startswith(only):
        copy = db.with_name("retention.duckdb")
        shutil.copy(db, copy)
        hours = spans // _SPANS_A_CHAT / 3600
        _show(
            "store vacuum of the older half", _child(_cli(copy, "store", "vacuum", "--keep", f"{hours / 2 * 60:.0f}m"))
        )
        copy.unlink()


def _cli(db: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "otel_agentic.cli", *words, "--db", str(db)]


def _run(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout  # noqa: S603 — our own command


def _child(words: list[str]) -> tuple[float, int, int, str]:
    cpu_s, rss_kib, code, error = json.loads(_run(sys.executable, "-S", "-c", _PARENT, *words))
    return cpu_s, rss_kib, code, error


def _show(command: str, used: tuple[float, int, int, str]) -> None:
    cpu_s, rss_kib, code, error = used
    failed = "" if code in {0, 1} else f"  exit code {code}: {error.strip()}"
    print(f"  {command:<40} {cpu_s:7.2f} s CPU {rss_kib / 1024:7.0f} MiB{failed}", flush=True)


def _ticks(db: Path) -> None:
    """Print the CPU time of window ticks: the first one, one without changes, and one after some conversations changed."""
    with Engine(_settings(db), collecting=True) as engine:
        telemetry = Telemetry.from_settings(engine.emit, run_id="benchmark", trigger="online")
        loop = WindowLoop(engine, telemetry)
        for name, changed in (("first", 0), ("without changes", 0), ("500 changed", 500), ("500 changed again", 500)):
            if changed:
                engine.store.write(partial(_change, changed))
            print(f"  tick, {name:<34} {cpu_of(loop.refresh):7.2f} s CPU", flush=True)
        telemetry.shutdown(1.0)


def _further_chats(db: Path) -> None:
    """Print the CPU time of each stage until further chats are scored, in portions as small as those of a collector."""
    workload = small_chats(_CHATS, time.time_ns())
    with Engine(_settings(db), collecting=True) as engine:
        start_s = cpu_of(lambda: (engine.rebuilder.pending(), engine.store.known_ids.since([])))
        print(f"  reading pending traces and known ids at the start {start_s:7.2f} s CPU", flush=True)
        stages = Stages(engine, workload, Clock(), portion=_SMALL_PORTION)
        for name, work in stages.all():
            us = cpu_of(work) / workload.spans * 1e6
            print(f"  {_CHATS:,} further chats, {name:<30} {us:7.1f} us CPU a span", flush=True)
            if name == "match and score":
                break
        stages.close()


def _change(count: int, con: Connection) -> None:
    """Mark the newest conversations of one agent as changed, as storing their scores does."""
    con.execute(
        "INSERT INTO window_changes SELECT row_number() OVER (), window_time, true FROM ("
        "SELECT window_time FROM results WHERE agent = 'clerk-0' ORDER BY window_time DESC LIMIT $count)",
        {"count": count},
    )


if __name__ == "__main__":
    main()
