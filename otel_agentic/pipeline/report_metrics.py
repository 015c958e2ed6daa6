"""What a report says of metrics beyond the outcome, as JSON can say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.registry import resolved
from otel_agentic.pipeline.failures import found_failures
from otel_agentic.pipeline.metric_summary import summaries_of
from otel_agentic.scoring.bands import banded
from otel_agentic.scoring.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import Threshold
    from otel_agentic.evaluators.groups import ErrorGroup
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.metric_summary import MetricSummary
    from otel_agentic.store.selection import Selection
    from otel_agentic.windows import GroupKey, ScoredConversation

#: Causes of failures that a page shows.
_CAUSES: Final = 20


def chosen_metrics(engine: Engine, names: Sequence[str] | None) -> list[str] | None:
    """Return the whole names of the metrics that a report is to show, None where it shows all that have scores.

    Raises:
        UsageError: a name means no metric, or several.
    """
    return None if names is None else list(resolved(names, engine.evaluating.installed))


def metrics_json(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], names: Sequence[str] | None
) -> dict[GroupKey, list[dict[str, Any]] | None]:
    """Return what metrics say of each group of conversations; None where none is to be shown."""
    if names is not None and not names:
        return dict.fromkeys(groups)
    found = summaries_of(engine, [_keys(members) for members in groups.values()], names=names)
    return {key: [metric_json(each) for each in some] for key, some in zip(groups, found, strict=True)}


def failures_json(
    engine: Engine, selection: Selection, groups: Iterable[Iterable[ScoredConversation]]
) -> dict[str, Any]:
    """Return the worst causes of failures of some conversations, and how many causes there are beyond those."""
    keys = {key for members in groups for key in _keys(members)}
    found = found_failures(engine, selection, keys=keys).groups
    return {"rows": [_cause_json(group) for group in found[:_CAUSES]], "left_out": len(found[_CAUSES:])}


def metric_json(summary: MetricSummary) -> dict[str, Any]:
    """Return what the scores of one metric say, as a JSON object.

    `range` has the bounds of its values, None where there is no bound; it is None, as are the other properties of the
    metric, where no evaluator of that name is installed any more.
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
    """Return, of each tool dimension that applied, how many conversations are perfect, good, moderate and poor in it."""
    found: dict[str, dict[str, int]] = {}
    for name in DIMENSIONS:
        scores = [value for member in members if (value := member.dimensions.get(name)) is not None]
        if scores:
            found[name] = {str(band): count for band, count in banded(scores).items()}
    return found


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
