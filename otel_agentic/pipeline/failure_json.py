"""Groups of failures as JSON: what the command prints, and what reports hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_agentic.evaluators.failures import SEVERITIES
from otel_agentic.pipeline.export import iso

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.evaluators.failures import Failure
    from otel_agentic.evaluators.groups import ErrorGroup

Json = Any


def failures_json(
    groups: Sequence[ErrorGroup], *, counts: Mapping[str, int], limit: int | None = None, note: str | None = None
) -> dict[str, Json]:
    """Return groups with what they were found in.

    Args:
        groups: in the order in which they are told.
        counts: what stands beside them.
        limit: groups that are told at most; the counts are of all.
        note: what to say of their making, such as that a judge could not join them.
    """
    failures = [failure for group in groups for failure in group.failures]
    by_severity = Counter(failure.severity for failure in failures)
    return {
        **counts,
        "failures": len(failures),
        "failing_conversations": len({_key(failure) for failure in failures}),
        "by_severity": {severity: by_severity[severity] for severity in reversed(SEVERITIES)},
        "group_count": len(groups),
        "note": note,
        "groups": [group_json(group) for group in groups[:limit]],
    }


def group_json(group: ErrorGroup) -> dict[str, Json]:
    """Return a group with the places of its failures, newest first."""
    versions = Counter(failure.place.agent_version for failure in group.failures)
    return {
        "severity": group.severity,
        "title": group.title,
        "causes": [cause._asdict() for cause in group.causes],
        "count": len(group.failures),
        "conversations": group.conversations,
        "share": group.share,
        "agents": sorted({failure.place.agent or "" for failure in group.failures} - {""}),
        "agent_versions": [
            {"agent_version": version, "count": versions[version]} for version in sorted(versions, key=str)
        ],
        "first_seen": iso(group.first_seen_ns),
        "last_seen": iso(group.last_seen_ns),
        "example_conversation": group.example.place.conversation_id,
        "example": failure_json(group.example),
        "failures": [failure_json(failure) for failure in group.failures],
    }


def failure_json(failure: Failure) -> dict[str, Json]:
    """Return one failure: where it is, what it is, how bad, and why."""
    place, threshold = failure.place, failure.threshold
    return {
        "environment": place.environment,
        "conversation_id": place.conversation_id,
        "revision": place.revision,
        "agent": place.agent,
        "agent_version": place.agent_version,
        "ended_at": iso(place.ended_ns),
        "turn_index": failure.turn_index,
        "position": failure.position,
        "metric": failure.metric,
        "label": failure.label,
        "value": failure.value,
        "threshold": None if threshold is None else {name: getattr(threshold, name) for name in ("min", "max")},
        "severity": failure.severity,
        "tool_name": failure.tool_name,
        "parameter": failure.parameter,
        "explanation": failure.explanation,
    }


def _key(failure: Failure) -> tuple[str, str]:
    return (failure.place.environment, failure.place.conversation_id)
