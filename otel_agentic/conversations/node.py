"""`Node`: one span of a trace, with its event and its position in the tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.naming import short
from otel_agentic.dialects.events import Ignored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.dialects.detect import Reading
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import Span

#: The text that frameworks put around an agent's name in a span name.
_NAME_AFFIXES: Final = re.compile(
    r"^(?:invoke_agent|invoke_workflow|agent run|Agent run:)\s*|\.(?:agent|workflow|run)$"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One span in its trace. Built in place: the tree needs to be linked both ways.

    `order` numbers the nodes of a trace depth first, siblings by start time. `is_run` is whether an `AgentRun` event
    counts as a run (see `mark_runs`), `run` is the nearest run above, `holding_call` the nearest tool call above,
    `holds_run` is whether a run is below, and `same_as` is the node with the merged record of the same call.
    """

    reading: Reading
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    order: int = 0
    is_run: bool = False
    run: Node | None = None
    holding_call: Node | None = None
    holds_run: bool = False
    same_as: Node | None = None

    @property
    def event(self) -> AgentEvent:
        """The event of the span."""
        return self.reading.event

    @property
    def span(self) -> Span:
        """The span itself."""
        return self.reading.event.header.span

    @property
    def at(self) -> tuple[int, str, int]:
        """The sort key in time; the trace id and depth-first order decide between equal times."""
        return (self.span.start_ns, self.span.trace_id, self.order)

    def ignore(self, reason: str, *, same_as: Node | None = None) -> None:
        """Ignore the node for a reason; `same_as` is the node with the merged record."""
        self.reading = replace(self.reading, event=Ignored(header=self.event.header, reason=reason))
        self.same_as = same_as

    def replace_event(self, event: AgentEvent) -> None:
        """Replace the node's event, by the merged record of several spans."""
        self.reading = replace(self.reading, event=event)

    def ancestors(self) -> Iterator[Node]:
        """Yield the nodes above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def subtree(self) -> Iterator[Node]:
        """Yield the node and all below it, depth first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @property
    def agent_name(self) -> str | None:
        """The name of the agent whose run this node is, or is part of."""
        run = self if self.is_run else self.run
        if run is None:
            return _short(self.event.header.agent_name)
        return _short(run.event.header.agent_name or _NAME_AFFIXES.sub("", run.span.name).strip())


def _short(name: str | None) -> str | None:
    return short(name) if name else None
