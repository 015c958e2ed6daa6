"""Measure the windows of a backfill over many results, twice: CPU time, and CPU time of the longest part.

python -m benchmarks.bench_backfill_windows [--results 500000] [--agents 50] [--days 90] [--step-s 3600]
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.cpu_time import own_s
from otel_agentic.backfill.plan import BackfillRequest
from otel_agentic.backfill.run import BackfillContext, backfill
from otel_agentic.config import Settings, StoreSettings
from otel_agentic.engine.engine import Engine

if TYPE_CHECKING:
    from otel_agentic.store.connection import Connection

CASES: Final = 50
NS_PER_S: Final = 1_000_000_000
#: One statement per table. They write the rows that rebuilding and scoring would write, in the columns that windows read.
FILL: Final = (
    "INSERT INTO subjects SELECT i + 1, 'agent-' || i, '1', 'production', 'bench', 'correct', '' FROM range($agents) t(i)",
    "INSERT INTO result_cases SELECT i + 1, 'bench', 'case-' || i FROM range($cases) t(i)",
    """
    CREATE TEMP TABLE made AS
    SELECT
        i, (i * 7919) % $agents AS agent, hash(i) % 5 = 0 AS wrong,
        TIMESTAMP_NS '2026-06-01' + INTERVAL (i * $days * 86400.0 / $results) SECOND AS ended
    FROM range($results) t(i)
    """,
    """
    INSERT INTO conversations BY NAME
    SELECT
        'production' AS environment, 'c-' || i AS conversation_id, 1 AS revision, false AS superseded,
        'agent-' || agent AS agent, '1' AS agent_version, 'bench' AS service, ended AS started_at, ended AS ended_at,
        ended AS window_time,
        'end_of_input' AS closed_by, 'explicit' AS link_method, false AS ambiguous_link, 1 AS turn_count,
        0 AS call_count, true AS content_captured, '' AS content_hash, 0 AS bucket, ended AS built_at
    FROM made
    """,
    """
    INSERT INTO scores BY NAME
    SELECT
        $evaluation AS evaluation_id, 'production' AS environment, 'c-' || i AS conversation_id, 1 AS revision,
        'conversation' AS target, 'agentic.conversation' AS name, CASE WHEN wrong THEN 'fail' ELSE 'pass' END AS label,
        'core' AS evaluator, ended AS scored_at
    FROM made
    """,
    """
    INSERT INTO results BY NAME
    SELECT
        'production' AS environment, 'c-' || i AS conversation_id, 1 AS revision, $evaluation AS evaluation_id,
        agent + 1 AS subject, 'agent-' || agent AS agent, '1' AS agent_version, 'bench' AS service, ended AS ended_at, ended AS window_time,
        i % $cases + 1 AS case_no, 'bench' AS dataset, 'case-' || (i % $cases) AS case_id, [] AS tags,
        CASE WHEN wrong THEN 'fail' ELSE 'pass' END AS outcome, 1.0 AS selection, 1.0 AS sample_ratio
    FROM made
    """,
)


def main() -> None:
    """Fill a store, and backfill it twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("--results", 500_000), ("--agents", 50), ("--days", 90), ("--step-s", 3_600)):
        parser.add_argument(option, type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=StoreSettings(db=Path(folder) / "bench.duckdb"))
        with Engine(settings, create=True) as engine:
            evaluation = engine.runner.truth().evaluation.evaluation_id
            engine.store.write(lambda con: fill(con, options, evaluation))
            print(
                f"{options.results:,} results of {options.agents} agents over {options.days} days; 1h, 24h, 7d; k 1, 3, 5"
            )
            for name in ("from nothing", "again"):
                print(f"{name:<14}{timed(engine, options.step_s)}")


def fill(con: Connection, options: argparse.Namespace, evaluation: str) -> None:
    """Write the rows from which windows are computed."""
    values: dict[str, int | str] = {
        "results": options.results,
        "agents": options.agents,
        "days": options.days,
        "cases": CASES,
    }
    values["evaluation"] = evaluation
    for statement in FILL:
        con.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def timed(engine: Engine, step_s: int) -> str:
    """Return a description of the work of a backfill and of its duration."""
    progress_s = [own_s()]
    checked = BackfillRequest(windows=("1h", "24h", "7d"), step_ns=step_s * NS_PER_S, k=(1, 3, 5)).checked()
    around = BackfillContext(progress=lambda *_: progress_s.append(own_s()))
    done = backfill(engine, checked, context=around)
    assert done.newest is not None
    assert done.plan is not None
    longest = max(after - before for before, after in pairwise(progress_s))
    return (
        f"{len(done.plan.ends):>7,} ends {done.newest.rows_changed:>10,} rows changed "
        f"{own_s() - progress_s[0]:8.1f} s CPU, longest part {longest:.2f} s"
    )


if __name__ == "__main__":
    main()
