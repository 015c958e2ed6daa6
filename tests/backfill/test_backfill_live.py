"""A backfill makes the rows that a collector makes of the same spans as they come in, and runs alongside one."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import open_client
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import ReceiveSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.live.assembler import Assembler
from otel_agentic.live.loops import ScoringLoop, WindowLoop
from otel_agentic.spans import Limits, Span, SpanBatch, decode_document, merge_batches
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from otel_agentic.windows import current_end
from tests.builders import (
    CASES,
    DAY_NS,
    HOUR_NS,
    LATER_NS,
    ask_hotel,
    feed,
    fill_days,
    hotel_conversation,
    rows,
    run_backfill,
    window_values,
)
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.snapshots import raises
from tests.stores import settings_for

WINDOWS: dict[str, Any] = {"widths": ["6h", "24h", "n4"], "step_s": 3_600, "tags": ["regression"]}


class Clock:
    """The present, as the test has it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """Return it."""
        return self.now_ns


class Collected:
    """What a running collector does with spans, driven by the clock of the test in place of threads."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._telemetry = Telemetry.from_settings(engine.settings.emit, run_id="test", trigger="online")
        self._windowing = WindowLoop(engine, self._telemetry)
        self._assembler = Assembler(engine, lambda _: None)
        self._scoring = ScoringLoop(engine, lambda *_: None)
        engine.store.listen(self._assembler.arrived)

    def replay(self, arriving: Iterable[tuple[int, Span]], until_ns: int, tick_ns: int) -> int:
        """Take spans as they end and tick on the way; return the newest end that windows were stored for."""
        waiting = sorted(arriving, key=lambda item: (item[0], item[1].trace_id, item[1].span_id))
        index = 0
        for now_ns in range(waiting[0][0] // tick_ns * tick_ns, until_ns + 1, tick_ns):
            batch = []
            while index < len(waiting) and waiting[index][0] <= now_ns:
                batch.append(waiting[index][1])
                index += 1
            self._clock.now_ns = now_ns
            self._engine.store.accept(SpanBatch(spans=tuple(batch)))
            self._tick()
        self._telemetry.shutdown(1.0)
        return current_end(self._clock.now_ns, int(self._engine.settings.windows.step_s * SECOND_NS))

    def _tick(self) -> None:
        rebuilt = self._assembler.tick() + self._assembler.tick()  # what a first one read, a second one closes
        self._scoring.closed(saved.ended_ns for saved in rebuilt.saved if saved.closed_by is not None)
        while self._scoring._round():
            pass
        self._windowing.store()


def test_live_ingestion_in_event_time_and_backfill_make_the_same_rows(tmp_path: Path) -> None:
    conversations = [hotel_conversation(number) for number in range(6)]
    loose = [
        speak_genai(ask_hotel(None), start_ns=NOON_NS + 11 * HOUR_NS),
        speak_genai(ask_hotel(None), start_ns=NOON_NS),
    ]
    spans = [(span.end_ns, span) for batch in (*conversations, *loose) for span in batch.spans]
    late = [(span.end_ns + 7 * HOUR_NS, span) for span in hotel_conversation(2, name="late", right=False).spans]
    clock = Clock()
    with Engine(settings_for(tmp_path / "live.duckdb", windows=WINDOWS), create=True, clock=clock) as live:
        remember(live)
        until_ns = Collected(live, clock).replay([*spans, *late], NOON_NS + 40 * HOUR_NS, 2 * HOUR_NS)
        expected = window_values(live)
    with Engine(
        settings_for(tmp_path / "filled.duckdb", windows=WINDOWS), create=True, clock=lambda: LATER_NS
    ) as filled:
        remember(filled)
        feed(filled, *(span for _, span in (*spans, *late)))
        run_backfill(filled, until_ns=until_ns, windows=None, step_ns=None, k=None)

        assert expected == window_values(filled)
    assert len(expected) > 200
    assert {None, "regression"} == {row[4] for row in expected}


TAGGED = CASES[0][1].replace('"turns"', '"tags": ["regression"], "turns"', 1)


def remember(engine: Engine) -> None:
    engine.runner.remember([TruthFile(name="cases.jsonl", text=TAGGED)], [])


@pytest.mark.slow
def test_live_ingestion_of_tau_airline_and_backfill_make_the_same_rows(
    tau: Path, tau_truth: dict[str, Any], tmp_path: Path
) -> None:
    limits = Limits.from_settings(ReceiveSettings())
    with gzip.open(tau / "spans.jsonl.gz") as file:
        spans = merge_batches(decode_document(line, limits) for line in file).spans
    truth = [[TruthFile(name=name, text=text) for name, text in tau_truth[kind]] for kind in ("cases", "labels")]
    settings: dict[str, Any] = {"windows": {"widths": ["24h", "48h", "n30"], "step_s": 3_600}}
    clock = Clock()
    with Engine(settings_for(tmp_path / "live.duckdb", **settings), create=True, clock=clock) as live:
        live.runner.remember(*truth)
        last_ns = max(span.end_ns for span in spans)
        until_ns = Collected(live, clock).replay(arrivals(spans), last_ns + DAY_NS, HOUR_NS // 2)
        expected = window_values(live)
    with Engine(settings_for(tmp_path / "filled.duckdb", **settings), create=True) as filled:
        ingest_files(filled, [str(tau / "spans.jsonl.gz")], lambda *_: None)
        filled.runner.remember(*truth)
        run_backfill(filled, until_ns=until_ns, windows=None, step_ns=None, k=None)

        assert expected == window_values(filled)
    assert len(expected) > 3_000


def arrivals(spans: Sequence[Span]) -> list[tuple[int, Span]]:
    return [(span.end_ns, span) for span in spans]


def test_a_backfill_in_a_collector_tells_how_far_it_is_and_what_it_did(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        fill_days(engine)
    with running(live_settings(db)) as (live, addresses):
        before = counters(addresses.admin)
        events = streamed(live_settings(db), windows=["6h"], step_ns=HOUR_NS, k=[1])

        assert ["scoring", "windows"] == list(dict.fromkeys(item["stage"] for item in events[:-1]))
        assert {"pass": 8, "fail": 4} == events[-1]["result"]["scoring"]["outcomes"]
        assert before == counters(addresses.admin)
        assert [(12,)] == rows(live.engine, "SELECT count(*) FROM results")
        assert rows(live.engine, "SELECT count(*) FROM windows") == [(events[-1]["result"]["windows"]["rows_changed"],)]
        again = streamed(live_settings(db), windows=["6h"], step_ns=HOUR_NS, k=[1])[-1]["result"]
        assert (True, 0) == (again["again"], again["windows"]["rows_changed"])


def counters(admin: str) -> list[str]:
    """Return the counters of evaluated conversations that a collector shows."""
    lines = httpx.get(f"{admin}/metrics").text.splitlines()
    return [line for line in lines if line.startswith("agentic_evaluation_conversations_total")]


def streamed(settings: Any, **arguments: Any) -> list[dict[str, Any]]:
    client = open_client(settings, server=None)
    try:
        return list(client.stream("backfill", **arguments))
    finally:
        client.close()


def test_what_just_closed_is_left_to_the_collector_which_counts_it(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        fill_days(engine, 3)
    with running(live_settings(db)) as (live, addresses), ExitStack() as held:
        held.enter_context(live.scoring_loop.lock)
        export(addresses, speak_genai(ask_hotel("fresh"), start_ns=just_now()).spans)
        eventually(lambda: rows(live.engine, "SELECT count(*) FROM conversations WHERE closed_by = 'idle'"), [(1,)])
        dry = streamed(live_settings(db), dry_run=True, windows=["7d"], step_ns=DAY_NS)[-1]["result"]
        assert 3 == dry["conversations"]["to_score"]
        held.close()

        eventually(lambda: len(counters(addresses.admin)), 1)
        assert [("fresh",)] == rows(live.engine, "SELECT conversation_id FROM results")


def test_spans_are_stored_while_a_backfill_is_under_way(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        fill_days(engine)
    with running(live_settings(db)) as (live, addresses):
        client = open_client(live_settings(db), server=None)
        steps = client.stream("backfill", windows=["24h"], step_ns=60 * SECOND_NS)
        next(steps)
        export(addresses, speak_genai(ask_hotel("meanwhile"), start_ns=just_now()).spans)

        assert rows(live.engine, "SELECT count(*) FROM spans WHERE conversation_id = 'meanwhile'") != [(0,)]
        assert list(steps)[-1]["result"]["finished"]
        client.close()


def test_a_collector_scores_in_its_own_process(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb")
    with running(settings), raises(UsageError, snapshot("scores in its own process")):
        ask(settings, "backfill", workers=2)
