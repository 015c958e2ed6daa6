"""What an agent did, told once, to be spoken in any convention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from otel_agentic.testing.outline import CallOutline, Outline, TurnOutline, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A tool call that the agent made. `agent` is what ran inside it, where the tool was another agent."""

    name: str
    arguments: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    call_id: str | None = None
    agent: AgentRunScript | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model response that asks for calls; `text` stands beside them and never reaches the user."""

    calls: tuple[Made, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn: a query, the steps made for it, and the answer; None when the run failed before it had one."""

    query: str
    steps: tuple[Step, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunScript:
    """A conversation with an agent. Each method returns a longer script.

    `conversation_id` is None for an agent that names no conversation.
    """

    agent_name: str = "travel"
    conversation_id: str | None = "conversation-1"
    service: str = "concierge"
    environment: str | None = None
    exchanges: tuple[Exchange, ...] = ()

    def ask(self, query: str) -> AgentRunScript:
        """Return the script with one more turn."""
        return replace(self, exchanges=(*self.exchanges, Exchange(query=query)))

    def calls(self, *made: Made, text: str | None = None) -> AgentRunScript:
        """Return the script with one more step in its last turn: one response that asks for all these calls."""
        last = self.exchanges[-1]
        return self._with_last(replace(last, steps=(*last.steps, Step(calls=made, text=text))))

    def says(self, answer: str) -> AgentRunScript:
        """Return the script with an answer to its last turn."""
        return self._with_last(replace(self.exchanges[-1], answer=answer))

    def outline(self) -> Outline:
        """Return what a reader must make of the script."""
        return Outline(
            conversation_id=self.conversation_id,
            agent_name=self.agent_name,
            turns=tuple(
                TurnOutline(query=item.query, answer=item.answer, calls=tuple(_calls(item, self.agent_name)))
                for item in self.exchanges
            ),
        )

    def _with_last(self, exchange: Exchange) -> AgentRunScript:
        return replace(self, exchanges=(*self.exchanges[:-1], exchange))


def made(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    result: Any = None,
    error: str | None = None,
    call_id: str | None = None,
    agent: AgentRunScript | None = None,
) -> Made:
    """Return a tool call; `agent` is the script of one turn that ran inside it."""
    return Made(name=name, arguments=arguments or {}, result=result, error=error, call_id=call_id, agent=agent)


def _calls(exchange: Exchange, agent_name: str) -> Iterator[CallOutline]:
    for step, (caller, nested, asked) in enumerate(_steps(exchange, agent_name, nested=False), start=1):
        for call in asked.calls:
            yield CallOutline(
                name=call.name,
                kind="agent" if call.agent is not None else "tool",
                step=step,
                arguments=dict(call.arguments),
                result=None if call.error is not None else plain(call.result),
                failed=call.error is not None,
                agent_name=caller,
                nested=nested,
            )


def _steps(exchange: Exchange, agent_name: str, *, nested: bool) -> Iterator[tuple[str, bool, Step]]:
    for step in exchange.steps:
        yield agent_name, nested, step
        for call in step.calls:
            for inner in call.agent.exchanges if call.agent is not None else ():
                yield from _steps(inner, call.agent.agent_name if call.agent else agent_name, nested=True)
