"""Reads and writes YAML as strictly as JSON, with the line of every field.

A plain scalar is true, false, null, a JSON number, or text: `no`, `007`, `12:30` and `2024-05-20` are texts here, not the
truth value, octal number, seconds or date that YAML 1.1 makes of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from otel_agentic.truth.formats.items import WRAPPERS, Item, Parsed, Trouble, faults, line_starts, located
from otel_agentic.truth.formats.yaml_nodes import MERGE, NUMBER, Builder, GivenUpError, Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml import SafeDumper, ScalarNode, YAMLError

_WIDTH: Final = 120
_REST: Final = "nothing after it was read"
#: Line breaks to YAML 1.1 and the byte order mark, which unquoted would not come back, and characters that steer a terminal,
#: which have escapes in double quotes only.
_ODD: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def parse_yaml(text: str) -> Parsed:
    """Return the records of a YAML text: of each document the list, the object that holds one, or the record itself.

    Past an error of syntax nothing can be read; what stands before it is kept.
    """
    builder = Builder()
    troubles: list[Trouble] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except GivenUpError as error:
        troubles.append(Trouble(place=error.line, text=str(error)))
    except yaml.YAMLError as error:
        troubles.append(_told(error, text))
    items = [item for top in builder.tops for item in _records(top, troubles)]
    return Parsed(items=tuple(items), troubles=tuple(sorted(troubles, key=lambda trouble: trouble.place)))


def write_yaml(document: Any) -> str:
    """Return a JSON value as YAML that `parse_yaml` reads back as it was."""
    return str(yaml.dump(document, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=_WIDTH))


def _records(top: Node, troubles: list[Trouble]) -> Iterator[Item]:
    """Yield the records of a document, each with what stands around the list that it is in."""
    if isinstance(top.value, list):
        lists, header = [top], {}
    elif isinstance(top.value, dict):
        lists = [part for key, part in top.parts.items() if key in WRAPPERS and isinstance(part.value, list)]
        header = {str(key): part.value for key, part in top.parts.items() if part not in lists} if lists else {}
    elif top.value is None:  # nothing between two `---`
        return
    else:
        lists, header = [], {}
    _sound(top, header, troubles)
    for node in [part for held in lists for part in held.parts.values()] if lists else [top]:
        if _sound(node, node.value, troubles) and not node.open:
            yield Item(value=node.value, place_of=node.place_of, header=header, header_place=top.place_of)


def _sound(node: Node, value: Any, troubles: list[Trouble]) -> bool:
    """Return whether nothing in a value is faulty; tell what is."""
    wrong = list(faults(value))
    troubles += [Trouble(place=node.place_of(path), text=located(path, reason)) for path, reason in wrong]
    return not wrong


def _told(error: YAMLError, text: str) -> Trouble:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "it makes no sense"
        return Trouble(place=mark.line + 1, text=f"not YAML: {problem} at column {mark.column + 1}; {_REST}")
    position = getattr(error, "position", None)
    place = line_starts(text).line(position) if isinstance(position, int) else 0
    return Trouble(place=place, text=f"not YAML: a character that YAML does not allow; write it as an escape; {_REST}")


def _dumper() -> type[SafeDumper]:
    """Return a dumper that leaves a text without quotes only where every reader takes it for text.

    PyYAML itself knows what YAML 1.1 takes for something else; what we take for something else is added.
    """

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    digits = list("-0123456789")
    for tag, pattern, first in (
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("null", r"(?:~|null|Null|NULL)?$", ["~", "n", "N", ""]),
        ("int", r"-?(?:0|[1-9][0-9]*)$", digits),
        ("float", NUMBER.pattern, digits),
        ("merge", f"{MERGE}$", [MERGE[0]]),
    ):
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    Plain.add_representer(str, _written)
    return Plain


def _written(dumper: SafeDumper, text: str) -> ScalarNode:
    """Return a text as it is written: over several lines where it has some, escaped where it is odd."""
    plain = not _ODD.search(text)
    style = ("|" if "\n" in text else None) if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
