"""The telemetry: metrics with type, unit and attributes, and events with attributes, as a real collector exports them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import external_file

from otel_agentic.telemetry.names import INSTRUMENTS
from tests.live.running_collector import eventually
from tests.telemetry.collecting import collecting, converse
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from tests.telemetry.receiver.received import Received


def test_metrics_and_events_are_the_golden_ones(tmp_path: Path) -> None:
    expected = {instrument.name for instrument in INSTRUMENTS}
    with (
        http_receiver() as receiver,
        collecting(tmp_path, emit={"endpoint": receiver.endpoint, "interval_s": 0.2, "events": "all"}) as collector,
    ):
        converse(*collector)
        eventually(lambda: expected - _exported(receiver.received), set())
    assert "\n".join([*_metrics(receiver.received), *_events(receiver.received), ""]) == external_file(
        "golden/telemetry.txt"
    )


def _exported(received: Received) -> set[str]:
    return set(received.by_name()) if received.metrics else set()


def _metrics(received: Received) -> list[str]:
    """Return a line for each metric: its kind and unit, and the attributes that any point had."""
    lines = []
    for name, metric in sorted(received.by_name().items()):
        keys = sorted({key for attributes, _ in received.points(name) for key in attributes})
        lines.append(f"metric {name}: {metric.WhichOneof('data')}, unit {metric.unit}, attributes {', '.join(keys)}")
    return lines


def _events(received: Received) -> list[str]:
    keys: dict[str, set[str]] = defaultdict(set)
    for attributes, record in received.events():
        keys[record.event_name] |= attributes.keys()
    return [f"event {name}: attributes {', '.join(sorted(keys[name]))}" for name in sorted(keys)]
