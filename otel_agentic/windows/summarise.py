"""Says everything there is to say about one group of scored conversations."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import TYPE_CHECKING

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.stats.choose import headline_among, validate_k
from otel_agentic.stats.cluster import pooled_samples
from otel_agentic.stats.grouped import GroupedAttempts, estimate_groups
from otel_agentic.stats.model import Attempts
from otel_agentic.stats.targets import TrafficEstimator, targets_of
from otel_agentic.stats.tiers import claim_tiers
from otel_agentic.windows.claims import ClaimBasis, claim_basis
from otel_agentic.windows.model import DimensionMean, GroupKey, GroupSummary, ScoredConversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.scoring.model import Dimension
    from otel_agentic.stats.model import Estimates, Estimator
    from otel_agentic.stats.tiers import TierClaim


def summarise(
    key: GroupKey,
    scored: Sequence[ScoredConversation],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
) -> GroupSummary:
    """Return the summary of one group.

    Conversations that were not evaluated leave n and lower the coverage; they never count as fails. The tier looks
    at the headline estimator: the configured one, where that is not among `estimators` the mode's pooled one, else the first.

    Args:
        key: what the group is about; copied into the summary.
        scored: its conversations, each once.
        estimators: what to estimate with, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, each 1 or more.

    Raises:
        UsageError: a k is not allowed; names it.
    """
    return summarise_all({key: scored}, estimators=estimators, settings=settings, k=k)[0]


def summarise_all(
    groups: Mapping[GroupKey, Sequence[ScoredConversation]],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    basis: Mapping[GroupKey, ClaimBasis] | None = None,
) -> list[GroupSummary]:
    """Return the summary of each group, in their order; all are estimated at once. See `summarise`.

    Args:
        groups: the conversations of each.
        estimators: see `summarise`.
        settings: see `summarise`.
        k: see `summarise`.
        basis: what the tier of each group rests on, where its conversations are not all since the agent version's first;
            None: on its conversations.

    Raises:
        UsageError: a k is not allowed; names it.
    """
    chosen_k = validate_k(k)
    if not groups:
        return []
    attempts = [attempts_of(scored) for scored in groups.values()]
    grouped = GroupedAttempts.of(attempts)
    found = {estimator.name: estimate_groups(estimator, grouped, chosen_k) for estimator in estimators}
    headline, shown = headline_among(estimators, settings)
    bases = [basis[key] if basis else claim_basis(key, scored) for key, scored in groups.items()]
    claims = claim_tiers(
        GroupedAttempts.of([each.attempts for each in bases]) if settings.tier_rule == "interval" else grouped,
        settings,
        needed=True,
        estimator=shown,
        withheld=[each.withheld for each in bases],
    )
    worth = pooled_samples(grouped).n
    traffic = TrafficEstimator(level=settings.level).estimate_groups(grouped, chosen_k)
    return [
        _summary(
            (key, scored, attempts[place], traffic.of(place)),
            {name: estimates.of(place) for name, estimates in found.items()},
            (claims[place], bases[place]),
            headline,
            None if isnan(worth[place]) else float(worth[place]),
        )
        for place, (key, scored) in enumerate(groups.items())
    ]


def _summary(
    group: tuple[GroupKey, Sequence[ScoredConversation], Attempts, Estimates],
    estimates: Mapping[str, Estimates],
    claimed: tuple[TierClaim, ClaimBasis],
    default: str,
    effective_n: float | None,
) -> GroupSummary:
    key, scored, attempts, this_traffic = group
    claim, basis = claimed
    repeatable = len(attempts.cases) > 1 and any(one.case_id is not None for one in scored)
    n, c = attempts.n, attempts.c
    known = sum(each.outcome == "not_evaluated" and each.known_failure is not None for each in scored)
    return GroupSummary(
        key=key,
        n=n,
        c=c,
        not_evaluated=_not_evaluated(scored),
        coverage=n / len(scored) if scored else None,
        bounds=pass_rate_bounds(n, c, len(scored) - n, known),
        estimates=estimates,
        default_estimator=default,
        effective_n=effective_n,
        targets=targets_of(attempts, this_traffic, estimates) if repeatable else None,
        tool_dimensions=_dimension_means(scored),
        tier=claim.tier,
        leaning=claim.leaning,
        needed=claim.needed,
        tier_evidence=claim.evidence,
        known_failures=known,
        tier_basis=basis,
    )


def attempts_of(scored: Iterable[ScoredConversation]) -> Attempts:
    """Return the evaluated conversations as attempts of their cases, see `ScoredConversation.case_key`.

    Weights that are all equal say nothing, and are left out.
    """
    evaluated = [conversation for conversation in scored if conversation.outcome != "not_evaluated"]
    unequal = len({conversation.weight for conversation in evaluated}) > 1
    return Attempts.of(
        (conversation.case_key, conversation.outcome == "pass", conversation.weight if unequal else 1.0)
        for conversation in evaluated
    )


def pass_rate_bounds(n: int, c: int, not_evaluated: int, known_failures: int = 0) -> tuple[float, float] | None:
    """Return the pass rate if all that were not evaluated had failed, and had passed; None when there is nothing.

    Of the not evaluated, `known_failures` fail however the judge would have decided: they cannot have passed.

    >>> pass_rate_bounds(8, 6, 2), pass_rate_bounds(8, 6, 2, known_failures=1)
    ((0.6, 0.8), (0.6, 0.7))
    """
    total = n + not_evaluated
    return (c / total, (c + not_evaluated - known_failures) / total) if total else None


def _not_evaluated(scored: Iterable[ScoredConversation]) -> dict[str, int]:
    reasons = Counter(
        conversation.reason or "no_data" for conversation in scored if conversation.outcome == "not_evaluated"
    )
    return dict(sorted(reasons.items()))


def _dimension_means(scored: Sequence[ScoredConversation]) -> dict[Dimension, DimensionMean]:
    means: dict[Dimension, DimensionMean] = {}
    for dimension in DIMENSIONS:
        applies = [conversation for conversation in scored if dimension in conversation.dimensions]
        if applies:
            total = sum(each.weight * each.dimensions[dimension] for each in applies)
            mean = total / sum(each.weight for each in applies)
            means[dimension] = DimensionMean(mean=min(1.0, max(0.0, mean)), n=len(applies))
    return means
