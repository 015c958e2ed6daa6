"""Counters and histograms: results of turns and metrics, judge cost and agreement, and the health of the collector."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from opentelemetry.metrics import Observation

from otel_agentic.judges.base import Verdict
from otel_agentic.scoring.model import judged_calls
from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import conversation_context, group_attributes, group_of, label, span_context
from otel_agentic.telemetry.results import Evaluator, reading_of, results_of, spots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, CallbackT, Counter, Histogram, Meter

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.judges.base import JudgeFailure
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.results import MetricResult


class RunningMetrics:
    """Counts and measures on a meter. Thread-safe; never blocks on a backend.

    Counters and histograms are recorded in the judged span's context, so that their exemplars lead to its trace.
    """

    def __init__(self, meter: Meter, *, max_tool_names: int, groups_dropped: Callable[[], int]) -> None:
        self._conversations = counter(meter, names.EVALUATED_CONVERSATIONS)
        self._turns = counter(meter, names.EVALUATED_TURNS)
        self._tool_calls = counter(meter, names.EVALUATED_TOOL_CALLS)
        self._score = histogram(meter, names.SCORE)
        self._delay = histogram(meter, names.DELAY)
        self._spans = counter(meter, names.INGEST_SPANS)
        self._late = counter(meter, names.LATE_SPANS)
        self._tool_names = _ToolNames(max_tool_names)
        self._open = 0
        _observe(meter.create_observable_counter, names.GROUPS_DROPPED, groups_dropped)
        _observe(meter.create_observable_up_down_counter, names.CONVERSATIONS_OPEN, lambda: self._open)
        self._begin_at_zero()

    @property
    def scores(self) -> Histogram:
        """The histogram of scores, which metrics use, too."""
        return self._score

    def record_score(self, conversation: Conversation, score: ConversationScore, *, restated: bool) -> None:
        """Count one scored conversation; its turns, calls and scores only for a first result.

        The turns of a restatement would be counted twice: these series have no attribute that distinguishes them.
        """
        group = group_attributes(group_of(conversation))
        reason = {names.REASON: score.reason} if score.reason else {}
        revision = "restated" if restated else "first"
        self._conversations.add(
            1,
            {**group, names.OUTCOME: score.outcome, names.REVISION: revision, **reason},
            context=conversation_context(conversation),
        )
        if not restated:
            self._record_turns(conversation, score, group)
            self._record_calls(conversation, score, group)
            self._record_values(conversation, score, group)

    def record_receipt(self, receipt: Receipt) -> None:
        """Count the spans of one accepted request."""
        for result in ("accepted", "duplicate", "ignored"):
            if count := getattr(
                receipt, result
            ):  # most are 0, and each addition costs as much as decoding a small span
                self._spans.add(count, {names.RESULT: result})
        for reason, count in _rejected(receipt).items():
            attributes = {names.RESULT: "rejected", **({names.REASON: label(reason)} if reason else {})}
            self._spans.add(count, attributes)

    def record_late(self, n: int) -> None:
        """Count spans that came after their conversation closed."""
        self._late.add(n)

    def record_delay(self, stage: str, seconds: float) -> None:
        """Measure how long after the end of a conversation a stage was completed."""
        self._delay.record(max(seconds, 0.0), {names.STAGE: label(stage)})

    def set_open(self, n: int) -> None:
        """Set the number of open conversations."""
        self._open = n

    def _begin_at_zero(self) -> None:
        """Create series before their first event: a rate needs the zero to include the first increase."""
        self._spans.add(0, {names.RESULT: "accepted"})
        self._spans.add(0, {names.RESULT: "duplicate"})
        self._spans.add(0, {names.RESULT: "ignored"})
        self._late.add(0)

    def _record_turns(self, conversation: Conversation, score: ConversationScore, group: Mapping[str, str]) -> None:
        spans = {turn.index: span_context(turn.trace_id, turn.span_id) for turn in conversation.turns}
        elsewhere = conversation_context(conversation)
        for turn in score.turns:
            attributes = {**group, names.OUTCOME: turn.outcome}
            self._turns.add(1, attributes, context=spans.get(turn.turn_index, elsewhere))

    def _record_calls(self, conversation: Conversation, score: ConversationScore, group: Mapping[str, str]) -> None:
        for call in judged_calls(conversation, score):
            attributes = {
                **group,
                names.GEN_AI_TOOL_NAME: self._tool_names.capped(label(call.tool_name)),
                names.TOOL_FAULT: call.fault.kind if call.fault else names.NO_FAULT,
            }
            self._tool_calls.add(1, attributes, context=span_context(call.trace_id, call.span_id))

    def _record_values(self, conversation: Conversation, score: ConversationScore, group: Mapping[str, str]) -> None:
        for result in results_of(conversation, score, Evaluator()):
            if result.score is None or result.label == "not_evaluated" or result.target == "tool_call":
                continue
            attributes = {**group, names.GEN_AI_EVALUATION_NAME: result.name}
            self._score.record(result.score, attributes, context=span_context(result.trace_id, result.span_id))


class _ToolNames:
    """The first tool names, up to a limit, since they are untrusted input."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def capped(self, name: str) -> str:
        with self._lock:
            if name in self._known:
                return name
            if len(self._known) >= self._limit:
                return names.OTHER
            self._known.add(name)
            return name


def _rejected(receipt: Receipt) -> Mapping[str, int]:
    """Return the rejected spans by reason; the empty reason if the receipt does not contain it.

    A receipt's reasons cover rejected and ignored items together, so they are usable only if nothing was ignored.
    """
    if not receipt.rejected:
        return {}
    if sum(receipt.reasons.values()) == receipt.rejected and not receipt.ignored:
        return receipt.reasons
    return {"": receipt.rejected}


def counter(meter: Meter, instrument: Instrument) -> Counter:
    """Return the counter of an instrument on a meter."""
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.description)


def histogram(meter: Meter, instrument: Instrument) -> Histogram:
    """Return the histogram of an instrument on a meter."""
    return meter.create_histogram(
        instrument.name,
        unit=instrument.unit,
        description=instrument.description,
        explicit_bucket_boundaries_advisory=instrument.bounds,
    )


def _observe(create: Callable[..., object], instrument: Instrument, value: Callable[[], int]) -> None:
    def read(_options: CallbackOptions) -> Iterable[Observation]:
        return (Observation(value()),)

    callbacks: list[CallbackT] = [read]
    create(instrument.name, callbacks=callbacks, unit=instrument.unit, description=instrument.description)


#: Stages of the backlog: traces to read, conversations to rebuild, conversations to score.
Stage: TypeAlias = Literal["read", "rebuild", "score"]
#: All instruments of one collection, and of collections within this time, report the same values.
_SAME_MOMENT_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The health of a collector at one moment. Counts begin with the process.

    Attributes:
        ready: whether spans are accepted.
        why_not: the reason why not; None if they are.
        queued_requests: requests that wait to be written.
        queued_spans: spans and log records in them.
        store_open: whether the store can be written.
        store_reopened: how many times it was reopened after a failure.
        store_bytes: size of its file; None if the file does not exist.
        log_bytes: size of its write-ahead log.
        backlog: the number of items that are due and wait, by stage.
        background_share: share of the time that rebuilding and scoring may take now.
        breaker_open: whether the judge's circuit breaker is open or half-open.
        breaker_opened: how many times it was opened.
        queries: user queries that are running.
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
    retention_problem: str | None
    retention: bool


class CollectorMetrics:
    """The metrics of one collector on a meter. Thread-safe."""

    def __init__(self, meter: Meter, vitals: Callable[[], Vitals]) -> None:
        self._vitals = _Fresh(vitals)
        self._refused = counter(meter, names.INGEST_REFUSED)
        self._commits = histogram(meter, names.COMMIT_DURATION)
        for transport in ("otlp_grpc", "otlp_http"):  # a rate needs the zero to see the first increase
            self.record_refusal(transport, "unavailable", 0)
        creators = {
            "observable_gauge": meter.create_observable_gauge,
            "observable_counter": meter.create_observable_counter,
            "observable_up_down_counter": meter.create_observable_up_down_counter,
        }
        for instrument, read in _READ.items():
            creators[instrument.kind](
                instrument.name,
                callbacks=[self._reader(read)],
                unit=instrument.unit,
                description=instrument.description,
            )

    def record_refusal(self, transport: str, status: str, count: int = 1) -> None:
        """Count a request that was refused as a whole."""
        self._refused.add(count, {names.TRANSPORT: label(transport), names.REASON: label(status)})

    def record_commit(self, seconds: float) -> None:
        """Measure how long a commit of spans took."""
        self._commits.record(seconds)

    def _reader(self, read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            return read(self._vitals.get())

        return observe


class _Fresh:
    """The result of a function, cached for a moment: each collection reads every instrument separately."""

    def __init__(self, read: Callable[[], Vitals]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._cached: tuple[float, Vitals] | None = None

    def get(self) -> Vitals:
        with self._lock:
            if self._cached is None or time.monotonic() - self._cached[0] > _SAME_MOMENT_S:
                self._cached = time.monotonic(), self._read()
            return self._cached[1]


_Read: TypeAlias = "Callable[[Vitals], list[Observation]]"


def _single(value: Callable[[Vitals], float]) -> _Read:
    return lambda vitals: [Observation(value(vitals))]


def _sizes(vitals: Vitals) -> list[Observation]:
    sizes = {"data": vitals.store_bytes, "log": vitals.log_bytes}
    return [Observation(size, {names.STORE_PART: part}) for part, size in sizes.items() if size is not None]


def _backlog(vitals: Vitals) -> list[Observation]:
    return [Observation(count, {names.STAGE: stage}) for stage, count in vitals.backlog.items()]


def _failing(vitals: Vitals) -> list[Observation]:
    return [Observation(int(vitals.retention_problem is not None))] if vitals.retention else []


_READ: Final[Mapping[Instrument, _Read]] = {
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
    names.RETENTION_FAILING: _failing,
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
    """Counts the requests to judges on a meter. Thread-safe.

    Without a judge with a model there are no such series.
    """

    def __init__(self, meter: Meter) -> None:
        self._cost = counter(meter, names.JUDGE_COST)
        self._requests = counter(meter, names.JUDGE_CACHE_REQUESTS)
        self._agreement: tuple[Observation, ...] = ()
        gauge = names.JUDGE_AGREEMENT
        meter.create_observable_gauge(
            gauge.name, callbacks=[self._read], unit=gauge.unit, description=gauge.description
        )

    def record(self, answer: Verdict | JudgeFailure, evaluator: str) -> None:
        """Count the look-up of a verdict, and its cost if a price is known; a judge that was never called is not a look-up."""
        cached = isinstance(answer, Verdict) and answer.cached
        if not cached and not answer.tries:
            return
        attributes = _of(evaluator, answer.model)
        self._requests.add(1, {**attributes, names.RESULT: "hit" if cached else "miss"})
        if answer.cost_usd is not None and not cached:
            self._cost.add(max(answer.cost_usd, 0.0), attributes)

    def set_agreement(self, agreements: Iterable[Agreement]) -> None:
        """Replace all agreements; undefined or missing ones have no point."""
        self._agreement = tuple(
            Observation(item.kappa, {**_of(item.evaluator, item.model), names.EVALUATION_TARGET: item.target})
            for item in agreements
            if item.kappa is not None
        )

    def _read(self, _options: CallbackOptions) -> Iterable[Observation]:
        return self._agreement


def _of(evaluator: str, model: str | None) -> dict[str, str]:
    attributes = {names.EVALUATOR: label(evaluator)}
    return attributes if model is None else {**attributes, names.GEN_AI_REQUEST_MODEL: label(model)}


class MetricMetrics:
    """Counts and measures the results of metrics on a meter. Thread-safe.

    The number of series is bounded by the installed metrics and the labels that each of them declares.
    """

    def __init__(self, meter: Meter, score: Histogram) -> None:
        """Create the instruments; `score` is the histogram of scores, which also contains the outcome's own scores."""
        self._results = counter(meter, names.METRIC_RESULTS)
        measured = (names.METRIC_DURATION, names.METRIC_TOKENS, names.METRIC_COST, names.METRIC_AMOUNT)
        self._histograms = {names.SCORE.name: score} | {
            instrument.name: histogram(meter, instrument) for instrument in measured
        }

    def record(self, conversation: Conversation, results: Iterable[MetricResult], *, restated: bool) -> None:
        """Count the scores and abstentions of one conversation; measure values only if they are first results."""
        group = group_attributes(group_of(conversation))
        revision = "restated" if restated else "first"
        spot_of = spots_of(conversation)
        for result in results:
            context = spot_of(result.score).context
            named = {**group, names.GEN_AI_EVALUATION_NAME: label(result.metric.name)}
            self._results.add(1, {**named, **_result_attributes(result), names.REVISION: revision}, context=context)
            if not restated:
                self._measure(result, named, context)

    def _measure(self, result: MetricResult, named: dict[str, str], context: Context) -> None:
        value = result.score.value
        reading = None if value is None else reading_of(result.metric, value)
        if reading is not None:
            between = {} if reading.range is None else {names.EVALUATION_RANGE: reading.range}
            self._histograms[reading.instrument.name].record(reading.value, {**named, **between}, context=context)


def _result_attributes(result: MetricResult) -> dict[str, str]:
    """Return the attributes that distinguish results; a label that the metric does not declare is `other`."""
    score = result.score
    declared = None if score.label is None or score.label in result.metric.labels else names.OTHER
    values = {
        names.OUTCOME: "not_evaluated" if score.abstained else result.outcome,
        names.GEN_AI_EVALUATION_SCORE_LABEL: None if score.label is None else declared or label(score.label),
        names.SEVERITY: result.severity,
        names.REASON: score.reason if score.abstained else None,
    }
    return {name: value for name, value in values.items() if value is not None}
