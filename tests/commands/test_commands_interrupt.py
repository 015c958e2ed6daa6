"""The first Ctrl-C ends a long command well, the second at once; who stops taking answers has the judge stop, too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands.evaluation import stop_on_interrupt
from otel_agentic.errors import StoreUnusableError
from otel_agentic.evaluation.judge_runs import _prefetched
from otel_agentic.judges import Verdict

if TYPE_CHECKING:
    from tests.judges.parts import Answer


def test_the_first_interrupt_asks_for_an_end_and_the_second_takes_it(caplog: pytest.LogCaptureFixture) -> None:
    stop, before = threading.Event(), signal.getsignal(signal.SIGINT)

    with stop_on_interrupt(stop):
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert before == signal.getsignal(signal.SIGINT)
    assert [record.message for record in caplog.records] == snapshot(
        ["stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once"]
    )


def test_without_an_interrupt_everything_is_as_before() -> None:
    stop, before = threading.Event(), signal.getsignal(signal.SIGINT)
    with stop_on_interrupt(stop):
        pass

    assert (False, before) == (stop.is_set(), signal.getsignal(signal.SIGINT))


def test_in_another_thread_signals_are_left_alone() -> None:
    def inside() -> object:
        with stop_on_interrupt(threading.Event()):
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(inside).result() == signal.getsignal(signal.SIGINT)


def answers(closed: threading.Event, fails: Exception | None = None) -> Generator[tuple[int, Answer], None, None]:
    try:
        yield from ((number, Verdict(score=1.0, reasoning="")) for number in range(3))
        if fails is not None:
            raise fails
        while True:
            yield 3, Verdict(score=1.0, reasoning="")
    finally:
        closed.set()


def test_who_takes_no_more_answers_ends_the_asking() -> None:
    closed = threading.Event()
    sampled = _prefetched(answers(closed))
    next(sampled)
    sampled.close()  # type: ignore[attr-defined]  # it is a generator

    assert closed.wait(10)


def test_what_fails_while_asking_fails_where_the_answers_are_taken() -> None:
    sampled = _prefetched(answers(threading.Event(), StoreUnusableError("no space left")))

    assert [0, 1, 2] == [next(sampled)[0] for _ in range(3)]
    with pytest.raises(StoreUnusableError, match="no space left"):
        next(sampled)
