"""The common words of agents' attributes and span names: which endings have which meaning, and which attributes are unrelated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import Table
from otel_agentic.dialects.values import session_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: A word of a name: `spanKind` is two, and so is `LLMCall`.
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
#: Nobody names an attribute or a kind at greater length.
MAX_NAME: Final = 200


@lru_cache(maxsize=8192)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case; of a very long one none.

    >>> words_of("genkit:metadata:sessionId"), words_of("TOOL_CALL")
    (('genkit', 'metadata', 'session', 'id'), ('tool', 'call'))
    """
    return tuple(word.lower() for word in _WORD.findall(name)) if len(name) <= MAX_NAME else ()


#: Which attributes hold a meaning: how their names end, the surest first. Any prefix may stand before.
ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "conversation_id": (
        "conversation id",
        "conversation uuid",
        "dialog id",
        "dialogue id",
        "session id",
        "session uuid",
        "thread id",
        "chat id",
    ),
    "kind": (
        "span kind",
        "span type",
        "observation type",
        "observation kind",
        "run type",
        "node type",
        "entity type",
        "component type",
        "step type",
        "task type",
        "action type",
        "event type",
        "request type",
        "operation name",
        "operation type",
        "operation id",
        "subtype",
        "kind",
        "type",
        "operation",
        "op",
    ),
    "agent_name": ("agent name", "assistant name", "agent"),
    "agent_id": ("agent id", "assistant id"),
    "model": ("response model", "request model", "model name", "model id", "model"),
    "response_id": ("response id", "completion id"),
    "finish_reason": ("finish reasons", "finish reason", "stop reason"),
    "query": ("user query", "user input", "user message", "user prompt", "query", "question"),
    "answer": ("final answer", "final output", "final result", "final response", "answer", "reply"),
    "input": (
        "input messages",
        "request messages",
        "prompt messages",
        "chat messages",
        "messages",
        "input value",
        "inputs",
        "input",
        "input text",
        "input data",
        "input content",
        "input message",
        "request body",
        "request",
        "prompts",
        "prompt",
        "prompt text",
        "prompt content",
    ),
    "output": (
        "output messages",
        "response messages",
        "completion messages",
        "output value",
        "outputs",
        "output",
        "output text",
        "output data",
        "output content",
        "output message",
        "response body",
        "response",
        "response text",
        "response content",
        "response message",
        "completions",
        "completion",
        "completion text",
        "completion content",
        "generation",
        "result",
        "return value",
        "return",
    ),
    "tool_name": ("tool call name", "tool name", "toolcall name"),
    "name": ("name",),
    "call_id": ("tool call id", "toolcall id", "tool use id", "call id", "tool id"),
    "arguments": (
        "tool call arguments",
        "tool call args",
        "tool call input",
        "tool arguments",
        "tool args",
        "tool input",
        "function arguments",
        "function args",
        "arguments",
        "args",
        "kwargs",
    ),
    # Some keep the schema there, others the arguments: read last.
    "parameters": ("tool parameters", "tool params", "function parameters", "parameters", "params"),
    "result": (
        "tool call result",
        "tool call output",
        "tool call response",
        "tool result",
        "tool output",
        "tool response",
        "function result",
        "function output",
    ),
    "input_tokens": (
        "input tokens",
        "prompt tokens",
        "input token count",
        "prompt token count",
        "token count prompt",
        "token count input",
        "tokens input",
        "tokens prompt",
        "usage input",
        "usage prompt",
    ),
    "output_tokens": (
        "output tokens",
        "completion tokens",
        "output token count",
        "completion token count",
        "token count completion",
        "token count output",
        "tokens output",
        "tokens completion",
        "usage output",
        "usage completion",
    ),
    "usage": ("token usage", "usage details", "usage metadata", "usage"),
    "definitions": ("tool definitions", "tools definitions", "function definitions", "available tools", "tools"),
    "error": ("error type", "error message", "error"),
    "failed": ("is error", "tool status", "span status", "status", "state", "level"),
    "why_failed": ("status message", "error message", "failure reason"),
    "metadata": (
        "metadata",
        "meta",
        "context",
        "config",
        "configurable",
        "properties",
        "attributes",
        "baggage",
        "init",
        "session",
        "conversation",
        "thread",
    ),
}
#: What must not stand right before an ending: then the name is about something else (`usage.input`, `system.prompt`).
NOT_AFTER: Final[Mapping[str, frozenset[str]]] = (
    {
        meaning: frozenset({"usage", "token", "tokens", "cost", "count", "size", "length", "price", "error", "cache"})
        | frozenset({"system", "template", "developer", "retry", "expected", "reference", "tasks", "steps"})
        for meaning in ("query", "answer", "input", "output", "result", "arguments", "parameters")
    }
    | {
        # Parts of a count, or bounds of it, are not the count.
        meaning: frozenset(
            {"cached", "cache", "read", "write", "creation", "audio", "image", "text", "reasoning", "max", "min"}
        )
        | frozenset({"maximum", "limit", "per", "avg", "average", "estimated", "remaining", "aggregated"})
        for meaning in ("input_tokens", "output_tokens")
    }
    | {
        "definitions": frozenset(
            {"used", "called", "executed", "invoked", "selected", "forbidden", "denied", "disabled"}
        )
    }
)
#: Endings of one word that only count with little before them (`acme.type`): else they name the type of something.
SHORT_ENDINGS: Final = frozenset({"kind", "type", "subtype", "operation", "op", "name"})
#: Words before a short ending under which it still speaks of the span itself.
ABOUT_THE_SPAN: Final = frozenset(
    {"span", "observation", "entity", "component", "node", "step", "task", "function", "metadata", "operation"}
)
#: Words before a short ending under which it does not, although nothing else stands before.
ABOUT_ELSE: Final = frozenset(
    {"error", "exception", "input", "output", "content", "mime", "media", "response", "agent", "message", "token"}
    | {"usage", "auth", "cache", "index", "data", "file", "model", "schema", "memory", "user", "session", "thread"}
    | {"provider", "parent", "workflow", "conversation", "event", "tool", "environment", "project", "name"}
)
#: Endings that say what kind of span this is, whatever value they hold.
CLASSIFIERS: Final = frozenset({"span kind", "span type", "observation type", "observation kind", "run type"})

#: Namespaces of the OpenTelemetry conventions that speak of other things than agents, by their first word.
FOREIGN: Final = frozenset(
    {"android", "artifact", "aspnetcore", "aws", "azure", "browser", "cassandra", "celery", "cicd"}
    | {"cloud", "cloudevents", "code", "container", "cpu", "db", "deployment", "device", "disk", "dns"}
    | {"elasticsearch", "enduser", "exception", "faas", "feature", "file", "geo", "graphql", "grpc", "heroku"}
    | {"host", "http", "hw", "ios", "jvm", "k8s", "kafka", "kestrel", "log", "messaging"}
    | {"mongodb", "net", "network", "nodejs", "oci", "os", "otel", "peer", "process", "rabbitmq"}
    | {"redis", "rpc", "server", "service", "signalr", "sql", "system", "telemetry", "test", "tls"}
    | {"url", "v8js", "vcs", "webengine", "zos"}
)
#: Those of them that say: this span is a request of a protocol.
PROTOCOLS: Final = frozenset({"http", "db", "sql", "messaging", "rpc", "grpc", "url", "graphql", "faas", "redis"})
#: The web's word for a client.
_USER_AGENT: Final = re.compile(r"(?i)(?:^|[._:])user[._]agent(?:[._]|$)")

#: Words that occur in the names of agents' attributes, scopes and spans, and hardly in others.
AGENTIC: Final = frozenset(
    {"agent", "agents", "agentic", "llm", "llms", "genai", "prompt", "prompts", "completion", "completions", "tool"}
    | {"tools", "chat", "assistant", "conversation", "langchain", "gpt", "copilot"}
)


def is_foreign(name: str) -> bool:
    """Return whether an attribute belongs to a convention that speaks of other things than agents.

    >>> is_foreign("db.query.text"), is_foreign("acme.query")
    (True, False)
    """
    words = words_of(name)
    return not words or words[0] in FOREIGN or _USER_AGENT.search(name) is not None


_STEP: Final = "a step of a run"
#: What a kind is, by its last telling word; the certain ones.
_SURE: Final[Mapping[str, str]] = {
    "tool": "tool",
    "toolcall": "tool",
    "llm": "model",
    "generation": "model",
    "agent": "agent",
    "chain": "maybe_agent",
}
#: Words that others than agents use as well: they count on a span that has content.
_LIKELY: Final[Mapping[str, str]] = {
    "function": "tool",
    "model": "model",
    "chat": "model",
    "completion": "model",
    "completions": "model",
    "inference": "model",
    "generate content": "model",
    "generate text": "model",
    "stream text": "model",
    "do generate": "model",
    "do stream": "model",
    "generate": "model",
    "workflow": "maybe_agent",
    "crew": "maybe_agent",
    "team": "maybe_agent",
    "graph": "maybe_agent",
    "flow": "maybe_agent",
    "pipeline": "maybe_agent",
    "turn": "maybe_agent",
    "conversation": "maybe_agent",
    "task": "maybe_agent",
    "plan": "plan",
    "planning": "plan",
    "step": _STEP,
    "cycle": _STEP,
    "iteration": _STEP,
    "chunk": "a piece of a response",
    "embedding": "embeddings",
    "embeddings": "embeddings",
    "embedder": "embeddings",
    "retriever": "retrieval",
    "retrieval": "retrieval",
    "rerank": "retrieval",
    "reranker": "retrieval",
    "guardrail": "guardrail",
    "guardrails": "guardrail",
    "evaluator": "evaluator",
    "evaluation": "evaluator",
    "handoff": "handoff",
}
#: Words behind the telling one: `tool_call`, `agent_run`, `LLMRequest`.
_TRAILING: Final = frozenset(
    {"call", "calls", "run", "execution", "invocation", "request", "span", "use", "action", "operation", "create"}
)
_CREATES: Final = "creates an agent, runs nothing"

#: How spans of tools, agents and model calls are named; the certain forms.
_SURE_NAMES: Final = (
    ("tool", re.compile(r"^(?:execute_tool|tools/call|running tool:?)\s+(?P<name>\S.*)$", re.IGNORECASE)),
    ("agent", re.compile(r"^invoke_agent\s+(?P<name>\S.*)$", re.IGNORECASE)),
)
#: Forms that count on a span that has content.
_LIKELY_NAMES: Final = (
    (
        "tool",
        re.compile(r"^(?:(?:call|run)[_ ]tool|tool[_ ]?call|tool|function)\s*[:/]\s*(?P<name>\S.*)$", re.IGNORECASE),
    ),
    ("tool", re.compile(r"^(?:call_tool|run_tool|tool_call|tool)[ .](?P<name>\S.*)$", re.IGNORECASE)),
    ("tool", re.compile(r"^(?P<name>\S.*?)(?:[.:/ ]tool(?:[_ ]?call)?|\s*\(tool\))$", re.IGNORECASE)),
    ("agent", re.compile(r"^(?:agent(?:[_ ]run)?\s*[:/]\s*)(?P<name>\S.*)$|^agent[_ ]run$", re.IGNORECASE)),
    ("agent", re.compile(r"^(?P<name>\S.*?)[.:/]agent$", re.IGNORECASE)),
    (
        "model",
        re.compile(r"^(?:chat|text_completion|generate_content)\s+\S|^(?:llm|completion)(?:[\s:/._]|$)", re.IGNORECASE),
    ),
    ("model", re.compile(r"[.:/](?:llm|chat|completions?|generation|do_?generate|do_?stream)$", re.IGNORECASE)),
)
#: The method of a tool or agent that a span is named after.
_METHOD: Final = re.compile(r"\.(?:__call__|a?call|a?invoke|a?run|execute|forward)$")


def kind_meant(value: object) -> tuple[str | None, bool]:
    """Return what a kind of span means, and whether the word is one that only agents use; None for an unknown kind.

    >>> kind_meant("TOOL"), kind_meant("model_generation"), kind_meant("workflow"), kind_meant("GET")
    (('tool', True), ('model', True), ('maybe_agent', False), (None, False))
    """
    words = words_of(value) if isinstance(value, str) else ()
    if words[:1] == ("create",):
        return (_CREATES, False) if words[-1] == "agent" else (None, False)
    while len(words) > 1 and words[-1] in _TRAILING:
        words = words[:-1]
    if not words:
        return None, False
    if words[-1] in _SURE:
        return _SURE[words[-1]], True
    return _LIKELY.get(" ".join(words[-2:]), _LIKELY.get(words[-1])), False


def name_meant(name: str) -> tuple[str | None, bool]:
    """Return what the form of a span's name says it is, and whether only agents name spans so; None for other forms.

    >>> name_meant("execute_tool weather"), name_meant("weather.tool"), name_meant("GET /tools")
    (('tool', True), ('tool', False), (None, False))
    """
    for forms, sure in ((_SURE_NAMES, True), (_LIKELY_NAMES, False)):
        for meaning, form in forms:
            if form.search(name[:MAX_NAME]):
                return meaning, sure
    return None, False


def undressed(name: str) -> str:
    """Return the tool or agent that a span is named after.

    >>> undressed("execute_tool weather"), undressed("weather.tool"), undressed("weather.__call__")
    ('weather', 'weather', 'weather')
    """
    for _, form in (*_SURE_NAMES, *_LIKELY_NAMES):
        found = form.search(name[:MAX_NAME])
        if found is not None and "name" in form.groupindex and found["name"]:
            return found["name"]
    return _METHOD.sub("", name) or name


#: (meaning, rank among its endings) of each ending, by its words.
_BY_WORDS: Final[Mapping[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    tuple(ending.split()): tuple(
        (meaning, endings.index(ending)) for meaning, endings in ENDINGS.items() if ending in endings
    )
    for ending in dict.fromkeys(ending for endings in ENDINGS.values() for ending in endings)
}
_LONGEST: Final = max(map(len, _BY_WORDS))
#: The first of messages that are spelled out over many attributes.
_SPELLED_OUT: Final = re.compile(r"^(.+?)\.0\.(?:message\.)?(?:role|content|contents|tool_calls)(?:\.|$)")
_ANSWERING: Final = frozenset({"output", "outputs", "completion", "completions", "choices", "response", "generations"})
#: Where a conversation's id stands in a JSON object of metadata, of a run's arguments.
_IN_METADATA: Final = ("", "metadata.", "configurable.")
_IN_ARGUMENTS: Final = ("", "kwargs.")
#: Names and ids, which some write as JSON text.
_QUOTED: Final = ("agent_name", "agent_id", "model", "response_id", "tool_name", "name", "call_id")
#: The other meanings that a table has, too.
_OF_TABLE: Final = (
    "finish_reason",
    "query",
    "answer",
    "input",
    "output",
    "arguments",
    "result",
    "error",
    "input_tokens",
    "output_tokens",
    "usage",
    "definitions",
)
#: A vendor's prefix and the word itself.
_SHORT: Final = 2
#: All but the first of messages that are spelled out: they tell nothing more, and each span has more of them.
_LATER_ITEM: Final = re.compile(r"\.[1-9]\d*\.")
#: Of a span with more attributes than this, or more metadata, the rest is not looked at.
_MAX_NAMES: Final = 500
_MAX_RECORDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonKeys:
    """The attributes of a span that common words explain.

    `table` holds the meanings a table has (its `query` and `answer` name what a run was asked and said in the end), `kinds`
    the attributes that tell kinds of spans, `parameters` those that hold either arguments or their schema, `failed` those
    that tell an outcome, `why_failed` the reason, `given` paths to a conversation id among what a run was given.
    `is_classified` says that some attribute classifies the span, `is_request` that it is a request of a protocol (HTTP, a
    database, a queue), `is_agentic` that a name has a word in it that agents use.
    """

    table: Table
    kinds: tuple[str, ...]
    parameters: tuple[str, ...]
    failed: tuple[str, ...]
    why_failed: tuple[str, ...]
    given: tuple[str, ...]
    is_classified: bool
    is_request: bool
    is_agentic: bool

    @property
    def asked(self) -> tuple[str, ...]:
        """The attributes that hold what a span was given; prefixes of those that are spelled out."""
        table = self.table
        return (*table.query, *table.input, *table.flat_in, *table.arguments, *self.parameters)

    @property
    def answered(self) -> tuple[str, ...]:
        """The attributes that hold what came of it."""
        return (*self.table.answer, *self.table.output, *self.table.flat_out, *self.table.result)


def common_keys(attributes: Mapping[str, object]) -> CommonKeys:
    """Return what the names of a span's attributes tell.

    >>> keys = common_keys({"acme.span.kind": "TOOL", "acme.session_id": "s1", "acme.input": "{}", "db.query.text": "select 1"})
    >>> keys.kinds, keys.table.conversation_id, keys.asked
    (('acme.span.kind',), ('acme.session_id~',), ('acme.input',))
    """
    names = (name for name in attributes if len(name) <= MAX_NAME and _LATER_ITEM.search(name) is None)
    return _keys(tuple(islice(names, _MAX_NAMES)))


@lru_cache(maxsize=512)  # spans of one kind have attributes of the same names
def _keys(names: tuple[str, ...]) -> CommonKeys:
    own = [name for name in names if not is_foreign(name)]
    found = _found(own)
    asked, answered = _spelled_out(own)
    table = Table(
        kinds={},
        conversation_id=(*(f"{name}~" for name in found["conversation_id"]), *_inside(found["metadata"], _IN_METADATA)),
        flat_in=asked,
        flat_out=answered,
        **{meaning: found[meaning] for meaning in _OF_TABLE},
        **{meaning: tuple(f"{name}~" for name in found[meaning]) for meaning in _QUOTED},
    )
    return CommonKeys(
        table=table,
        kinds=found["kind"],
        parameters=found["parameters"],
        failed=found["failed"],
        why_failed=found["why_failed"],
        given=_inside(found["input"], _IN_ARGUMENTS),
        is_classified=any(" ".join(words_of(name)[-2:]) in CLASSIFIERS for name in own),
        is_request=any(words_of(name)[:1] and words_of(name)[0] in PROTOCOLS for name in names),
        is_agentic=any(not AGENTIC.isdisjoint(words_of(name)) for name in own),
    )


def _found(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the attributes of each meaning, the surest first."""
    ranked: dict[str, dict[str, int]] = {meaning: {} for meaning in ENDINGS}
    for name in names:
        words = words_of(name)
        if any(part.isdecimal() for part in name.split(".")):
            continue  # an item of something that is spelled out
        for length in range(min(_LONGEST, len(words)), 0, -1):
            ending, before = words[-length:], words[:-length]
            for meaning, rank in _BY_WORDS.get(ending, ()):
                if _fits(meaning, ending, before):
                    ranked[meaning][name] = rank
            if ending in _BY_WORDS:
                break  # the longest ending tells most: what is called `output.messages` is no input
    return {meaning: tuple(sorted(ranks, key=ranks.__getitem__)) for meaning, ranks in ranked.items()}


def _fits(meaning: str, ending: tuple[str, ...], before: tuple[str, ...]) -> bool:
    last = before[-1] if before else ""
    if len(ending) == 1 and ending[0] in SHORT_ENDINGS:
        return last in ABOUT_THE_SPAN or (len(before) < _SHORT and last not in ABOUT_ELSE)
    return last not in NOT_AFTER.get(meaning, ())


def _spelled_out(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes of messages that are spelled out: of what went in, of what came back."""
    prefixes = dict.fromkeys(found[1] for name in names if (found := _SPELLED_OUT.match(name)) is not None)
    answered = tuple(prefix for prefix in prefixes if not _ANSWERING.isdisjoint(words_of(prefix)))
    return tuple(prefix for prefix in prefixes if prefix not in answered), answered


def _inside(names: Sequence[str], places: Iterable[str]) -> tuple[str, ...]:
    """Return the paths to a conversation's id in the JSON of some attributes."""
    return tuple(path for name in names[:_MAX_RECORDS] for place in places for path in session_keys(f"{name}~{place}"))
