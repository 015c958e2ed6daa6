"""Which of the messages that take long is given up where too many do."""

from __future__ import annotations

import asyncio

import pytest

from collectors._admission import Receptions
from otel_agentic.errors import OverloadedError


async def receive(receptions: Receptions, peer: str, takes_s: float) -> str:
    """Return the outcome of a message that takes so long."""
    try:
        await receptions.receive(peer, lambda: asyncio.sleep(takes_s))
    except OverloadedError:
        return "given up"
    except TimeoutError:
        return "late"
    return "received"


def test_any_number_of_short_ones_is_received() -> None:
    async def scene() -> list[str]:
        receptions = Receptions(5, most_long=1)
        return await asyncio.gather(*(receive(receptions, str(n), 0.001) for n in range(200)))

    assert ["received"] * 200 == asyncio.run(scene())


def test_of_long_ones_the_oldest_of_unknown_peers_goes_first() -> None:
    async def scene() -> list[str]:
        receptions = Receptions(5, most_long=2)
        assert "received" == await receive(receptions, "known", 0)
        return await asyncio.gather(*(receive(receptions, peer, 0.4) for peer in ("known", "old", "older", "new")))

    assert ["received", "given up", "given up", "received"] == asyncio.run(scene())


def test_of_known_peers_the_one_that_came_last_goes() -> None:
    async def scene() -> list[str]:
        receptions = Receptions(5, most_long=2)
        for peer in "abc":
            await receive(receptions, peer, 0)
        return await asyncio.gather(*(receive(receptions, peer, 0.4) for peer in "abc"))

    assert ["received", "received", "given up"] == asyncio.run(scene())


def test_a_message_has_a_deadline() -> None:
    async def scene() -> list[str]:
        receptions = Receptions(0.1)
        return [await receive(receptions, "a", 1.0), await receive(receptions, "a", 0)]

    assert ["late", "received"] == asyncio.run(scene())


def test_who_is_cancelled_from_outside_stays_cancelled() -> None:
    async def scene() -> None:
        receptions = Receptions(5)
        task = asyncio.ensure_future(receive(receptions, "a", 1.0))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scene())
