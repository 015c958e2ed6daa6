"""What a running collector tells telemetry of conversations, scores and judges."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.failures import FailureRules
from otel_agentic.evaluators.registry import asks, metrics_by_name
from otel_agentic.judges import ExactJudge
from otel_agentic.store.calibrations import newest_calibrations
from otel_agentic.telemetry import Agreement, Evaluator, MetricResult
from otel_agentic.telemetry.metric_results import standing_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import ScoringSettings
    from otel_agentic.judges import JudgeFailure, Verdict
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.evaluate import Truth
    from otel_agentic.pipeline.rebuild import Key, Rebuilt
    from otel_agentic.store.metric_scores import Measured
    from otel_agentic.store.selection import Scored
    from otel_agentic.telemetry import Telemetry

_NS_PER_S: Final = 1_000_000_000
#: Scores whose way into gauges is timed, at most; beyond, the oldest are not.
_MAX_UNSEEN: Final = 10_000


class Telling:
    """Hands on what happens in an engine. Thread-safe; nothing in it waits for a backend."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        """Begin to listen to the judge and to evaluators; say how far the judge agrees with people.

        Raises:
            PluginError: an evaluator does not load.
            ConfigError: a threshold or severity of the settings names a metric that is not there.
        """
        self._engine = engine
        self._telemetry = telemetry
        self._lock = threading.Lock()
        #: When a score was stored, and when its conversation had ended; those that no gauge shows yet.
        self._unseen: deque[tuple[int, int]] = deque(maxlen=_MAX_UNSEEN)
        metrics = metrics_by_name(engine.evaluating.installed).values()
        self._rules = FailureRules(metrics, engine.settings.evaluators)
        engine.evaluating.heard = self._heard
        engine.evaluating.measured = self._measured
        self.calibrated()

    def rebuilt(self, rebuilt: Rebuilt, open_count: int) -> None:
        """Tell of spans that came late, of what is open, and how long it took until conversations stood."""
        self._telemetry.record_late(rebuilt.late_spans)
        self._telemetry.set_open(open_count)
        self._delays("assembled", [saved.ended_ns for saved in rebuilt.saved if saved.closed_by is not None])

    def scored(self, scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        """Tell of scores that were just stored; `restated` had a score before."""
        truth = self._engine.evaluating.underway
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
            self._unseen.extend((now_ns, item.conversation.ended_ns) for item in scored)

    def shown(self, before_ns: int) -> None:
        """Tell how long it took until gauges showed the scores that were stored before a time, ns."""
        seen = []
        with self._lock:
            while self._unseen and self._unseen[0][0] <= before_ns:
                seen.append(self._unseen.popleft()[1])
        self._delays("window", seen)

    def calibrated(self) -> None:
        """Tell how far the judge in force agrees with people, by its newest calibration of each target."""
        judge = self._engine.evaluating.judge
        with self._engine.store.read() as con:
            found = newest_calibrations(con)
        self._telemetry.set_agreement(
            Agreement(evaluator=judge.name, model=row["model"], target=row["target"], kappa=row["kappa"])
            for row in found
            if (row["judge"], row["judge_version"]) == (judge.name, judge.version) and row["judged"]
        )

    def _heard(self, answer: Verdict | JudgeFailure) -> None:
        self._telemetry.record_answer(answer, self._engine.evaluating.judge.name)

    def _measured(self, measured: Sequence[Measured]) -> None:
        for one in measured:
            results = list(metric_results(one, self._rules))
            self._telemetry.record_metrics(one.conversation, results, restated=one.restated)

    def _delays(self, stage: str, ended_ns: Sequence[int]) -> None:
        now_ns = self._engine.clock()
        for each in ended_ns:
            self._telemetry.record_delay(stage, (now_ns - each) / _NS_PER_S)


def evaluator_of(item: Scored, truth: Truth, settings: ScoringSettings) -> Evaluator:
    """Return who judged a conversation, and against which thresholds: those of its case where it has some."""
    case = item.match.case
    answer = case.answer_threshold if case is not None else None
    tool = case.tool_threshold if case is not None else None
    return Evaluator(
        version=truth.evaluation.evaluation_id,
        answers="rule" if isinstance(truth.judge, ExactJudge) else "judge",
        answer_threshold=settings.answer_threshold if answer is None else answer,
        tool_threshold=settings.tool_threshold if tool is None else tool,
    )


def metric_results(measured: Measured, rules: FailureRules) -> Iterator[MetricResult]:
    """Yield what an evaluator said of a conversation, each score with how it stands by the settings."""
    metrics = {metric.name: metric for metric in measured.evaluator.metrics}
    judged = asks(measured.evaluator)
    for score, score_id in zip(measured.scores, measured.score_ids, strict=True):
        yield MetricResult(
            metric=metrics[score.name],
            score=score,
            evaluator=measured.evaluator.name,
            evaluator_version=measured.evaluator.version,
            score_id=score_id,
            case_id=measured.case_id,
            judged=judged,
            **standing_of(measured.conversation, score, rules)._asdict(),
        )
