"""How much an agent does: calls of models and tools, errors, retries, loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.needs import CAPTURE
from otel_agentic.evaluators.operations.loops import Run, Unknown, retries_of, runs_of, unknown_before_retry
from otel_agentic.evaluators.operations.names import (
    CALLS,
    LOOPS,
    MODEL_CALLS,
    OWN,
    RETRIES,
    TOOL_CALLS,
    TOOL_ERRORS,
)
from otel_agentic.evaluators.operations.use import NO_MODEL, calls_lacking, errors_lacking, named, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.evaluators.operations.use import Lacking, ModelTotal


def _metric(name: str, title: str, definition: str, limits: str, *needs: Need) -> Metric:
    return Metric(
        name=name,
        title=title,
        definition=definition,
        source=OWN,
        target="conversation",
        limits=limits,
        high=None,
        unit=CALLS,
        higher_is_better=False,
        needs=frozenset(needs),
    )


_METRICS: Final = (
    _metric(
        MODEL_CALLS,
        "model calls",
        "Requests to models in a conversation, failed ones and those of sub-agents included.",
        "What a client library tries again by itself counts only where it has a span. No data where no request was recorded.",
    ),
    _metric(
        TOOL_CALLS,
        "tool calls",
        "Calls of tools in a conversation, at any depth; transfers to agents, and agents used as tools, are none.",
        "Calls that neither a span nor a message tells of are not known. No data where none is recorded and no content is, either.",
    ),
    _metric(
        TOOL_ERRORS,
        "tool errors",
        "Tool calls of a conversation that answered with an error.",
        "An error that looks like a result is found by the setting `conversations.error_patterns`. No data where a call reports no "
        "error and its result was not recorded: it may be an error.",
    ),
    _metric(
        RETRIES,
        "retries",
        "Tool calls before which, in the same turn, the same tool was last called with an error; and requests to models that "
        "failed.",
        "Calls of one step do not retry one another. The last failed request counts, too, whether or not it was tried again. No "
        "data where no request to a model was recorded, or the result of a call before another one of its tool was not.",
    ),
    replace(
        _metric(
            LOOPS,
            "loops",
            "The longest run of calls in a row that repeat an earlier one of the turn: same tool, same arguments, same result, "
            "and nothing new in between (no first call, no other result). 0 where no call does. The first retry of a failed call "
            "does not count, nor do calls before the last change of what the same call came to: a status that is polled.",
            "Polling counts where the status never changes. Numbers compare by value. No data where arguments or results "
            "that would tell were not recorded.",
            "arguments",
            "results",
        ),
        threshold=0.0,
        severity="low",
    ),
)


class Calls:
    """How many calls a conversation takes, and how many of them fail or repeat others."""

    name: str = "operations.calls"
    version: str = "3"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Calls:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

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
