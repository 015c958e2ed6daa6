"""Telemetry that sends to a loopback receiver, shut down after each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from otel_agentic.config import EmitSettings
from otel_agentic.telemetry import Evaluator, Telemetry
from tests.telemetry.receiver.over_http import HttpReceiver, http_receiver

if TYPE_CHECKING:
    from otel_agentic.telemetry import Trigger


class MakeTelemetry(Protocol):
    """Builds telemetry for a test."""

    def __call__(
        self,
        endpoint: str | None = None,
        *,
        trigger: Trigger = "online",
        evaluator: Evaluator | None = None,
        **emit: Any,
    ) -> Telemetry: ...


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    """A receiver that takes everything."""
    with http_receiver() as server:
        yield server


@pytest.fixture
def make_telemetry(receiver: HttpReceiver) -> Iterator[MakeTelemetry]:
    """Build telemetry that pushes only when it is flushed; shut down while the receiver still listens."""
    telemetries: list[Telemetry] = []

    def make(
        endpoint: str | None = None, *, trigger: Trigger = "online", evaluator: Evaluator | None = None, **emit: Any
    ) -> Telemetry:
        settings = EmitSettings.model_validate({"endpoint": endpoint, "interval_s": 60.0, "timeout_s": 5.0, **emit})
        telemetry = Telemetry.from_settings(settings, run_id="run-1", trigger=trigger, evaluator=evaluator)
        telemetries.append(telemetry)
        return telemetry

    yield make
    for telemetry in telemetries:
        telemetry.shutdown(2.0)


@pytest.fixture
def telemetry(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> Telemetry:
    """Telemetry that sends to `receiver`."""
    return make_telemetry(receiver.endpoint)
