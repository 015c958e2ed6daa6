"""Results of `report`: rates, coverage, tiers, metrics, comparison and objectives. Times are ISO 8601 text in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.results.codec import optional, renamed

if TYPE_CHECKING:
    from otel_agentic.stats.model import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """An estimate with the bounds of its interval; None if there is too little data."""

    value: float | None
    lower: float | None
    upper: float | None

    @classmethod
    def of(cls, estimate: Estimate) -> Rate:
        """Return the rate of an estimate."""
        return Rate(value=estimate.value, lower=estimate.lower, upper=estimate.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesAtK:
    """pass@k and pass^k for one k, and the estimator."""

    estimator: str
    pass_at_k: Rate
    pass_pow_k: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Estimates by k for two targets: the current traffic, and a new case."""

    cases: int
    fewest_attempts: int
    most_attempts: int
    this_traffic: dict[str, RatesAtK]
    new_case: dict[str, RatesAtK]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """The rates of one estimator by k."""

    interval_method: str
    level: float
    pass_at_k: dict[str, Rate]
    pass_pow_k: dict[str, Rate]
    #: For bootstrap intervals, whether they have no width.
    collapsed: bool | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEstimates(Estimates):
    """The rates of one estimator by k, and its name."""

    estimator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean of `n` values."""

    mean: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """The numbers behind a tier; `since` is the end of the first conversation that counts."""

    rule: str
    estimator: str
    rates: dict[str, float | None]
    n: int
    c: int
    cases: int
    statement: str | None
    e_value: float | None
    e_value_needed: float
    since: str | None
    agent_version: str | None
    versions: int
    #: The reason why no tier is claimed, or None.
    withheld: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """Agreement of a judge with people on turns or on conversations; `judged` of the `n` were decided by a judge."""

    n: int
    judged: int
    agreement: Rate
    kappa: Rate
    sensitivity: Rate
    specificity: Rate
    threshold: float | None
    interval_method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalibration:
    """The newest calibration of a judge."""

    calibrated_at: str
    random_sample: bool
    same_evaluation: bool
    turn: JudgeAgreement | None
    conversation: JudgeAgreement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudge:
    """The judge of most conversations of a group; `others` names the other ones."""

    name: str
    version: str
    model: str | None
    conversations: int
    others: list[str]
    calibration: JudgeCalibration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRate(Rate):
    """A rate of `n` conversations."""

    n: int
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoganGladenRate(Rate):
    """A rate corrected by the sensitivity and specificity of the judge."""

    level: float
    n_human: int
    n_judge: int
    judged_rate: float | None
    sensitivity: float | None
    specificity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PpiRate(Rate):
    """A rate corrected by prediction-powered inference."""

    level: float
    n_human: int
    n_judge: int
    power: float

    __pydantic_config__ = renamed(power="lambda")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRates:
    """A success rate according to the judge, according to people, and corrected by people's verdicts in two ways."""

    judge: str
    judge_version: str
    raw: SampleRate
    human: SampleRate
    rogan_gladen: RoganGladenRate
    ppi: PpiRate


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRates:
    """The pass rate of exactly these conversations, and the rates by k of the traffic that they are a sample of."""

    here: Rate
    pass_at_k: dict[str, Rate]
    pass_pow_k: dict[str, Rate]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCorrection:
    """The rates that people would report, from their verdicts on some conversations and the metrics of all.

    `correlation` is that of the criterion with the verdicts, `prediction_correlation` that of the prediction from
    `predictors`; None if one side does not vary. `not_used` labels are outside of the declared random sample, or about an
    older revision.
    """

    level: float
    labels: int
    conversations: int
    random_sample: bool
    not_used: int
    correlation: float | None
    prediction_correlation: float | None
    predictors: list[str]
    power: float
    people: LabelRates
    corrected: LabelRates

    __pydantic_config__ = renamed(power="lambda")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSuccess:
    """The expected effort until the first success, or None if the effort of successes or failures is unknown.

    `known_cost` and `known_seconds` are the numbers of conversations whose effort is known.
    """

    attempts: float
    cost_usd: float | None
    seconds: float | None
    known_cost: int
    known_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShares:
    """The shares of conversations that were evaluated; if they differ, rates are `weighted` by 1 / share."""

    lowest_ratio: float
    highest_ratio: float
    weighted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The limits of good values of a metric."""

    min: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """The scores of one metric in a group; the properties of a metric that is no longer installed are None."""

    name: str
    title: str | None
    evaluator: str
    evaluator_version: str | None
    target: str | None
    unit: str | None
    #: Lowest and highest possible value, None for a missing bound.
    range: list[float | None] | None
    higher_is_better: bool | None
    n: int
    conversations: int
    not_evaluated: dict[str, int]
    coverage: float | None
    mean: float | None
    low: float | None
    median: float | None
    high: float | None
    labels: dict[str, int]
    failing_labels: list[str]
    failures: int
    threshold: Threshold | None
    explanation: str | None
    details: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeys:
    """The attributes that distinguish the groups of a report; None if the report is not grouped by the attribute."""

    agent: str | None
    agent_version: str | None
    environment: str | None
    service: str | None
    tag: str | None
    dataset: str | None
    case: str | None
    tool: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRates(GroupKeys):
    """Counts, coverage, rates and tier of one group."""

    window: str | None
    #: Evaluated conversations, and those of them that are correct.
    n: int
    c: int
    coverage: float | None
    #: Lowest and highest success rate if the conversations that were not evaluated all fail, or all pass.
    bounds: list[float] | None
    not_evaluated: dict[str, int]
    known_failures: int
    default_estimator: str
    effective_n: float | None
    targets: Targets | None
    estimates: dict[str, Estimates]
    tool_dimensions: dict[str, Mean]
    tier: str
    leaning: str | None
    needed: int | None
    tier_evidence: TierEvidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportGroup(GroupRates):
    """One group of a report."""

    criterion: str
    pooled: NamedEstimates
    per_case: NamedEstimates
    partial_fails: int
    judge: GroupJudge | None
    corrected: CorrectedRates | None
    not_corrected: str | None
    #: By the verdicts of people on a sample of the conversations; None for the criterion `correct`.
    label_correction: LabelCorrection | None
    not_label_corrected: str | None
    first_success: FirstSuccess | None
    sampling: SampleShares | None
    #: The number of cases with too few attempts, by estimator and k.
    cases_left_out: dict[str, dict[str, int]]
    gauge_estimator: str
    tool_bands: dict[str, dict[str, int]]
    metrics: list[MetricSummary] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A count of each side of a comparison."""

    a: int
    b: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """B - A of pass@k and pass^k for one k, over the shared cases."""

    method: str
    cases: int
    pass_at_k: Rate
    pass_pow_k: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences(Difference):
    """The differences for one k: pooled, and per case where it is defined."""

    pooled: Difference
    per_case: Difference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup(GroupKeys):
    """The comparison of the two sides of one group."""

    n: Sides
    c: Sides
    method: str
    cases: int
    cases_left_out: Sides
    probability_worse: float
    differences: dict[str, Differences]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedGroup(GroupKeys):
    """A group that lacks evaluated conversations on at least one side."""

    without: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """B compared with A, by group."""

    by: str
    a: str
    b: str
    level: float
    groups: list[ComparedGroup]
    not_compared: list[UncomparedGroup]
    on_both: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveStatus:
    """The evidence against one objective of one group."""

    agent: str | None
    agent_version: str | None
    environment: str | None
    service: str | None
    objective: str
    k: int
    target: float
    p0: float
    method: str
    block: str
    blocks: int
    n: int
    c: int
    pending: int
    e_value: float
    alpha: float
    alarm: bool
    alarmed_at: str | None
    target_run_length: float
    changes: int
    changed_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceHistory:
    """The evidence against one objective of one group over time: about 500 points at most, including the extremes.

    Times are nanoseconds since 1970: the end of the conversation after which the e-value was reached, of the one at which the
    objective was found to be broken, and of those at which the pass rate was found to have fallen.
    """

    agent: str | None
    agent_version: str | None
    environment: str | None
    service: str | None
    objective: str
    alpha: float
    end_ns: list[int]
    e_value: list[float]
    alarmed_ns: int | None
    changed_ns: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedAlarm:
    """An alarm about an objective of a group: `broken`, or `fell` if the pass rate fell below the objective."""

    alarm_id: str
    raised_at: str
    agent: str | None
    agent_version: str | None
    environment: str
    service: str | None
    criterion: str
    objective: str
    kind: str
    #: The end of the conversation at which it was raised.
    conversation_ended_at: str
    description: str
    acknowledged_at: str | None
    acknowledged_by: str | None
    note: str | None
    #: The state of its notifications, one for each target.
    notifications: list[NotificationState]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationState:
    """The sending of an alarm to a target: sent, or the last error and the time of the next attempt, None if given up."""

    target: str
    attempts: int
    sent_at: str | None
    next_at: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorList:
    """The objectives of all groups with the evidence over time, in the same order, and the alarms, the newest first."""

    objectives: list[ObjectiveStatus]
    histories: list[EvidenceHistory]
    alarms: list[RaisedAlarm]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """An alarm that a person has taken note of."""

    alarm_id: str
    annotator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongClock:
    """A sender whose clock is ahead."""

    service: str | None
    conversations: int
    #: End of the last of these conversations, ISO 8601; or None if no store was read.
    latest: str | None = optional()
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRebuilt:
    """Traces and conversations that could not be rebuilt."""

    traces: int
    conversations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches:
    """Conversations matched to a case by text, and those with a suggested case."""

    matched: int
    suggested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionPart:
    """One condition of a criterion: the conversations in which it is known, and those that it fails.

    `failed_alone` conversations fail by no other condition. `missing` counts the others by reason; `not_scored` means that
    its metric was never computed.
    """

    condition: str
    known: int
    failed: int
    failed_alone: int
    missing: dict[str, int]
    #: The metric that it reads.
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionRule:
    """A criterion of a report, and its conditions as part of a sentence.

    `parts` is empty for the criterion `correct`. `scored_otherwise` is the number of conversations whose outcome is still by
    other conditions.
    """

    name: str
    rule: str
    parts: list[CriterionPart]
    scored_otherwise: int | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdReuse:
    """The reuse of conversation ids: how many ids several conversations share, and how many conversations that are.

    `possible` conversations may be several with one id, which nothing in the spans distinguishes.
    """

    shared_ids: int
    conversations: int
    possible: int
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The reliability of each group, by each criterion."""

    evaluation: str
    criteria: list[CriterionRule]
    groups: list[ReportGroup]
    cases_left_out: dict[str, dict[str, int]]
    wrong_clocks: list[WrongClock]
    #: None if no id was used more than once.
    id_reuse: IdReuse | None = optional()
    #: The metrics that were requested by name.
    metrics_chosen: list[str] | None = optional()
    comparison: Comparison | None = optional()
    not_rebuilt: NotRebuilt | None = optional()
    matched_by_text: TextMatches | None = optional()
    objectives: list[ObjectiveStatus] | None = optional()
