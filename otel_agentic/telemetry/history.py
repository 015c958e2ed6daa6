"""Window gauges and evaluation events of the past, with original timestamps, over OTLP or as OpenMetrics."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agentic.errors import BackendError, BadInputError
from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import MAX_POINTS_PER_REQUEST, build_exporters, calm, loggable
from otel_agentic.telemetry.events import Evaluator, own_resource, own_version
from otel_agentic.telemetry.gauges import WindowPoints, points_of, samples_of_all, select
from otel_agentic.telemetry.names import Instrument, family_name, family_type, label_name
from otel_agentic.telemetry.observer import EventOptions, score_events

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes

    from otel_agentic.config import EmitSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore


class PastSample(NamedTuple):
    """One value of one series at the end of its window."""

    instrument: Instrument
    attributes: Attributes
    time_ns: int
    value: float


def past_samples(points: WindowPoints, emit: EmitSettings) -> Iterator[PastSample]:
    """Yield the gauges of window points by ascending end; the cap on groups applies at each end, as in live telemetry.

    Args:
        points: all points of some window ends, in any order.
        emit: the cap on groups, and the estimators to emit.
    """
    end_of = attrgetter("end_ns")
    for end_ns, points_at_end in groupby(sorted(points_of(points), key=end_of), key=end_of):
        selected_points = select(points_at_end, emit.max_groups).points
        for instrument, observation in samples_of_all(selected_points, emit.estimators):
            yield PastSample(instrument, observation.attributes, end_ns, observation.value)


#: Attempts to send one request; the exporter retries for `emit.timeout_s` in each of them.
TRIES: Final = 3
_WAIT_S: Final = 1.0

_logger = logging.getLogger(__name__)


class OtlpHistory:
    """Sends window points to a backend, with the end of their windows as time. Counters have no past values to send.

    The backend must accept points older than its newest, as Prometheus does within `out_of_order_time_window`.
    """

    needs_all_ends = False  # the backend keeps the points of earlier runs

    def __init__(self, emit: EmitSettings, endpoint: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Create the exporters; nothing is sent yet.

        Args:
            emit: transport, headers, TLS, limits, instance id; with the collector's instance id, past and live series are the same.
            endpoint: the backend, http(s)://host:port.
            sleep: waits some seconds.

        Raises:
            ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
        """
        self._emit = emit
        self._endpoint = loggable(endpoint)
        self._sleep = sleep
        self._rejected = 0
        self._exporters = build_exporters(emit, endpoint, partly={"metrics": self._record_rejection})
        self._resource = own_resource(emit.instance_id)
        self._scope = InstrumentationScope(names.SCOPE, own_version(), names.SCHEMA_URL)

    def send(self, points: WindowPoints) -> int:
        """Send the points of some window ends; return how many values the backend accepted.

        Sending the same points again is idempotent: series, times and values are the same.

        Raises:
            BackendError: the backend did not accept the points after some attempts.
        """
        sent, rejected_before = 0, self._rejected
        for batch in _batched(past_samples(points, self._emit), MAX_POINTS_PER_REQUEST):
            self._send(self._data(batch))
            sent += len(batch)
        return sent - (self._rejected - rejected_before)

    def finish(self) -> None:
        """Do nothing: every request has been answered."""

    def close(self) -> None:
        """Close the connection."""
        with calm():
            self._exporters.metrics.shutdown()
            self._exporters.logs.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types

    def _record_rejection(self, rejected: int, why: str) -> None:
        if not self._rejected:
            _logger.warning("telemetry backend %s rejected %d points of the past: %s", self._endpoint, rejected, why)
        self._rejected += rejected

    def _send(self, data: MetricsData) -> None:
        reason = self._refusal(data)
        for attempt in range(1, TRIES):
            if reason is None:
                return
            self._sleep(_WAIT_S * 2**attempt)
            reason = self._refusal(data)
        if reason is not None:
            raise BackendError(
                f"telemetry backend {self._endpoint} does not accept window points of the past ({TRIES} attempts): {reason}; "
                "is it running, and does it accept points out of order?"
            )

    def _refusal(self, data: MetricsData) -> str | None:
        """Send the data once; return the reason why the backend did not accept it, None if it did."""
        with calm() as messages:
            accepted = self._exporters.metrics.export(data) is MetricExportResult.SUCCESS
        if accepted:
            return None
        return messages[0] if messages else "no reason given"

    def _data(self, samples: Sequence[PastSample]) -> MetricsData:
        by_instrument: dict[Instrument, list[NumberDataPoint]] = {}
        for sample in samples:
            by_instrument.setdefault(sample.instrument, []).append(_point(sample))
        scope = ScopeMetrics(
            scope=self._scope,
            metrics=[_metric(instrument, points) for instrument, points in by_instrument.items()],
            schema_url=names.SCHEMA_URL,
        )
        resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url=names.SCHEMA_URL)
        return MetricsData(resource_metrics=[resource])


def _metric(instrument: Instrument, points: list[NumberDataPoint]) -> Metric:
    data = (
        Gauge(data_points=points)
        if instrument.kind == "observable_gauge"
        else Sum(data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE, is_monotonic=False)
    )
    return Metric(name=instrument.name, description=instrument.description, unit=instrument.unit, data=data)


def _point(sample: PastSample) -> NumberDataPoint:
    return NumberDataPoint(
        attributes=sample.attributes,
        start_time_unix_nano=0,  # unknown, as defined by OTLP
        time_unix_nano=sample.time_ns,
        value=sample.value,
    )


def _batched(samples: Iterable[PastSample], size: int) -> Iterator[list[PastSample]]:
    remaining = iter(samples)
    while batch := list(islice(remaining, size)):
        yield batch


#: The approximate number of events that wait and that a request contains; a few kilobytes each.
_EVENTS_PER_REQUEST: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """The number of events that a backend accepted and did not accept; `problem` is the reason of the last loss."""

    sent: int = 0
    lost: int = 0
    problem: str | None = None


class EventHistory:
    """Sends the events of scores synchronously, so that no event is dropped because of a full queue.

    After the first refused request, no further ones are sent: a backend that accepts no logs would delay each of them.
    """

    def __init__(self, emit: EmitSettings, endpoint: str, *, run_id: str) -> None:
        """Create the exporters; nothing is sent yet.

        Args:
            emit: transport, headers, TLS, limits, explanations, instance id.
            endpoint: the backend, http(s)://host:port.
            run_id: an attribute of every event, with `backfill` as trigger.

        Raises:
            ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
        """
        self._exporters = build_exporters(emit, endpoint, partly={"logs": self._record_rejection})
        self._waiting = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK leaves it without types
        provider = LoggerProvider(resource=own_resource(emit.instance_id), shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self._waiting))
        self._options = EventOptions(run_id=run_id, trigger="backfill", explanations=emit.explanations)
        self._logger = provider.get_logger(names.SCOPE, own_version(), names.SCHEMA_URL)
        self._refused = False
        self._sent = self._lost = 0
        self._problem: str | None = None

    @property
    def outcome(self) -> SentEvents:
        """The counts of all events so far."""
        return SentEvents(sent=self._sent, lost=self._lost, problem=self._problem)

    def send(self, scored: Iterable[tuple[Conversation, ConversationScore, Evaluator]]) -> None:
        """Send the events of some scored conversations, each with the end of its target as time. Never raises."""
        for conversation, score, evaluator in scored:
            for event in score_events(conversation, score, self._options, evaluator):
                event.emit(self._logger)
            if len(self._waiting.get_finished_logs()) >= _EVENTS_PER_REQUEST:
                self._flush()
        self._flush()

    def close(self) -> None:
        """Close the connection."""
        with calm():
            self._exporters.metrics.shutdown()
            self._exporters.logs.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types

    def _flush(self) -> None:
        waiting = self._waiting.get_finished_logs()
        self._waiting.clear()
        for start in range(0, len(waiting), _EVENTS_PER_REQUEST):
            records = waiting[start : start + _EVENTS_PER_REQUEST]
            if self._refused or not self._export(records):
                self._refused = True
                self._lost += len(records)
            else:
                self._sent += len(records)

    def _export(self, records: Sequence[ReadableLogRecord]) -> bool:
        with calm() as messages:
            try:
                accepted = self._exporters.logs.export(records) is LogRecordExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001 — lost events are reported; windows must not be lost with them
                messages.append(f"{type(error).__name__}: {error}")
                accepted = False
        if not accepted:
            self._problem = messages[0] if messages else "no reason given"
        return accepted

    def _record_rejection(self, rejected: int, why: str) -> None:
        self._sent -= rejected
        self._lost += rejected
        self._problem = why or "no reason given"


_NS_PER_S: Final = 1_000_000_000
#: The number of series whose ids are cached.
_MAX_CACHED_IDS: Final = 200_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, family INTEGER NOT NULL, labels TEXT NOT NULL, UNIQUE (family, labels)
);
CREATE TABLE IF NOT EXISTS samples (
    series INTEGER NOT NULL, time_ns INTEGER NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, time_ns)
) WITHOUT ROWID;
"""
_SORTED: Final = """
SELECT s.family, s.labels, p.time_ns, p.value
FROM series s JOIN samples p ON p.series = s.id
ORDER BY s.family, s.labels, p.time_ns
"""
#: Escapes of the characters that would end a label value or a line.
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class OpenMetricsHistory:
    """Collects window points and writes them as one file, grouped by family, each series in order of time.

    `promtool tsdb create-blocks-from openmetrics` loads the file into Prometheus.

    Windows are computed range by range with all their series, while the format requires series by series. Values are
    therefore stored in a scratch file next to the target, an SQLite database, and memory stays bounded. If the process
    is killed, the next one with the same path resumes.
    """

    needs_all_ends = True  # the file appears when it is complete

    def __init__(self, path: Path, emit: EmitSettings, *, labels: Mapping[str, str] | None = None) -> None:
        """Open the scratch file.

        Args:
            path: the file to be written.
            emit: the cap on groups, and the estimators to emit.
            labels: labels of every series, such as `job` and `instance` of the live series.

        Raises:
            BadInputError: the scratch file cannot be used.
        """
        self.path = path
        self._emit = emit
        self._labels = dict(labels or {})
        self._scratch = path.with_name(path.name + ".parts")
        self._ids: dict[tuple[int, str], int] = {}
        self._con = _open_scratch(self._scratch)

    def send(self, points: WindowPoints) -> int:
        """Store the points of some window ends durably; return the number of their values.

        Existing points of the same group, window and end are replaced, so sending is idempotent.
        """
        rows = [
            (self._series(sample), sample.time_ns, float(sample.value)) for sample in past_samples(points, self._emit)
        ]
        try:
            with self._con:
                self._con.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", rows)
        except BaseException:
            self._ids.clear()  # the rollback also removed the series that were new
            raise
        return len(rows)

    def finish(self) -> Path:
        """Write the file atomically, remove the scratch file, and return the path."""
        temporary_path = self.path.with_name(self.path.name + ".tmp")
        with temporary_path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._lines())
            file.flush()
            os.fsync(file.fileno())
        temporary_path.replace(self.path)
        self.close()
        self._scratch.unlink()
        return self.path

    def close(self) -> None:
        """Close the scratch file; the stored points stay in it."""
        self._con.close()

    def _series(self, sample: PastSample) -> int:
        family = names.WINDOW_INSTRUMENTS.index(sample.instrument)
        attributes = {label_name(name): str(value) for name, value in (sample.attributes or {}).items()}
        key = (family, _label_set({**self._labels, **attributes}))
        if key not in self._ids:
            if len(self._ids) >= _MAX_CACHED_IDS:
                self._ids.clear()
            self._con.execute("INSERT OR IGNORE INTO series (family, labels) VALUES (?, ?)", key)
            cursor = self._con.execute("SELECT id FROM series WHERE family = ? AND labels = ?", key)
            self._ids[key] = cursor.fetchone()[0]
        return self._ids[key]

    def _lines(self) -> Iterator[str]:
        current = None
        for family, labels, time_ns, value in self._con.execute(_SORTED):
            instrument = names.WINDOW_INSTRUMENTS[family]
            if family != current:
                current = family
                yield from _head(instrument)
            yield f"{family_name(instrument)}{labels} {value!r} {_seconds(time_ns)}\n"
        yield "# EOF\n"


def _open_scratch(scratch: Path) -> sqlite3.Connection:
    con = None
    try:
        con = sqlite3.connect(scratch, check_same_thread=False)
        con.executescript(_SCHEMA)
    except sqlite3.Error as error:
        if con is not None:
            con.close()
        raise BadInputError(
            f"{scratch}: cannot be used as the scratch file of {scratch.stem}: {error}; remove it, or choose another path"
        ) from error
    return con


def _head(instrument: Instrument) -> Iterator[str]:
    name = family_name(instrument)
    yield f"# HELP {name} {instrument.description.translate(_ESCAPES)}\n"
    yield f"# TYPE {name} {family_type(instrument)}\n"


def _label_set(labels: Mapping[str, str]) -> str:
    r"""Return labels in the text format, as they follow a series name.

    >>> print(_label_set({"agent": 'the "best"'}))
    {agent="the \"best\""}
    """
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(labels.items())) + "}"


def _seconds(time_ns: int) -> str:
    """Return nanoseconds as seconds, exactly.

    >>> _seconds(1_500_000_000), _seconds(2_000_000_000)
    ('1.500000000', '2')
    """
    seconds, fraction_ns = divmod(time_ns, _NS_PER_S)
    return f"{seconds}.{fraction_ns:09}" if fraction_ns else str(seconds)
