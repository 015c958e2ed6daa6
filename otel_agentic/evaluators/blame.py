"""Which agent of a conversation caused each of its faults, by rules from faults, hand-offs and the callers of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import BuiltInEvaluator, MetricScore, Subject, calls_in_order, none_of_all
from otel_agentic.evaluators.failures import core_scores
from otel_agentic.evaluators.handoffs import (
    MOST_VALUES,
    ONE_AGENT,
    AgentNames,
    Handoff,
    SearchedText,
    calls_of_receiver,
    expected_handoffs,
    folded_name,
    handoffs_of,
    input_of,
    queries_until,
    target_of,
)
from otel_agentic.evaluators.root_causes import ANSWER, TOOL
from otel_agentic.truth.values import is_number, leaves

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Turn

BLAME: Final = "agentic.handoffs.blame"


class Blame(BuiltInEvaluator):
    """Which agent of a failed conversation caused each fault."""

    name = "handoffs.blame"
    needs = frozenset({"turns", "score"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return one score for each fault that an agent caused."""
        handoffs = handoffs_of(subject.conversation)
        if not handoffs and len(AgentNames.of(subject.conversation, ()).agents) <= 1:
            return none_of_all(self.metrics, "no_data", ONE_AGENT)
        faults = core_scores(subject)
        if not faults:
            return none_of_all(self.metrics, "no_data", "the conversation is not known to have failed")
        blamed = [score for fault in faults if (score := blame_of(subject, fault, handoffs)) is not None]
        explanation = "no fault of the conversation belongs to one agent"
        return blamed or none_of_all(self.metrics, "no_data", explanation)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blamed:
    """The agent that caused a fault, the label, and an explanation."""

    agent: str
    label: str
    why: str


def blame_of(subject: Subject, fault: MetricScore, handoffs: Sequence[Handoff]) -> MetricScore | None:
    """Return the agent that caused a fault of a conversation, or None if it belongs to no single agent."""
    turns = {turn.index: turn for turn in subject.conversation.turns}
    turn = None if fault.turn_index is None else turns.get(fault.turn_index)
    blamed: _Blamed | None = None
    if fault.name == ANSWER and turn is not None:
        blamed = _of_answer(turn)
    elif fault.name == TOOL and turn is not None and fault.position is not None:
        blamed = _of_call(subject, fault, turn, handoffs)
    elif fault.name == TOOL and fault.label == "missing":
        blamed = _of_missing(subject, fault, turn, handoffs)
    if blamed is None:
        return None
    return MetricScore(
        name=BLAME,
        label=blamed.label,
        turn_index=fault.turn_index,
        position=fault.position,
        tool_name=fault.tool_name,
        parameter=fault.parameter,
        explanation=f"{blamed.agent}: {blamed.why}",
        details={"agent": blamed.agent, "metric": fault.name, "fault": fault.label},
    )


def _of_answer(turn: Turn) -> _Blamed | None:
    agent = last_agent(turn)
    return None if agent is None else _Blamed(agent=agent, label="wrong_answer", why="it gave the wrong answer")


def last_agent(turn: Turn) -> str | None:
    """Return the agent that ended a turn: as recorded, else the one with control after the last call."""
    if turn.agent_name is not None:
        return turn.agent_name
    outer = [call for call in calls_in_order(turn) if call.parent_span_id is None]
    if not outer:
        return None
    last = outer[-1]
    if last.kind == "transfer" and last.error is None:
        return last.target_agent or target_of(turn, last)
    return last.agent_name


def _of_call(subject: Subject, fault: MetricScore, turn: Turn, handoffs: Sequence[Handoff]) -> _Blamed | None:
    call = next((call for call in turn.calls if call.position == fault.position), None)
    if call is None or call.agent_name is None:
        return None
    if call.kind != "tool":
        return _Blamed(agent=call.agent_name, label="wrong_handoff", why=f"its hand-off {call.name} is wrong")
    if fault.label == "wrong_parameters":
        for handoff in handoffs:
            sender = handoff.call.agent_name
            if handoff.turn is not turn or sender is None or call not in calls_of_receiver(handoff):
                continue
            lost = _lost(subject, handoff, fault)
            if lost is not None:
                why = f"it handed over to {call.agent_name} without {lost}, which the user had stated"
                return _Blamed(agent=sender, label="lost_context", why=why)
    return _Blamed(agent=call.agent_name, label="faulty_call", why=f"its call of {call.name} is at fault")


def _lost(subject: Subject, handoff: Handoff, fault: MetricScore) -> str | None:
    """Return the expected value of a wrong parameter that the user stated and the sender of a hand-off left out."""
    passed_on = input_of(handoff)
    if passed_on is None or passed_on.text.endswith("…") or subject.score is None:
        return None
    user = SearchedText.of(queries_until(subject.conversation, handoff.turn))
    expected = (
        str(value)
        for tools in subject.score.tools
        for item in tools.faults
        if (item.turn_index, item.actual_position, item.parameter)
        == (fault.turn_index, fault.position, fault.parameter)
        for _, value in leaves(item.expected, limit=MOST_VALUES)
        if is_number(value) or isinstance(value, str)
    )
    return next((value for value in expected if user.states(value) and not passed_on.states(value)), None)


def _of_missing(subject: Subject, fault: MetricScore, turn: Turn | None, handoffs: Sequence[Handoff]) -> _Blamed | None:
    """Return the agent that missed a call.

    A hand-off is missed by the agent that handed over to another one in its place, else by the one that ended the turn.
    A call is missed by the agent that calls the tool elsewhere in the conversation if that agent was active in the turn;
    if it was not, by the agent that ended the turn without a hand-off to it.
    """
    tool = fault.tool_name or ""
    scopes = expected_handoffs(subject)
    for scope in scopes if isinstance(scopes, list) else ():
        if scope.turn_index == fault.turn_index and any(item.tool_name == tool for item in scope.expected):
            sender = next((scope.actual[i].call.agent_name for i in scope.misdirected.values()), None)
            agent = sender or (None if turn is None else last_agent(turn))
            why = "it handed over to another agent" if sender else f"it ended the turn without the hand-off {tool}"
            return None if agent is None else _Blamed(agent=agent, label="wrong_handoff", why=why)
    callers = {
        call.agent_name
        for other in subject.conversation.turns
        for call in other.calls
        if call.name == tool and call.agent_name is not None
    }
    owner = next(iter(callers)) if len(callers) == 1 else None
    if turn is None:
        return None if owner is None else _Blamed(agent=owner, label="missing_call", why=f"it did not call {tool}")
    active = _active(turn, handoffs)
    last = last_agent(turn)
    if owner is not None and folded_name(owner) in active:
        return _Blamed(agent=owner, label="missing_call", why=f"it did not call {tool}")
    if last is None:
        return None
    if owner is not None:
        why = f"it ended the turn without a hand-off to {owner}, which calls {tool}"
        return _Blamed(agent=last, label="wrong_handoff", why=why)
    return _Blamed(agent=last, label="missing_call", why=f"it ended the turn without a call of {tool}")


def _active(turn: Turn, handoffs: Sequence[Handoff]) -> set[str]:
    """Return the folded names of the agents that were active in a turn."""
    names = {last_agent(turn), *(call.agent_name for call in turn.calls)}
    targets = {handoff.target for handoff in handoffs if handoff.turn is turn and handoff.call.error is None}
    return {folded_name(name) for name in names if name} | {target for target in targets if target}
