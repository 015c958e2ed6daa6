"""All of telemetry behind one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from opentelemetry.sdk.metrics import MeterProvider, TraceBasedExemplarFilter

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import own_resource, own_version
from otel_agentic.telemetry.delivery import Backend
from otel_agentic.telemetry.events import EvaluationEvents, EventOptions, emit_metrics
from otel_agentic.telemetry.gauges import WindowGauges
from otel_agentic.telemetry.instruments import CollectorMetrics, JudgeMetrics, MetricMetrics, RunningMetrics
from otel_agentic.telemetry.results import Evaluator
from otel_agentic.telemetry.scrape import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_agentic.config import EmitSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import JudgeFailure, Verdict
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.telemetry.events import Trigger
    from otel_agentic.telemetry.gauges import WindowPoints
    from otel_agentic.telemetry.instruments import Agreement, Vitals
    from otel_agentic.telemetry.results import MetricResult
    from otel_agentic.windows.objectives import ObjectivePoint

Part: TypeAlias = Literal["prometheus", "metrics", "events"]


class Telemetry:
    """What we emit: window gauges, counters, histograms, events. Built by `Telemetry.from_settings`.

    Every `record_*` and `set_*` is thread-safe and returns at once, even if the backend hangs. Without an endpoint
    only `render`, the Prometheus text, has a reader.
    """

    def __init__(self, emit: EmitSettings, options: EventOptions) -> None:
        resource = own_resource(emit.instance_id)
        self._counts = options.trigger != "backfill"  # old results are never part of live series
        self._scrape = Scrape()
        self._windows = WindowGauges(
            resource=resource, scrape=self._scrape, max_groups=emit.max_groups, estimators=emit.estimators
        )
        self._backend = (
            Backend(emit, emit.endpoint, resource=resource, windows=self._windows.collect) if emit.endpoint else None
        )
        self._provider = MeterProvider(
            metric_readers=[self._scrape.reader(target_info=True), *([self._backend.reader] if self._backend else [])],
            resource=resource,
            exemplar_filter=TraceBasedExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter(names.SCOPE, own_version(), names.SCHEMA_URL)
        self._metrics = RunningMetrics(
            meter, max_tool_names=emit.max_tool_names, groups_dropped=self._windows.groups_dropped
        )
        self._metric_results = MetricMetrics(meter, self._metrics.scores)
        self._judges = JudgeMetrics(meter)
        self._meter = meter
        self._collector: CollectorMetrics | None = None
        emits = self._backend is not None and emit.events != "none"
        self._events = EvaluationEvents(self._backend.logger, options) if self._backend and emits else None
        self._every_metric = emit.events == "all"
        self._options = options
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
        pushed: tuple[Part, ...] = ("metrics",) if self._backend else ()
        return ("prometheus", *pushed, *(("events",) if self._events else ()))

    def set_windows(self, points: WindowPoints) -> None:
        """Replace all window gauges; a group or window without a point stops.

        This is cheap: points are read at the next collection. They must not be changed afterwards.

        Args:
            points: window points, of which the newest of each group and window is used; or a table with `points()`.
        """
        self._windows.set_windows(points)

    def set_objectives(self, points: Iterable[ObjectivePoint]) -> None:
        """Replace the e-values of all objectives; a group without a point stops."""
        self._windows.set_objectives(points)

    def set_agreement(self, agreements: Iterable[Agreement]) -> None:
        """Replace the agreement of judges with people; a judge without a value stops."""
        self._judges.set_agreement(agreements)

    def set_open(self, n: int) -> None:
        """Set the number of open conversations."""
        self._metrics.set_open(n)

    def record_score(
        self,
        conversation: Conversation,
        score: ConversationScore,
        *,
        restated: bool,
        evaluator: Evaluator | None = None,
    ) -> None:
        """Count a scored conversation and emit its events.

        Args:
            conversation: the evaluated conversation.
            score: the result.
            restated: whether it replaces an earlier result.
            evaluator: version and thresholds on its events; None: those of the run.
        """
        if self._counts:
            self._metrics.record_score(conversation, score, restated=restated)
        if self._events:
            self._events.emit(conversation, score, evaluator)

    def record_metrics(self, conversation: Conversation, results: Sequence[MetricResult], *, restated: bool) -> None:
        """Count and measure the results of metrics for a conversation, and emit events for those that the settings select.

        Args:
            conversation: the evaluated conversation.
            results: the scores and abstentions of the metrics.
            restated: whether they replace earlier results.
        """
        if self._counts:
            self._metric_results.record(conversation, results, restated=restated)
        if self._events and self._backend:
            selected = results if self._every_metric else [result for result in results if result.by_judge]
            emit_metrics(self._backend.logger, self._options, conversation, selected)

    def record_answer(self, answer: Verdict | JudgeFailure, evaluator: str) -> None:
        """Count a judge's requests, their cost, and the cache hits."""
        if self._counts:
            self._judges.record(answer, evaluator)

    def watch(self, vitals: Callable[[], Vitals]) -> None:
        """Emit the health of a collector from now on; `vitals` is called at each collection, and must be fast."""
        if self._collector is None:
            self._collector = CollectorMetrics(self._meter, vitals)

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
        """Count spans that came after their conversation closed."""
        self._metrics.record_late(n)

    def record_delay(self, stage: str, seconds: float) -> None:
        """Measure how long after the end of a conversation it was `assembled`, `scored` or in its `window`, seconds."""
        self._metrics.record_delay(stage, seconds)

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Return content type and text of `/metrics`; exemplars need OpenMetrics, requested by the header `accept`."""
        self._windows.prepare()
        return self._scrape.render(accept)

    def force_flush(self, timeout_s: float) -> bool:
        """Send all pending data; return whether the backend accepted all of it within `timeout_s` seconds."""
        # The provider's own flush would also leave points in the scrape's queue, which would appear twice.
        return self._backend is None or self._backend.force_flush(timeout_s)

    def shutdown(self, timeout_s: float) -> None:
        """Send all pending data and stop, within `timeout_s` seconds; calling it again does nothing."""
        if self._down:
            return
        self._down = True
        if self._backend:
            self._backend.shutdown(timeout_s)
        self._windows.shutdown()
