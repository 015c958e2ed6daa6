"""Calibration of judged metrics: stored scores compared with the annotations of people, and corrected pass rates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import Metric, MetricScore, asks
from otel_agentic.evaluators.registry import metric_named, metrics_by_name
from otel_agentic.evaluators.run import FailureRules, Location
from otel_agentic.judges.calibration import Calibration, JudgeVersion, Labelled, calibrate
from otel_agentic.reports.judge_report import MIN_LABELS, corrected_rates
from otel_agentic.results import to_json
from otel_agentic.stats.judge_error import VerdictPair, corrected
from otel_agentic.store.annotations import current_annotations
from otel_agentic.store.calibrations import StoredMetricScore, stored_scores_of
from otel_agentic.store.judges import CalibrationRun, save_calibration
from otel_agentic.store.queries.scores import newest_model
from otel_agentic.truth.annotations import ANSWER, CORRECT, Annotation, AnnotationTarget, resolve

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.results.reports import CorrectedRates
    from otel_agentic.store.connection import Connection

#: A turn, a call or a conversation: environment, conversation id, turn index and position.
_Location = tuple[str, str, int | None, int | None]
#: The reason for a missing verdict if the metric was not computed for an annotated target.
NOT_SCORED: Final = "not_scored"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCalibration:
    """The agreement of one metric with people, and its pass rate corrected by their verdicts.

    `disagreements` counts the targets without a verdict because annotators differ. `not_corrected` is the reason if
    there are no corrected rates.
    """

    metric: Metric
    run: CalibrationRun
    calibration: Calibration
    labelled: tuple[Labelled, ...]
    disagreements: int
    rates: CorrectedRates | None
    not_corrected: str | None
    warnings: tuple[str, ...]

    def to_json(self, calibration_json: Callable[[Calibration], dict[str, Any]]) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "metric": self.metric.name,
            "target": self.calibration.target,
            "judge": self.run.judge,
            "judge_version": self.run.judge_version,
            "model": self.run.model,
            "annotators": list(self.run.labels),
            "disagreements": self.disagreements,
            "random_sample": self.run.random_sample,
            **calibration_json(self.calibration),
            "corrected": None if self.rates is None else to_json(self.rates),
            "not_corrected": self.not_corrected,
            "warnings": [*self.calibration.warnings, *self.warnings],
        }


def annotated_metrics(engine: Engine, names: Sequence[str] | None) -> list[Metric]:
    """Return the metrics to calibrate: the named ones, else all judged metrics that have annotations.

    Raises:
        UsageError: no metric has one of the names.
    """
    installed = engine.runner.installed
    if names is not None:
        return [metric_named(name, installed) for name in names if name not in {ANSWER, CORRECT}]
    scores_of_metric = metrics_by_name(evaluator for evaluator in installed if asks(evaluator))
    with engine.store.read() as con:
        annotated = {annotation.name for annotation in current_annotations(con, decides=False)}
    return [metric for name, metric in scores_of_metric.items() if name in annotated]


def compared_with_people(engine: Engine, metric: Metric) -> MetricCalibration:
    """Return the comparison of one metric with people, without storing it.

    Raises:
        ConfigError: a threshold in the settings names an unknown metric.
    """
    rules = FailureRules(metrics_by_name(engine.runner.installed).values(), engine.settings.evaluators)
    return _calibrated(engine, metric, rules, _Options("", random_sample=False, examples=0))


def calibrate_metrics(
    engine: Engine, names: Sequence[str] | None, *, calibration_id: str, random_sample: bool, examples: int
) -> list[MetricCalibration]:
    """Compare the newest stored scores of metrics with people, and store the comparisons.

    Args:
        engine: the opened store.
        names: the metrics; None for all judged metrics that have annotations.
        calibration_id: the run.
        random_sample: whether the annotated conversations are a random sample; annotations that were recorded as one
            are used either way.
        examples: maximum number of reported disagreements of each kind.

    Raises:
        UsageError: no metric has one of the names.
        ConfigError: a threshold in the settings names an unknown metric.
    """
    metrics = annotated_metrics(engine, names)
    rules = FailureRules(metrics_by_name(engine.runner.installed).values(), engine.settings.evaluators)
    calibrations = [
        _calibrated(engine, metric, rules, _Options(calibration_id, random_sample, examples)) for metric in metrics
    ]

    def write(con: Connection) -> None:
        for compared in calibrations:
            if compared.labelled:
                save_calibration(con, compared.run, [compared.calibration], compared.labelled)

    engine.store.write(write)
    return calibrations


@dataclass(frozen=True, slots=True)
class _Options:
    calibration_id: str
    random_sample: bool
    examples: int


def _calibrated(engine: Engine, metric: Metric, rules: FailureRules, options: _Options) -> MetricCalibration:
    level = engine.settings.stats.level
    with engine.store.read() as con:
        annotations = current_annotations(con, name=metric.name)
        scores = stored_scores_of(con, metric.name)
    by_target = resolve(annotations)
    people = {
        _location_of(target): _Human(verdict.verdict, verdict.annotation)
        for target, verdict in by_target.items()
        if verdict.verdict is not None
    }
    by_location: dict[_Location, list[StoredMetricScore]] = defaultdict(list)
    for score in scores:
        by_location[score.environment, score.conversation_id, score.turn_index, score.position].append(score)
    changed = [
        location for location, human in people.items() if human.is_outdated(location, by_location.get(location, ()))
    ]
    for location in changed:
        del people[location]
    judge, others = _main_judge([by_location[location][0] for location in people if location in by_location] or scores)
    scores_of_metric = _JudgedMetric(
        metric=metric,
        rules=rules,
        judge=judge,
        rows={location: rows for location, rows in by_location.items() if rows[0].judge == judge},
    )
    labelled = [scores_of_metric.labelled(location, human) for location, human in people.items()]
    is_random = options.random_sample or (
        bool(people) and all(human.annotation.random_sample for human in people.values())
    )
    rates, reason = scores_of_metric.corrected(labelled, level=level) if is_random else (None, _HAND_PICKED)
    return MetricCalibration(
        metric=metric,
        run=_run(
            engine,
            scores_of_metric,
            options,
            annotators=sorted({annotation.annotator for annotation in annotations}),
            is_random=is_random,
        ),
        calibration=calibrate(
            "conversation" if metric.target == "group" else metric.target,
            labelled,
            threshold=scores_of_metric.threshold,
            level=level,
            examples=options.examples,
        ),
        labelled=tuple(labelled),
        disagreements=sum(verdict.verdict is None for verdict in by_target.values()),
        rates=rates,
        not_corrected=reason,
        warnings=(*_warnings(others, len(changed)), *scores_of_metric.warnings()),
    )


_HAND_PICKED: Final = "the annotated conversations are not a random sample (--random-sample)"


@dataclass(frozen=True, slots=True)
class _Human:
    """The verdict of people on a target, True for a pass, and the annotation that it comes from."""

    verdict: bool
    annotation: Annotation

    def is_outdated(self, location: _Location, rows: Sequence[StoredMetricScore]) -> bool:
        """Return whether a conversation continued after it was annotated as a whole."""
        return bool(rows) and location[2] is None and self.annotation.revision not in {None, rows[0].revision}


def _location_of(target: AnnotationTarget) -> _Location:
    return (target.environment or "", target.conversation_id, target.turn_index, target.position)


def _main_judge(scores: Sequence[StoredMetricScore]) -> tuple[JudgeVersion | None, Counter[JudgeVersion]]:
    """Return the judge and version of most scores, and the counts of the others."""
    counts = Counter(score.judge for score in scores)
    if not counts:
        return None, counts
    judge = counts.most_common(1)[0][0]
    del counts[judge]
    return judge, counts


def _warnings(others: Mapping[JudgeVersion, int], changed: int) -> Iterator[str]:
    for (name, version), count in sorted(others.items()):
        yield f"{count:,} annotated items were scored by {name}, version {version}, and are not compared"
    if changed:
        yield f"{changed:,} annotated conversations continued after they were annotated and are not compared"


#: The explanation for a metric that always passes.
ALWAYS_PASSES: Final = (
    "has neither failing labels nor a threshold, so every score passes; set one in evaluators.thresholds"
)


def always_passes(metric: Metric, rules: FailureRules) -> bool:
    """Return whether no score of a metric can be a failure."""
    return not metric.failing and metric.name not in rules.thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedMetric:
    """The scores of one metric by one judge (None without scores), by target."""

    metric: Metric
    rules: FailureRules
    judge: JudgeVersion | None
    rows: Mapping[_Location, Sequence[StoredMetricScore]]

    @property
    def threshold(self) -> float | None:
        """The smallest passing value, or None if labels or an upper limit decide."""
        threshold = self.rules.thresholds.get(self.metric.name)
        return None if self.metric.failing or threshold is None or threshold.max is not None else threshold.min

    def warnings(self) -> Iterator[str]:
        """Yield a warning if no score can be a failure."""
        if always_passes(self.metric, self.rules):
            yield f"{self.metric.name} {ALWAYS_PASSES}"

    def passes(self, location: _Location) -> bool | None:
        """Return whether the scores of a target pass: None without a score, False if any of them is a failure."""
        verdicts = [
            self.rules.failure(NO_LOCATION, MetricScore(name=self.metric.name, value=row.value, label=row.label))
            is None
            for row in self.rows.get(location, ())
            if row.reason is None
        ]
        return all(verdicts) if verdicts else None

    def labelled(self, location: _Location, human: _Human) -> Labelled:
        """Return an annotated target with the verdict of the metric, if it has one."""
        passes, rows = self.passes(location), self.rows.get(location, ())
        row = next((scored for scored in rows if scored.reason is None), rows[0] if rows else None)
        labelled = Labelled(
            environment=location[0],
            conversation_id=location[1],
            turn_index=location[2],
            position=location[3],
            revision=human.annotation.revision or 0,
            dataset=None,
            case_id=None,
            human=human.verdict,
            outcome="not_evaluated" if passes is None else "pass" if passes else "fail",
            reason=None if passes is not None else NOT_SCORED,
            score=None,
            ended_ns=0,
        )
        if row is None:
            return labelled
        return replace(
            labelled,
            revision=row.revision,
            dataset=row.dataset,
            case_id=row.case_id,
            reason=row.reason,
            score=row.value,
            ended_ns=row.ended_ns,
            answer=row.label,
            reasoning=row.explanation,
            judge=None if passes is None else row.judge,
        )

    def corrected(self, labelled: Sequence[Labelled], *, level: float) -> tuple[CorrectedRates | None, str | None]:
        """Return the corrected share of passes among all scored targets, or the reason if it is missing."""
        decided = [item for item in labelled if item.outcome != "not_evaluated"]
        if self.judge is None or len(decided) < MIN_LABELS:
            return None, f"only {len(decided)} annotated items have a score; {MIN_LABELS} are needed"
        pairs = [VerdictPair(judge=item.outcome == "pass", human=item.human, case=item.case_key) for item in decided]
        done = {(item.environment, item.conversation_id, item.turn_index, item.position) for item in labelled}
        unlabelled = [
            (rows[0].case_key, passes)
            for location, rows in self.rows.items()
            if location not in done and (passes := self.passes(location)) is not None
        ]
        judged_rate = sum(passed for _, passed in unlabelled) / len(unlabelled) if unlabelled else None
        return corrected_rates(self.judge, corrected(pairs, unlabelled, level), judged_rate), None


#: The location of failures of which only the existence matters.
NO_LOCATION: Final = Location(
    environment="", conversation_id="", revision=0, agent=None, agent_version=None, ended_ns=0
)


def _run(
    engine: Engine, scores_of_metric: _JudgedMetric, options: _Options, *, annotators: Sequence[str], is_random: bool
) -> CalibrationRun:
    name, version = scores_of_metric.judge or (engine.runner.judge.name, engine.runner.judge.version)
    with engine.store.read() as con:
        model = newest_model(con, name, version)
    return CalibrationRun(
        calibration_id=options.calibration_id,
        evaluation_id=next((rows[0].evaluation_id for rows in scores_of_metric.rows.values()), ""),
        judge=name,
        judge_version=version,
        model=model,
        random_sample=is_random,
        labels=tuple(annotators),
        calibrated_ns=engine.clock(),
        metric=scores_of_metric.metric.name,
    )
