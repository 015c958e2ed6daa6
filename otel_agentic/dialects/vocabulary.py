"""The common words of agents' attributes: how their names end, and which attributes are none of theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.words import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
