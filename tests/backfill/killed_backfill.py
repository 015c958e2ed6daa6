"""Runs one backfill again and again and kills it on the way, each time in a process that has only just begun.

    python -m tests.backfill.killed_backfill DB SEED TIMES [ENDPOINT]

What takes long to load is loaded once: the processes are forked before anything is opened. Prints how each one ended.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

from otel_agentic.backfill.plan import BackfillRequest
from otel_agentic.backfill.run import BackfillContext, backfill
from otel_agentic.engine.engine import Engine
from otel_agentic.testing import SECOND_NS
from tests.stores import settings_for

PART_ROWS = 50
#: Steps of a run that is not killed, less some.
STEPS = 36


def main(db: Path, seed: int, times: int, endpoint: str | None) -> None:
    """Kill so many runs at a random step, then let one come to its end."""
    chosen = random.Random(seed)  # noqa: S311 — where a test kills is no secret
    ends = [_forked(db, endpoint, chosen.randint(1, max(2, STEPS // times))) for _ in range(times)]
    print(json.dumps([*ends, _forked(db, endpoint, None)]))  # noqa: T201 — this is its answer


def _forked(db: Path, endpoint: str | None, at: int | None) -> int:
    """Run a backfill in a child, which dies at a step; return its exit status as `os.waitstatus_to_exitcode` does."""
    child = os.fork()
    if child == 0:
        try:
            _run(db, endpoint, at)
        except BaseException as error:  # noqa: BLE001 — printed; a child must not continue as its parent
            print(repr(error), file=sys.stderr)  # noqa: T201 — same
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(db: Path, endpoint: str | None, at: int | None) -> None:
    left = at

    def step(*_: object) -> None:
        nonlocal left
        if left is not None:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    requested = BackfillRequest(
        windows=("6h", "24h"),
        step_ns=1_800 * SECOND_NS,
        k=(1, 3),
        emit="none" if endpoint is None else "otlp",
        endpoint=endpoint,
    )
    with Engine(settings_for(db)) as engine:
        backfill(engine, requested.checked(), context=BackfillContext(progress=step, part_rows=PART_ROWS))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None)
