"""Which tools a model or agent was given: one tolerant reader for the shapes of all conventions.

OpenAI's `{"type": "function", "function": {…}}` and its Responses form, Anthropic's `input_schema`, Bedrock's `toolSpec`,
Gemini's `function_declarations`, Vercel's `inputSchema`, plain names; as values, as JSON text, as lists of JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from otel_agentic.dialects.literals import read_repr
from otel_agentic.dialects.values import is_cut, parsed

#: Tools by name: the JSON schema of their parameters, None where only the name is told.
Definitions: TypeAlias = Mapping[str, Mapping[str, Any] | None]

#: Tools were told, and which ones cannot be read any more: a length limit cut them off. None is known then.
CUT: Final[Definitions] = MappingProxyType({})
#: What nobody means is not read: more tools, longer names, longer text.
_MOST_TOOLS: Final = 1000
_LONGEST_NAME: Final = 256
_LONGEST_TEXT: Final = 2_000_000
#: Text up to this length is kept with what it says: each model call of an agent is sent the same tools.
_LONGEST_KEPT: Final = 65_536
_MOST_KEPT: Final = 64
#: Lists inside lists, definitions inside definitions.
_DEEPEST: Final = 6
#: Under which keys a definition stands inside its wrapping, alone,
_INNER: Final = ("function", "toolSpec", "tool_spec", "tool")
#: and among others.
_LISTS: Final = ("function_declarations", "functionDeclarations", "tools")
_NAMES: Final = ("name", "toolName", "tool_name")
#: Under which keys its parameters are described.
_SCHEMAS: Final = (
    "parameters",
    "parameters_json_schema",
    "parametersJsonSchema",
    "input_schema",
    "inputSchema",
    "json_schema",
    "args_schema",
    "schema",
)
#: Under which keys a schema stands in a wrapping of its own (Bedrock, Vercel).
_SCHEMA_INNER: Final = ("json", "jsonSchema", "json_schema")
#: Gemini writes the types of its schemas in capitals.
_GEMINI_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def read_definitions(value: Any) -> Definitions | None:
    """Return the tools that a value defines, by name; None when it defines none and is no empty list; `CUT` when it was cut.

    >>> read_definitions('[{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]')
    {'add': {'type': 'object'}}
    >>> read_definitions(["add", "div"]), read_definitions("[]"), read_definitions("none")
    ({'add': None, 'div': None}, {}, None)
    """
    if isinstance(value, (list, tuple)):
        value = tuple(value) if value and all(isinstance(item, str) for item in value) else list(value)
    if isinstance(value, (str, tuple)):
        length = len(value) if isinstance(value, str) else sum(map(len, value))
        if length > _LONGEST_TEXT:
            return CUT
        return _read_kept(value) if length <= _LONGEST_KEPT else _read(value)
    return _read(value)


def merged_definitions(known: Definitions | None, more: Definitions | None) -> Definitions | None:
    """Return the tools of both; what the second knows of the parameters of one wins."""
    if known is None or more is None or known is more:
        return known if more is None else more
    if known is CUT or more is CUT:
        return CUT
    if all(name in known and (schema is None or schema is known[name]) for name, schema in more.items()):
        return known
    found = dict(known)
    for name, schema in more.items():
        if len(found) < _MOST_TOOLS or name in found:
            found[name] = found.get(name) if schema is None else schema
    return found


@lru_cache(maxsize=_MOST_KEPT)
def _read_kept(value: str | tuple[str, ...]) -> Definitions | None:
    return _read(value)


def _read(value: Any) -> Definitions | None:
    given = _opened(value)
    if not isinstance(given, (list, tuple, dict)):
        return CUT if is_cut(given) else None
    found: dict[str, Mapping[str, Any] | None] = {}
    for name, schema in _defined(given, _DEEPEST):
        if len(found) >= _MOST_TOOLS:
            break
        if 0 < len(name) <= _LONGEST_NAME and found.get(name) is None:
            found[name] = schema
    return found if found or not given else None


def _opened(value: Any) -> Any:
    """Return what JSON text, or the text that Python shows of a list, says; text that is neither as it is."""
    found = parsed(value)
    if not isinstance(found, str):
        return found
    if found is not value:
        found = parsed(found)  # JSON text inside JSON text
    listed = read_repr(found) if isinstance(found, str) and found.lstrip().startswith(("[", "{")) else None
    return found if listed is None else listed


def _defined(value: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield the name of each tool with the schema of its parameters."""
    if depth <= 0:
        return
    value = _opened(value)
    if isinstance(value, str):
        yield value, None
    elif isinstance(value, (list, tuple)):
        for item in value[:_MOST_TOOLS]:
            yield from _defined(item, depth - 1)
    elif isinstance(value, dict):
        yield from _defined_by(value, depth)


def _defined_by(fields: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), None)
    inner = next((found for key in _INNER if isinstance(found := parsed(fields.get(key)), dict)), None)
    if inner is not None:
        yield from _defined_by(inner, depth - 1) if depth > 1 else ()
        return
    listed = next((fields[key] for key in _LISTS if isinstance(fields.get(key), list)), None)
    if listed is not None and name is None:
        yield from _defined(listed, depth - 1)
        return
    schema = _schema_of(fields)
    if schema is not None and _is_definition(schema):  # OpenInference keeps a whole definition under `json_schema`
        yield from _defined_by(schema, depth - 1) if depth > 1 else ()
    elif name is not None:
        yield name, _plain(schema)
    elif depth == _DEEPEST:  # {"add": {"description": …, "inputSchema": …}}: Vercel's own form
        for key, item in fields.items():
            if isinstance(item, dict) and (own := _schema_of(item)) is not None:
                yield key, _plain(own)


def _schema_of(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in _SCHEMAS:
        found = fields.get(key)
        if isinstance(found, str):
            found = _parsed_kept(found) if len(found) <= _LONGEST_KEPT // 4 else parsed(found)
        if isinstance(found, dict):
            wrapped = next((inner for key in _SCHEMA_INNER if isinstance(inner := parsed(found.get(key)), dict)), None)
            return wrapped if wrapped is not None and "type" not in found else found
    return None


@lru_cache(maxsize=4 * _MOST_KEPT)
def _parsed_kept(text: str) -> Any:
    return parsed(text)


def _is_definition(schema: Mapping[str, Any]) -> bool:
    """Return whether what was taken for a schema is a definition: it names a tool, and a schema names only its fields."""
    if isinstance(schema.get("function"), dict):
        return True
    return isinstance(schema.get("name"), str) and "properties" not in schema


def _plain(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a schema with the types of JSON Schema."""
    return _lowered(schema) if schema is not None and schema.get("type") in _GEMINI_TYPES else schema


def _lowered(value: Any) -> Any:
    if isinstance(value, list):
        return [_lowered(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item.lower() if key == "type" and isinstance(item, str) and item in _GEMINI_TYPES else _lowered(item)
        for key, item in value.items()
    }
