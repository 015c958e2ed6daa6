"""Scores -> the report: one summary a group, in the shape of the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from otel_agentic.pipeline.comparison import Compared, comparison_json
from otel_agentic.pipeline.coverage import wrong_clocks_json
from otel_agentic.pipeline.judge_report import JudgeReport
from otel_agentic.pipeline.objectives import objectives_report
from otel_agentic.pipeline.report_json import cases_left_out, estimates_json, group_json, sampling_json
from otel_agentic.pipeline.report_metrics import chosen_metrics, metrics_json, tool_bands
from otel_agentic.pipeline.tier_basis import from_the_beginning, tier_bases
from otel_agentic.stats import (
    HierarchicalEstimator,
    PerCaseEstimator,
    headline_estimator,
    pooled_estimator,
    shown_estimators,
    validate_k,
)
from otel_agentic.stats.bootstrap import with_bootstrap
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.json_values import plain
from otel_agentic.store.matches import matched_by_text
from otel_agentic.store.selection import Selection
from otel_agentic.store.windows import scored_conversations
from otel_agentic.windows import GroupSummary, ScoredConversation, attempts_of, group_by, parse_window, summarise_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.stats import Estimator
    from otel_agentic.windows import GroupBy, GroupKey

__all__ = ["IntervalKind", "group_json", "report", "report_groups", "within"]

#: How intervals are made: each estimator's own way, or by resampling cases.
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
    """Return the reliability of each group as the JSON object of the contract.

    Args:
        engine: the opened store.
        k: the k of pass@k and pass^k; None takes the settings'.
        by: what to group by beside the agent.
        window: a width such as "24h": only conversations of that long up to where the window ends (see `within`); or a
            number such as "n200": only the newest of each group.
        selection: which conversations to look at.
        estimator: the headline estimator by name; None takes the configured one, and gives every installed one.
        interval: how the intervals of the shown estimators are made.
        compare: two groups against each other, such as "version=1.0.0,1.1.0"; the report is then about these two.
        metrics: which metrics beyond the outcome, by name; None gives all that have a score or abstained.

    Raises:
        UsageError: a k, a group, a metric or what is to be compared is not allowed, or one side of a comparison is nowhere.
        PluginError: there is no estimator of that name.
    """
    settings = engine.settings.stats
    chosen_k = validate_k(settings.k if k is None else k)
    selection = selection or Selection()
    names = chosen_metrics(engine, metrics)
    compared = None if compare is None else Compared.parse(compare)
    groups = report_groups(engine, by=by, window=window, selection=selection, compared=compared)
    stats = settings.model_copy(update={"estimator": estimator}) if estimator else settings
    asked = [each.name for each in engine.estimators(estimator)]
    names_shown = shown_estimators(stats)
    estimators = [
        engine.estimators(name)[0] for name in dict.fromkeys((*asked, *names_shown, HierarchicalEstimator.name))
    ]
    everything, whole = groups, from_the_beginning(selection)
    if window is not None or whole != selection:
        everything = report_groups(engine, by=by, window=None, selection=whole, compared=compared)
    basis = tier_bases(engine, {key: everything.get(key, ()) for key in groups}, whole)
    summaries = summarise_all(groups, estimators=estimators, settings=stats, k=chosen_k, basis=basis)
    if interval == "bootstrap":
        summaries = [_bootstrapped(summary, groups[summary.key], estimators, names_shown) for summary in summaries]
    judges = JudgeReport.of(engine, selection)
    roles = {"pooled": pooled_estimator(stats), "per_case": PerCaseEstimator.name}
    measured = metrics_json(engine, groups, names)
    found: dict[str, Any] = {
        "groups": [
            group_json(summary, window, asked)
            | {role: {"estimator": name, **estimates_json(summary.estimates[name])} for role, name in roles.items()}
            | {"partial_fails": judges.partial_fails(members), "judge": judges.judge_json(members)}
            | judges.corrected_json(members)
            | {"sampling": sampling_json(members)}
            | {"cases_left_out": cases_left_out([summary]), "gauge_estimator": headline_estimator(settings)}
            | {"tool_bands": tool_bands(members), "metrics": measured[summary.key]}
            for summary, members in zip(summaries, groups.values(), strict=True)
        ],
        "cases_left_out": cases_left_out(summaries),
        "wrong_clocks": plain(wrong_clocks_json(engine.store)),
    }
    if names is not None:
        found["metrics_chosen"] = names
    if compared is not None:
        found["comparison"] = comparison_json(compared, groups, chosen_k, settings)
    if failed := engine.rebuilder.not_rebuilt:
        traces = sum(isinstance(item, str) for item in failed)
        found["not_rebuilt"] = {"traces": traces, "conversations": len(failed) - traces}
    with engine.store.read() as con:
        by_text, suggested = matched_by_text(con, selection)
    if by_text or suggested:
        found["matched_by_text"] = {"matched": by_text, "suggested": suggested}
    if engine.settings.slo.objectives and engine.store.evaluation == DEFAULT:
        found["objectives"] = objectives_report(engine, selection.agent)
    return found


def report_groups(
    engine: Engine,
    *,
    by: Sequence[GroupBy],
    window: str | None,
    selection: Selection,
    compared: Compared | None,
) -> Mapping[GroupKey, Sequence[ScoredConversation]]:
    """Return the conversations of each group of a report, by end. See `report` for what the arguments are.

    Raises:
        UsageError: a group is not allowed, or one side of a comparison is nowhere.
    """
    wide = None if window is None else parse_window(window)
    with engine.store.read() as con:
        scored = scored_conversations(con, selection)
    if wide is not None and wide.width_ns is not None:
        scored = within(engine, scored, wide.width_ns, selection.until_ns)
    if compared is None:
        groups = group_by(scored, tuple(dict.fromkeys(("agent", *by))))
    else:
        groups = compared.groups(group_by(compared.among(scored), tuple(dict.fromkeys(("agent", *by, compared.by)))))
    if wide is None or wide.newest is None:
        return groups
    return {key: members[-wide.newest :] for key, members in groups.items()}


def within(
    engine: Engine, scored: Sequence[ScoredConversation], width_ns: int, until_ns: int | None
) -> list[ScoredConversation]:
    """Return the conversations of the last `width_ns` before the end of the selection.

    Without one the window ends at the clock of the collector that runs; without a collector, at the newest conversation
    whose sender's clock was right, so that one sender's wrong clock does not empty the window.
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
    """Return a summary whose shown estimates have bootstrap intervals; resampling all of them would take long."""
    found = {
        each.name: with_bootstrap(each, attempts_of(members), tuple(summary.estimates[each.name].pass_at_k))
        for each in estimators
        if each.name in names
    }
    return replace(summary, estimates={**summary.estimates, **found})
