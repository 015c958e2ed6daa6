"""Reading untrusted values: JSON in text, redaction marks, paths into JSON, ids, errors, versions, verdicts and token counts.

A path is an attribute's name, or `name~.a.0.b` for the field inside the JSON in that attribute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.spans.model import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.spans.model import LogRecord, Span

#: The marks by which SDKs replace content that they removed.
_REDACTION: Final = re.compile(
    r"^\s*(?:__REDACTED__|\[Scrubbed due to .*\]|<elided>|\[REDACTED\]|readacted)\s*$", re.DOTALL
)
#: JSON text that is parsed: a container or a quoted string. Bare numbers stay text, because they may be identifiers.
_JSON_START: Final = re.compile(r'^\s*[\[{"]')
#: JSON text nested deeper than this stays text, because serialising it again would fail.
_MAX_DEPTH: Final = 100
#: Flattened keys with more parts than this, or indices with more digits, are not messages.
_MAX_PATH: Final = 32
_MAX_DIGITS: Final = 9
#: Values that replace a missing id: `<not specified>` (google-adk), and the null values of languages.
_NO_ID: Final = re.compile(r"(?:<[^>]*>|null|none|undefined|nan)?", re.IGNORECASE)
#: The key of a lone argument whose parameter name the instrumentation dropped.
UNNAMED_ARGUMENT: Final = "input"
#: Kinds of LangChain message dumps.
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
    if not isinstance(value, str) or _JSON_START.match(value) is None:
        return value
    try:
        content = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    # Few brackets cannot nest deeply, so nearly all text is not traversed.
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
    """Return an identifier as text, None for one that is empty, a placeholder or redacted.

    >>> id_of("call_1"), id_of(7), id_of("<not specified>"), id_of("null")
    ('call_1', '7', None, None)
    """
    text = text_of(value)
    return None if text is None or is_redacted(text) or _NO_ID.fullmatch(text.strip()) else text


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
            _plant(root, path, value)
    return _lists(root) if root else None


def _plant(node: dict[str, Any], path: list[str], value: Any) -> None:
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
    read: tuple[str, Any] | None = None  # the paths of one meaning are mostly in the same attribute
    for path in paths:
        if _JSON not in path:
            value = attributes.get(path)
        else:
            attribute, steps = _split(path)
            if read is None or read[0] != attribute:
                read = (attribute, parsed(attributes.get(attribute)))
            value = walk(read[1], steps)
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
    attribute, _, rest = path.partition(_JSON)
    return attribute, tuple(step for step in rest.split(".") if step)


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
    evaluations = [event.attributes for event in span.events if event.name == VERDICT_EVENT]
    evaluations += [log.attributes for log in logs if log.event_name == VERDICT_EVENT]
    for attributes in evaluations:
        label = attributes.get("gen_ai.evaluation.score.label")
        # Not a set: a malicious label may be a list.
        if attributes.get("gen_ai.evaluation.name") == VERDICT_NAME and label in ("pass", "fail"):
            return bool(label == "pass")
    return None


#: Larger values are not counts of tokens.
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
