"""Reports conversations, scores and judge answers of a running collector to telemetry."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluation.score_events import evaluator_of, metric_results
from otel_agentic.evaluators.failures import FailureRules
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.store.judges import newest_calibrations
from otel_agentic.telemetry import Agreement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.store.scores import Measured
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key
    from otel_agentic.telemetry import Telemetry

_NS_PER_S: Final = 1_000_000_000
#: Maximum number of scores whose delay until they appear in gauges is measured; beyond it, the oldest are dropped.
_MAX_PENDING: Final = 10_000


class EventReporter:
    """Records the events of an engine as telemetry. Thread-safe; no method waits for a backend."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        """Record the judge's agreement with human labels.

        Raises:
            PluginError: an evaluator does not load.
            ConfigError: a threshold or severity in the settings names an unknown metric.
        """
        self._engine = engine
        self._telemetry = telemetry
        self._lock = threading.Lock()
        #: Scores that no gauge shows yet: when each was stored, and when its conversation had ended, ns.
        self._pending: deque[tuple[int, int]] = deque(maxlen=_MAX_PENDING)
        metrics = metrics_by_name(engine.evaluating.installed).values()
        self._rules = FailureRules(metrics, engine.settings.evaluators)
        self.report_agreement()

    def report_rebuild(self, rebuilt: RebuildResult, open_count: int) -> None:
        """Record late spans, the number of open conversations, and how long assembling the closed ones took."""
        self._telemetry.record_late(rebuilt.late_spans)
        self._telemetry.set_open(open_count)
        self._delays("assembled", [saved.ended_ns for saved in rebuilt.saved if saved.closed_by is not None])

    def report_scores(self, scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        """Record scores that were just stored; `restated` had a score before."""
        truth = self._engine.evaluating.current_truth
        for item in scored:
            self._telemetry.record_score(
                item.conversation,
                item.score,
                restated=(item.score.environment, item.score.conversation_id) in restated,
                evaluator=None if truth is None else evaluator_of(item, truth, self._engine.settings.scoring),
            )
        self._delays("scored", [item.conversation.ended_ns for item in scored])
        with self._lock:
            now_ns = self._engine.clock()
            self._pending.extend((now_ns, item.conversation.ended_ns) for item in scored)

    def report_gauges(self, before_ns: int) -> None:
        """Record how long it took until gauges included the scores that were stored before a time, ns."""
        included = []
        with self._lock:
            while self._pending and self._pending[0][0] <= before_ns:
                included.append(self._pending.popleft()[1])
        self._delays("window", included)

    def report_agreement(self) -> None:
        """Record how far the active judge agrees with human labels, by its newest calibration of each target."""
        judge = self._engine.evaluating.judge
        with self._engine.store.read() as con:
            calibrations = newest_calibrations(con)
        self._telemetry.set_agreement(
            Agreement(evaluator=judge.name, model=row["model"], target=row["target"], kappa=row["kappa"])
            for row in calibrations
            if (row["judge"], row["judge_version"]) == (judge.name, judge.version) and row["judged"]
        )

    def report_answer(self, answer: Verdict | JudgeFailure) -> None:
        """Record an answer of the judge."""
        self._telemetry.record_answer(answer, self._engine.evaluating.judge.name)

    def report_metrics(self, measured: Sequence[Measured]) -> None:
        """Record metric scores that were just stored."""
        for item in measured:
            results = list(metric_results(item, self._rules))
            self._telemetry.record_metrics(item.conversation, results, restated=item.restated)

    def _delays(self, stage: str, ended_ns: Sequence[int]) -> None:
        now_ns = self._engine.clock()
        for end_ns in ended_ns:
            self._telemetry.record_delay(stage, (now_ns - end_ns) / _NS_PER_S)
