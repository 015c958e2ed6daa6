"""How an agent deals with errors: whether tools that failed work again, or what else became of it, and how turns end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from otel_agentic.conversations.model import CallKind
from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import CAPTURE
from otel_agentic.evaluators.operations.names import (
    RECOVERED,
    STEPS_TO_RECOVERY,
    TOOL_FAILURE,
)
from otel_agentic.evaluators.operations.turn_ends import ERROR, mentions_trouble, turn_end
from otel_agentic.evaluators.operations.use import errors_lacking

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.evaluators.base import Need, Subject


#: Characters of an error that are shown.
_SHOWN: Final = 160
#: Calls of these kinds can fail; a transfer hands over, and what comes after is another agent's.
_ALL_KINDS: Final = frozenset(get_args(CallKind)) - {"transfer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A tool that failed: `steps` to its next call that worked, None where none did.

    `failed` are its failed calls until then, each with the index of its turn (0-based), the first one first.
    """

    tool_name: str
    steps: int | None
    failed: tuple[tuple[int, ToolCall], ...]

    @property
    def turn_index(self) -> int:
        """The turn of the first error."""
        return self.failed[0][0]


class Recovery(WithoutSettings):
    """Whether, and how soon, tools that failed work; what else became of their errors; and how turns end."""

    name: str = "operations.recovery"
    version: str = "3"
    metrics: tuple[Metric, ...] = metrics_of("operations.recovery")
    needs: frozenset[Need] = frozenset({"turns"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the two scores of a conversation, that of each tool failure, and that of each turn."""
        conversation = subject.conversation
        ends = [turn_end(turn) for turn in conversation.turns]
        episodes = episodes_of(conversation)
        every = episodes_of(conversation, kinds=_ALL_KINDS)
        failures = [_tool_failure(conversation, episode, ends) for episode in every]
        lacking = errors_lacking(conversation)
        if lacking is None and not episodes:
            lacking = "no_data", "no tool call failed"
        if lacking is not None:
            reason, told = lacking
            whole = [MetricScore(name=name, reason=reason, explanation=told) for name in (STEPS_TO_RECOVERY, RECOVERED)]
            return [*whole, *failures, *ends]
        return [_steps(episodes), _recovered(episodes), *failures, *ends]


def episodes_of(conversation: Conversation, kinds: Container[str] = ("tool",)) -> list[Episode]:
    """Return the tools that failed, in order of their errors; further errors before a tool works are of the same episode."""
    by_step: dict[tuple[int, int], list[ToolCall]] = {}
    for turn in conversation.turns:
        for call in turn.calls:
            by_step.setdefault((turn.index, call.step), []).append(call)
    began: dict[
        str, tuple[int, list[tuple[int, ToolCall]]]
    ] = {}  # by tool: number of the step of its error, and its errors
    found: list[tuple[int, Episode]] = []
    for number, (place, calls) in enumerate(sorted(by_step.items())):
        tools = [call for call in calls if call.kind in kinds]
        for name in sorted({call.name for call in tools if call.error is None} & began.keys()):
            at, failed = began.pop(name)
            found.append((at, Episode(tool_name=name, failed=tuple(failed), steps=number - at)))
        for call in tools:
            if call.error is not None:
                began.setdefault(call.name, (number, []))[1].append((place[0], call))
    found += [(at, Episode(tool_name=name, failed=tuple(failed), steps=None)) for name, (at, failed) in began.items()]
    return [episode for _, episode in sorted(found, key=lambda each: (each[0], each[1].tool_name))]


def _tool_failure(conversation: Conversation, episode: Episode, ends: Sequence[MetricScore]) -> MetricScore:
    """Return what became of a tool that failed."""
    turn_index, first = episode.failed[0]
    last_index, last = episode.failed[-1]
    place = next(at for at, turn in enumerate(conversation.turns) if turn.index == last_index)
    turn = conversation.turns[place]
    answer = next((one.answer for one in conversation.turns[place:] if one.answer is not None), None)
    label: str | None = "unhandled"
    told = "no call worked in its place, and no answer speaks of it"
    if episode.steps is not None:
        label, told = "recovered", f"it worked {episode.steps} {'step' if episode.steps == 1 else 'steps'} later"
    elif ends[place].label == ERROR or _caller(turn, last, failed=True):
        label, told = "passed_on", "its turn, or the agent that made the call, ended in an error"
    elif answer is not None and mentions_trouble(answer, last.error or ""):
        label, told = "reported", "the answer speaks of the trouble"
    elif turn.answer is not None and _replaced(turn, last):
        label, told = "worked_around", "another call worked, and the turn has an answer"
    elif answer is None and not turn.answer_captured:
        label, told = None, f"the answer was not recorded; {CAPTURE}"
    times = f", and {len(episode.failed) - 1} more times" if len(episode.failed) > 1 else ""
    error = " ".join((first.error or "").split())
    shown = f"{error[:_SHOWN]}\u2026" if len(error) > _SHOWN else error
    return MetricScore(
        name=TOOL_FAILURE,
        label=label,
        reason=None if label else "content_not_captured",
        explanation=f"{episode.tool_name} failed in turn {turn_index + 1}{times}: {shown!r}; {told}",
        turn_index=turn_index,
        position=first.position,
        tool_name=episode.tool_name,
    )


def _replaced(turn: Turn, failed: ToolCall) -> bool:
    """Return whether something worked after a call that failed: a call of a later step, or the agent that made the call."""
    return _caller(turn, failed, failed=False) or any(
        call.error is None and call.step > failed.step for call in turn.calls
    )


def _caller(turn: Turn, inner: ToolCall, *, failed: bool) -> bool:
    """Return whether a call was made by an agent called as a tool, and that call failed, or did not."""
    return inner.parent_span_id is not None and any(
        call.span_id == inner.parent_span_id and (call.error is not None) == failed for call in turn.calls
    )


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
