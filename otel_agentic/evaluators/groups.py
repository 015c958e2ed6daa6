"""Failures by root cause: each failure is in exactly one group, and the groups add up.

What was found wrong in the same way, by the same metric with the same label, tool and parameter, is taken for one cause.
Groups can be joined (a judge may say which belong together, see `merging`), never split: no failure is ever lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.evaluators.core import ANSWER, CONVERSATION, TOOL
from otel_agentic.evaluators.failures import SEVERITIES
from otel_agentic.evaluators.operations.names import LOOPS, TOOL_FAILURE, TURN_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import Severity
    from otel_agentic.evaluators.base import Metric
    from otel_agentic.evaluators.failures import Failure


class Cause(NamedTuple):
    """What failures of one group have in common; `label` is None where a value does not meet its threshold."""

    metric: str
    label: str | None
    tool_name: str | None
    parameter: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Failures of one cause, or of several that were joined.

    `severity` is the highest of its failures. `conversations` counts them once each, and `share` is its part of all failures.
    `example` is the newest failure of that severity. Times are the ends of conversations, ns since the epoch.
    """

    causes: tuple[Cause, ...]
    title: str
    severity: Severity
    failures: tuple[Failure, ...]
    conversations: int
    share: float
    example: Failure
    first_seen_ns: int
    last_seen_ns: int


def cause_of(failure: Failure) -> Cause:
    """Return what a failure is grouped by."""
    return Cause(failure.metric, failure.label, failure.tool_name, failure.parameter)


def group_failures(failures: Iterable[Failure], metrics: Mapping[str, Metric]) -> list[ErrorGroup]:
    """Return failures by cause: the worst groups first, of these what most conversations failed by, then what is newest.

    Args:
        failures: of any conversations, in any order: it changes nothing.
        metrics: by name, what titles speak of.
    """
    by_cause: dict[Cause, list[Failure]] = {}
    for failure in sorted(failures, key=_recency, reverse=True):
        by_cause.setdefault(cause_of(failure), []).append(failure)
    total = sum(map(len, by_cause.values()))
    return ordered(
        _group((cause,), _title(cause, found[0], metrics), found, total=total) for cause, found in by_cause.items()
    )


def joined(groups: Sequence[ErrorGroup], title: str | None = None) -> ErrorGroup:
    """Return several groups as one: of all their causes and failures.

    Args:
        groups: at least one, of one list of groups.
        title: what they have in common; unless given, that of the first of them in order.
    """
    first, *others = ordered(groups)
    failures = [failure for group in groups for failure in group.failures]
    share = sum(group.share for group in groups)
    causes = tuple(cause for group in (first, *others) for cause in group.causes)
    told = title or (f"{first.title}, and {len(others)} alike" if others else first.title)
    return _group(causes, told, failures, total=round(len(failures) / share))


def ordered(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    """Return groups in the order in which somebody should look at them."""
    return sorted(groups, key=_urgency)


def _urgency(group: ErrorGroup) -> tuple[object, ...]:
    causes = [tuple((part is not None, part or "") for part in cause) for cause in group.causes]
    often = (-group.conversations, -len(group.failures), -group.last_seen_ns)
    return (-SEVERITIES.index(group.severity), *often, causes)


def _group(causes: tuple[Cause, ...], title: str, failures: Sequence[Failure], *, total: int) -> ErrorGroup:
    newest_first = sorted(failures, key=_recency, reverse=True)
    worst = max((failure.severity for failure in failures), key=SEVERITIES.index)
    ends = [failure.place.ended_ns for failure in failures]
    return ErrorGroup(
        causes=causes,
        title=title,
        severity=worst,
        failures=tuple(newest_first),
        conversations=len({(each.place.environment, each.place.conversation_id) for each in failures}),
        share=len(failures) / total,
        example=next(failure for failure in newest_first if failure.severity == worst),
        first_seen_ns=min(ends),
        last_seen_ns=max(ends),
    )


def _recency(failure: Failure) -> tuple[object, ...]:
    place = failure.place
    where = (place.ended_ns, place.environment, place.conversation_id)
    # Within a conversation the first thing that went wrong counts as the newest: it may have led to the rest.
    turn = -1 if failure.turn_index is None else failure.turn_index
    call = -1 if failure.position is None else failure.position
    # The rest is no time, but makes the order one and the same whatever order they came in.
    what = (failure.metric, failure.label, failure.tool_name, failure.parameter, failure.value, failure.threshold)
    return (*where, -turn, -call, failure.explanation, failure.severity, *map(repr, what))


def _title(cause: Cause, failure: Failure, metrics: Mapping[str, Metric]) -> str:
    told = _TOLD.get((cause.metric, cause.label or ""))
    if told is not None:
        where = f" ({cause.tool_name})" if cause.tool_name and "{tool}" not in told else ""
        return told.format(tool=cause.tool_name, parameter=cause.parameter) + where
    metric = metrics.get(cause.metric)
    title = metric.title if metric is not None else cause.metric
    told = f": {cause.label.replace('_', ' ')}" if cause.label is not None else f" {_bound(failure)}"
    where = " ".join(part for part in (cause.tool_name, cause.parameter) if part)
    return f"{title}{told} ({where})" if where else f"{title}{told}"


def _bound(failure: Failure) -> str:
    threshold = failure.threshold
    if threshold is None:
        return "does not meet its threshold"
    if threshold.min is None:
        return f"is above {threshold.max:g}"
    if threshold.max is None:
        return f"is below {threshold.min:g}"
    return f"is not within {threshold.min:g} to {threshold.max:g}"


_TOLD: Final = {
    (TOOL, "missing"): "{tool} was not called where it is expected",
    (TOOL, "spurious"): "{tool} was called though nobody asked for it",
    (TOOL, "forbidden"): "{tool} was called though it is forbidden",
    (TOOL, "wrong_parameters"): "{tool} was given a wrong {parameter}",
    (TOOL, "wrong_order"): "{tool} was called out of order",
    (TOOL, "unused_result"): "the result of {tool} was not used",
    (TOOL, "errored"): "{tool} answered with an error, and was not called again with success",
    (TOOL_FAILURE, "unhandled"): "{tool} failed, and was neither recovered nor reported",
    (TURN_END, "error"): "a turn ended in an error, without an answer",
    (TURN_END, "raw_output"): "the answer is the raw output of an interpreter, or a stack trace",
    (LOOPS, ""): "{tool} was called again with the same arguments and the same result",
    (ANSWER, "wrong_answer"): "the answer was wrong",
    (ANSWER, "forbidden_answer"): "the answer said what must not be said",
    (CONVERSATION, "missing_turn"): "an expected turn never came",
    (CONVERSATION, "output_not_said"): "an expected output was not said",
    (CONVERSATION, "extra_turn"): "a turn came that is not in the case",
    (CONVERSATION, "no_fault_named"): "it failed, and this evaluation names no single fault",
    (CONVERSATION, "verdict"): "a verdict says that it failed, and nothing else was found wrong",
}
