"""Malformed values of attributes, used by hypothesis, by the tests of linear time and by the fuzzer."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from hypothesis import strategies as st

from otel_agentic.dialects import Dialect, Table
from otel_agentic.dialects.base import _Unknown
from otel_agentic.dialects.values import attribute_of
from otel_agentic.dialects.vocabulary import ENDINGS
from otel_agentic.testing import AgentRunScript, scripted_call
from tests.conversations.scripts import SPEAKERS
from tests.dialects.reading import READER, SETTINGS

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span


@runtime_checkable
class Tabled(Dialect, Protocol):
    """A dialect with a list of the attributes that it reads."""

    table: Table


#: Every installed dialect, and the one that reads what no other claims.
DIALECTS: Final[tuple[Tabled, ...]] = (
    *(dialect for dialect in READER._dialects if isinstance(dialect, Tabled)),
    _Unknown(SETTINGS),
)
RUN: Final = (
    AgentRunScript()
    .ask("Which hotel?")
    .calls(
        scripted_call("search", {"q": "x"}, result=["Ritz"]),
        scripted_call("book", error="ValueError: full"),
        text="Let me look.",
    )
    .answers("The Ritz.")
)
#: Real spans of every convention that we speak.
SAMPLES: Final[dict[str, tuple[Span, ...]]] = {name: tuple(speak(RUN).spans) for name, speak in SPEAKERS.items()}
_MEANINGS: Final = tuple(field.name for field in fields(Table) if field.name not in {"scopes", "kinds"})
_FLAT: Final = (
    "",
    ".0",
    ".0.role",
    ".0.content",
    ".0.message",
    ".0.message.contents.0.message_content",
    ".x.9999999999",
)


def keys_of(dialect: Tabled) -> list[str]:
    """Return every attribute that a dialect's table names; prefixes of flattened messages with some of what follows them."""
    table = dialect.table
    plain = {attribute_of(path) for meaning in _MEANINGS for path in getattr(table, meaning)}
    spelled = {prefix + rest for prefix in (*table.flat_in, *table.flat_out) for rest in _FLAT}
    return sorted(plain | spelled | {key for keys in _guessed(dialect) for key in keys})


def first_keys(dialect: Tabled) -> list[str]:
    """Return one attribute for each meaning that a dialect's table gives a name: a span may hold them all."""
    result = (getattr(dialect.table, meaning) for meaning in _MEANINGS if meaning not in {"kind", "marks"})
    return sorted({attribute_of(paths[0]) for paths in result if paths} | {keys[0] for keys in _guessed(dialect)})


def _guessed(dialect: Tabled) -> list[list[str]]:
    """Return attributes for each meaning that the dialect knows by the end of their names, with any prefix."""
    if dialect.name != "generic":
        return []
    return [[f"acme.{'_'.join(ending.split())}" for ending in endings] for endings in ENDINGS.values()]


#: Every key of every table, every key of real spans, and a few that code reads.
KEYS: Final = sorted(
    {
        *(key for dialect in DIALECTS for key in keys_of(dialect)),
        *(key for spans in SAMPLES.values() for span in spans for key in span.attributes),
        "metadata", "agentic.case.id", "agentic.conversation.end", "gen_ai.agent.version", "gen_ai.message.index",
        "gen_ai.evaluation.name", "gen_ai.evaluation.score.label", "exception.type", "message", "content", "tool_calls",
    }
)  # fmt: skip
#: Names of events and log records that dialects look for.
EVENTS: Final = (
    "gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message", "gen_ai.choice",
    "gen_ai.client.inference.operation.details", "gen_ai.evaluation.result", "exception", "",
)  # fmt: skip
WORDS: Final = (
    "role", "type", "content", "parts", "text", "id", "name", "arguments", "args", "tool_calls", "function", "tool_call",
    "tool_call_response", "tool-call", "tool-result", "result", "response", "messages", "lc", "kwargs", "inputs", "data",
    "toolUse", "toolResult", "toolCallId", "toolName", "status", "tool_call_id", "function_call", "output", "input",
    "value", "user", "assistant", "tool", "error", "error-text", "system", "prompt", "task", "raw_output", "tool_output",
)  # fmt: skip

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.sampled_from(
        (10**400, -(2**63), float("nan"), "\ud800", "__REDACTED__", "[", "{", "[{", '{"a":', "['a', ", "A(b=")
    )
)
_nested = st.recursive(
    _scalars | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


def _as_json(value: Any) -> str:
    return json.dumps(value, default=str)


def _quoted(value: Any) -> str:
    return json.dumps(_as_json(value))


#: Values as they are, as the JSON text that most SDKs write, as JSON inside JSON, and as Python prints them.
anything: Final = _nested | _nested.map(_as_json) | _nested.map(_quoted) | _nested.map(repr)
attributes: Final = st.dictionaries(st.sampled_from(KEYS), anything, max_size=6)

_MESSAGE: Final = '{"role": "user", "content": "x"}'


@cache
def slow_texts(size: int) -> dict[str, str]:
    """Return texts of about `size` characters, each a trap for some parser, by name."""
    return {
        "open brackets": "[" * size,
        "open objects": '{"a":' * (size // 5),
        "closed brackets": "[" * (size // 2) + "]" * (size // 2),
        "quotes": '"' * size,
        "apostrophes": "'" * size,
        "backslashes": '"' + "\\" * size,
        "backslashes in apostrophes": "['" + "\\" * size,
        "spaces": " " * size,
        "spaces before a letter": " " * size + "x",
        "spaces before a bracket": " " * size + "[",
        "line ends": "\n" * size + "x",
        "open angles": "<" * size,
        "an object that stays open": "[<" + "a" * size,
        "digits": "9" * size,
        "digits in a list": "[" + "9" * size + "]",
        "a list of digits": "[" + "9," * (size // 2) + "9]",
        "empty objects": "[" + "{}," * (size // 3) + "{}]",
        "messages": "[" + f"{_MESSAGE}," * (size // len(_MESSAGE)) + _MESSAGE + "]",
        "messages without an end": "[" + f"{_MESSAGE}, " * (size // len(_MESSAGE)),
        "one message of many blocks": '[{"role":"user","content":['
        + '{"type":"text","text":"x"},' * (size // 27)
        + "{}]}]",
        "calls of calls": "f(" * (size // 2),
        "fields of fields": "f(a=" * (size // 4),
        "tuples": "(" * size,
        "lists of lists in Python": "['a', " * (size // 6),
        "dictionaries in Python": "{'a': " * (size // 6),
        "a dictionary of Python that stays open": "{" + "'a': None, " * (size // 11),
        "an object of the Responses API": "ResponseFunctionToolCall(arguments='" + '{"a": 1, ' * (size // 9),
        "names": "a" * size,
        "names before a parenthesis": "a." * (size // 2) + "(",
        "fields of a record": "status=" + "a=1 " * (size // 4),
        "redacted": "[Scrubbed due to " + "x" * size,
        "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(["a" * (size // 2)]))),
    }
