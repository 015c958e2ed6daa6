"""Where the points of a backfill go, besides the table `windows`."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from otel_agentic.errors import UsageError
from otel_agentic.telemetry import OpenMetricsHistory, OtlpHistory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_agentic.config import EmitSettings
    from otel_agentic.pipeline.backfill.plan import Asked
    from otel_agentic.windows.columns import WindowTable


class PointSink(Protocol):
    """Takes the points of some window ends after the other, in order of time."""

    @property
    def wants_points(self) -> bool:
        """Whether it takes any."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it wants every end in each run, as a file does; else what was sent before stays where it is."""
        ...

    def send(self, table: WindowTable) -> int:
        """Return how many points were taken, once they are.

        Raises:
            BackendError: the backend did not take them.
        """
        ...

    def finish(self) -> None:
        """Take notice that there are no more."""
        ...


class NoSink:
    """Takes nothing: the rows are enough."""

    wants_points = False
    whole = False

    def send(self, table: WindowTable) -> int:  # noqa: ARG002 — the protocol
        """Return 0."""
        return 0

    def finish(self) -> None:
        """Do nothing."""


class OtlpSink:
    """Sends points to an OTLP endpoint, with the ends of their windows as timestamps."""

    wants_points = True
    whole = False

    def __init__(self, history: OtlpHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Return how many points the backend took."""
        return self._history.send(table)

    def finish(self) -> None:
        """Do nothing: what was sent was answered."""


class OpenMetricsSink:
    """Writes points to a file for `promtool tsdb create-blocks-from openmetrics`; the file is there once it is whole."""

    wants_points = True
    whole = True

    def __init__(self, history: OpenMetricsHistory) -> None:
        self._history = history

    def send(self, table: WindowTable) -> int:
        """Return how many points were put by."""
        return self._history.add(table)

    def finish(self) -> None:
        """Write the file."""
        self._history.finish()


@contextmanager
def sink_of(asked: Asked, emit: EmitSettings, out: Path | None) -> Iterator[PointSink]:
    """Lend the sink that a backfill asks for, and close it.

    Raises:
        UsageError: an endpoint, or a file, is missing.
        ConfigError: the endpoint is not http(s)://host:port.
    """
    if asked.emit == "none":
        yield NoSink()
    elif asked.emit == "otlp":
        with closing(OtlpHistory(emit, endpoint_of(asked, emit))) as history:
            yield OtlpSink(history)
    else:
        if out is None:
            raise UsageError("emit openmetrics: name the file to write")
        with closing(OpenMetricsHistory(out, emit, labels=asked.labels)) as file:
            yield OpenMetricsSink(file)


def endpoint_of(asked: Asked, emit: EmitSettings) -> str:
    """Return the OTLP endpoint of a backfill.

    Raises:
        UsageError: there is none.
    """
    endpoint = asked.endpoint or emit.endpoint
    if endpoint is None:
        raise UsageError("--emit otlp: give --endpoint http(s)://host:port, or set emit.endpoint")
    return endpoint
