"""`Node`: one span of a trace with its event and its position in the tree; conversation ids and agent names of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.detect import UNKNOWN
from otel_agentic.dialects.events import AgentRun, Ignored, ModelCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_agentic.dialects.detect import Reading
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import Span

#: More than one conversation.
_SEVERAL: Final = 2

#: A name longer than this many characters is shortened, because it is written to every row of its conversation.
_LONGEST: Final = 1000
_BEGINNING: Final = 200


def short(name: str) -> str:
    """Return a name as it is stored in the rows of a conversation: a very long one is replaced by a prefix and a digest.

    >>> short("booking"), len(short("x" * 1_000_000))
    ('booking', 233)
    """
    if len(name) <= _LONGEST:
        return name
    import hashlib  # noqa: PLC0415 — names that long are rare

    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[:_BEGINNING]}…{digest}"


def agent_of(nodes: Iterable[Node]) -> str | None:
    """Return the name of the agent of some spans: of the topmost run that names it, else of the topmost certain run.

    A span that may be a run (a workflow, a chain) is named after a function; it is used only if nothing else names the agent.
    """
    runs = [node for node in nodes if node.is_run and node.agent_name and node.holding_call is None]
    named = (node for node in runs if node.event.header.agent_name)
    certain = (node for node in runs if isinstance(node.event, AgentRun) and node.event.certain)
    run = next(named, None) or next(certain, None) or next(iter(runs), None)
    return run.agent_name if run is not None else None


def inherited_ids(nodes: Sequence[Node]) -> list[str | None]:
    """Return each node's conversation id: the topmost above it, else one from elsewhere in the trace.

    Ids on the agent's own spans take precedence over ids on spans around it (a web request with its user's session). An agent
    that was used as a tool has a session of its own, which is used only if the trace has no other id. In a trace of
    several conversations, a node that contains more than one of them belongs to none.
    """
    own = [node for node in nodes if not _is_of_sub_agent(node)]
    known = [node for node in own if node.event.header.dialect != UNKNOWN]
    alone = not any(node.is_run or isinstance(node.event, ModelCall) for node in own)
    for naming in (known, own, nodes if alone else ()):
        ids = _ids_from_above(naming, nodes)
        distinct = set(ids.values()) - {None}
        if len(distinct) == 1:
            return [distinct.pop()] * len(nodes)
        if distinct:
            return _nearby(nodes, ids)
    return [None] * len(nodes)


def _is_of_sub_agent(node: Node) -> bool:
    run = node if node.is_run else node.run
    return run is not None and run.holding_call is not None


def _ids_from_above(naming: Iterable[Node], nodes: Sequence[Node]) -> dict[int, str | None]:
    """Return the topmost conversation id above or on each node, by the node's `id()`; only ids on `naming` nodes count."""
    may_name = {id(node) for node in naming}
    ids: dict[int, str | None] = {}
    for node in nodes:  # depth first: a parent comes before its children
        above = ids.get(id(node.parent)) if node.parent is not None else None
        own = node.event.header.conversation_id if id(node) in may_name else None
        ids[id(node)] = above if above is not None else own
    return ids


def _nearby(nodes: Sequence[Node], own_ids: Mapping[int, str | None]) -> list[str | None]:
    """Return the id of each node in a trace with several ids: its own, else that of its descendants, else the previous one."""
    below: dict[int, set[str]] = {}
    for node in reversed(nodes):  # from the leaves up
        own = own_ids[id(node)]
        inside = below.setdefault(id(node), set())
        inside |= {own} - {None}  # type: ignore[arg-type]  # mypy does not see that None is removed
        if node.parent is not None:
            # Two are enough to know that there are several. Passing on all would make the time quadratic in the depth.
            below.setdefault(id(node.parent), set()).update(islice(inside, _SEVERAL))
    ids: list[str | None] = []
    before = next(value for node in nodes if (value := own_ids[id(node)]) is not None)
    for node in nodes:
        own, inside = own_ids[id(node)], below[id(node)]
        before = before if own is None else own
        ids.append(own or (before if not inside else next(iter(inside)) if len(inside) == 1 else None))
    return ids


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
            return _short_or_none(self.event.header.agent_name)
        return _short_or_none(run.event.header.agent_name or _NAME_AFFIXES.sub("", run.span.name).strip())


def _short_or_none(name: str | None) -> str | None:
    return short(name) if name else None
