"""How much an agent does: calls of models and tools, errors, retries, loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import CAPTURE
from otel_agentic.evaluators.operations.loops import Run, Unknown, retries_of, runs_of, unknown_before_retry
from otel_agentic.evaluators.operations.names import (
    LOOPS,
    MODEL_CALLS,
    RETRIES,
    TOOL_CALLS,
    TOOL_ERRORS,
)
from otel_agentic.evaluators.operations.use import NO_MODEL, calls_lacking, errors_lacking, named, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.operations.use import Lacking, ModelTotal


class Calls(WithoutSettings):
    """How many calls a conversation takes, and how many of them fail or repeat others."""

    name: str = "operations.calls"
    version: str = "3"
    metrics: tuple[Metric, ...] = metrics_of("operations.calls")
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the five scores of a conversation."""
        conversation = subject.conversation
        totals = totals_of(conversation)
        tools = [call for turn in conversation.turns for call in turn.calls if call.kind == "tool"]
        failed = [call for call in tools if call.error is not None]
        return [
            _model_calls(totals),
            _counted(TOOL_CALLS, tools, "tool call", calls_lacking(conversation)),
            _counted(TOOL_ERRORS, failed, "tool error", errors_lacking(conversation)),
            _retries(conversation, totals),
            _loops(conversation),
        ]


def _model_calls(totals: Sequence[ModelTotal]) -> MetricScore:
    if not totals:
        return MetricScore(name=MODEL_CALLS, reason="model_calls_not_recorded", explanation=NO_MODEL)
    told = ", ".join(f"{total.calls} of {named(total.model)}" for total in totals)
    return MetricScore(name=MODEL_CALLS, value=float(sum(total.calls for total in totals)), explanation=told)


def _counted(name: str, calls: Sequence[ToolCall], what: str, lacking: Lacking | None) -> MetricScore:
    if lacking is not None:
        return MetricScore(name=name, reason=lacking[0], explanation=lacking[1])
    return MetricScore(name=name, value=float(len(calls)), explanation=_listed(calls) or f"no {what}")


def _retries(conversation: Conversation, totals: Sequence[ModelTotal]) -> MetricScore:
    lacking = calls_lacking(conversation) or _retries_lacking(conversation)
    if lacking is None and not totals:
        lacking = "model_calls_not_recorded", f"failed requests to models are unknown: {NO_MODEL}"
    if lacking is not None:
        return MetricScore(name=RETRIES, reason=lacking[0], explanation=lacking[1])
    again = [call for turn in conversation.turns for call in retries_of(turn)]
    failed = sum(total.failed for total in totals)
    parts = [_listed(again), f"{failed} failed {'request' if failed == 1 else 'requests'} to models" if failed else ""]
    return MetricScore(
        name=RETRIES,
        value=float(len(again) + failed),
        explanation=", ".join(filter(None, parts)) or "nothing was tried again",
        details={"tools": len(again), "models": failed},
    )


def _retries_lacking(conversation: Conversation) -> Lacking | None:
    """Return why nobody knows which calls were tried again: whether the first ones failed decides only where others follow."""
    unknown = next(filter(None, map(unknown_before_retry, conversation.turns)), None)
    if unknown is None:
        return None
    told = (
        f"the result of a call of {unknown.name!r} was not recorded, and it was called again: the first may have failed"
    )
    return "content_not_captured", f"{told}; {CAPTURE}"


def _loops(conversation: Conversation) -> MetricScore:
    runs: list[Run] = []
    for turn in conversation.turns:
        found = runs_of(turn)
        if isinstance(found, Unknown):
            told = f"the {found.what} of {found.tool_name!r}, called again in turn {found.turn_index + 1}, were not recorded"
            return MetricScore(name=LOOPS, reason="content_not_captured", explanation=told)
        runs += found
    if not runs:
        return MetricScore(name=LOOPS, value=0.0, explanation="no call repeats another without anything new")
    longest = max(runs, key=lambda run: run.length)  # of equal ones the first
    times = "call" if longest.length == 1 else "calls in a row"
    return MetricScore(
        name=LOOPS,
        value=float(longest.length),
        explanation=f"turn {longest.turn_index + 1}: {longest.length} {times} brought nothing new, the last of "
        f"{longest.tool_name!r}",
        tool_name=longest.tool_name,
        details={"repeats": sum(run.length for run in runs), "runs": len(runs), "turn_index": longest.turn_index},
    )


def _listed(calls: Sequence[ToolCall]) -> str:
    return ", ".join(f"{times} of {name!r}" for name, times in sorted(Counter(call.name for call in calls).items()))
