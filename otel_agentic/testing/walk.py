"""A script acted out: which spans there would be, when, and which messages each of them saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.dialects.events import CallRequest, CallResult, Message, Text
from otel_agentic.testing.builders import NOON_NS, SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.testing.script import AgentRunScript, Exchange, Made, Step

MODEL_FAILURE: Final = "TimeoutError: the model did not answer"

#: A frame holds other acts and does nothing itself: see `staging`.
Doing = Literal["frame", "run", "model", "tool"]


@dataclass(slots=True, kw_only=True)
class Act:
    """One span to be written. Built in place, for it ends after what it holds.

    `parent` is an index into the acts of the same turn. `error` is None when it worked; `call_id` is that of a tool call.
    `history` is what a run was told before its query, `worked` what its model said and was told between query and answer. `inside` names the tools that it happened in, outermost first.
    `number` counts the steps of a run, from 1.
    """

    does: Doing
    turn: int
    parent: int | None
    script: AgentRunScript
    start_ns: int
    end_ns: int = 0
    error: str | None = None
    messages_in: tuple[Message, ...] = ()
    messages_out: tuple[Message, ...] | None = None
    history: tuple[Message, ...] = ()
    worked: tuple[Message, ...] = ()
    made: Made | None = None
    call_id: str | None = None
    inside: tuple[str, ...] = ()
    number: int = 0


@dataclass(slots=True, kw_only=True)
class Scene:
    """The acts of a turn while they are played, and its clock."""

    turn: int
    now_ns: int
    acts: list[Act] = field(default_factory=list)

    def begin(self, does: Doing, script: AgentRunScript, parent: int | None) -> tuple[int, Act]:
        """Return the index of a new act, and the act."""
        self.now_ns += SECOND_NS // 100
        act = Act(does=does, turn=self.turn, parent=parent, script=script, start_ns=self.now_ns)
        above = None if parent is None else self.acts[parent]
        if above is not None:
            act.inside = above.inside if above.made is None else (*above.inside, above.made.name)
        self.acts.append(act)
        return len(self.acts) - 1, act

    def end(self, act: Act) -> None:
        """Let the act end now."""
        self.now_ns += SECOND_NS // 100
        act.end_ns = self.now_ns


def play(script: AgentRunScript, *, start_ns: int = NOON_NS, pause_ns: int = 20 * SECOND_NS) -> list[list[Act]]:
    """Return the acts of each turn of a script.

    Args:
        script: what the agent did.
        start_ns: when it began, ns since the epoch.
        pause_ns: how long after one turn ended the next one starts.
    """
    history: list[Message] = []
    turns: list[list[Act]] = []
    now_ns = start_ns
    for number, exchange in enumerate(script.exchanges):
        scene = Scene(turn=number, now_ns=now_ns)
        history = _run(scene, script, exchange, history, parent=None)
        turns.append(scene.acts)
        now_ns = scene.now_ns + pause_ns
    return turns


def _run(
    scene: Scene, script: AgentRunScript, exchange: Exchange, history: Sequence[Message], parent: int | None
) -> list[Message]:
    """Play one run and return the history after it; that of a failed run is lost."""
    index, run = scene.begin("run", script, parent)
    query = Message(role="user", parts=(Text(content=exchange.query),))
    heard = [*history, query]
    run.messages_in, run.history = (query,), tuple(history)
    for step in exchange.steps:
        asked = _ask(scene, script, heard, step, index)
        heard.append(asked)
        for call, request in zip(step.calls, asked.requests, strict=True):
            heard.append(_answered(scene, script, call, request, index))
    run.worked = tuple(heard[len(history) + 1 :])
    _, last = scene.begin("model", script, index)
    last.messages_in = tuple(heard)
    if exchange.answer is None:
        last.error = run.error = MODEL_FAILURE
    else:
        last.messages_out = run.messages_out = (Message(role="assistant", parts=(Text(content=exchange.answer),)),)
    scene.end(last)
    scene.end(run)
    return [*heard, *last.messages_out] if last.messages_out is not None else list(history)


def _ask(scene: Scene, script: AgentRunScript, heard: Sequence[Message], step: Step, run: int) -> Message:
    index, model = scene.begin("model", script, run)
    requests = tuple(
        CallRequest(
            call_id=call.call_id or f"call_{scene.turn}_{index}_{number}", name=call.name, arguments=call.arguments
        )
        for number, call in enumerate(step.calls)
    )
    texts = () if step.text is None else (Text(content=step.text),)
    asked = Message(role="assistant", parts=(*texts, *requests))
    model.messages_in, model.messages_out = tuple(heard), (asked,)
    scene.end(model)
    return asked


def _answered(scene: Scene, script: AgentRunScript, call: Made, request: CallRequest, run: int) -> Message:
    index, tool = scene.begin("tool", script, run)
    tool.made, tool.call_id, tool.error = call, request.call_id, call.error
    for exchange in call.agent.exchanges if call.agent is not None else ():
        assert call.agent is not None  # noqa: S101 — the loop above is empty otherwise
        _run(scene, call.agent, exchange, (), parent=index)
    scene.end(tool)
    told = call.result if call.error is None else f"Error: {call.error}"
    result = CallResult(
        call_id=request.call_id, name=call.name, result=told, captured=True, is_error=call.error is not None
    )
    return Message(role="tool", parts=(result,))
