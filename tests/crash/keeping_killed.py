"""A process of its own that exports and removes, is killed on the way, again and again, and examines the remaining files.

Run as `python -m tests.crash.keeping_killed FOLDER KILLS SEED`; it prints a line for each thing that is wrong, and "done".
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from otel_agentic.live.loops import RetentionLoop
from otel_agentic.testing import NOON_NS
from tests.builders import fill_hour, rows
from tests.engine.retention_engine import HOUR_NS, Clock, retaining_engine

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

_HOURS: Final = 4
_CONVERSATIONS: Final = 200
_SPANS: Final = 4
_ALL: Final = _HOURS * _CONVERSATIONS
#: The day is over, its hours are put together; what ended in the first hour and a half is too old.
_NOW_H, _KEEP, _KEPT_FROM_NS = 13.5, "12h", NOON_NS + 3 * HOUR_NS // 2
#: Audit events of Python about files: a rename, a removal, an exchange of names.
_TOUCHES: Final = frozenset({"os.rename", "os.remove", "ctypes.dlopen"})

_TWICE: Final = "SELECT count(*) - count(DISTINCT (trace_id, span_id)) FROM read_parquet(?)"
_BY_HOUR: Final = "SELECT epoch_ns(start_time) // 3600000000000 AS hour, count(*) FROM read_parquet(?) GROUP BY ALL"
_NOT_WHOLE: Final = """
SELECT c.conversation_id FROM conversations c
WHERE (SELECT count(*) FROM spans s WHERE s.conversation_id = c.conversation_id) <> 4
    OR (SELECT count(*) FROM turns t WHERE t.conversation_id = c.conversation_id) <> 1
    OR (SELECT count(*) FROM trace_links l WHERE l.conversation_id = c.conversation_id) <> 1
"""
_STUMPS: Final = """
SELECT (SELECT count(*) FROM spans s ANTI JOIN conversations USING (conversation_id))
    + (SELECT count(*) FROM turns ANTI JOIN conversations USING (conversation_id))
    + (SELECT count(*) FROM trace_links ANTI JOIN conversations USING (conversation_id))
"""
_OLDEST: Final = "SELECT epoch_ns(min(ended_at)) FROM conversations"


def _tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def create_store(db: Path) -> None:
    """Make the store that each round begins with."""
    with _opened(db) as engine:
        for hour in range(_HOURS):
            fill_hour(engine, hour, conversations=_CONVERSATIONS, spans=_SPANS)


def _opened(db: Path) -> Engine:
    clock = Clock()
    clock.at(_NOW_H)
    return retaining_engine(db, clock, retention={"export": True, "keep": _KEEP})


def _round(db: Path, begun: Callable[[], object] = lambda: None) -> None:
    with _opened(db) as engine:
        begun()
        wrote, _ = RetentionLoop(engine).round()
        if wrote is not None and wrote.problem:
            _tell(wrote.problem)


def _apart(work: Callable[[], object]) -> int:
    """Do some work in a child, so that this process never opens a database; return the child's id."""
    if (child := os.fork()) == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 — printed for the test
            _tell(f"{type(error).__name__}: {error}")
            os._exit(1)
        os._exit(0)
    return child


def _killed_at_touch(db: Path, operation: int) -> None:
    """Run a round that ends itself right before its n-th operation on the name of a file."""
    operations = 0

    def touched(event: str, _: Any) -> None:
        nonlocal operations
        if event in _TOUCHES:
            operations += 1
            if operations == operation:
                os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(_apart(lambda: _round(db, lambda: sys.addaudithook(touched))), 0)


def _killed_at_time(db: Path, after_s: float) -> None:
    reading, writing = os.pipe()
    child = _apart(lambda: _round(db, lambda: os.write(writing, b"x")))
    os.close(writing)
    os.read(reading, 1)  # returns nothing if the child failed before it began
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)


def measured(db: Path) -> tuple[int, float]:
    """Return how many touches a whole round makes, and how long it takes, s."""
    reading, writing = os.pipe()

    def work() -> None:
        touches: list[str] = []
        began = [0.0]

        def begun() -> None:
            began[0] = time.monotonic()
            sys.addaudithook(lambda event, _: touches.append(event) if event in _TOUCHES else None)

        _round(db, begun)
        os.write(writing, f"{len(touches)} {time.monotonic() - began[0]}".encode())

    os.waitpid(_apart(work), 0)
    touches, took_s = os.read(reading, 100).decode().split()
    os.close(reading)
    os.close(writing)
    return int(touches), float(took_s)


def _looked_at(db: Path, *, finished: bool) -> None:
    """Print the problems of a store and its files."""
    folder = db.with_name(f"{db.name}.export")
    files = [str(path) for path in sorted((folder / "spans").glob("**/*.parquet"))]
    with duckdb.connect() as con:
        if files and con.execute(_TWICE, [files]).fetchall() != [(0,)]:
            _tell("spans stand twice in the files")
        by_hour = dict(con.execute(_BY_HOUR, [files]).fetchall()) if files else {}
    if set(by_hour.values()) - {_CONVERSATIONS * _SPANS}:
        _tell(f"hours that are not whole: {by_hour}")
    if finished and len(by_hour) != _HOURS:
        _tell(f"hours that are not exported: {by_hour}")
    if finished and (folder / ".work").exists():
        _tell("incomplete files are left")
    with _opened(db) as engine:
        _store_looked_at(engine, by_hour, finished=finished)


def _store_looked_at(engine: Engine, by_hour: dict[int, int], *, finished: bool) -> None:
    ((held,),) = rows(engine, "SELECT count(*) FROM conversations")
    removed = rows(engine, "SELECT coalesce(sum(conversations), 0)::INTEGER FROM retention")[0][0]
    if _ALL - held != removed:
        _tell(f"{held} of {_ALL} conversations are left, {removed} counted as removed")
    hours = rows(engine, "SELECT DISTINCT epoch_ns(start_time) // 3600000000000 FROM spans")
    if len({hour for (hour,) in hours} | by_hour.keys()) != _HOURS:
        _tell("spans are neither in the store nor in a file")
    if removed and len(by_hour) < 2:  # those of the first two hours
        _tell("something was removed before it was exported")
    for what, sql, expected in (("not whole", _NOT_WHOLE, []), ("stumps", _STUMPS, [(0,)])):
        if (answer := rows(engine, sql)) != expected:
            _tell(f"{what}: {answer[:3]}")
    if finished and rows(engine, _OLDEST)[0][0] < _KEPT_FROM_NS:
        _tell("something old is left")


def main(home: Path, kills: int, seed: int) -> None:
    """Kill so often, each time beginning with a store of which nothing is exported or removed."""
    chance = random.Random(seed)  # noqa: S311 — moments, no secrets
    template = home / "template.duckdb"
    os.waitpid(_apart(lambda: create_store(template)), 0)
    complete = home / "whole.duckdb"
    shutil.copy(template, complete)
    touches, took_s = measured(complete)
    os.waitpid(_apart(lambda: _looked_at(complete, finished=True)), 0)
    for number in range(kills):
        db = home / f"killed-{number}.duckdb"
        shutil.copy(template, db)
        if number % 3 == 2:
            _killed_at_time(db, chance.uniform(0, took_s))
        else:
            _killed_at_touch(db, 1 + int(touches * (number + chance.random()) / kills))  # all over the round
        os.waitpid(_apart(partial(_looked_at, db, finished=False)), 0)
        os.waitpid(_apart(partial(_round, db)), 0)
        os.waitpid(_apart(partial(_looked_at, db, finished=True)), 0)
    _tell("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
