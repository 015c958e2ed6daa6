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
from otel_agentic.stats.bayesian import BayesianEstimator, BetaPosterior
from otel_agentic.stats.choose import POOLED, default_among, default_estimator, mode_estimator, validate_k
from otel_agentic.stats.cluster import EffectiveSample, effective_n, mean_sample, pooled_sample
from otel_agentic.stats.frequentist import PerCaseEstimator, PluginEstimator, UnbiasedEstimator
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates, GroupEstimator, estimate_groups
from otel_agentic.stats.interval import Bounded, Interval, clopper_pearson, quantile, wilson
from otel_agentic.stats.model import TIERS, Attempts, CaseCount, CaseKey, Estimate, Estimates, Estimator, Tier
from otel_agentic.stats.pass_k import (
    all_of,
    any_of,
    plugin_pass_at_k,
    plugin_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)
from otel_agentic.stats.tiers import TierClaim, claim_tier, docs_tier, paper_tier

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
    "Confusion",
    "CurvePoint",
    "EffectiveSample",
    "Estimate",
    "Estimates",
    "Estimator",
    "GroupEstimator",
    "GroupedAttempts",
    "GroupedEstimates",
    "Interval",
    "PerCaseEstimator",
    "PluginEstimator",
    "Tier",
    "TierClaim",
    "UnbiasedEstimator",
    "VerdictPair",
    "agreement_of",
    "all_of",
    "any_of",
    "best_threshold",
    "claim_tier",
    "clopper_pearson",
    "confusion_of",
    "default_among",
    "default_estimator",
    "docs_tier",
    "effective_n",
    "estimate_groups",
    "kappa",
    "kappa_standard_error",
    "mean_sample",
    "mode_estimator",
    "paper_tier",
    "plugin_pass_at_k",
    "plugin_pass_pow_k",
    "pooled_sample",
    "quantile",
    "threshold_curve",
    "unbiased_pass_at_k",
    "unbiased_pass_pow_k",
    "validate_k",
    "wilson",
]
