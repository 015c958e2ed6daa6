"""Results of `evaluate`, `judge`, `suite`, `prompts` and `backfill`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from otel_agentic.results.annotations import AnnotatorAgreement
from otel_agentic.results.codec import JsonObject, optional, renamed
from otel_agentic.results.reports import CorrectedRates, Rate
from otel_agentic.results.store import Ingested


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse:
    """Usage of a judge in one run: calls, verdicts, tokens and cost."""

    name: str
    version: str
    models: list[str]
    #: Agents that use the same model as the judge; absent for rows, which have no agent.
    same_as_agent: list[str] | None = optional()
    calls: int
    judged: int
    cached: int
    failed: int
    failure: str | None
    refused: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    canaries: int | None = optional()
    canaries_passed: int | None = optional()
    used_up: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCounts:
    """The scores of one metric in a run."""

    name: str
    evaluator: str
    n: int
    mean: float | None
    labels: dict[str, int]
    not_evaluated: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorCounts:
    """The evaluators of a run; `left_out` are the metrics that need an LLM judge."""

    conversations: int
    rows: int
    caught_up: int
    faults: dict[str, int]
    metrics: list[MetricCounts]
    left_out: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """Conversations by outcome."""

    __pydantic_config__ = renamed(passed="pass")

    passed: int
    fail: int
    not_evaluated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionCounts(OutcomeCounts):
    """Conversations by the outcome of a deciding criterion.

    `alone` of them fail by no other criterion; `uncovered` are not evaluated because of this criterion alone.
    """

    alone: int
    uncovered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRun:
    """An evaluation of stored conversations."""

    evaluation: str
    evaluation_id: str
    cases: int
    new_case_versions: int
    labels: int
    scored: int
    restated: int
    asked_again: int
    unchanged: int
    stopped: bool
    n: int
    coverage: float | None
    outcomes: dict[str, int]
    reasons: dict[str, int]
    criteria: dict[str, CriterionCounts]
    #: By the annotated answers alone, as with `criteria = ["answer"]`; None if no case annotates one.
    answers: OutcomeCounts | None
    partial_fails: int
    known_failures: int
    compared: int
    disagreements: int
    warnings: list[str]
    judge: JudgeUse
    evaluators: EvaluatorCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScore:
    """A score of a metric for a row."""

    name: str
    value: float | None
    label: str | None
    reason: str | None
    explanation: str
    turn_index: int | None
    position: int | None
    details: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRow:
    """The scores of one row of a file."""

    file: str
    line: int
    row: str | None
    scores: list[RowScore]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvaluation:
    """An evaluation of the rows of datasets; `left_out` are fields that no metric uses, by the number of rows."""

    rows: list[EvaluatedRow]
    metrics: list[MetricCounts]
    faults: dict[str, int]
    left_out: dict[str, int]
    metrics_left_out: list[str]
    judge: JudgeUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts of pairs of verdicts by people and by the judge."""

    both_pass: int
    false_pass: int
    false_fail: int
    both_fail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement with people on `n` items."""

    n: int
    agreement: Rate
    kappa: Rate
    sensitivity: Rate
    specificity: Rate
    interval_method: str
    level: float
    confusion: Confusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider(Agreement):
    """Agreement of one judge with people; the judge is None for items that no judge decided."""

    judge: str | None
    version: str | None
    unsure: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Agreement at one threshold."""

    threshold: float
    agreement: float | None
    sensitivity: float | None
    specificity: float | None
    youden: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BestThreshold(CurvePoint):
    """The threshold with the best agreement, and the labels that it was chosen on."""

    chosen_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An item on which the judge and a person disagree."""

    environment: str
    conversation_id: str
    revision: int
    turn_index: int | None = optional()
    position: int | None = optional()
    dataset: str | None
    case_id: str | None
    human: str
    reason: str | None
    score: float | None
    ended_ns: int
    query: str | None
    expected: Any
    answer: str | None
    reasoning: str | None
    turn: int | None
    judge: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCalibration(Agreement):
    """Agreement on turns or on conversations, with other thresholds and examples."""

    deciders: list[Decider]
    not_judged: dict[str, int]
    threshold: float | None
    curve: list[CurvePoint]
    curve_n: int
    best_threshold: BestThreshold | None
    examples: list[Disagreement]
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCalibration(TargetCalibration):
    """Agreement of a metric with people, and its pass rate corrected by their verdicts.

    `disagreements` counts the items without a verdict because annotators differ. `not_corrected` is the reason if there
    are no corrected rates.
    """

    metric: str
    target: str
    judge: str
    judge_version: str
    model: str | None
    annotators: list[str]
    disagreements: int
    random_sample: bool
    corrected: CorrectedRates | None
    not_corrected: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedJudge(JudgeUse):
    """The judge that was calibrated."""

    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A comparison of a judge with people; only `stopped` is set if it was interrupted."""

    stopped: bool
    calibration_id: str | None = optional()
    evaluation_id: str | None = optional()
    judge: CalibratedJudge
    labels: int
    blank: int
    judged_now: int
    random_sample: bool
    turn: TargetCalibration | None
    conversation: TargetCalibration | None
    metrics: list[MetricCalibration]
    annotators: AnnotatorAgreement | None
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenAnchors:
    """The frozen anchor set: its items by name, and the annotated items without a verdict of the judge, by reason."""

    freeze_id: str | None
    anchors: dict[str, int]
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFlip:
    """An anchor on which the judge changed its verdict; turns and calls are counted from 1."""

    environment: str
    conversation_id: str
    turn: int | None
    call: int | None
    name: str
    human: str
    before: str
    now: str
    score_before: float | None
    score_now: float | None
    reasoning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorDrift:
    """Change of a judge on the anchors of one name: answers, or a metric.

    `agreement_before` and `agreement_now` are shares of equal verdicts with people. `p_verdicts` is the p-value of the
    exact McNemar test of `to_pass` against `to_fail`, `p_agreement` that of `corrected` against `spoiled`: flips towards
    the verdict of people and away from it.
    """

    name: str
    n: int
    not_judged: dict[str, int]
    agreement_before: float | None
    agreement_now: float | None
    to_pass: int
    to_fail: int
    corrected: int
    spoiled: int
    p_verdicts: float
    p_agreement: float
    drifted: bool
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The judge now, compared with frozen verdicts; `drifted` if any name has drifted at the level."""

    stopped: bool
    frozen_at: str
    judges_before: list[str]
    judge_now: JudgeUse
    level: float
    anchors: list[AnchorDrift]
    flips: list[DriftFlip]
    drifted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedJudge:
    """The cached verdicts of one judge version and model, and their cost."""

    judge: str
    judge_version: str
    model: str | None
    verdicts: int
    failures: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    first_at: str | None = optional()
    last_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """The used part of the judge's budget, and its limits."""

    window: str
    calls: int
    tokens: int
    cost_usd: float
    max_calls: int | None
    max_tokens: int | None
    max_cost_usd: float | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCache:
    """The cache and the budget of judges."""

    judges: list[CachedJudge]
    budget: BudgetUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """The number of verdicts that were deleted."""

    cleared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases with one tag, and their conversations: `n` evaluated, `c` of them correct."""

    evaluation: str
    suite: str
    cases: int
    drafts: int
    conversations: int
    n: int
    c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A case whose result changed; `before` and `now` are correct and evaluated conversations.

    `since` is the previous point with conversations of the case; None if the version is unknown.
    """

    dataset: str
    case_id: str
    since: str | None
    before: list[int]
    now: list[int]
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The conversations of a suite in one version, day or week of an agent."""

    agent: str | None
    name: str | None
    cases: int
    n: int
    c: int
    not_evaluated: int
    rate: float | None
    lower: float | None
    upper: float | None
    flips: list[Flip]
    from_: str
    until: str

    __pydantic_config__ = renamed(from_="from")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTrend:
    """The success rate of a suite over versions or time."""

    evaluation: str
    suite: str
    by: str
    level: float
    cases: int
    drafts: int
    points: list[TrendPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptReply:
    """The form of a reply: a score from `low` to `high`, one of `labels`, or at most `most` texts."""

    kind: str
    low: float | None = optional()
    high: float | None = optional()
    labels: list[str] | None = optional()
    most: int | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A prompt of a judge; `system` and `ways`, the messages by method, are only present with `--full`."""

    metric: str
    metrics: list[str]
    version: str
    digest: str
    source: str
    text: str
    reply: PromptReply
    system: str | None = optional()
    ways: JsonObject | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillScoring:
    """The scoring of the conversations in the windows of a backfill."""

    to_score: int
    scored: int
    unchanged: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    warnings: list[str]
    judge: JudgeUse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnds:
    """The ends of the windows of a backfill, as text; None without windows."""

    windows: list[str]
    step: str
    k: list[int]
    ends: int
    first_end: str | None
    last_end: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedWindows(WindowEnds):
    """The windows that were computed; `number` counts the passes over them."""

    rows_changed: int
    number: int
    done_up_to: str | None

    __pydantic_config__ = renamed(number="pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWindows(WindowEnds):
    """Windows with conversations, and their rows."""

    points: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """The points and events that were sent or written."""

    to: str
    points: int
    events: int
    events_lost: int
    events_problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """A backfill; `finished` unless it was stopped or window ends remain."""

    dry_run: Literal[False] = False
    run_id: str | None
    finished: bool
    stopped: bool
    again: bool
    resumed_after: str | None
    notes: list[str]
    scoring: BackfillScoring
    windows: ComputedWindows
    emit: Emitted
    problems: list[str]
    #: The files that were read first.
    ingested: Ingested | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsToScore:
    """The conversations in the windows of a backfill, and those that lack a score."""

    in_windows: int
    to_score: int
    left_out_by_sampling: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestions:
    """The questions that scoring would ask a judge, their tokens and cost; `over` is a budget that they exceed."""

    judge: str
    asks_a_model: bool
    questions: int = 0
    cached: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    over: str | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitTarget:
    """The destination to which a backfill would emit."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillDryRun:
    """The work of a backfill, counted in advance; the judge is None without conversations."""

    dry_run: Literal[True] = True
    notes: list[str]
    spans: int
    conversations: ConversationsToScore
    windows: CountedWindows
    judge: JudgeQuestions | None
    emit: EmitTarget
    ingested: Ingested | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillStep:
    """The progress of a backfill."""

    stage: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillText:
    """A piece of an OpenMetrics file."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillEnd:
    """The end of the stream of a backfill."""

    result: BackfillResult | BackfillDryRun
