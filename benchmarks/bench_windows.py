"""Measure the CPU time of one tick of the windows over a million results, relative to the bare SQL aggregate over the same table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.cpu_time import median_s
from otel_agentic.config import EmitSettings, Settings, StatsSettings
from otel_agentic.engine.engine import Engine, stored_estimators
from otel_agentic.store.windows import count_windows
from otel_agentic.telemetry import Telemetry
from otel_agentic.windows import Tallies, WindowTable, parse_windows, window_table

if TYPE_CHECKING:
    from otel_agentic.store.connection import Connection

RESULTS: Final = 1_000_000
AGENTS: Final = 50
VERSIONS: Final = 2
WIDTHS: Final = ("1h", "24h", "7d")
K: Final = (1, 3, 5, 10)
ROUNDS: Final = 9
END_NS: Final = 1_772_442_000 * 10**9
WEEK_NS: Final = 7 * 86_400 * 10**9
#: A million conversations, spread evenly over the widest window, which contains them all. Some are not evaluated.
_FILL: Final = """
INSERT INTO results BY NAME
SELECT
    'production' AS environment, md5(i::VARCHAR) AS conversation_id, 1 AS revision, 'e' AS evaluation_id, subject,
    'agent-' || subject // $versions AS agent, '1.' || subject % $versions AS agent_version,
    'service-' || subject // $versions AS service,
    make_timestamp_ns($end - (i * ($week // $results))::BIGINT) AS ended_at, ended_at AS window_time,
    'idle' AS closed_by, case_no, CASE WHEN case_no IS NULL THEN NULL ELSE 'set' END AS dataset,
    'case-' || case_no AS case_id, CAST([] AS VARCHAR[]) AS tags, outcome,
    CASE WHEN outcome = 'not_evaluated' THEN 'judge_error' END AS reason, (chance % 5) / 4 AS selection,
    CASE WHEN chance % 3 > 0 THEN (chance % 7) / 6 END AS parameters, 1.0 AS sample_ratio
FROM (
    SELECT
        i, hash(i) % 1000 AS chance, (hash(i * 3) % ($agents * $versions))::INTEGER AS subject,
        CASE WHEN $cases > 0 THEN (hash(i * 5) % greatest(1, $cases))::INTEGER END AS case_no,
        CASE WHEN chance < 850 THEN 'pass' WHEN chance < 970 THEN 'fail' ELSE 'not_evaluated' END AS outcome
    FROM range($results) t(i)
)
ORDER BY i DESC
"""
_SUBJECTS: Final = """
INSERT INTO subjects BY NAME SELECT DISTINCT subject, agent, agent_version, environment, service FROM results
"""
#: The bare aggregate: each window's rows counted by group.
_BARE: Final = """
SELECT agent, agent_version, environment, service, w.name, count(*), count(*) FILTER (outcome = 'pass')
FROM results, (VALUES ('1h', $hour), ('24h', $day), ('7d', $week)) w(name, since)
WHERE window_time > make_timestamp_ns(w.since) AND window_time <= make_timestamp_ns($end)
GROUP BY ALL
"""
#: The same in one pass, which is faster: each row counts once, in the narrowest window that contains it.
_BY_BAND: Final = """
SELECT
    agent, agent_version, environment, service,
    CASE WHEN window_time > make_timestamp_ns($hour) THEN 0 WHEN window_time > make_timestamp_ns($day) THEN 1 ELSE 2 END AS w,
    count(*), count(*) FILTER (outcome = 'pass')
FROM results
WHERE window_time > make_timestamp_ns($week) AND window_time <= make_timestamp_ns($end)
GROUP BY ALL
"""
EDGES: Final = {"end": END_NS, "hour": END_NS - WEEK_NS // 168, "day": END_NS - WEEK_NS // 7, "week": END_NS - WEEK_NS}


def main() -> None:
    """Measure without cases, with 200 cases, and with a count window."""
    print(
        f"{RESULTS:,} results, {AGENTS} agents x {VERSIONS} versions x {len(WIDTHS)} windows x {len(K)} k; medians of {ROUNDS}, CPU time"
    )
    _measure("without cases", cases=0, widths=WIDTHS)
    _measure("200 cases", cases=200, widths=WIDTHS)
    _measure("200 cases and a window n200", cases=200, widths=(*WIDTHS, "n200"))


def _measure(what: str, *, cases: int, widths: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stats = StatsSettings(k=K)
        settings = Settings.model_validate({"store": {"db": Path(folder) / "b.duckdb"}, "stats": stats.model_dump()})
        with Engine(settings, create=True) as engine:
            engine.store.write(lambda con: _fill(con, cases))
            engine.store.write(lambda con: con.execute(_SUBJECTS))
            estimators = stored_estimators(engine)
            telemetry = Telemetry.from_settings(EmitSettings(), run_id="benchmark", trigger="online")
            windows = parse_windows(widths)

            def count() -> Tallies:
                with engine.store.read() as con:
                    return count_windows(con, windows, [END_NS])

            def table(tallies: Tallies) -> WindowTable:
                return window_table(tallies, estimators=estimators, settings=stats, k=K)

            def whole_window() -> None:
                telemetry.set_windows(table(count()))

            def bare(sql: str) -> None:
                with engine.store.read() as con:
                    con.execute(sql, EDGES).fetchall()

            tallies = count()
            points = table(tallies)
            work: dict[str, Callable[[], object]] = {
                "bare": lambda: bare(_BARE),
                "one_pass": lambda: bare(_BY_BAND),
                "count": count,
                "table": lambda: table(tallies),
                "points": points.points,
                "tick": whole_window,
            }
            took = {name: 1e3 * each_s for name, each_s in median_s(work, ROUNDS).items()}
            telemetry.shutdown(1.0)
    print(f"\n{what}: {tallies.size} points, {len(tallies.attempts.n):,} kinds of cases")
    print(f"  bare aggregate by group and window     {took['bare']:7.1f} ms  (in one pass {took['one_pass']:.1f} ms)")
    print(
        f"  one tick                               {took['tick']:7.1f} ms  = {took['tick'] / took['bare']:.2f} x bare"
    )
    print(f"    counting in SQL                      {took['count']:7.1f} ms")
    print(f"    estimates, intervals, tiers          {took['table']:7.1f} ms")
    print(f"  points one by one, when collected      {took['points']:7.1f} ms")


def _fill(con: Connection, cases: int) -> None:
    con.execute(
        _FILL,
        {
            "results": RESULTS,
            "agents": AGENTS,
            "versions": VERSIONS,
            "cases": cases,
            "end": END_NS,
            "week": WEEK_NS,
        },
    )


if __name__ == "__main__":
    main()
