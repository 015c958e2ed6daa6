"""Which conversation id each span of a trace has, by its own words or by those of the spans around it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.detect import UNKNOWN
from otel_agentic.dialects.events import AgentRun, ModelCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.tree import Node

#: More than one conversation.
_SEVERAL: Final = 2

#: A name longer than this many characters is shortened: it stands in every row of its conversation.
_LONGEST: Final = 1000
_BEGINNING: Final = 200


def short(name: str) -> str:
    """Return a name as the rows of a conversation hold it: a very long one is its beginning and a digest of all.

    >>> short("booking"), len(short("x" * 1_000_000))
    ('booking', 233)
    """
    if len(name) <= _LONGEST:
        return name
    import hashlib  # noqa: PLC0415 — names that long are rare

    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[:_BEGINNING]}…{digest}"


def agent_of(nodes: Iterable[Node]) -> str | None:
    """Return the name of the agent that spans tell of: the topmost run that names it, else that is a run for certain.

    What merely may be a run (a workflow, a chain) is called after a function; it names the agent only where nothing else does.
    """
    runs = [node for node in nodes if node.is_run and node.agent_name and node.holding_call is None]
    named = (node for node in runs if node.event.header.agent_name)
    sure = (node for node in runs if _is_certain(node))
    run = next(named, None) or next(sure, None) or next(iter(runs), None)
    return run.agent_name if run is not None else None


def _is_certain(node: Node) -> bool:
    return isinstance(node.event, AgentRun) and node.event.certain


def inherited_ids(nodes: Sequence[Node]) -> list[str | None]:
    """Return each node's conversation id: the topmost above it, else one that the trace gives it.

    The agent's own spans name it before spans around it do (a web request with its user's session). An agent that was
    used as a tool has a session of its own, which names the trace only where it is all there is. In a trace of several
    conversations, what holds more than one of them belongs to none.
    """
    own = [node for node in nodes if not _is_of_sub_agent(node)]
    known = [node for node in own if node.event.header.dialect != UNKNOWN]
    alone = not any(node.is_run or isinstance(node.event, ModelCall) for node in own)
    for naming in (known, own, nodes if alone else ()):
        found = _ids_from_above(naming, nodes)
        distinct = set(found.values()) - {None}
        if len(distinct) == 1:
            return [distinct.pop()] * len(nodes)
        if distinct:
            return _nearby(nodes, found)
    return [None] * len(nodes)


def _is_of_sub_agent(node: Node) -> bool:
    run = node if node.is_run else node.run
    return run is not None and run.holding_call is not None


def _ids_from_above(naming: Iterable[Node], nodes: Sequence[Node]) -> dict[int, str | None]:
    """Return the topmost id above or on each node, by the node's `id()`, as some of the nodes name it."""
    may_name = {id(node) for node in naming}
    found: dict[int, str | None] = {}
    for node in nodes:  # depth first: a parent comes before its children
        above = found.get(id(node.parent)) if node.parent is not None else None
        own = node.event.header.conversation_id if id(node) in may_name else None
        found[id(node)] = above if above is not None else own
    return found


def _nearby(nodes: Sequence[Node], found: Mapping[int, str | None]) -> list[str | None]:
    """Return the id of each node in a trace that holds several: its own, that of what it contains, else what came before."""
    below: dict[int, set[str]] = {}
    for node in reversed(nodes):  # from the leaves up
        own = found[id(node)]
        inside = below.setdefault(id(node), set())
        inside |= {own} - {None}  # type: ignore[arg-type]  # mypy does not see that None is taken out
        if node.parent is not None:
            # Two say as much as many: it holds more than one. All would make deep traces cost the square of their depth.
            below.setdefault(id(node.parent), set()).update(islice(inside, _SEVERAL))
    ids: list[str | None] = []
    before = next(value for node in nodes if (value := found[id(node)]) is not None)
    for node in nodes:
        own, inside = found[id(node)], below[id(node)]
        before = before if own is None else own
        ids.append(own or (before if not inside else next(iter(inside)) if len(inside) == 1 else None))
    return ids
