"""Many questions at once: limits, order, cancelling, loops and threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pytest
from inline_snapshot import snapshot
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_agentic.judges import Question, Verdict, chat_models
from tests.judges.models import Bare, Blocking, Slow, fields_of, verdict
from tests.judges.parts import Answer, question, questions
from tests.judges.scripted_judges import failed, judge_of


def test_as_many_calls_run_at_once_as_the_settings_allow_and_no_more() -> None:
    model = Slow(takes_s=0.01)
    judge_of(model, concurrency=5).judge(questions(40))
    assert 5 == model.at_once[1]


def test_a_model_without_an_asynchronous_client_is_asked_by_64_threads_at_once() -> None:
    model = Blocking(barrier=threading.Barrier(64))  # each call waits until 64 are in progress
    answers = judge_of(model, concurrency=64).judge(questions(64))
    assert {"Verdict"} == {type(item).__name__ for item in answers}


def test_two_streams_share_the_limit() -> None:
    model = Slow(takes_s=0.005)
    judge = judge_of(model, concurrency=3)
    threads = [threading.Thread(target=judge.judge, args=(questions(20),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 40 == len(model.requests)
    assert 3 == model.at_once[1]


def test_threads_that_ask_first_at_the_same_moment_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def started_slowly(_: int) -> chat_models.Background:
        time.sleep(0.05)
        return chat_models.Background()

    monkeypatch.setattr(chat_models, "_of_process", cache(started_slowly))
    loops: list[chat_models.Background] = []
    threads = [threading.Thread(target=lambda: loops.append(chat_models.shared())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for loop in loops:
        loop.close()

    assert [loops[0]] * 4 == loops


def test_questions_are_taken_as_calls_may_start() -> None:
    selected: list[int] = []

    def source() -> Iterator[tuple[int, Question]]:
        for number, item in enumerate(questions(1_000)):
            selected.append(number)
            yield number, item

    stream = judge_of(Slow(takes_s=0.001), concurrency=8).stream(source())
    assert 10 == len(list(islice(stream, 10)))
    assert len(selected) <= 10 + 8 + 1
    stream.close()


def test_verdicts_come_as_they_are_ready() -> None:
    first, second = question("first"), question("second")
    late = threading.Event()

    def say(human: str, _: str) -> str:
        if fields_of(human)["answer"] == "first":
            late.wait(20)
        return verdict()

    stream = judge_of(Bare(say=say), concurrency=2).stream(enumerate([first, second]))
    assert 1 == next(stream)[0]
    late.set()
    assert [0] == [number for number, _ in stream]


def test_closing_a_stream_cancels_what_is_under_way() -> None:
    model = Slow(takes_s=3600)
    judge = judge_of(model, concurrency=4, timeout_s=7200)
    stream = judge.stream((number, item) for number, item in enumerate([*questions(1), *questions(9)]))
    waiting = threading.Thread(target=lambda: next(stream, None))
    waiting.start()
    _until(lambda: 4 == model.at_once[0])
    judge.close()
    waiting.join(20)
    stream.close()
    _until(lambda: 0 == model.at_once[0])
    assert 4 == len(model.cancelled)


def test_an_interrupt_leaves_nothing_running() -> None:
    model = Slow(takes_s=3600)

    def interrupted() -> Iterator[tuple[int, Question]]:
        yield from enumerate(questions(2))
        _until(lambda: 2 == model.at_once[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(judge_of(model, concurrency=4, timeout_s=7200).stream(interrupted()))
    _until(lambda: 0 == model.at_once[0])


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_closed_judge_says_so() -> None:
    judge = judge_of(Bare())
    judge.close()
    judge.close()
    assert failed(judge.judge([question()])).message == snapshot("the judge is closed")


def test_it_works_where_a_loop_is_running() -> None:
    async def notebook() -> list[Answer]:
        return judge_of(Slow(takes_s=0.001)).judge(questions(3))

    assert 3 == sum(isinstance(item, Verdict) for item in asyncio.run(notebook()))


def test_calls_start_no_faster_than_the_settings_allow() -> None:
    model = Slow()
    began = time.monotonic()
    judge_of(model, requests_per_second=100).judge(questions(6))
    assert time.monotonic() - began >= 5 / 100
    assert 6 == len(model.requests)


def test_its_calls_are_no_spans_of_an_agent() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    model, instrumentor = Bare(say=lambda *_: verdict()), LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        model.invoke("an agent's own call")
        judge_of(model).judge(questions(3))
    finally:
        instrumentor.uninstrument()
    assert 4 == len(model.requests)
    assert 1 == len(exporter.get_finished_spans())
