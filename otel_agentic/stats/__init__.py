"""Pure mathematics of reliability: pass@k, pass^k, their intervals, and the tiers claimed from them.

No I/O, no clock, no randomness: counts in, estimates out. Importing this room loads numpy and scipy.special.
"""

from otel_agentic.stats.agreement import (
    Agreement,
    Confusion,
    CurvePoint,
    VerdictPair,
    agreement_of,
    best_threshold,
    confusion_of,
    kappa,
    kappa_standard_error,
    threshold_curve,
)
from otel_agentic.stats.bayesian import BayesianEstimator
from otel_agentic.stats.beta import BetaPosterior
from otel_agentic.stats.bootstrap import collapsed, with_bootstrap
from otel_agentic.stats.change import ChangeDetector
from otel_agentic.stats.choose import (
    POOLED,
    default_among,
    headline_among,
    headline_estimator,
    mode_estimator,
    pooled_estimator,
    shown_estimators,
    validate_k,
)
from otel_agentic.stats.cluster import EffectiveSample, EffectiveSamples, effective_n, pooled_sample, pooled_samples
from otel_agentic.stats.evidence import Evidence
from otel_agentic.stats.frequentist import PerCaseEstimator, PluginEstimator, UnbiasedEstimator
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates, GroupEstimator, estimate_groups
from otel_agentic.stats.hierarchical import HierarchicalEstimator
from otel_agentic.stats.interval import Bounded, Interval, clopper_pearson, quantile, wilson
from otel_agentic.stats.model import (
    TIERS,
    Attempts,
    CaseCount,
    CaseKey,
    CaseWeights,
    Estimate,
    Estimates,
    Estimator,
    Tier,
)
from otel_agentic.stats.pass_k import (
    all_of,
    any_of,
    plugin_pass_at_k,
    plugin_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)
from otel_agentic.stats.sequential import e_value, first_alarm, log_e_path, log_e_value, promised_rate
from otel_agentic.stats.targets import TargetEstimate, Targets, TrafficEstimator, targets_of
from otel_agentic.stats.tiers import (
    TierClaim,
    TierEvidence,
    claim_tier,
    claim_tiers,
    docs_tier,
    leaning_tiers,
    paper_tier,
    rate_name,
)

__all__ = [
    "POOLED",
    "TIERS",
    "Agreement",
    "Attempts",
    "BayesianEstimator",
    "BetaPosterior",
    "Bounded",
    "CaseCount",
    "CaseKey",
    "CaseWeights",
    "ChangeDetector",
    "Confusion",
    "CurvePoint",
    "EffectiveSample",
    "EffectiveSamples",
    "Estimate",
    "Estimates",
    "Estimator",
    "Evidence",
    "GroupEstimator",
    "GroupedAttempts",
    "GroupedEstimates",
    "HierarchicalEstimator",
    "Interval",
    "PerCaseEstimator",
    "PluginEstimator",
    "TargetEstimate",
    "Targets",
    "Tier",
    "TierClaim",
    "TierEvidence",
    "TrafficEstimator",
    "UnbiasedEstimator",
    "VerdictPair",
    "agreement_of",
    "all_of",
    "any_of",
    "best_threshold",
    "claim_tier",
    "claim_tiers",
    "clopper_pearson",
    "collapsed",
    "confusion_of",
    "default_among",
    "docs_tier",
    "e_value",
    "effective_n",
    "estimate_groups",
    "first_alarm",
    "headline_among",
    "headline_estimator",
    "kappa",
    "kappa_standard_error",
    "leaning_tiers",
    "log_e_path",
    "log_e_value",
    "mode_estimator",
    "paper_tier",
    "plugin_pass_at_k",
    "plugin_pass_pow_k",
    "pooled_estimator",
    "pooled_sample",
    "pooled_samples",
    "promised_rate",
    "quantile",
    "rate_name",
    "shown_estimators",
    "targets_of",
    "threshold_curve",
    "unbiased_pass_at_k",
    "unbiased_pass_pow_k",
    "validate_k",
    "wilson",
    "with_bootstrap",
]
