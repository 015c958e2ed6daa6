"""Reports of a running collector: results and health as telemetry, and alarms of agents that miss their objectives.

Objectives are checked conversation by conversation, as results become final. Health covers the received spans, whether
the collector accepts spans, and the amount of waiting work.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

from otel_agentic.engine.observing import ScoreObserver
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.evaluators.run import FailureRules
from otel_agentic.live.loops import BackgroundLoop, LoopErrorLogger, RetentionLoop, ScoringLoop
from otel_agentic.reports.objectives import NS_PER_S, Monitors, alarm_text, change_text
from otel_agentic.spans.model import Receipt
from otel_agentic.store.alarms import Alarm, AlarmKind, save_alarms
from otel_agentic.store.judges import newest_calibrations
from otel_agentic.store.results import Alarms, MonitorKey, monitor_key, save_monitors, stored_alarms, watermark
from otel_agentic.telemetry import Agreement, Vitals

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.store import StoreState
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Telemetry
    from otel_agentic.telemetry.facade import Stage
    from otel_agentic.windows.objectives import Monitor

#: Maximum number of scores whose delay until they appear in gauges is measured; beyond it, the oldest are dropped.
_MAX_PENDING: Final = 10_000


class EventReporter:
    """Records the events of an engine as telemetry. Thread-safe; no method waits for a backend."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        """Create the reporter, and record the judge's agreement with human labels.

        Raises:
            PluginError: an evaluator does not load.
            ConfigError: a threshold or severity in the settings names an unknown metric.
        """
        self._engine = engine
        self._telemetry = telemetry
        self._lock = threading.Lock()
        #: Scores that no gauge includes yet: the time when each was stored, and the end of its conversation, ns.
        self._pending: deque[tuple[int, int]] = deque(maxlen=_MAX_PENDING)
        metrics = metrics_by_name(engine.runner.installed).values()
        self._rules = FailureRules(metrics, engine.settings.evaluators)
        self.report_agreement()

    def report_rebuild(self, rebuilt: RebuildResult, open_count: int) -> None:
        """Record late spans, the number of open conversations, and the assembly delay of closed conversations."""
        self._telemetry.record_late(rebuilt.late_spans)
        self._telemetry.set_open(open_count)
        self._delays("assembled", [saved.ended_ns for saved in rebuilt.saved if saved.closed_by is not None])

    def report_scores(self, batch: ScoredBatch, restated: AbstractSet[Key]) -> None:
        """Record scores that were just stored; the conversations in `restated` had a score before."""
        observed = batch.observed
        self._telemetry.record(
            self._observer.scores(batch, batch.summary.evaluation_id, restated) if observed is None else observed.scores
        )
        self._delays("scored", batch.ended_ns)
        with self._lock:
            now_ns = self._engine.clock()
            self._pending.extend((now_ns, ended_ns) for ended_ns in batch.ended_ns)

    def report_gauges(self, before_ns: int) -> None:
        """Record the delay until gauges included the scores that were stored at or before a time, ns."""
        ended_ns = []
        with self._lock:
            while self._pending and self._pending[0][0] <= before_ns:
                ended_ns.append(self._pending.popleft()[1])
        self._delays("window", ended_ns)

    def report_agreement(self) -> None:
        """Record the agreement of the active judge with human labels, from its newest calibration of each target."""
        judge = self._engine.runner.judge
        with self._engine.store.read() as con:
            calibrations = newest_calibrations(con)
        self._telemetry.set_agreement(
            Agreement(evaluator=judge.name, model=row["model"], target=row["target"], kappa=row["kappa"])
            for row in calibrations
            if (row["judge"], row["judge_version"]) == (judge.name, judge.version) and row["judged"]
        )

    def report_answer(self, answer: Verdict | JudgeFailure) -> None:
        """Record an answer of the judge."""
        self._telemetry.record_answer(answer, self._engine.runner.judge.name)

    def report_metrics(self, batch: ScoredBatch, restated: Container[tuple[str, str, str]]) -> None:
        """Record metric scores that were just stored; for `restated`, see `ScoredBatch.measured`."""
        observed = batch.observed
        self._telemetry.record(
            self._observer.metrics(batch.measured(restated)) if observed is None else observed.metrics
        )

    @property
    def _observer(self) -> ScoreObserver:
        runner, settings = self._engine.runner, self._engine.settings.scoring
        return ScoreObserver(
            observer=self._telemetry.observer, rules=self._rules, judge=runner.judge, settings=settings
        )

    def _delays(self, stage: str, ended_ns: Sequence[int]) -> None:
        now_ns = self._engine.clock()
        self._telemetry.record_delays(stage, [(now_ns - end_ns) / NS_PER_S for end_ns in ended_ns])


_log = logging.getLogger(__name__)
#: Default and minimum interval between two checks, seconds. Results become final as time passes, even if nothing
#: arrives.
_REFRESH_S, _SOONEST_S = 15.0, 1.0


class MonitorLoop(BackgroundLoop):
    """Maintains the monitors of a running collector, their rows and their gauges, on its own thread."""

    def __init__(self, engine: Engine, telemetry: Telemetry, on_alarms: Callable[[], None] = lambda: None) -> None:
        """Create the loop; `on_alarms` is called when new alarms, with their notifications, are stored."""
        super().__init__("monitors")
        self._on_alarms = on_alarms
        self._engine = engine
        self._telemetry = telemetry
        self._slo = engine.settings.slo
        self._lateness_ns = int(engine.settings.windows.lateness_s * NS_PER_S)
        self._refresh_s = min(_REFRESH_S, max(_SOONEST_S, engine.settings.windows.lateness_s))
        self._monitors = Monitors(self._slo)
        self._logged: dict[MonitorKey, Alarms] | None = None
        self._unsaved = True
        self._lock = threading.Lock()
        self._changed_ns: int | None = None
        self._errors = LoopErrorLogger(_log, "checking objectives")

    def start(self) -> None:
        """Start the thread; without objectives, only the monitors of earlier settings are deleted."""
        if self._slo.objectives:
            super().start()
        else:
            self._engine.store.write(lambda con: save_monitors(con, (), 0, 0))

    def changed(self, ended_ns: Iterable[int]) -> None:
        """Record that results changed, given the ends of the conversations in this or an earlier revision, ns.

        The next iteration processes the changes. They do not wake the loop, because a change of the truth would then
        start thousands of iterations.
        """
        earliest_ns = min(ended_ns, default=None)
        if earliest_ns is None:
            return
        with self._lock:
            known_ns = self._changed_ns
            self._changed_ns = earliest_ns if known_ns is None else min(known_ns, earliest_ns)

    def refresh(self) -> list[Monitor]:
        """Process the results that became final since the last call; restart groups with a changed result.

        Returns:
            All monitors, sorted by group and objective.
        """
        with self._lock:
            changed_ns, self._changed_ns = self._changed_ns, None
        try:
            return self._refresh(changed_ns)
        except BaseException:
            self.changed(() if changed_ns is None else (changed_ns,))
            raise

    def _refresh(self, changed_ns: int | None) -> list[Monitor]:
        monitors, known_until_ns = self._monitors, self._monitors.watermark_ns
        with self._engine.store.read() as con:
            if self._logged is None:
                self._logged = stored_alarms(con, self._slo.since_ns)
            now_ns = self._engine.clock()
            until_ns = watermark(con, now_ns, self._lateness_ns)
            if changed_ns is not None and known_until_ns is not None and changed_ns <= known_until_ns:
                self._unsaved |= monitors.restart_changed(con)
            self._unsaved |= monitors.advance(con, until_ns)
        all_monitors = monitors.all
        if self._unsaved:
            known_until_ns = monitors.watermark_ns or until_ns
            alarms = list(self._new_alarms(all_monitors))
            targets = {alarm.alarm_id: self._engine.settings.notify.receivers(alarm.key.agent) for alarm in alarms}

            def write(con: Connection) -> None:
                save_monitors(con, all_monitors, known_until_ns, now_ns)
                save_alarms(con, alarms, targets, now_ns)

            self._engine.store.write(write)
            self._unsaved = False
            self._logged = {monitor_key(monitor): (monitor.alarmed_ns, monitor.changed_ns) for monitor in all_monitors}
            for alarm in alarms:
                _log.warning("%s", alarm.text)
            if alarms:
                self._on_alarms()
        self._telemetry.set_objectives([monitor.point for monitor in all_monitors])
        return all_monitors

    def _new_alarms(self, monitors: Sequence[Monitor]) -> Iterator[Alarm]:
        """Yield each alarm once, even if the collector restarts or a changed result moves the time of the alarm."""
        logged = self._logged or {}
        for monitor in monitors:
            broken_ns, changed_ns = logged.get(monitor_key(monitor), (None, None))
            if monitor.alarmed_ns is not None and broken_ns is None:
                yield _alarm(monitor, "broken", monitor.alarmed_ns, alarm_text(monitor, monitor.alarmed_ns))
            if monitor.changed_ns is not None and (changed_ns is None or monitor.changed_ns > changed_ns):
                yield _alarm(monitor, "fell", monitor.changed_ns, change_text(monitor, monitor.changed_ns))

    def _run(self) -> None:
        # If an iteration fails, gauges keep their last values, and the next iteration starts from the same state.
        while not self._stopping.is_set():
            self._errors.attempt(self.refresh)
            self._wake.wait(self._refresh_s)
            self._wake.clear()
        self._errors.attempt(self.refresh)  # results that became final since


def _alarm(monitor: Monitor, kind: AlarmKind, ended_ns: int, text: str) -> Alarm:
    return Alarm(
        alarm_id=uuid4().hex,
        key=monitor.key,
        objective=monitor.objective.label,
        kind=kind,
        conversation_ended_ns=ended_ns,
        text=text,
    )


#: The phases of a collector.
Phase: TypeAlias = Literal["starting", "running", "stopping"]


class ReceivedCounts:
    """Counts received spans and log records by result. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receipt = Receipt()
        self._late_spans = 0

    def add(self, receipt: Receipt) -> None:
        """Add the receipt of a batch."""
        with self._lock:
            self._receipt += receipt

    def add_late(self, spans: int) -> None:
        """Add spans that arrived after their conversation had closed."""
        with self._lock:
            self._late_spans += spans

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON: `reasons` of rejected and ignored items, `altered` values in stored items."""
        with self._lock:
            receipt, late = self._receipt, self._late_spans
        counts = {
            "stored": receipt.accepted,
            "duplicate": receipt.duplicate,
            "rejected": receipt.rejected,
            "ignored": receipt.ignored,
            "late": late,
        }
        return {"received": counts, "reasons": dict(receipt.reasons), "altered": dict(receipt.altered)}


def vitals_of(
    phase: Phase, engine: Engine, *, unbuilt: Mapping[Stage, int], scoring: ScoringLoop, retaining: RetentionLoop
) -> Vitals:
    """Return the state of a collector; `unbuilt` counts the traces and conversations that wait to be rebuilt.

    The database is not read, so the function works while the database is unusable.
    """
    store, breaker = engine.store.state, engine.runner.breaker.state
    why_not = _why_not(phase, store)
    return Vitals(
        ready=why_not is None,
        why_not=why_not,
        queued_requests=store.queued_requests,
        queued_spans=store.queued_spans,
        store_open=store.problem is None,
        store_reopened=store.reopened,
        store_bytes=store.data_bytes,
        log_bytes=store.log_bytes,
        backlog={**unbuilt, "score": scoring.waiting},
        background_share=engine.pressure.share,
        breaker_open=breaker.state != "closed",
        breaker_opened=breaker.opened,
        queries=len(engine.store.user_queries.running),
        cases=engine.runner.case_count,
        retention_problem=retaining.problem,
        retention=retaining.is_enabled,
    )


def why_not_ready(phase: Phase, engine: Engine) -> str | None:
    """Return the reason why spans are not accepted, or None if they are."""
    return _why_not(phase, engine.store.state)


def _why_not(phase: Phase, store: StoreState) -> str | None:
    if phase != "running":
        return f"the collector is {phase}"
    if store.problem is not None:
        return store.problem
    return f"{store.queued_spans} spans wait to be written: the queue is full" if store.full else None
