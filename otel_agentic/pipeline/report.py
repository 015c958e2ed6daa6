"""Scores -> the report: one summary a group, in the shape of the contract."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.judge_report import JudgeReport
from otel_agentic.stats import validate_k
from otel_agentic.store.scores import Selection
from otel_agentic.store.windows import scored_conversations
from otel_agentic.windows import GroupSummary, ScoredConversation, group_by, parse_width, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.stats import Estimates
    from otel_agentic.windows import GroupBy


def report(
    engine: Engine,
    *,
    k: Sequence[int] | None = None,
    by: Sequence[GroupBy] = (),
    window: str | None = None,
    selection: Selection | None = None,
    estimator: str | None = None,
) -> dict[str, Any]:
    """Return the reliability of each group as the JSON object of the contract.

    Args:
        engine: the opened store.
        k: the k of pass@k and pass^k; None takes the settings'.
        by: what to group by beside the agent.
        window: a width such as "24h": only conversations of that long up to the newest one (or the selection's end).
        selection: which conversations to look at.
        estimator: one estimator by name; None gives every installed one.

    Raises:
        UsageError: a k or a group is not allowed.
        PluginError: there is no estimator of that name.
    """
    chosen_k = validate_k(engine.settings.stats.k if k is None else k)
    with engine.store.read() as con:
        scored = scored_conversations(con, selection or Selection())
    if window is not None:
        scored = _within(scored, parse_width(window), (selection or Selection()).until_ns)
    stats = engine.settings.stats.model_copy(update={"estimator": estimator}) if estimator else engine.settings.stats
    grouped = group_by(scored, tuple(dict.fromkeys(("agent", *by))))
    estimators = engine.estimators(estimator)
    summaries = [
        summarise(key, members, estimators=estimators, settings=stats, k=chosen_k) for key, members in grouped.items()
    ]
    judges = JudgeReport.of(engine, selection or Selection())
    return {
        "groups": [
            group_json(summary, window)
            | {"partial_fails": judges.partial_fails(members), "judge": judges.judge_json(members)}
            for summary, members in zip(summaries, grouped.values(), strict=True)
        ],
        "cases_left_out": _cases_left_out(summaries),
    }


def group_json(summary: GroupSummary, window: str | None) -> dict[str, Any]:
    """Return one group as the JSON object of the contract."""
    key = summary.key
    return {
        "agent": key.agent,
        "agent_version": key.agent_version,
        "environment": key.environment or None,
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
        "default_estimator": summary.default_estimator,
        "estimates": {name: _estimates_json(found) for name, found in summary.estimates.items()},
        "tool_dimensions": {
            name: {"mean": found.mean, "n": found.n} for name, found in summary.tool_dimensions.items()
        },
        "tier": summary.tier,
        "leaning": summary.leaning,
        "needed": summary.needed,
    }


def _estimates_json(estimates: Estimates) -> dict[str, Any]:
    def by_k(found: Any) -> dict[str, Any]:
        return {
            str(k): {"value": each.value, "lower": each.lower, "upper": each.upper} for k, each in sorted(found.items())
        }

    return {
        "interval_method": estimates.interval_method,
        "level": estimates.level,
        "pass_at_k": by_k(estimates.pass_at_k),
        "pass_pow_k": by_k(estimates.pass_pow_k),
    }


def _cases_left_out(summaries: Iterable[GroupSummary]) -> dict[str, dict[str, int]]:
    """Return, by estimator and k, how many cases had too few attempts."""
    counts: dict[str, Counter[str]] = {}
    for summary in summaries:
        for name, estimates in summary.estimates.items():
            for k, left_out in estimates.cases_left_out.items():
                counts.setdefault(name, Counter())[str(k)] += left_out
    return {name: dict(found) for name, found in counts.items()}


def _within(scored: Sequence[ScoredConversation], width_ns: int, until_ns: int | None) -> list[ScoredConversation]:
    if not scored:
        return []
    end_ns = until_ns if until_ns is not None else max(item.ended_ns for item in scored)
    return [item for item in scored if end_ns - width_ns < item.ended_ns <= end_ns]
