"""The report: rates with intervals, coverage, tiers, metrics and comparisons, for groups of conversations."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.evaluators.registry import resolved
from otel_agentic.reports.comparison import Compared, comparison_json
from otel_agentic.reports.conversations import iso, wrong_clocks_json
from otel_agentic.reports.failures import found_failures
from otel_agentic.reports.judge_report import JudgeReport
from otel_agentic.reports.metric_summary import summaries_of
from otel_agentic.reports.objectives import objectives_report
from otel_agentic.scoring.model import DIMENSIONS, banded
from otel_agentic.stats import (
    HierarchicalEstimator,
    PerCaseEstimator,
    headline_estimator,
    pooled_estimator,
    shown_estimators,
    validate_k,
)
from otel_agentic.stats.cluster import INTERVAL_METHOD as BOOTSTRAP
from otel_agentic.stats.cluster import collapsed, with_bootstrap
from otel_agentic.store.queries.windows import removed_attempts
from otel_agentic.store.selection import DEFAULT, Selection, to_json_value
from otel_agentic.store.truth import matched_by_text
from otel_agentic.store.windows import scored_conversations
from otel_agentic.windows import (
    GroupSummary,
    ScoredConversation,
    attempts_of,
    claim_basis,
    group_by,
    parse_window,
    summarise_all,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from otel_agentic.config import Threshold
    from otel_agentic.engine.engine import Engine
    from otel_agentic.evaluators.failures import ErrorGroup
    from otel_agentic.reports.metric_summary import MetricSummary
    from otel_agentic.stats import Estimates, Estimator, Targets
    from otel_agentic.windows import ClaimBasis, GroupBy, GroupKey


def from_the_beginning(selection: Selection) -> Selection:
    """Return a selection without its start time: a tier claim counts from an agent version's first conversation.

    A chosen or rolling period is no basis for a claim.
    """
    return replace(selection, since_ns=None)


def tier_bases(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], selection: Selection
) -> dict[GroupKey, ClaimBasis]:
    """Return the basis of each group's tier.

    Args:
        engine: the opened store.
        groups: the conversations of each group, from the beginning.
        selection: how they were selected.
    """
    removed = []
    if engine.store.evaluation == DEFAULT:  # removed attempts are counted only for the default evaluation
        with engine.store.read() as con:
            removed = removed_attempts(con)
        if selection.until_ns is not None:
            removed = [attempts for attempts in removed if attempts.last_ns < selection.until_ns]
    since_ns = engine.settings.slo.since_ns
    return {key: claim_basis(key, members, removed=removed, since_ns=since_ns) for key, members in groups.items()}


def group_json(summary: GroupSummary, window: str | None, estimators: Collection[str] | None = None) -> dict[str, Any]:
    """Return one group as the documented JSON object, with the estimates of the named estimators, or of all."""
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
            name: estimates_json(estimates)
            for name, estimates in summary.estimates.items()
            if estimators is None or name in estimators
        },
        "tool_dimensions": {
            name: {"mean": dimension.mean, "n": dimension.n} for name, dimension in summary.tool_dimensions.items()
        },
        "tier": summary.tier,
        "leaning": summary.leaning,
        "needed": summary.needed,
        "tier_evidence": _tier_json(summary),
    }


def _tier_json(summary: GroupSummary) -> dict[str, Any] | None:
    """Return the evidence for a tier; `since` is the end of the first conversation that counts."""
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
    """Return both targets with their estimates by k, see `otel_agentic.stats.hierarchical`."""
    return {
        "cases": targets.cases,
        "fewest_attempts": targets.fewest,
        "most_attempts": targets.most,
        "this_traffic": {str(k): asdict(estimate) for k, estimate in targets.this_traffic.items()},
        "new_case": {str(k): asdict(estimate) for k, estimate in targets.new_case.items()},
    }


def cases_left_out(summaries: Iterable[GroupSummary]) -> dict[str, dict[str, int]]:
    """Return by estimator and k how many cases of all groups have too few attempts."""
    counts: dict[str, Counter[str]] = {}
    for summary in summaries:
        for name, estimates in summary.estimates.items():
            for k, skipped in estimates.cases_left_out.items():
                counts.setdefault(name, Counter())[str(k)] += skipped
    return {name: dict(by_k) for name, by_k in counts.items()}


def sampling_json(members: Iterable[ScoredConversation]) -> dict[str, Any] | None:
    """Return the lowest and highest share of conversations that were evaluated, or None if all were.

    `weighted`: the shares differ, so rates weight each conversation by 1 / share.
    """
    ratios = {1.0 / member.weight for member in members}
    if not ratios or ratios == {1.0}:
        return None
    lowest, highest = min(ratios), max(ratios)
    return {"lowest_ratio": lowest, "highest_ratio": highest, "weighted": lowest < highest}


def estimates_json(estimates: Estimates) -> dict[str, Any]:
    """Return the estimates of one estimator as the documented JSON object."""

    def by_k(rates: Any) -> dict[str, Any]:
        return {
            str(k): {"value": rate.value, "lower": rate.lower, "upper": rate.upper} for k, rate in sorted(rates.items())
        }

    record: dict[str, Any] = {
        "interval_method": estimates.interval_method,
        "level": estimates.level,
        "pass_at_k": by_k(estimates.pass_at_k),
        "pass_pow_k": by_k(estimates.pass_pow_k),
    }
    if estimates.interval_method == BOOTSTRAP:
        record["collapsed"] = collapsed(estimates)
    return record


#: Causes of failures on an HTML page.
_MAX_CAUSES: Final = 20


def chosen_metrics(engine: Engine, names: Sequence[str] | None) -> list[str] | None:
    """Return the full names of the metrics of a report, or None for all with scores.

    Raises:
        UsageError: a name is unknown or ambiguous.
    """
    return None if names is None else list(resolved(names, engine.evaluating.installed))


def metrics_json(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], names: Sequence[str] | None
) -> dict[GroupKey, list[dict[str, Any]] | None]:
    """Return the metric summaries of each group of conversations, or None if no metrics are requested."""
    if names is not None and not names:
        return dict.fromkeys(groups)
    by_group = summaries_of(engine, [_keys(members) for members in groups.values()], names=names)
    return {
        key: [metric_json(summary) for summary in summaries] for key, summaries in zip(groups, by_group, strict=True)
    }


def failures_json(
    engine: Engine, selection: Selection, groups: Iterable[Iterable[ScoredConversation]]
) -> dict[str, Any]:
    """Return the most severe causes of failures of conversations, and the number of further causes."""
    keys = {key for members in groups for key in _keys(members)}
    causes = found_failures(engine, selection, keys=keys).groups
    return {
        "rows": [_cause_json(cause) for cause in causes[:_MAX_CAUSES]],
        "left_out": len(causes[_MAX_CAUSES:]),
    }


def metric_json(summary: MetricSummary) -> dict[str, Any]:
    """Return the summary of one metric as a JSON object.

    `range` contains the bounds of its values, each None if there is no bound. `range` and the other properties of the metric
    are None if its evaluator is no longer installed.
    """
    metric = summary.metric
    return {
        "name": summary.name,
        "title": None if metric is None else metric.title,
        "evaluator": summary.evaluator,
        "evaluator_version": summary.evaluator_version,
        "target": None if metric is None else metric.target,
        "unit": None if metric is None else metric.unit,
        "range": None if metric is None else [metric.low, metric.high],
        "higher_is_better": None if metric is None else metric.higher_is_better,
        "n": summary.n,
        "conversations": summary.conversations,
        "not_evaluated": dict(summary.not_evaluated),
        "coverage": summary.coverage,
        "mean": summary.mean,
        "low": summary.low,
        "median": summary.median,
        "high": summary.high,
        "labels": dict(summary.labels),
        "failing_labels": [] if metric is None else sorted(metric.failing),
        "failures": summary.failures,
        "threshold": _threshold_json(summary.threshold),
        "explanation": summary.explanation,
        "details": dict(summary.details),
    }


def tool_bands(members: Sequence[ScoredConversation]) -> dict[str, dict[str, int]]:
    """Return for each applicable tool dimension the number of perfect, good, moderate and poor conversations."""
    bands: dict[str, dict[str, int]] = {}
    for name in DIMENSIONS:
        scores = [value for member in members if (value := member.dimensions.get(name)) is not None]
        if scores:
            bands[name] = {str(band): count for band, count in banded(scores).items()}
    return bands


def _threshold_json(threshold: Threshold | None) -> dict[str, float | None] | None:
    return None if threshold is None else {"min": threshold.min, "max": threshold.max}


def _keys(members: Iterable[ScoredConversation]) -> set[tuple[str, str]]:
    return {(member.environment, member.conversation_id) for member in members}


def _cause_json(group: ErrorGroup) -> dict[str, Any]:
    return {
        "title": group.title,
        "severity": group.severity,
        "failures": len(group.failures),
        "conversations": group.conversations,
        "share": group.share,
        "first_seen_ns": group.first_seen_ns,
        "last_seen_ns": group.last_seen_ns,
        "example_conversation": group.example.place.conversation_id,
        "example_environment": group.example.place.environment,
        "explanation": group.example.explanation,
    }


#: The method of intervals: that of each estimator, or resampling of cases.
IntervalKind = Literal["default", "bootstrap"]


def report(
    engine: Engine,
    *,
    k: Sequence[int] | None = None,
    by: Sequence[GroupBy] = (),
    window: str | None = None,
    selection: Selection | None = None,
    estimator: str | None = None,
    interval: IntervalKind = "default",
    compare: str | None = None,
    metrics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the reliability of each group as the documented JSON object.

    Args:
        engine: the opened store.
        k: the k of pass@k and pass^k; None for those of the settings.
        by: the keys to group by, in addition to the agent.
        window: a width such as "24h": only conversations of that period up to the end of the window (see `within`); or a
            number such as "n200": only the newest of each group.
        selection: the conversations.
        estimator: the name of the headline estimator; None for the configured one, with every installed one in the result.
        interval: the method of the intervals of the displayed estimators.
        compare: a comparison of two groups, such as "version=1.0.0,1.1.0"; the report is then about these two.
        metrics: names of metrics beyond the outcome; None for all with a score or an abstention.

    Raises:
        UsageError: a k, a group, a metric or a comparison is invalid, or one side of a comparison has no conversations.
        PluginError: the estimator is unknown.
    """
    settings = engine.settings.stats
    chosen_k = validate_k(settings.k if k is None else k)
    selection = selection or Selection()
    names = chosen_metrics(engine, metrics)
    compared = None if compare is None else Compared.parse(compare)
    groups = report_groups(engine, by=by, window=window, selection=selection, compared=compared)
    stats = settings.model_copy(update={"estimator": estimator}) if estimator else settings
    requested = [plugin.name for plugin in engine.estimators(estimator)]
    displayed = shown_estimators(stats)
    estimators = [
        engine.estimators(name)[0] for name in dict.fromkeys((*requested, *displayed, HierarchicalEstimator.name))
    ]
    all_groups, since_start = groups, from_the_beginning(selection)
    if window is not None or since_start != selection:
        all_groups = report_groups(engine, by=by, window=None, selection=since_start, compared=compared)
    basis = tier_bases(engine, {key: all_groups.get(key, ()) for key in groups}, since_start)
    summaries = summarise_all(groups, estimators=estimators, settings=stats, k=chosen_k, basis=basis)
    if interval == "bootstrap":
        summaries = [_bootstrapped(summary, groups[summary.key], estimators, displayed) for summary in summaries]
    judges = JudgeReport.of(engine, selection)
    roles = {"pooled": pooled_estimator(stats), "per_case": PerCaseEstimator.name}
    measured = metrics_json(engine, groups, names)
    result: dict[str, Any] = {
        "groups": [
            group_json(summary, window, requested)
            | {role: {"estimator": name, **estimates_json(summary.estimates[name])} for role, name in roles.items()}
            | {"partial_fails": judges.partial_fails(members), "judge": judges.judge_json(members)}
            | judges.corrected_json(members)
            | {"sampling": sampling_json(members)}
            | {"cases_left_out": cases_left_out([summary]), "gauge_estimator": headline_estimator(settings)}
            | {"tool_bands": tool_bands(members), "metrics": measured[summary.key]}
            for summary, members in zip(summaries, groups.values(), strict=True)
        ],
        "cases_left_out": cases_left_out(summaries),
        "wrong_clocks": to_json_value(wrong_clocks_json(engine.store)),
    }
    if names is not None:
        result["metrics_chosen"] = names
    if compared is not None:
        result["comparison"] = comparison_json(compared, groups, chosen_k, settings)
    if failed := engine.rebuilder.not_rebuilt:
        traces = sum(isinstance(item, str) for item in failed)
        result["not_rebuilt"] = {"traces": traces, "conversations": len(failed) - traces}
    with engine.store.read() as con:
        by_text, suggested = matched_by_text(con, selection)
    if by_text or suggested:
        result["matched_by_text"] = {"matched": by_text, "suggested": suggested}
    if engine.settings.slo.objectives and engine.store.evaluation == DEFAULT:
        result["objectives"] = objectives_report(engine, selection.agent)
    return result


def report_groups(
    engine: Engine,
    *,
    by: Sequence[GroupBy],
    window: str | None,
    selection: Selection,
    compared: Compared | None,
) -> Mapping[GroupKey, Sequence[ScoredConversation]]:
    """Return the conversations of each group of a report, sorted by end. The arguments are those of `report`.

    Raises:
        UsageError: a group is invalid, or one side of a comparison has no conversations.
    """
    parsed = None if window is None else parse_window(window)
    with engine.store.read() as con:
        scored = scored_conversations(con, selection)
    if parsed is not None and parsed.width_ns is not None:
        scored = within(engine, scored, parsed.width_ns, selection.until_ns)
    if compared is None:
        groups = group_by(scored, tuple(dict.fromkeys(("agent", *by))))
    else:
        groups = compared.groups(group_by(compared.among(scored), tuple(dict.fromkeys(("agent", *by, compared.by)))))
    if parsed is None or parsed.newest is None:
        return groups
    return {key: members[-parsed.newest :] for key, members in groups.items()}


def within(
    engine: Engine, scored: Sequence[ScoredConversation], width_ns: int, until_ns: int | None
) -> list[ScoredConversation]:
    """Return the conversations of the last `width_ns` before the end of the selection.

    If the selection has no end, the window ends now in a running collector; otherwise at the end of the newest conversation
    whose sender's clock was right, so that a sender with a wrong clock cannot empty the window.
    """
    if not scored:
        return []
    if until_ns is not None:
        end_ns = until_ns
    elif engine.collecting:
        end_ns = engine.clock()
    else:
        trusted = [item.ended_ns for item in scored if not item.clock_ahead]
        end_ns = max(trusted or [item.ended_ns for item in scored])
    return [item for item in scored if end_ns - width_ns < item.ended_ns <= end_ns]


def _bootstrapped(
    summary: GroupSummary, members: Sequence[ScoredConversation], estimators: Sequence[Estimator], names: Sequence[str]
) -> GroupSummary:
    """Return a summary with bootstrap intervals for the named estimators; resampling for all of them would take too long."""
    resampled = {
        estimator.name: with_bootstrap(
            estimator, attempts_of(members), tuple(summary.estimates[estimator.name].pass_at_k)
        )
        for estimator in estimators
        if estimator.name in names
    }
    return replace(summary, estimates={**summary.estimates, **resampled})
