"""How an agent gets over the errors of its tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.operations.names import OWN, RECOVERED, STEPS, STEPS_TO_RECOVERY
from otel_agentic.evaluators.operations.use import errors_lacking

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.evaluators.base import Need, Subject

_LIMITS: Final = (
    "Only the same tool gets over its error: an agent that takes another way is not seen to. A call of the same step is none "
    "that comes after it. No data where a call reports no error and its result was not recorded."
)

_METRICS: Final = (
    Metric(
        name=STEPS_TO_RECOVERY,
        title="steps to recovery",
        definition="Steps from the first error of a tool to its next call that works, the most of all its errors in the "
        "conversation; a step is one response of the model that calls tools.",
        source=OWN,
        target="conversation",
        needs=frozenset({"calls"}),
        limits=f"{_LIMITS} Errors that were never got over are left to `recovered`. No data where no tool call failed, or none "
        "was got over.",
        low=1.0,
        high=None,
        unit=STEPS,
        higher_is_better=False,
    ),
    Metric(
        name=RECOVERED,
        title="recovered",
        definition="1 when each tool that failed worked in a later step of the conversation; else 0.",
        source=OWN,
        target="conversation",
        needs=frozenset({"calls"}),
        limits=f"{_LIMITS} No data where no tool call failed.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A tool that failed: `steps` to its next call that worked, None where none did; `turn_index` is that of the error."""

    tool_name: str
    turn_index: int
    steps: int | None


class Recovery:
    """Whether, and how soon, tools that failed work."""

    name: str = "operations.recovery"
    version: str = "2"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Recovery:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation."""
        lacking = errors_lacking(subject.conversation)
        if lacking is not None:
            reason, told = lacking
            return [MetricScore(name=metric.name, reason=reason, explanation=told) for metric in _METRICS]
        episodes = episodes_of(subject.conversation)
        if not episodes:
            told = "no tool call failed"
            return [MetricScore(name=metric.name, reason="no_data", explanation=told) for metric in _METRICS]
        return [_steps(episodes), _recovered(episodes)]


def episodes_of(conversation: Conversation) -> list[Episode]:
    """Return the tools that failed, in order of their errors; further errors before a tool works are of the same episode."""
    by_step: dict[tuple[int, int], list[ToolCall]] = {}
    for turn in conversation.turns:
        for call in turn.calls:
            by_step.setdefault((turn.index, call.step), []).append(call)
    began: dict[str, tuple[int, int]] = {}  # by tool: number of the step of its error, and the turn
    found: list[tuple[int, Episode]] = []
    for number, (place, calls) in enumerate(sorted(by_step.items())):
        tools = [call for call in calls if call.kind == "tool"]
        for name in sorted({call.name for call in tools if call.error is None} & began.keys()):
            at, turn_index = began.pop(name)
            found.append((at, Episode(tool_name=name, turn_index=turn_index, steps=number - at)))
        for call in tools:
            if call.error is not None:
                began.setdefault(call.name, (number, place[0]))
    found += [(at, Episode(tool_name=name, turn_index=index, steps=None)) for name, (at, index) in began.items()]
    return [episode for _, episode in sorted(found, key=lambda each: (each[0], each[1].tool_name))]


def _steps(episodes: Sequence[Episode]) -> MetricScore:
    worked = [(episode.steps, episode) for episode in episodes if episode.steps is not None]
    if not worked:
        told = f"never worked again: {_listed(episodes)}"
        return MetricScore(name=STEPS_TO_RECOVERY, reason="no_data", explanation=told)
    steps, slowest = max(worked, key=lambda each: each[0])  # of equal ones the first
    return MetricScore(
        name=STEPS_TO_RECOVERY,
        value=float(steps),
        explanation=f"{slowest.tool_name!r} failed in turn {slowest.turn_index + 1} and worked {steps} "
        f"{'step' if steps == 1 else 'steps'} later",
        tool_name=slowest.tool_name,
        details={"steps": [steps for steps, _ in worked]},
    )


def _recovered(episodes: Sequence[Episode]) -> MetricScore:
    stuck = [episode for episode in episodes if episode.steps is None]
    if not stuck:
        return MetricScore(name=RECOVERED, value=1.0, explanation=f"worked again: {_listed(episodes)}")
    return MetricScore(
        name=RECOVERED,
        value=0.0,
        explanation=f"never worked again: {_listed(stuck)}",
        tool_name=stuck[0].tool_name,
        details={"failed": len(episodes), "recovered": len(episodes) - len(stuck)},
    )


def _listed(episodes: Sequence[Episode]) -> str:
    return ", ".join(f"{episode.tool_name!r} (failed in turn {episode.turn_index + 1})" for episode in episodes)
