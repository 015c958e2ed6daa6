"""The typed events between dialects and conversations, and the reader of tool definitions.

Content that the instrumentation did not record is None, never an empty value: `messages_in is None` means *not captured*, `()`
means that there were no messages.

One tolerant reader accepts the tool definitions of all conventions: OpenAI's `{"type": "function", "function": {…}}`
and its Responses form, Anthropic's `input_schema`, Bedrock's `toolSpec`, Gemini's `function_declarations`, Vercel's
`inputSchema`, and plain names, each as values, as JSON text or as lists of JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from otel_agentic.dialects.values import is_cut, is_redacted, parsed, read_repr

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span

#: Tools by name: the JSON schema of their parameters, None if only the name is recorded.
Definitions: TypeAlias = Mapping[str, Mapping[str, Any] | None]

#: Tools were recorded but cannot be read completely: a length limit cut the text, a name was redacted, or there are too many.
#: No tool counts as known then, because the readable ones would be mistaken for all tools.
CUT: Final[Definitions] = MappingProxyType({})
#: Limits for untrusted input: number of tools, length of names and of text.
_MOST_TOOLS: Final = 1000
_LONGEST_NAME: Final = 256
_LONGEST_TEXT: Final = 2_000_000
#: Text up to this length is cached with its definitions: each model call of an agent is sent the same tools.
_LONGEST_KEPT: Final = 65_536
_MOST_KEPT: Final = 64
#: Maximum depth of lists inside lists and definitions inside definitions, and of schemas.
_DEEPEST: Final = 6
_DEEPEST_SCHEMA: Final = 100
#: The keys of a wrapper with one definition.
_INNER: Final = ("function", "toolSpec", "tool_spec", "tool", "custom")
#: The keys of a wrapper with several definitions.
_LISTS: Final = ("function_declarations", "functionDeclarations", "tools")
_NAMES: Final = ("name", "toolName", "tool_name")
#: The keys of a definition's parameters.
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
#: The keys of a wrapper with a schema (Bedrock, Vercel).
_SCHEMA_INNER: Final = ("json", "jsonSchema", "json_schema")
#: Gemini writes the types of its schemas in upper case.
_GEMINI_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
#: Opening character of a text -> the character with which it ends, unless it was cut.
_CLOSING: Final[Mapping[str, str]] = {"[": "]", "{": "}"}

#: The name of a tool and the schema of its parameters; None for one that cannot be read.
_Definition: TypeAlias = "tuple[str, Mapping[str, Any] | None] | None"


def read_definitions(value: Any) -> Definitions | None:
    """Return the tools in a value, by name; None if it contains none and is not an empty list; `CUT` if one is lost.

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
        return _read_cached(value) if length <= _LONGEST_KEPT else _read(value)
    return _read(value)


def merged_definitions(known: Definitions | None, more: Definitions | None) -> Definitions | None:
    """Return the tools of both mappings; the parameters of a tool in the second take precedence."""
    if known is None or more is None or known is more:
        return known if more is None else more
    if known is CUT or more is CUT:
        return CUT
    if all(name in known and (schema is None or schema is known[name]) for name, schema in more.items()):
        return known
    merged = dict(known)
    for name, schema in more.items():
        if len(merged) < _MOST_TOOLS or name in merged:
            merged[name] = merged.get(name) if schema is None else schema
        else:
            return CUT
    return merged


@lru_cache(maxsize=_MOST_KEPT)
def _read_cached(value: str | tuple[str, ...]) -> Definitions | None:
    return _read(value)


def _read(value: Any) -> Definitions | None:
    content = _opened(value)
    if not isinstance(content, (list, tuple, dict)):
        return CUT if _is_cut(content) else None
    definitions: dict[str, Mapping[str, Any] | None] = {}
    for definition in _tool_definitions(content, _DEEPEST):
        if definition is None or len(definitions) > _MOST_TOOLS:
            return CUT
        name, schema = definition
        if 0 < len(name) <= _LONGEST_NAME and definitions.get(name) is None:
            definitions[name] = schema
    if len(definitions) > _MOST_TOOLS:
        return CUT
    return definitions if definitions or not content else None


def _is_cut(value: Any) -> bool:
    """Return whether JSON text, or the repr of a list, ends before it is closed."""
    return isinstance(value, str) and (
        is_cut(value) or not value.rstrip().endswith(_CLOSING.get(value.lstrip()[:1], ""))
    )


def _opened(value: Any) -> Any:
    """Return the value of JSON text, or of the repr of a list; other text is returned as it is."""
    content = parsed(value)
    if not isinstance(content, str):
        return content
    if content is not value:
        content = parsed(content)  # JSON text inside JSON text
    listed = read_repr(content) if isinstance(content, str) and content.lstrip().startswith(("[", "{")) else None
    return content if listed is None else listed


def _tool_definitions(value: Any, depth: int) -> Iterator[_Definition]:
    """Yield the name of each tool with the schema of its parameters; None for one that cannot be read."""
    if depth <= 0:
        return
    value = value if is_redacted(value) else _opened(value)
    if isinstance(value, str):
        yield None if _is_unreadable(value) else (value, None)
    elif isinstance(value, (list, tuple)):
        for item in value[: _MOST_TOOLS + 1]:
            yield from _tool_definitions(item, depth - 1)
    elif isinstance(value, dict):
        yield from _definitions_in(value, depth)


def _is_unreadable(value: Any) -> bool:
    """Return whether a value is the text of a damaged definition instead of a tool's name."""
    return isinstance(value, str) and (is_redacted(value) or value.lstrip()[:1] in _CLOSING)


def _definitions_in(fields: Mapping[str, Any], depth: int) -> Iterator[_Definition]:
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), None)
    inner = next((definition for key in _INNER if isinstance(definition := parsed(fields.get(key)), dict)), None)
    if inner is not None:
        yield from _definitions_in(inner, depth - 1) if depth > 1 else ()
        return
    listed = next((fields[key] for key in _LISTS if isinstance(fields.get(key), list)), None)
    if listed is not None and name is None:
        yield from _tool_definitions(listed, depth - 1)
        return
    schema = _schema_of(fields)
    if schema is not None and _is_definition(schema):  # OpenInference keeps a whole definition under `json_schema`
        yield from _definitions_in(schema, depth - 1) if depth > 1 else ()
    elif name is not None:
        yield None if is_redacted(name) else (name, _plain(schema))
    elif schema is None and any(_is_unreadable(parsed(fields.get(key))) for key in (*_INNER, *_SCHEMAS)):
        yield None
    elif depth == _DEEPEST:  # {"add": {"description": …, "inputSchema": …}}: Vercel's own form
        for key, item in fields.items():
            if isinstance(item, dict) and (own := _schema_of(item)) is not None:
                yield key, _plain(own)


def _schema_of(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in _SCHEMAS:
        schema = fields.get(key)
        if isinstance(schema, str):
            schema = _parsed_cached(schema) if len(schema) <= _LONGEST_KEPT // 4 else parsed(schema)
        if isinstance(schema, dict):
            wrapped = next((inner for key in _SCHEMA_INNER if isinstance(inner := parsed(schema.get(key)), dict)), None)
            return wrapped if wrapped is not None and "type" not in schema else schema
    return None


@lru_cache(maxsize=4 * _MOST_KEPT)
def _parsed_cached(text: str) -> Any:
    return parsed(text)


def _is_definition(schema: Mapping[str, Any]) -> bool:
    """Return whether a supposed schema is a definition: it names a tool, while a schema names only its fields."""
    if isinstance(schema.get("function"), dict):
        return True
    return isinstance(schema.get("name"), str) and "properties" not in schema


def _plain(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a schema with the types of JSON Schema."""
    kind = None if schema is None else schema.get("type")
    if not isinstance(kind, str) or kind not in _GEMINI_TYPES:  # it may be a list of types
        return schema
    lowered: Mapping[str, Any] = _lowered(schema, _DEEPEST_SCHEMA)
    return lowered


def _lowered(value: Any, depth: int) -> Any:
    if depth <= 0:
        return value
    if isinstance(value, list):
        return [_lowered(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item.lower()
        if key == "type" and isinstance(item, str) and item in _GEMINI_TYPES
        else _lowered(item, depth - 1)
        for key, item in value.items()
    }


Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text of a message."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Text that was removed before it was received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A request of the model to call a tool. `arguments` is None if they were not captured or cannot be read."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a tool as reported to the model. `captured` distinguishes a null result from a missing one."""

    call_id: str | None
    name: str | None
    result: Any
    captured: bool
    is_error: bool


Part = Text | Redacted | CallRequest | CallResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to or from a model, without parts of other kinds (images).

    `reasoning` are the texts of its reasoning parts. They are not compared: histories repeat a message without them.
    The other fields follow from the parts. They are computed once, because each later model call repeats the message.

    Attributes:
        text: the text parts, joined by line breaks; None without text parts.
        redacted: whether some text was removed.
        requests: the tool calls that the message requests.
        results: the tool results in it.
    """

    role: Role
    parts: tuple[Part, ...]
    reasoning: tuple[str, ...] = field(default=(), compare=False)
    text: str | None = field(init=False, repr=False, compare=False)
    redacted: bool = field(init=False, repr=False, compare=False)
    requests: tuple[CallRequest, ...] = field(init=False, repr=False, compare=False)
    results: tuple[CallResult, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the fields that follow from the parts."""
        texts, requests, results, redacted = [], [], [], False
        for part in self.parts:
            if isinstance(part, Text):
                texts.append(part.content)
            elif isinstance(part, CallRequest):
                requests.append(part)
            elif isinstance(part, CallResult):
                results.append(part)
            else:
                redacted = True
        set_field = object.__setattr__  # the class is immutable
        set_field(self, "text", "\n".join(texts) if texts else None)
        set_field(self, "redacted", redacted)
        set_field(self, "requests", tuple(requests))
        set_field(self, "results", tuple(results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The common fields of every event.

    `conversation_id`, `case_id`, `attempt_id` and `verdict` are those on this span itself. `error` is the error of a failed span, None if it
    did not fail.
    """

    span: Span
    dialect: str
    conversation_id: str | None
    agent_name: str | None
    agent_version: str | None
    case_id: str | None
    verdict: bool | None
    ends_conversation: bool
    error: str | None
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """One run of an agent, from its input to its answer.

    `certain` is False for a span that may be a run (a chain, a workflow node, an unknown root): it counts as a run only if no
    span above it is one. `query` and `answer` are set if the span has them apart from messages. `goes_on` is a run without
    a query of its own, which continues the turn before it. `definitions` are the tools available to the agent, None if not
    recorded.
    """

    header: Header
    certain: bool
    query: str | None
    answer: str | None
    messages_in: tuple[Message, ...] | None
    messages_out: tuple[Message, ...] | None
    goes_on: bool = False
    definitions: Definitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model and its response.

    `asks_for_tools` is whether the finish reason is a tool request, None without a finish reason: it is known even without
    content. Tokens and the `definitions` of tools are None if not recorded. `failed_tries` is the number of earlier tries
    recorded by spans inside it.
    """

    header: Header
    messages_in: tuple[Message, ...] | None
    messages_out: tuple[Message, ...] | None
    model: str | None
    response_id: str | None
    asks_for_tools: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    definitions: Definitions | None = None
    failed_tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One execution of a tool.

    `handoff_to` is the agent that a handoff span passes control to; `schema` is the JSON schema of the tool's parameters, if
    recorded. `is_named` is False if the name is only that of the span.
    """

    header: Header
    name: str
    call_id: str | None
    arguments: Mapping[str, Any] | None
    result: Any
    result_captured: bool
    is_error: bool
    handoff_to: str | None = None
    schema: Mapping[str, Any] | None = None
    is_named: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that the agent recorded."""

    header: Header
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A span without information about the conversation, and the reason."""

    header: Header
    reason: str


AgentEvent = AgentRun | ModelCall | ToolCall | Plan | Ignored
