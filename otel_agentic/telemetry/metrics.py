"""Counters and histograms: what is counted and measured as it happens."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from otel_agentic.scoring.judged_calls import judged_calls
from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import conversation_context, group_attributes, group_of, label, span_context
from otel_agentic.telemetry.results import Evaluator, results_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, CallbackT, Counter, Histogram, Meter

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.telemetry.names import Instrument


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
        """The histogram of scores; metrics have theirs in it, too."""
        return self._score

    def record_score(self, conversation: Conversation, score: ConversationScore, *, restated: bool) -> None:
        """Count one scored conversation; its turns, calls and scores only when it is a first result.

        A restatement's turns counted again would be counted twice: these series have no attribute that tells.
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
        """Measure how long after the end of a conversation a stage was done."""
        self._delay.record(max(seconds, 0.0), {names.STAGE: label(stage)})

    def set_open(self, n: int) -> None:
        """Say how many conversations are open."""
        self._open = n

    def _begin_at_zero(self) -> None:
        """Let series exist before their first event: a rate needs the zero to see the first increase."""
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
    """The first tool names met, up to a limit; strangers choose these names."""

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
    """Return the rejected spans by reason; the empty reason where the receipt does not tell.

    A receipt's reasons speak of rejected and ignored items together: they are ours only where nothing was ignored.
    """
    if not receipt.rejected:
        return {}
    if sum(receipt.reasons.values()) == receipt.rejected and not receipt.ignored:
        return receipt.reasons
    return {"": receipt.rejected}


def counter(meter: Meter, instrument: Instrument) -> Counter:
    """Return the counter of that name on a meter."""
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.description)


def histogram(meter: Meter, instrument: Instrument) -> Histogram:
    """Return the histogram of that name on a meter."""
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
