"""Reading untrusted values: JSON and Python reprs in text, redaction marks, paths into JSON, ids, errors, versions, verdicts.

The tables of all dialects use the same notation for paths. `tool.name` is an attribute. `input.value~` is an attribute
whose text is read as JSON, `input.value~.task` the value under `task` in that JSON. Numbers are indices of list items,
negative ones from the end: `input.value~.messages.-1.content`.

Haystack, LlamaIndex and smolagents write messages in Python's own notation of containers and objects instead of JSON:
`ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[…])`. It is parsed by hand instead of by `ast`: a repr may contain objects
that Python cannot parse (`<Status.DONE: 1>`), and untrusted text must not reach a compiler. One pass over a bounded text,
bounded in depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from otel_agentic.spans.model import LogRecord, Span, StatusCode

#: The marks that SDKs write in place of removed content.
_REDACTION: Final = re.compile(
    r"^\s*(?:__REDACTED__|\[Scrubbed due to .*\]|<elided>|\[REDACTED\]|readacted)\s*$", re.DOTALL
)
#: The start of JSON text that is parsed: a container or a quoted string. Bare numbers stay text, since they may be
#: identifiers.
_JSON_START: Final = re.compile(r'^\s*[\[{"]')
_JSON_STARTS: Final = frozenset('[{"')
#: JSON text nested deeper than this stays text, because serialising it again would fail.
_MAX_DEPTH: Final = 100
#: A word of a name: `spanKind` and `LLMCall` have two each.
_NAME_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
#: Longer names of attributes and kinds are ignored.
MAX_NAME: Final = 200
#: Flattened keys with more parts than this, or indices with more digits, are not messages.
_MAX_PATH: Final = 32
_MAX_DIGITS: Final = 9
#: Values that replace a missing id: `<not specified>` (google-adk), and the null values of languages.
_NO_ID: Final = re.compile(r"(?:<[^>]*>|null|none|undefined|nan)?", re.IGNORECASE)
#: Longer ids are not cached.
_LONGEST_KEPT_ID: Final = 128
#: The key of a lone argument whose parameter name the instrumentation dropped.
UNNAMED_ARGUMENT: Final = "input"
#: The keys of a LangChain tool message, and the keys that a text block may have.
_TOOL_MESSAGE_KEYS: Final = frozenset({"content", "tool_call_id"})
_TEXT_BLOCK_KEYS: Final = frozenset({"type", "block_type", "text", "id", "index", "annotations"})
#: What Vercel calls the kinds of a tool's output.
_VALUE_KINDS: Final = ("text", "json", "error-text", "error-json", "content")


def is_redacted(value: object) -> bool:
    """Return whether the value is a mark that content was removed.

    >>> is_redacted("[Scrubbed due to 'session']")
    True
    """
    return isinstance(value, str) and len(value) < 200 and _REDACTION.match(value) is not None  # noqa: PLR2004 — marks are short; no regex on megabytes


def parsed(value: Any) -> Any:
    """Return the value with JSON text parsed once; text that is not a JSON container or string stays as it is.

    >>> parsed('{"a": 1}'), parsed("255.0"), parsed('"quoted"')
    ({'a': 1}, '255.0', 'quoted')
    """
    if not isinstance(value, str):
        return value
    start = value[:1]
    if start not in _JSON_STARTS and (not start.isspace() or _JSON_START.match(value) is None):
        return value
    try:
        content = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    # Few brackets cannot nest deeply, so most values need not be traversed.
    shallow = value.count("[") + value.count("{") <= _MAX_DEPTH
    return content if shallow or _depth(content) <= _MAX_DEPTH else value


def is_cut(value: object) -> bool:
    """Return whether the value is JSON text that a length limit has cut.

    >>> is_cut('{"args": ["Which ho'), is_cut('{"a": 1} is no JSON')
    (True, False)
    """
    if not isinstance(value, str) or _JSON_START.match(value) is None:
        return False
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return error.pos >= len(value)
    return False


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        containers = [item for item in level if isinstance(item, (list, dict))]
        level = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
        depth += bool(containers)
    return depth


def text_of(value: Any) -> str | None:
    """Return the value as text: text as it is, anything else as JSON; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return orjson.dumps(value, default=str).decode()
    except (TypeError, orjson.JSONEncodeError):
        return str(value)


def id_of(value: Any) -> str | None:
    """Return an identifier as text, or None if it is empty, a placeholder or redacted.

    >>> id_of("call_1"), id_of(7), id_of("<not specified>"), id_of("null")
    ('call_1', '7', None, None)
    """
    text = text_of(value)
    if text is None:
        return None
    has_id = _is_id_cached(text) if len(text) <= _LONGEST_KEPT_ID else _is_id(text)
    return text if has_id else None


def _is_id(text: str) -> bool:
    return not is_redacted(text) and _NO_ID.fullmatch(text.strip()) is None


#: The id of a conversation is on most of its spans, and that of a call in each later model input.
_is_id_cached: Final = lru_cache(maxsize=4096)(_is_id)


def arguments_of(value: Any) -> Mapping[str, Any] | None:
    """Return a call's arguments as an object, None if they were not captured.

    A lone value without a parameter name is kept under `input`.

    >>> arguments_of('{"city": "Paris"}'), arguments_of("Paris"), arguments_of("")
    ({'city': 'Paris'}, {'input': 'Paris'}, {})
    """
    if value is None or is_redacted(value):
        return None
    if isinstance(value, str) and not value.strip():
        return {}
    content = parsed(value)
    if isinstance(content, str):
        content = parsed(content)  # JSON text inside JSON text
    if isinstance(content, dict):
        return content
    return {UNNAMED_ARGUMENT: content}


def has_named_arguments(arguments: Mapping[str, Any] | None) -> bool:
    """Return whether parameter names are known; they are not for a lone value without a name."""
    return arguments is not None and set(arguments) != {UNNAMED_ARGUMENT}


def unwrap_dump(value: Any) -> Any:
    """Return the fields of a serialised LangChain object in any of its three shapes.

    The shapes are `{"lc": 1, "kwargs": {…}}`, `{"type": "tool", "data": {…}}` and the fields themselves.
    """
    if not isinstance(value, dict):
        return value
    if "lc" in value and isinstance(value.get("kwargs"), dict):
        return {"type": _class_role(value.get("id")), **value["kwargs"]}
    if "type" in value and isinstance(value.get("data"), dict):
        return {"type": value["type"], **value["data"]}
    return value


def _class_role(path: Any) -> str:
    """Return `human` for `[…, "HumanMessage"]`, the path of a serialised class."""
    name = path[-1] if isinstance(path, list) and path and isinstance(path[-1], str) else ""
    return name.removesuffix("Chunk").removesuffix("Message").lower()


def tool_message(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a serialised tool message, None if the value is not one."""
    fields = unwrap_dump(value)
    if isinstance(fields, dict) and fields.keys() >= _TOOL_MESSAGE_KEYS:
        return fields
    return None


def result_of(value: Any) -> Any:
    """Return the result of a tool, with JSON text parsed and a list of one text or JSON block unwrapped.

    >>> result_of('[{"type": "text", "text": "21 °C"}]'), result_of({"type": "json", "value": [1]})
    ('21 °C', [1])
    """
    content = parsed(value)
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        block = content[0]
        if isinstance(block.get("text"), str) and set(block) <= _TEXT_BLOCK_KEYS:
            return parsed(block["text"])
        if set(block) == {"type", "content"} and block["type"] == "text" and isinstance(block["content"], str):
            return parsed(block["content"])  # a part of the GenAI conventions
        if set(block) == {"json"}:  # Bedrock
            return block["json"]
    if isinstance(content, dict) and set(content) == {"type", "value"} and content["type"] in _VALUE_KINDS:
        return content["value"]
    return content


def unwrapped(value: Any) -> Any:
    """Return the result that Gemini's convention wraps, because it requires tool results to be objects.

    >>> unwrapped({"result": 3}), unwrapped({"temperature": 3})
    (3, {'temperature': 3})
    """
    return value["result"] if isinstance(value, dict) and set(value) == {"result"} else value


def flat(attributes: Mapping[str, Any], prefix: str) -> Any:
    """Return the tree of flattened keys `prefix.0.a.b`, lists in numeric order; None without such keys.

    >>> flat({"m.10.role": "b", "m.9.role": "a"}, "m")
    [{'role': 'a'}, {'role': 'b'}]
    """
    root: dict[str, Any] = {}
    start = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        path = key[len(start) :].split(".")
        if len(path) <= _MAX_PATH:
            _set_nested(root, path, value)
    return _lists(root) if root else None


def _set_nested(node: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        below = node.get(part)
        if not isinstance(below, dict):
            below = node[part] = {}
        node = below
    if not isinstance(node.get(path[-1]), dict):
        node[path[-1]] = value


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    children = {key: _lists(child) for key, child in node.items()}
    if children and all(key.isdecimal() and len(key) <= _MAX_DIGITS for key in children):
        return [children[key] for key in sorted(children, key=lambda key: (int(key), key))]
    return children


_JSON: Final = "~"
_INDEX: Final = re.compile(r"^-?[0-9]{1,9}$")


def first(attributes: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """Return the value of the first path that exists and is not None, else None.

    >>> first({"in": '{"kwargs": {"city": "Oslo"}}'}, ("arguments", "in~.kwargs"))
    {'city': 'Oslo'}
    """
    parsed_attribute: tuple[str, Any] | None = None  # the paths of one meaning are mostly in the same attribute
    for path in paths:
        if _JSON not in path:
            value = attributes.get(path)
        else:
            attribute, steps = _split(path)
            if attribute not in attributes:
                continue
            if parsed_attribute is None or parsed_attribute[0] != attribute:
                parsed_attribute = (attribute, parsed(attributes[attribute]))
            value = walk(parsed_attribute[1], steps)
        if value is not None:
            return value
    return None


def attribute_of(path: str) -> str:
    """Return the name of the attribute in a path.

    >>> attribute_of("input.value~.kwargs")
    'input.value'
    """
    return _split(path)[0]


def walk(value: Any, steps: Iterable[str]) -> Any:
    """Return the value at a path below a value, parsing JSON text on the way; None if the path does not exist."""
    for step in steps:
        value = parsed(value)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.match(step) and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


@lru_cache(maxsize=4096)
def _split(path: str) -> tuple[str, tuple[str, ...]]:
    attribute, _, json_path = path.partition(_JSON)
    return attribute, tuple(step for step in json_path.split(".") if step)


#: The verdict on a conversation, written by an evaluator into its spans; it takes precedence over computed verdicts.
VERDICT_EVENT: Final = "gen_ai.evaluation.result"
VERDICT_NAME: Final = "agentic.conversation"

_AGENT_VERSION_KEYS: Final = ("gen_ai.agent.version", "service.version")
#: `tool_calls`, `tool-calls`, `tool_use`, `function_call`: each provider has its own term.
_TOOL_FINISH: Final = re.compile(r"tool|function", re.IGNORECASE)
_EXCEPTION_EVENT: Final = "exception"
#: Names of a conversation id in the metadata that applications pass to a framework, the most certain first.
_SESSION_NAMES: Final = (
    "conversation_id",
    "conversationId",
    "conversation.id",
    "session_id",
    "sessionId",
    "session.id",
    "thread_id",
    "threadId",
    "thread.id",
    "chat_id",
    "chatId",
)


def session_keys(prefix: str) -> tuple[str, ...]:
    """Return the attribute names or paths under a prefix that may contain a conversation id, the most certain first.

    >>> session_keys("app.metadata.")[0]
    'app.metadata.conversation_id'
    """
    return tuple(prefix + name for name in _SESSION_NAMES)


def asks_for_tools(reason: Any) -> bool | None:
    """Return whether a finish reason, or a list of them, is a tool request; None if not recorded.

    >>> asks_for_tools('["tool_calls"]'), asks_for_tools(["stop"]), asks_for_tools(None)
    (True, False, None)
    """
    content = parsed(reason)
    reasons = content if isinstance(content, list) else [content]
    texts = [item for item in reasons if isinstance(item, str) and item]
    return any(_TOOL_FINISH.search(text) for text in texts) if texts else None


def agent_version(span: Span) -> str | None:
    """Return `gen_ai.agent.version` of the span, else `service.version` of its resource, else None."""
    agent_key, service_key = _AGENT_VERSION_KEYS
    version = span.attributes.get(agent_key)
    return text_of(version if version is not None else span.resource.attributes.get(service_key))


def span_error(span: Span, keys: Iterable[str]) -> str | None:
    """Return the error text of a failed span: its exception, status message or error type; None if it did not fail.

    An exception event on a span whose status is not an error may be control flow (an interrupt), so it is not a failure.
    """
    kind = first(span.attributes, keys)
    if span.status != StatusCode.ERROR and kind is None:
        return None
    if span.status_message:
        # Some instrumentations write the error type into the message, too.
        contains_kind = kind is None or span.status_message.startswith(str(kind))
        return span.status_message if contains_kind else f"{kind}: {span.status_message}"
    for event in span.events:
        if event.name == _EXCEPTION_EVENT:
            parts = (event.attributes.get("exception.type"), event.attributes.get("exception.message"))
            return ": ".join(str(part) for part in parts if part) or "exception"
    return str(kind) if kind else "error"


def verdict_of(span: Span, logs: Sequence[LogRecord]) -> bool | None:
    """Return the verdict of an evaluation event on the span, or None without such an event."""
    if not span.events and not logs:
        return None
    evaluations = [event.attributes for event in span.events if event.name == VERDICT_EVENT]
    evaluations += [log.attributes for log in logs if log.event_name == VERDICT_EVENT]
    for attributes in evaluations:
        label = attributes.get("gen_ai.evaluation.score.label")
        # Not a set: a malicious label may be a list.
        if attributes.get("gen_ai.evaluation.name") == VERDICT_NAME and label in ("pass", "fail"):
            return bool(label == "pass")
    return None


#: Larger values are not token counts.
_MOST: Final = 10**12
_MOST_DIGITS: Final = 12
#: The keys of input and output tokens in a value with both.
_INPUT: Final = (
    "input_tokens",
    "prompt_tokens",
    "inputTokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
    "input",
    "prompt",
)
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "output",
    "completion",
)


def count_of(value: Any) -> int | None:
    """Return a count of tokens, None for any other value: a negative number, a fraction, text.

    >>> count_of(20), count_of("20"), count_of(20.0), count_of(-1), count_of(True), count_of("many")
    (20, 20, 20, None, None, None)
    """
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return None
    return int(value) if value == int(value) else None


def usage_of(value: Any) -> tuple[int | None, int | None]:
    """Return the input and output tokens in one value: JSON text or an object.

    >>> usage_of('{"prompt_tokens": 20, "completion_tokens": 7}'), usage_of({"input": 20})
    ((20, 7), (20, None))
    """
    fields = parsed(value)
    if not isinstance(fields, Mapping):
        return None, None
    return _first(fields, _INPUT), _first(fields, _OUTPUT)


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := count_of(fields.get(name))) is not None), None)


@lru_cache(maxsize=8192)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, no words for a very long name.

    >>> words_of("genkit:metadata:sessionId"), words_of("TOOL_CALL")
    (('genkit', 'metadata', 'session', 'id'), ('tool', 'call'))
    """
    return tuple(part.lower() for part in _NAME_PART.findall(name)) if len(name) <= MAX_NAME else ()


#: Longer text is not read.
_MAX_LENGTH: Final = 262_144
_MAX_REPR_DEPTH: Final = 60
_MAX_NUMBER_DIGITS: Final = 1000  # Python refuses to read thousands of them
#: The start of a repr that is read: a container, or a call such as `Name(a=1)`.
_START: Final = re.compile(r"\s*(?:[\[{(]|[A-Za-z_][\w.]*\()")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>[rb]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
    | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)\b)
    | (?P<name>[A-Za-z_][\w.]*)
    | (?P<object><(?:[^<>'"]|'[^']*'|"[^"]*")*>)
    | (?P<mark>[\[\](){},:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
#: `<Role.USER: 'user'>`: a member of an enumeration of texts.
_MEMBER: Final = re.compile(r"^\s*<[\w.]+: ('(?:[^'\\]|\\.)*')>$")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PLAIN_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
_CONSTANTS: Final = {"None": None, "True": True, "False": False}
_CLOSING: Final = {"[": "]", "(": ")"}
_HIGHEST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class _NotARepr(ValueError):  # noqa: N818 — never leaves this file
    """The text is not a Python repr, or it is too large."""


def read_repr(text: object, *, class_key: str | None = None) -> Any:
    """Return the container in a Python repr, or None if the text is not such a repr.

    Containers become dictionaries, and lists for lists, tuples and sets; an object `Name(a=1)` becomes a dictionary of its
    fields, with its class under `class_key` if that is set; a member of a text enumeration becomes its text, and other
    objects in angle brackets become None.

    >>> read_repr("{'city': 'Oslo', 'calm': True}")
    {'city': 'Oslo', 'calm': True}
    >>> read_repr("Call(name='add', arguments='{}', status=None)")
    {'name': 'add', 'arguments': '{}', 'status': None}
    >>> read_repr("Booked (see below).") is None
    True
    """
    if not isinstance(text, str) or len(text) > _MAX_LENGTH or _START.match(text) is None:
        return None
    try:
        container = _Reading(text.rstrip(), class_key).container()
    except _NotARepr:
        return None
    return container if isinstance(container, (dict, list)) else None


class _Reading:
    """One pass over the text of a repr."""

    def __init__(self, text: str, class_key: str | None) -> None:
        self._text = text
        self._class_key = class_key
        self._position = 0

    def container(self) -> Any:
        value = self._value(0)
        if self._position != len(self._text):
            raise _NotARepr
        return value

    def _next_token(self) -> tuple[str, str]:
        token = _TOKEN.match(self._text, self._position)
        if token is None or token.lastgroup is None:
            raise _NotARepr
        self._position = token.end()
        return token.lastgroup, token[token.lastgroup]

    def _accept(self, mark: str) -> bool:
        token = _TOKEN.match(self._text, self._position)
        if token is None or token["mark"] != mark:
            return False
        self._position = token.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise _NotARepr

    def _value(self, depth: int) -> Any:
        if depth > _MAX_REPR_DEPTH:
            raise _NotARepr
        kind, piece = self._next_token()
        if kind == "text":
            return _unescaped(piece)
        if kind == "number":
            return _number(piece)
        if kind == "object":
            member = _MEMBER.search(piece)
            return None if member is None else _unescaped(member[1])
        if kind == "name":
            return self._object(piece, depth + 1) if self._accept("(") else _CONSTANTS.get(piece)
        if piece == "{":
            return self._braces(depth + 1)
        if piece in _CLOSING:
            return self._items(_CLOSING[piece], depth + 1)
        raise _NotARepr

    def _items(self, closing: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._accept(closing):
            items.append(self._value(depth))
            if not self._accept(","):
                self._expect(closing)
                break
        return items

    def _braces(self, depth: int) -> dict[str, Any] | list[Any]:
        if self._accept("}"):
            return {}
        first = self._value(depth)
        if not self._accept(":"):
            return [first, *self._rest_of_set(depth)]
        fields = {str(first): self._value(depth)}
        while not self._accept("}"):
            self._expect(",")
            if self._accept("}"):
                break
            key = self._value(depth)
            self._expect(":")
            fields[str(key)] = self._value(depth)
        return fields

    def _rest_of_set(self, depth: int) -> list[Any]:
        if self._accept(","):
            return self._items("}", depth)
        self._expect("}")
        return []

    def _object(self, name: str, depth: int) -> dict[str, Any]:
        fields = self._fields(depth)
        return fields if self._class_key is None else {**fields, self._class_key: name}

    def _fields(self, depth: int) -> dict[str, Any]:
        """Return the fields of an object; the key of a field without a name is its index."""
        fields: dict[str, Any] = {}
        while not self._accept(")"):
            start = self._position
            kind, token = self._next_token()
            if kind == "name" and self._accept("="):
                fields[token] = self._value(depth)
            else:
                self._position = start
                fields[str(len(fields))] = self._value(depth)
            if not self._accept(","):
                self._expect(")")
                break
        return fields


def _number(token: str) -> int | float:
    return int(token) if token.lstrip("-").isdecimal() and len(token) < _MAX_NUMBER_DIGITS else float(token)


def _unescaped(token: str) -> str:
    prefixed = token[0] in "rb"
    inner = token[2:-1] if prefixed else token[1:-1]
    return inner if "\\" not in inner or token[0] == "r" else _ESCAPE.sub(_escaped, inner)


def _escaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _PLAIN_ESCAPES.get(match[4], match[4])
    point = int(code, 16)
    # A lone surrogate could not be encoded again.
    return chr(point) if point <= _HIGHEST_CODE_POINT and point not in _SURROGATES else "�"


#: An object with its class, or only its fields, with spaces between them (pydantic).
_RECORD: Final = re.compile(r"\s*[A-Za-z_][\w.]*[=(]")
_FIELDS: Final = re.compile(r"\s*[A-Za-z_]\w*=")
#: A quoted text, or the space before a field.
_TEXT_OR_GAP: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![,(\[{])\s+(?=[A-Za-z_]\w*=)""", re.DOTALL
)


def record_fields(text: object) -> Mapping[str, Any] | None:
    """Return the fields of an object in a repr, with or without its class; None if the text is not such a repr.

    >>> record_fields("content='12' name='seats' tool_call_id='c1'")
    {'content': '12', 'name': 'seats', 'tool_call_id': 'c1'}
    >>> record_fields("Result(content=[Text(type='text', text='12')], isError=False)")
    {'content': [{'type': 'text', 'text': '12'}], 'isError': False}
    """
    if not isinstance(text, str) or _RECORD.match(text) is None:
        return None
    if _FIELDS.match(text) is not None:
        text = f"Record({_TEXT_OR_GAP.sub(lambda match: match[1] or ', ', text.strip())})"
    fields = read_repr(text)
    return fields if isinstance(fields, Mapping) else None
