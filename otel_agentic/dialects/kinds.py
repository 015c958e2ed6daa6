"""What spans of agents are: by the kind that they give themselves, and by the form of their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.words import MAX_NAME, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
