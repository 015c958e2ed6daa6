"""The `Telemetry` facade, and its counters and histograms of results, judges and the collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from opentelemetry.metrics import Counter, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider, TraceBasedExemplarFilter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agentic.judges.base import JudgeFailure, Verdict
from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import Backend
from otel_agentic.telemetry.events import (
    ConversationResult,
    ConversationResults,
    Evaluator,
    label,
    own_resource,
    own_version,
)
from otel_agentic.telemetry.gauges import Scrape, WindowGauges, WindowPoints, create
from otel_agentic.telemetry.histograms import Histograms
from otel_agentic.telemetry.observations import NO_SPAN, Observations, Series
from otel_agentic.telemetry.observer import EventOptions, Observer, Trigger

if TYPE_CHECKING:
    from otel_agentic.config import EmitSettings
    from otel_agentic.spans.model import Receipt
    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.windows.objectives import ObjectivePoint


#: The counters of results.
_RESULTS: Final = (
    names.EVALUATED_CONVERSATIONS, names.EVALUATED_TURNS, names.EVALUATED_TOOL_CALLS, names.METRIC_RESULTS
)  # fmt: skip


class RunningMetrics:
    """The counters and histograms of scored conversations and received spans. Thread-safe; never blocks on a backend.

    Exemplars lead to the evaluated spans.
    """

    def __init__(
        self, meter: Meter, histograms: Histograms, *, max_tool_names: int, groups_dropped: Callable[[], int]
    ) -> None:
        self._histograms = histograms
        self._results: Mapping[Instrument, Counter] = {item: create(meter, item) for item in _RESULTS}
        self._spans: Counter = create(meter, names.INGEST_SPANS)
        self._late: Counter = create(meter, names.LATE_SPANS)
        self._tool_names = _ToolNames(max_tool_names)
        self._open = 0
        create(meter, names.GROUPS_DROPPED, lambda: [Observation(groups_dropped())])
        create(meter, names.CONVERSATIONS_OPEN, lambda: [Observation(self._open)])
        self._begin_at_zero()

    def record(self, observations: Observations) -> None:
        """Record counts and values of results."""
        for (instrument, attributes), (count, span) in observations.counts.items():
            self._results[instrument].add(count, self._tool_names.capped(dict(attributes)), context=span.context)
        for (instrument, attributes), values in observations.values.items():
            self._histograms.record(instrument, attributes, values)

    def record_receipt(self, receipt: Receipt) -> None:
        """Count the spans of one accepted request."""
        for result in ("accepted", "duplicate", "ignored"):
            if count := getattr(
                receipt, result
            ):  # most counts are 0, and each addition costs as much as decoding a small span
                self._spans.add(count, {names.RESULT: result})
        for reason, count in _rejected(receipt).items():
            attributes = {names.RESULT: "rejected", **({names.REASON: label(reason)} if reason else {})}
            self._spans.add(count, attributes)

    def record_late(self, n: int) -> None:
        """Count spans that arrived after their conversation closed."""
        self._late.add(n)

    def record_delays(self, stage: str, delays_s: Iterable[float]) -> None:
        """Record the seconds between the ends of conversations and the completion of a stage."""
        observations = Observations()
        for delay_s in delays_s:
            observations.measure(names.DELAY, ((names.STAGE, label(stage)),), max(delay_s, 0.0), NO_SPAN)
        self.record(observations)

    def set_open(self, n: int) -> None:
        """Set the number of open conversations."""
        self._open = n

    def _begin_at_zero(self) -> None:
        """Create the series at 0, since a rate includes the first increase only if the series existed before."""
        self._spans.add(0, {names.RESULT: "accepted"})
        self._spans.add(0, {names.RESULT: "duplicate"})
        self._spans.add(0, {names.RESULT: "ignored"})
        self._late.add(0)


class _ToolNames:
    """Limits the number of distinct tool names, which are untrusted input: the first ones are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def capped(self, attributes: Mapping[str, str | bool]) -> Mapping[str, str | bool]:
        """Return attributes whose tool name, if they have one, is replaced if it is beyond the limit."""
        name = attributes.get(names.GEN_AI_TOOL_NAME)
        with self._lock:
            if name is None or name in self._known:
                return attributes
            if len(self._known) < self._limit:
                self._known.add(str(name))
                return attributes
        return {**attributes, names.GEN_AI_TOOL_NAME: names.OTHER}


def _rejected(receipt: Receipt) -> Mapping[str, int]:
    """Return the number of rejected spans by reason; the reason is empty if the receipt does not contain it.

    A receipt's reasons cover rejected and ignored items together, so they are usable only if nothing was ignored.
    """
    if not receipt.rejected:
        return {}
    if sum(receipt.reasons.values()) == receipt.rejected and not receipt.ignored:
        return receipt.reasons
    return {"": receipt.rejected}


#: Stages of the backlog: traces to read, conversations to rebuild, conversations to score.
Stage: TypeAlias = Literal["read", "rebuild", "score"]
#: Seconds for which vitals are cached, so that all instruments of one collection report the same values.
_VITALS_TTL_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The health of a collector at one moment. Counts begin with the process.

    Attributes:
        ready: whether spans are accepted.
        why_not: the reason why spans are refused; None if they are accepted.
        queued_requests: requests that wait to be written.
        queued_spans: spans and log records in them.
        store_open: whether the store can be written.
        store_reopened: how many times it was reopened after a failure.
        store_bytes: size of its file; None if the file does not exist.
        log_bytes: size of its write-ahead log.
        backlog: the number of due items that wait, by stage.
        background_share: share of the time that rebuilding and scoring may take now.
        breaker_open: whether the judge's circuit breaker is open or half-open.
        breaker_opened: how many times it was opened.
        queries: user queries that are running.
        cases: cases that conversations are matched with; None before they are read.
        retention_problem: the error that prevents exports and removals; None without an error.
        retention: whether export or removal is configured.
    """

    ready: bool
    why_not: str | None
    queued_requests: int
    queued_spans: int
    store_open: bool
    store_reopened: int
    store_bytes: int | None
    log_bytes: int
    backlog: Mapping[Stage, int]
    background_share: float
    breaker_open: bool
    breaker_opened: int
    queries: int
    cases: int | None
    retention_problem: str | None
    retention: bool


class CollectorMetrics:
    """The metrics of one collector on a meter. Thread-safe."""

    def __init__(self, meter: Meter, histograms: Histograms, vitals: Callable[[], Vitals]) -> None:
        self._vitals = _CachedVitals(vitals)
        self._histograms = histograms
        self._refused: Counter = create(meter, names.INGEST_REFUSED)
        for transport in ("otlp_grpc", "otlp_http"):  # a rate includes the first increase only of an existing series
            self.record_refusal(transport, "unavailable", 0)
        for instrument, read in _READERS.items():
            create(meter, instrument, partial(self._observed, read))

    def record_refusal(self, transport: str, status: str, count: int = 1) -> None:
        """Count requests that were refused as a whole."""
        self._refused.add(count, {names.TRANSPORT: label(transport), names.REASON: label(status)})

    def record_commit(self, seconds: float) -> None:
        """Measure how long a commit of spans took."""
        values = Series.of(names.COMMIT_DURATION)
        values.add(names.COMMIT_DURATION, seconds, NO_SPAN)
        self._histograms.record(names.COMMIT_DURATION, (), values)

    def _observed(self, read: _Reader) -> list[Observation]:
        return read(self._vitals.get())


class _CachedVitals:
    """Caches the vitals for a moment, because a collection reads every instrument separately."""

    def __init__(self, read: Callable[[], Vitals]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._cached: tuple[float, Vitals] | None = None

    def get(self) -> Vitals:
        with self._lock:
            if self._cached is None or time.monotonic() - self._cached[0] > _VITALS_TTL_S:
                self._cached = time.monotonic(), self._read()
            return self._cached[1]


_Reader: TypeAlias = "Callable[[Vitals], list[Observation]]"


def _single(value: Callable[[Vitals], float]) -> _Reader:
    return lambda vitals: [Observation(value(vitals))]


def _sizes(vitals: Vitals) -> list[Observation]:
    sizes = {"data": vitals.store_bytes, "log": vitals.log_bytes}
    return [Observation(size, {names.STORE_PART: part}) for part, size in sizes.items() if size is not None]


def _backlog(vitals: Vitals) -> list[Observation]:
    return [Observation(count, {names.STAGE: stage}) for stage, count in vitals.backlog.items()]


def _cases(vitals: Vitals) -> list[Observation]:
    return [] if vitals.cases is None else [Observation(vitals.cases)]


def _retention_failing(vitals: Vitals) -> list[Observation]:
    return [Observation(int(vitals.retention_problem is not None))] if vitals.retention else []


_READERS: Final[Mapping[Instrument, _Reader]] = {
    names.COLLECTOR_READY: _single(lambda vitals: int(vitals.ready)),
    names.QUEUE_REQUESTS: _single(lambda vitals: vitals.queued_requests),
    names.QUEUE_SPANS: _single(lambda vitals: vitals.queued_spans),
    names.STORE_OPEN: _single(lambda vitals: int(vitals.store_open)),
    names.STORE_REOPENED: _single(lambda vitals: vitals.store_reopened),
    names.STORE_SIZE: _sizes,
    names.BACKLOG: _backlog,
    names.BACKGROUND_SHARE: _single(lambda vitals: vitals.background_share),
    names.BREAKER_OPEN: _single(lambda vitals: int(vitals.breaker_open)),
    names.BREAKER_OPENED: _single(lambda vitals: vitals.breaker_opened),
    names.QUERIES_RUNNING: _single(lambda vitals: vitals.queries),
    names.TRUTH_CASES: _cases,
    names.RETENTION_FAILING: _retention_failing,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of a judge with people: Cohen's kappa of its newest calibration, None if it is undefined.

    `target` is the unit that people judged: turns or conversations.
    """

    evaluator: str
    model: str | None
    target: str
    kappa: float | None


class JudgeMetrics:
    """The counters of requests to judges. Thread-safe.

    The series exist only if a judge calls a model.
    """

    def __init__(self, meter: Meter) -> None:
        self._cost: Counter = create(meter, names.JUDGE_COST)
        self._requests: Counter = create(meter, names.JUDGE_CACHE_REQUESTS)
        self._agreement: tuple[Observation, ...] = ()
        create(meter, names.JUDGE_AGREEMENT, lambda: self._agreement)

    def record(self, answer: Verdict | JudgeFailure, evaluator: str) -> None:
        """Count the cache look-up of a verdict, and the cost if its price is known.

        An answer that is neither cached nor requested from the model is not counted.
        """
        cached = isinstance(answer, Verdict) and answer.cached
        if isinstance(answer, JudgeFailure) and not answer.tries:
            return
        attributes = _judge_attributes(evaluator, answer.model)
        self._requests.add(1, {**attributes, names.RESULT: "hit" if cached else "miss"})
        if answer.cost_usd is not None and not cached:
            self._cost.add(max(answer.cost_usd, 0.0), attributes)

    def set_agreement(self, agreements: Iterable[Agreement]) -> None:
        """Replace all agreements; undefined or missing ones have no data point."""
        self._agreement = tuple(
            Observation(
                agreement.kappa,
                {**_judge_attributes(agreement.evaluator, agreement.model), names.EVALUATION_TARGET: agreement.target},
            )
            for agreement in agreements
            if agreement.kappa is not None
        )


def _judge_attributes(evaluator: str, model: str | None) -> dict[str, str]:
    attributes = {names.EVALUATOR: label(evaluator)}
    return attributes if model is None else {**attributes, names.GEN_AI_REQUEST_MODEL: label(model)}


Part: TypeAlias = Literal["prometheus", "metrics", "events"]


class Telemetry:
    """Emits window gauges, counters, histograms and events. Built by `Telemetry.from_settings`.

    Every `record_*` and `set_*` is thread-safe and returns at once, even if the backend hangs. Without an endpoint,
    metrics are only available as Prometheus text from `render`.
    """

    def __init__(self, emit: EmitSettings, options: EventOptions) -> None:
        resource = own_resource(emit.instance_id)
        self._scrape = Scrape()
        self._windows = WindowGauges(
            resource=resource, scrape=self._scrape, max_groups=emit.max_groups, estimators=emit.estimators
        )
        self._histograms = Histograms(resource, InstrumentationScope(names.SCOPE, own_version(), names.SCHEMA_URL))
        self._backend = (
            Backend(
                emit,
                emit.endpoint,
                resource=resource,
                sources=(self._histograms.reader(), self._windows.collect),
            )
            if emit.endpoint
            else None
        )
        scrape = self._scrape.reader(self._histograms.reader())
        self._provider = MeterProvider(
            metric_readers=[scrape, *([self._backend.reader] if self._backend else [])],
            resource=resource,
            exemplar_filter=TraceBasedExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter(names.SCOPE, own_version(), names.SCHEMA_URL)
        self._metrics = RunningMetrics(
            meter,
            self._histograms,
            max_tool_names=emit.max_tool_names,
            groups_dropped=self._windows.groups_dropped,
        )
        self._judges = JudgeMetrics(meter)
        self._meter = meter
        self._collector: CollectorMetrics | None = None
        #: Collects what `record` accepts.
        self.observer = Observer(
            options=options,
            counts=options.trigger != "backfill",  # old results are never part of live series
            events=self._backend is not None and emit.events != "none",
            every_metric=emit.events == "all",
        )
        self._down = False

    @classmethod
    def from_settings(
        cls, emit: EmitSettings, *, run_id: str, trigger: Trigger, evaluator: Evaluator | None = None
    ) -> Telemetry:
        """Return the telemetry of one run.

        Args:
            emit: endpoint, transport, limits.
            run_id: an attribute of every event.
            trigger: an attribute of every event; with `backfill`, results are not counted in counters and histograms.
            evaluator: version and thresholds on events.

        Raises:
            ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
        """
        options = EventOptions(
            run_id=run_id, trigger=trigger, explanations=emit.explanations, evaluator=evaluator or Evaluator()
        )
        return cls(emit, options)

    @property
    def enabled(self) -> tuple[Part, ...]:
        """The enabled outputs."""
        otlp_metrics: tuple[Part, ...] = ("metrics",) if self._backend else ()
        return ("prometheus", *otlp_metrics, *(("events",) if self.observer.events else ()))

    def set_windows(self, points: WindowPoints) -> None:
        """Replace all window gauges; a group or window without a point is no longer reported.

        This is cheap: the points are read at the next collection, so they must not be changed afterwards.

        Args:
            points: window points, of which the newest of each group and window is used; or a table with `points()`.
        """
        self._windows.set_windows(points)

    def set_objectives(self, points: Iterable[ObjectivePoint]) -> None:
        """Replace the e-values of all objectives; a group without a point is no longer reported."""
        self._windows.set_objectives(points)

    def set_agreement(self, agreements: Iterable[Agreement]) -> None:
        """Replace the agreement of judges with people; a judge without a value is no longer reported."""
        self._judges.set_agreement(agreements)

    def set_open(self, n: int) -> None:
        """Set the number of open conversations."""
        self._metrics.set_open(n)

    def record_scores(self, scored: Sequence[ConversationResult]) -> None:
        """Count scored conversations, and emit their events."""
        self.record(self.observer.scores(scored))

    def record_metrics(self, batch: Sequence[ConversationResults]) -> None:
        """Count and record the metric results of conversations, and emit events for those that the settings select."""
        self.record(self.observer.metrics(batch))

    def record(self, observations: Observations) -> None:
        """Record what an observer collected."""
        self._metrics.record(observations)
        if self._backend:
            for event in observations.events:
                event.emit(self._backend.logger)

    def record_answer(self, answer: Verdict | JudgeFailure, evaluator: str) -> None:
        """Count a judge's cache look-up and its cost."""
        if self.observer.counts:
            self._judges.record(answer, evaluator)

    def watch(self, vitals: Callable[[], Vitals]) -> None:
        """Emit the health of a collector from now on; `vitals` is called at each collection, and must be fast."""
        if self._collector is None:
            self._collector = CollectorMetrics(self._meter, self._histograms, vitals)

    def record_refusal(self, transport: str, status: str) -> None:
        """Count a request that was refused as a whole, if a collector is watched."""
        if self._collector is not None:
            self._collector.record_refusal(transport, status)

    def record_commit(self, seconds: float) -> None:
        """Measure how long a commit of spans took, if a collector is watched."""
        if self._collector is not None:
            self._collector.record_commit(seconds)

    def record_receipt(self, receipt: Receipt) -> None:
        """Count the spans of one accepted request."""
        self._metrics.record_receipt(receipt)

    def record_late(self, n: int) -> None:
        """Count spans that arrived after their conversation closed."""
        self._metrics.record_late(n)

    def record_delays(self, stage: str, delays_s: Iterable[float]) -> None:
        """Record the seconds from the ends of conversations until they were `assembled`, `scored` or in their `window`."""
        self._metrics.record_delays(stage, delays_s)

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Return content type and body of `/metrics`; exemplars need OpenMetrics, requested by the header `accept`."""
        self._windows.prepare()
        return self._scrape.render(accept)

    def force_flush(self, timeout_s: float) -> bool:
        """Send all pending data; return whether the backend accepted all of it within `timeout_s` seconds."""
        # The provider's own flush would also put points into the scrape's queue, where they would appear twice.
        return self._backend is None or self._backend.force_flush(timeout_s)

    def shutdown(self, timeout_s: float) -> None:
        """Send all pending data and stop, within `timeout_s` seconds; calling it again does nothing."""
        if self._down:
            return
        self._down = True
        if self._backend:
            self._backend.shutdown(timeout_s)
        self._windows.shutdown()
