"""Hours of traffic written straight into the tables: as many conversations as a test wants, in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.testing import NOON_NS

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

HOUR_NS: Final = 3_600_000_000_000
#: One conversation of one trace after the other, evenly over the hour.
_NUMBERS: Final = """
CREATE OR REPLACE TEMP TABLE made AS
SELECT
    md5(concat($hour, '-', range)) AS trace_id, concat('c-', $hour, '-', range) AS name,
    $first + range * (3600000000000 // $count) AS began
FROM range($count)
"""
_SPANS: Final = """
INSERT INTO spans BY NAME
SELECT
    trace_id, substr(md5(concat(trace_id, n)), 1, 16) AS span_id, 'chat' AS name, 1 AS kind,
    make_timestamp_ns(began + n * 1000000) AS start_time, make_timestamp_ns(began + n * 1000000 + 500000) AS end_time,
    1 AS status, 's' AS service, '' AS environment, 'scope' AS scope, 'genai' AS dialect, name AS conversation_id,
    json_object('gen_ai.input.messages', list_reduce(list_transform(range(4), lambda x: md5(concat(trace_id, n, x))),
        lambda a, b: concat(a, ' the of and to in is you that it ', b))) AS attributes,
    json('{"service.name": "s"}') AS resource, 1 AS bucket, make_timestamp_ns($now) AS received_at
FROM made, range($spans) t(n)
"""
_REST: Final = (
    """
INSERT INTO trace_links BY NAME
SELECT
    trace_id, '' AS environment, 's' AS service, name AS explicit_id, name AS conversation_id,
    CAST('[]' AS VARCHAR[]) AS linked_traces, CAST('[]' AS VARCHAR[]) AS history_in, $spans AS events,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at,
    make_timestamp_ns($now) AS received_until, make_timestamp_ns($now) AS received_from, false AS clock_ahead
FROM made
""",
    """
INSERT INTO conversations BY NAME
SELECT
    '' AS environment, name AS conversation_id, 1 AS revision, false AS superseded, 'agent' AS agent, 's' AS service,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at, ended_at AS window_time, 'idle' AS closed_by,
    'explicit' AS link_method, false AS ambiguous_link, 1 AS turn_count, 1 AS call_count, 'full' AS content_captured,
    trace_id AS content_hash, 1 AS bucket, make_timestamp_ns($now) AS built_at
FROM made
""",
    """
INSERT INTO turns BY NAME
SELECT
    '' AS environment, name AS conversation_id, 1 AS revision, 0 AS turn_index, trace_id AS query, true AS query_captured,
    trace_id AS answer, true AS answer_captured, trace_id, substr(trace_id, 1, 16) AS span_id,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at
FROM made
""",
)


def fill_hour(engine: Engine, hour: int, *, conversations: int, spans: int) -> None:
    """Write closed conversations that ended within an hour, so many hours after noon, at its end."""
    first_ns = NOON_NS + hour * HOUR_NS
    own = {"spans": spans, "now": first_ns + HOUR_NS}

    def write(con: object) -> None:
        run = con.execute  # type: ignore[attr-defined]
        run(_NUMBERS, {"hour": hour, "count": conversations, "first": first_ns})
        run(_SPANS, own)
        for sql in _REST:
            run(sql, {name: own[name] for name in own if f"${name}" in sql})

    engine.store.write(write)
