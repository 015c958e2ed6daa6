"""The load that two cores hold, sent by another process over loopback. `python -m benchmarks.load` prints the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks.load import hold
from benchmarks.sender import Load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_MIB: Final = 2**20
_MOST_MEMORY_BYTES: Final = 600 * _MIB
#: With as many bodies in progress as the limits allow.
_MOST_MEMORY_OVERLOADED_BYTES: Final = 800 * _MIB


def load(*, rate: float, seconds: float, batch: int, connections: int, retry: bool = True) -> Load:
    return Load(
        host="", port=0, rate=rate, seconds=seconds, batch=batch, connections=connections, span_bytes=2_000, retry=retry
    )


def test_ten_thousand_spans_a_second_for_five_minutes_are_acknowledged_quickly_and_stored_once(tmp_path: Path) -> None:
    held = hold(tmp_path, load(rate=10_000, seconds=300, batch=512, connections=8))
    sent = held.sent
    assert (sent.spans_sent, sent.spans_sent, 0) == (sent.spans_acknowledged, held.stored, held.twice)
    assert held.largest_memory_bytes <= _MOST_MEMORY_BYTES


def test_a_request_for_every_span_at_two_thousand_a_second_is_held(tmp_path: Path) -> None:
    held = hold(tmp_path, load(rate=2_000, seconds=60, batch=1, connections=32))
    sent = held.sent
    assert (sent.spans_sent, sent.spans_sent, 0) == (sent.spans_acknowledged, held.stored, held.twice)
    assert held.largest_memory_bytes <= _MOST_MEMORY_BYTES


def test_three_times_too_much_for_a_minute_is_refused_properly_and_what_is_accepted_is_stored(tmp_path: Path) -> None:
    held = hold(tmp_path, load(rate=30_000, seconds=60, batch=512, connections=96, retry=False))
    sent = held.sent
    assert "200" in sent.statuses
    assert set() == sent.statuses.keys() - {"200", "429", "503"}
    assert 0 == sent.refusals_without_hint
    assert sent.statuses.keys() - {"200"}  # 96 MB in progress are more than the limits allow
    assert (sent.spans_acknowledged, 0) == (held.stored, held.twice)
    assert held.largest_memory_bytes <= _MOST_MEMORY_OVERLOADED_BYTES
