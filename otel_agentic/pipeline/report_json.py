"""What a report says of a group, as JSON can say it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.export import iso
from otel_agentic.stats.bootstrap import INTERVAL_METHOD as BOOTSTRAP
from otel_agentic.stats.bootstrap import collapsed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from otel_agentic.stats import Estimates, Targets
    from otel_agentic.windows import GroupSummary, ScoredConversation


def group_json(summary: GroupSummary, window: str | None, estimators: Collection[str] | None = None) -> dict[str, Any]:
    """Return one group as the JSON object of the contract, with the estimates of some estimators, or of all."""
    key = summary.key
    return {
        "agent": key.agent,
        "agent_version": key.agent_version,
        "environment": key.environment,
        "service": key.service,
        "tag": key.tag,
        "dataset": key.dataset,
        "case": key.case,
        "tool": key.tool,
        "window": window,
        "n": summary.n,
        "c": summary.c,
        "coverage": summary.coverage,
        "bounds": list(summary.bounds) if summary.bounds else None,
        "not_evaluated": dict(summary.not_evaluated),
        "known_failures": summary.known_failures,
        "default_estimator": summary.default_estimator,
        "effective_n": summary.effective_n,
        "targets": summary.targets and _targets_json(summary.targets),
        "estimates": {
            name: estimates_json(found)
            for name, found in summary.estimates.items()
            if estimators is None or name in estimators
        },
        "tool_dimensions": {
            name: {"mean": found.mean, "n": found.n} for name, found in summary.tool_dimensions.items()
        },
        "tier": summary.tier,
        "leaning": summary.leaning,
        "needed": summary.needed,
        "tier_evidence": _tier_json(summary),
    }


def _tier_json(summary: GroupSummary) -> dict[str, Any] | None:
    """Return what a tier rests on; `since` is the end of the first conversation that counts."""
    evidence, basis = summary.tier_evidence, summary.tier_basis
    if evidence is None or basis is None:
        return None
    return asdict(evidence) | {
        "since": None if basis.since_ns is None else iso(basis.since_ns),
        "agent_version": basis.agent_version,
        "versions": basis.versions,
        "withheld": basis.withheld,
    }


def _targets_json(targets: Targets) -> dict[str, Any]:
    """Return both targets with their estimates by k, see `otel_agentic.stats.targets`."""
    return {
        "cases": targets.cases,
        "fewest_attempts": targets.fewest,
        "most_attempts": targets.most,
        "this_traffic": {str(k): asdict(found) for k, found in targets.this_traffic.items()},
        "new_case": {str(k): asdict(found) for k, found in targets.new_case.items()},
    }


def cases_left_out(summaries: Iterable[GroupSummary]) -> dict[str, dict[str, int]]:
    """Return, by estimator and k, how many cases had too few attempts, in all groups."""
    counts: dict[str, Counter[str]] = {}
    for summary in summaries:
        for name, estimates in summary.estimates.items():
            for k, left_out in estimates.cases_left_out.items():
                counts.setdefault(name, Counter())[str(k)] += left_out
    return {name: dict(found) for name, found in counts.items()}


def sampling_json(members: Iterable[ScoredConversation]) -> dict[str, Any] | None:
    """Return the shares of conversations that were evaluated, None where all were.

    `weighted`: the shares differ, so that rates weigh each conversation by 1 / its share.
    """
    ratios = {1.0 / one.weight for one in members}
    if not ratios or ratios == {1.0}:
        return None
    lowest, highest = min(ratios), max(ratios)
    return {"lowest_ratio": lowest, "highest_ratio": highest, "weighted": lowest < highest}


def estimates_json(estimates: Estimates) -> dict[str, Any]:
    """Return the estimates of one estimator as the JSON object of the contract."""

    def by_k(found: Any) -> dict[str, Any]:
        return {
            str(k): {"value": each.value, "lower": each.lower, "upper": each.upper} for k, each in sorted(found.items())
        }

    told: dict[str, Any] = {
        "interval_method": estimates.interval_method,
        "level": estimates.level,
        "pass_at_k": by_k(estimates.pass_at_k),
        "pass_pow_k": by_k(estimates.pass_pow_k),
    }
    if estimates.interval_method == BOOTSTRAP:
        told["collapsed"] = collapsed(estimates)
    return told
