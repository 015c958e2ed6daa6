"""Makes values of YAML events, each with its line; gives up early on a text that is built to blow up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from otel_agentic.truth.formats.cursor import DECODER
from otel_agentic.truth.formats.items import MAX_DEPTH, Faulty, Path, twice

#: Values in a file, those that aliases repeat included.
MAX_VALUES: Final = 1_000_000
#: Plain scalars that are no text, beside numbers.
CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A number as JSON writes it; what looks otherwise (007, 0x1f, 1_000, 12:30) is text.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$")
_TAGS: Final = "tag:yaml.org,2002:"
#: A key that, without quotes, asks to merge what it names into the object.
MERGE: Final = "<<"


class GivenUpError(Exception):
    """The rest of the text is not read: it is beyond a limit, or makes no sense from `line` on."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(slots=True, kw_only=True)
class Node:
    """A value with its line; `parts` are those of a container, `size` counts the values in it and itself.

    A container is `open` until its end was read.
    """

    line: int
    value: Any
    parts: dict[str | int, Node] = field(default_factory=dict)
    size: int = 1
    open: bool = False
    key: str | None = None
    merges: bool = False

    def place_of(self, path: Path) -> int:
        """Return the line of a field; of one that is not there, of what should hold it."""
        node = self
        for part in path:
            if part not in node.parts:
                break
            node = node.parts[part]
        return node.line


class Builder:
    """Makes nodes of events. `tops` are the documents, as far as they were read."""

    def __init__(self) -> None:
        self.tops: list[Node] = []
        self._stack: list[Node] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def take(self, event: Event) -> None:
        """Take the next event of the text.

        Raises:
            GivenUpError: the text is beyond a limit.
        """
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        match event:
            case DocumentStartEvent():
                self._anchors.clear()
            case ScalarEvent():
                self._scalar(event, line)
            case AliasEvent():
                self._alias(event, line)
            case CollectionStartEvent():
                value: Any = {} if isinstance(event, MappingStartEvent) else []
                self._begin(event, Node(line=line, value=value, open=True))
            case CollectionEndEvent():
                node = self._stack.pop()
                node.open = False
                node.size = 1 + sum(part.size for part in node.parts.values())

    def _scalar(self, event: ScalarEvent, line: int) -> None:
        if self._wants_key():
            merges = event.value == MERGE and event.implicit[0]
            self._stack[-1].key = event.value
            self._stack[-1].merges = merges
            return
        node = Node(line=line, value=_value(event))
        self._remember(event, node)
        self._attach(node)

    def _begin(self, event: CollectionStartEvent, node: Node) -> None:
        if self._wants_key():
            raise GivenUpError(node.line, "a key is a text; found a list or an object, nothing after it was read")
        if event.tag in {None, "!", f"{_TAGS}map", f"{_TAGS}seq"}:
            self._remember(event, node)
            self._attach(node)
        else:  # what it holds goes nowhere
            self._attach(Node(line=node.line, value=_unknown(event.tag)))
        self._stack.append(node)
        if len(self._stack) > MAX_DEPTH:
            raise GivenUpError(node.line, f"nested deeper than {MAX_DEPTH} levels; no case needs that")

    def _alias(self, event: AliasEvent, line: int) -> None:
        target = self._anchors.get(str(event.anchor))
        if target is None:
            raise GivenUpError(line, f"alias *{event.anchor} names no anchor; nothing after it was read")
        if self._wants_key():
            self._stack[-1].key = str(target.value)
        elif target.open:
            self._attach(Node(line=line, value=Faulty(f"alias *{event.anchor} holds itself; write the value out")))
        else:
            self._attach(Node(line=line, value=target.value, parts=target.parts, size=target.size))

    def _wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _remember(self, event: NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _attach(self, node: Node) -> None:
        self._values += node.size
        if self._values > MAX_VALUES:
            raise GivenUpError(
                node.line, f"more than {MAX_VALUES:,} values, those that aliases repeat included; split it"
            )
        if not self._stack:
            self.tops.append(node)
            return
        holder = self._stack[-1]
        if isinstance(holder.value, list):
            holder.parts[len(holder.value)] = node
            holder.value.append(node.value)
            return
        key, holder.key = str(holder.key), None
        if key in holder.value:
            node = Node(line=node.line, value=twice(key))
        elif holder.merges:
            node = Node(line=node.line, value=Faulty("merging (<<) is not supported; write the fields out"))
        holder.parts[key] = node
        holder.value[key] = node.value


def _value(event: ScalarEvent) -> Any:
    plain, quoted = event.implicit
    if plain and event.tag != "!":
        return _plain(event.value)
    if quoted or event.tag in {"!", f"{_TAGS}str"}:
        return event.value
    kinds = {f"{_TAGS}int": int, f"{_TAGS}float": float, f"{_TAGS}bool": bool, f"{_TAGS}null": type(None)}
    value = _plain(event.value)
    if event.tag not in kinds:
        return _unknown(event.tag)
    if type(value) is kinds[event.tag] or isinstance(value, Faulty):
        return value
    return Faulty(f"{event.value!r} is not what its tag {event.tag} says")


def _plain(text: str) -> Any:
    """Return what a scalar without quotes stands for."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    return DECODER.decode(text) if NUMBER.match(text) else text


def _unknown(tag: str | None) -> Faulty:
    return Faulty(f"unknown tag {tag}; write plain YAML")
