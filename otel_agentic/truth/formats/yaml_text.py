"""Reading and writing of YAML, as strict as JSON, with the line of every field.

A plain scalar is true, false, null, a JSON number, or text: `no`, `007`, `12:30` and `2024-05-20` are texts here, not a
boolean, an octal number, a number of seconds and a date as in YAML 1.1. Nodes are built from events instead of
`yaml.compose`: the composer of libyaml recurses in C and crashes the process on deeply nested text, the one in Python
takes five times as long, and both lose the records before a syntax error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml
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

from otel_agentic.truth.formats.located import (
    DECODER,
    MAX_DEPTH,
    WRAPPERS,
    Faulty,
    Item,
    Parsed,
    Path,
    Problem,
    duplicate,
    faults,
    line_starts,
    located,
)

if TYPE_CHECKING:
    from yaml import SafeDumper, ScalarNode, YAMLError

#: Maximum number of values in a file, including those repeated by aliases.
MAX_VALUES: Final = 1_000_000
#: Plain scalars other than numbers that are not text.
CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A number as in JSON; other notations (007, 0x1f, 1_000, 12:30) are text.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$")
_TAGS: Final = "tag:yaml.org,2002:"
#: An unquoted key that merges the named object into this one.
MERGE: Final = "<<"


class GivenUpError(Exception):
    """Reading stopped at `line`, because the text exceeds a limit or is malformed there."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(slots=True, kw_only=True)
class Node:
    """A value with its line; `parts` are the nodes of a container, `size` is the number of its values plus 1.

    A container is `open` until its end has been read.
    """

    line: int
    value: Any
    parts: dict[str | int, Node] = field(default_factory=dict)
    size: int = 1
    open: bool = False
    key: str | None = None
    merges: bool = False

    def line_of(self, path: Path) -> int:
        """Return the line of a field, or of its container if the field is missing."""
        node = self
        for part in path:
            if part not in node.parts:
                break
            node = node.parts[part]
        return node.line


class Builder:
    """Builds nodes from events. `tops` are the documents read so far."""

    def __init__(self) -> None:
        self.tops: list[Node] = []
        self._stack: list[Node] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def take(self, event: Event) -> None:
        """Process the next event.

        Raises:
            GivenUpError: the text exceeds a limit.
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
        if self._expects_key():
            merges = event.value == MERGE and event.implicit[0]
            self._stack[-1].key = event.value
            self._stack[-1].merges = merges
            return
        node = Node(line=line, value=_value(event))
        self._remember(event, node)
        self._attach(node)

    def _begin(self, event: CollectionStartEvent, node: Node) -> None:
        if self._expects_key():
            raise GivenUpError(node.line, "a key is a text; found a list or an object, nothing after it was read")
        if event.tag in {None, "!", f"{_TAGS}map", f"{_TAGS}seq"}:
            self._remember(event, node)
            self._attach(node)
        else:  # its content is discarded
            self._attach(Node(line=node.line, value=_unknown(event.tag)))
        self._stack.append(node)
        if len(self._stack) > MAX_DEPTH:
            raise GivenUpError(node.line, f"nested deeper than {MAX_DEPTH} levels; no case needs that")

    def _alias(self, event: AliasEvent, line: int) -> None:
        target = self._anchors.get(str(event.anchor))
        if target is None:
            raise GivenUpError(line, f"alias *{event.anchor} names no anchor; nothing after it was read")
        if self._expects_key():
            self._stack[-1].key = str(target.value)
        elif target.open:
            self._attach(Node(line=line, value=Faulty(f"alias *{event.anchor} contains itself; write the value out")))
        else:
            self._attach(Node(line=line, value=target.value, parts=target.parts, size=target.size))

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _remember(self, event: NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _attach(self, node: Node) -> None:
        self._values += node.size
        if self._values > MAX_VALUES:
            raise GivenUpError(
                node.line, f"more than {MAX_VALUES:,} values, including those repeated by aliases; split it"
            )
        if not self._stack:
            self.tops.append(node)
            return
        container = self._stack[-1]
        if isinstance(container.value, list):
            container.parts[len(container.value)] = node
            container.value.append(node.value)
            return
        key, container.key = str(container.key), None
        if key in container.value:
            node = Node(line=node.line, value=duplicate(key))
        elif container.merges:
            node = Node(line=node.line, value=Faulty("merging (<<) is not supported; write the fields out"))
        container.parts[key] = node
        container.value[key] = node.value


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
    return Faulty(f"{event.value!r} does not have the type of its tag {event.tag}")


def _plain(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    return DECODER.decode(text) if NUMBER.match(text) else text


def _unknown(tag: str | None) -> Faulty:
    return Faulty(f"unknown tag {tag}; write plain YAML")


_WIDTH: Final = 120
_REST: Final = "nothing after it was read"
#: Line breaks of YAML 1.1 and the byte order mark, which would be lost without quotes, and control characters of terminals,
#: which can be escaped in double quotes only.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def parse_yaml(text: str) -> Parsed:
    """Return the records of a YAML text: of each document the list, the object with a list of records, or the record itself.

    After a syntax error nothing can be read; the records before it are returned.
    """
    builder = Builder()
    problems: list[Problem] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except GivenUpError as error:
        problems.append(Problem(line=error.line, text=str(error)))
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(error, text))
    items = [item for top in builder.tops for item in _records(top, problems)]
    return Parsed(items=tuple(items), problems=tuple(sorted(problems, key=lambda problem: problem.line)))


def write_yaml(document: Any) -> str:
    """Return a JSON value as YAML that `parse_yaml` reads back unchanged."""
    return str(yaml.dump(document, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=_WIDTH))


def _records(top: Node, problems: list[Problem]) -> Iterator[Item]:
    """Yield the records of a document, each with the fields around the list that contains it."""
    if isinstance(top.value, list):
        lists, header = [top], {}
    elif isinstance(top.value, dict):
        lists = [part for key, part in top.parts.items() if key in WRAPPERS and isinstance(part.value, list)]
        header = {str(key): part.value for key, part in top.parts.items() if part not in lists} if lists else {}
    elif top.value is None:  # an empty document
        return
    else:
        lists, header = [], {}
    _check(top, header, problems)
    for node in [part for record_list in lists for part in record_list.parts.values()] if lists else [top]:
        if _check(node, node.value, problems) and not node.open:
            yield Item(value=node.value, line_of=node.line_of, header=header, header_line=top.line_of)


def _check(node: Node, value: Any, problems: list[Problem]) -> bool:
    """Append the faults of a value to the problems; return whether it has no faults."""
    invalid = list(faults(value))
    problems += [Problem(line=node.line_of(path), text=located(path, reason)) for path, reason in invalid]
    return not invalid


def _syntax_problem(error: YAMLError, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "it makes no sense"
        return Problem(line=mark.line + 1, text=f"not YAML: {problem} at column {mark.column + 1}; {_REST}")
    position = getattr(error, "position", None)
    line = line_starts(text).line(position) if isinstance(position, int) else 0
    return Problem(line=line, text=f"not YAML: a character that YAML does not allow; write it as an escape; {_REST}")


def _dumper() -> type[SafeDumper]:
    """Return a dumper that omits quotes only if every reader reads the scalar as text.

    PyYAML quotes texts that YAML 1.1 reads as another type; those that `parse_yaml` reads as another type are added.
    """

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    digits = list("-0123456789")
    for tag, pattern, first_characters in (
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("null", r"(?:~|null|Null|NULL)?$", ["~", "n", "N", ""]),
        ("int", r"-?(?:0|[1-9][0-9]*)$", digits),
        ("float", NUMBER.pattern, digits),
        ("merge", f"{MERGE}$", [MERGE[0]]),
    ):
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first_characters)
    Plain.add_representer(str, _represent_text)
    return Plain


def _represent_text(dumper: SafeDumper, text: str) -> ScalarNode:
    """Return a text as a scalar node: a block if it has several lines, escaped if it has special characters."""
    plain = not _ESCAPED.search(text)
    style = ("|" if "\n" in text else None) if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
