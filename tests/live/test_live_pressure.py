"""Background work gives way to what receives spans, and never stops for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agentic.config import ConversationSettings, Settings, StoreSettings
from otel_agentic.engine.engine import Engine, Pressure
from otel_agentic.live import assembler as assembling
from otel_agentic.live.assembler import Assembler
from otel_agentic.testing import batch, span


class Clock:
    """A clock that a test sets, seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Waiting:
    """A clock that advances while each sender waits so long (0: no senders), and a stop after some waits."""

    def __init__(self, clock: Clock, pressure: Pressure, senders_wait_s: float, stop_after: int = 10_000) -> None:
        self._clock, self._pressure = clock, pressure
        self._senders_wait_s, self._left = senders_wait_s, stop_after

    def wait(self, timeout: float) -> bool:
        self._clock.now_s += timeout
        if self._senders_wait_s:
            wait(self._pressure, self._senders_wait_s)
        self._left -= 1
        return self._left <= 0


def wait(pressure: Pressure, delay_s: float) -> None:
    """Report a sender that waited so long."""
    pressure.arrived()
    pressure.answered(delay_s)


def rested_s(pressure: Pressure, clock: Clock, worked_s: float, senders_wait_s: float = 0.0) -> float:
    """Return how long a rest after so much work takes."""
    began_s = clock.now_s
    pressure.rest(worked_s, Waiting(clock, pressure, senders_wait_s))
    return clock.now_s - began_s


def wait_of(pressure: Pressure, clock: Clock, delay_s: float, looks: int) -> float:
    """Return the share after senders waited so long, each time the share was looked at."""
    for _ in range(looks):
        wait(pressure, delay_s)
        clock.now_s += 0.3
        wait(pressure, delay_s)
    return pressure.share


def test_background_work_has_all_the_time_without_senders() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    assert (1.0, 0.0) == (pressure.share, rested_s(pressure, clock, 3.0))


def test_late_acknowledgements_cut_the_share_in_half_each_time_they_are_looked_at() -> None:
    clock = Clock()
    assert 0.125 == wait_of(Pressure(clock), clock, 0.3, 3)


def test_the_share_never_falls_to_nothing() -> None:
    clock = Clock()
    assert 0.02 == wait_of(Pressure(clock), clock, 5.0, 50)


def test_quick_acknowledgements_give_the_share_back_step_by_step() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    wait_of(pressure, clock, 0.3, 3)
    assert pytest.approx(0.225) == wait_of(pressure, clock, 0.001, 2)
    assert 1.0 == wait_of(pressure, clock, 0.001, 40)


def test_a_share_that_was_cut_is_whole_again_when_senders_fall_silent() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    wait_of(pressure, clock, 5.0, 9)
    clock.now_s += 0.3  # the last wait is looked at
    _ = pressure.share
    clock.now_s += 0.3
    assert 1.0 == pressure.share


def test_senders_who_all_wait_and_are_not_answered_are_not_taken_for_silence() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    pressure.arrived()
    shares = []
    for _ in range(3):
        clock.now_s += 0.3
        shares.append(pressure.share)
    assert [0.5, 0.25, 0.125] == shares


def test_a_sender_who_has_only_just_come_is_not_late() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    clock.now_s += 0.3
    pressure.arrived()
    assert 1.0 == pressure.share


def test_rest_keeps_work_to_the_least_share_while_senders_wait_for_long() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    wait_of(pressure, clock, 0.3, 2)
    assert pytest.approx(9.8) == rested_s(pressure, clock, 0.2, senders_wait_s=0.3)


def test_rest_ends_when_senders_fall_silent() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    wait_of(pressure, clock, 5.0, 9)
    assert rested_s(pressure, clock, 1.0) <= 1.0


def test_rest_ends_at_a_stop() -> None:
    clock = Clock()
    pressure = Pressure(clock)
    wait_of(pressure, clock, 5.0, 9)
    began_s = clock.now_s
    pressure.rest(60.0, Waiting(clock, pressure, 5.0, stop_after=2))
    assert clock.now_s - began_s <= 0.5


def test_traces_too_many_to_remember_are_found_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembling, "_MAX_ARRIVED", 3)
    timers = ConversationSettings(turn_idle_s=0.001, idle_s=0.001, idle_without_id_s=0.001)
    settings = Settings(store=StoreSettings(db=tmp_path / "many.duckdb"), conversations=timers)
    with Engine(settings, create=True) as engine:
        watching = Assembler(engine, lambda _: None)
        engine.store.listen(watching.arrived)
        for number in range(10):
            attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": f"c{number}"}
            engine.store.accept(batch(span(trace=f"trace {number}", attributes=attributes)))
        for _ in range(8):
            watching.tick()
        with engine.store.read() as con:
            result = con.execute("SELECT count(*) FROM conversations").fetchall()
    assert [(10,)] == result
