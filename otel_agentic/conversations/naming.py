"""The conversation id of each span of a trace, from its own attributes or from the spans around it; the agent's name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.detect import UNKNOWN
from otel_agentic.dialects.events import AgentRun, ModelCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.node import Node

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
