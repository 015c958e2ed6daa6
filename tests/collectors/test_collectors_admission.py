"""Requests in progress on one transport are counted until they end, regardless of their callers."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from inline_snapshot import snapshot

from collectors._admission import Admission, HeldTooMuchError, Holding, status_of
from otel_agentic.config import ReceiveSettings
from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.spans import Receipt, SpanBatch
from tests.snapshots import raises

Begun = tuple[SpanBatch, Future[Receipt]]
SETTINGS = ReceiveSettings(max_request_bytes=100, max_concurrent_requests=1)  # 400 bytes, two requests


def stored() -> Begun:
    """Return the receipt of a sink that stores an empty batch at once."""
    receipt: Future[Receipt] = Future()
    receipt.set_result(Receipt())
    return SpanBatch(), receipt


async def _abandoned(admission: Admission, executor: ThreadPoolExecutor, go: threading.Event) -> None:
    """Begin work that waits for `go` and then holds 300 bytes, and be cancelled while it does."""
    begun = threading.Event()

    def begin(holding: Holding) -> Begun:
        begun.set()
        go.wait(5)
        holding.add(300)
        return stored()

    async def request() -> None:
        with admission.holding() as holding:
            holding.add(100)
            await admission.run(executor, lambda: begin(holding), holding)

    task = asyncio.create_task(request())
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_request_whose_sender_went_away_lets_go_of_all_that_it_held() -> None:
    admission, go = Admission(SETTINGS), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        asyncio.run(_abandoned(admission, executor, go))
        go.set()
    admission.check(400)


def test_it_counts_until_its_work_is_done() -> None:
    admission, go = Admission(SETTINGS), threading.Event()
    with ThreadPoolExecutor(2) as executor:
        for _ in range(2):
            asyncio.run(_abandoned(admission, executor, go))
        with raises(OverloadedError, snapshot("2 requests are running")):
            admission.check()
        go.set()
    admission.check()


@pytest.mark.parametrize(("held", "message"), [(400, "a moment ago"), (401, None)], ids=["the store", "memory"])
def test_only_a_full_store_has_others_refused_for_a_moment(held: int, message: str | None) -> None:
    admission = Admission(SETTINGS, clock=lambda: 1.0)

    async def request() -> None:
        def begin() -> Begun:
            holding.add(held)
            raise OverloadedError("the queue is full")

        with admission.holding() as holding:
            await admission.run(executor, begin, holding)

    with ThreadPoolExecutor(1) as executor, pytest.raises(OverloadedError):
        asyncio.run(request())
    if message is None:
        admission.check()
    else:
        with pytest.raises(OverloadedError, match=message):
            admission.check()


def test_work_that_never_began_lets_go_too() -> None:
    admission, go = Admission(SETTINGS), threading.Event()

    async def request() -> None:
        with admission.holding() as holding:
            holding.add(300)
            await admission.run(executor, stored, holding)

    async def queued() -> None:
        task = asyncio.create_task(request())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    with ThreadPoolExecutor(1) as executor:
        executor.submit(go.wait, 5)
        asyncio.run(queued())
        admission.check(400)
        go.set()


@pytest.mark.parametrize("where", ["here", "on a thread"])
def test_a_request_counts_until_the_sink_has_stored_it_and_fails_as_that_does(where: str) -> None:
    admission, receipt = Admission(SETTINGS), Future[Receipt]()

    async def request() -> None:
        with admission.holding() as holding:
            holding.add(300)
            await admission.run(executor if where == "on a thread" else None, lambda: (SpanBatch(), receipt), holding)

    async def waiting() -> None:
        task = asyncio.create_task(request())
        await asyncio.sleep(0.05)
        with pytest.raises(HeldTooMuchError):
            admission.check(200)
        receipt.set_exception(StoreUnusableError("the disk is full"))
        with raises(StoreUnusableError, snapshot("the disk is full")):
            await task

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(waiting())
    with pytest.raises(OverloadedError, match="a moment ago"):
        admission.check(200)


def test_a_request_without_a_free_thread_is_refused_for_a_moment() -> None:
    admission, executor = Admission(SETTINGS), ThreadPoolExecutor(1)
    executor.shutdown()

    async def request() -> None:
        with admission.holding() as holding:
            await admission.run(executor, stored, holding)

    with pytest.raises(OverloadedError, match="is stopping"):
        asyncio.run(request())


def test_work_that_waits_for_a_thread_when_these_end_is_refused_for_a_moment() -> None:
    admission, executor, go = Admission(SETTINGS), ThreadPoolExecutor(1), threading.Event()
    executor.submit(go.wait, 5)

    async def request() -> None:
        with admission.holding() as holding:
            await admission.run(executor, stored, holding)

    async def stopped() -> None:
        task = asyncio.create_task(request())
        await asyncio.sleep(0.05)
        executor.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(OverloadedError, match="is stopping"):
            await task

    try:
        asyncio.run(stopped())
    finally:
        go.set()
        executor.shutdown()


@contextmanager
def freeing_batches() -> Iterator[None]:
    """Check that the block leaves no batch in memory, without the collector of cyclic garbage."""

    def batches() -> int:
        return sum(type(tracked) is SpanBatch for tracked in gc.get_objects())

    gc.collect()
    before = batches()
    gc.disable()
    try:
        yield
        assert before == batches()
    finally:
        gc.enable()


@pytest.mark.parametrize("where", ["here", "on a thread"])
@pytest.mark.parametrize("refusal", [None, OverloadedError("the queue is full")])
def test_a_batch_is_freed_with_the_response(where: str, refusal: Exception | None) -> None:
    admission = Admission(SETTINGS)

    def begin() -> Begun:
        batch, receipt = stored()
        if refusal is not None:
            raise refusal
        return batch, receipt

    async def request() -> None:
        try:
            with admission.holding() as holding:
                await admission.run(executor if where == "on a thread" else None, begin, holding)
        except OverloadedError as error:
            status_of(error)

    with ThreadPoolExecutor(1) as executor, freeing_batches():
        asyncio.run(request())


def test_the_batch_of_a_sender_that_went_away_is_freed_once_it_is_stored() -> None:
    go = threading.Event()
    with freeing_batches(), ThreadPoolExecutor(1) as executor:
        asyncio.run(_abandoned(Admission(SETTINGS), executor, go))
        go.set()
