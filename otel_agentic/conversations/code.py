"""Agents that act by writing code: the interpreter is a wrapper, and the calls inside it are the agent's calls.

An interpreter is a wrapper if other tools ran inside it, or if the model wrote the code into its answer text instead of
requesting a tool: then the framework lets the agent act by running code (CodeAgent of smolagents, CodeAct). An interpreter
that the model chose by a function call and in which no tool ran is a tool like any other (`code_interpreter` of OpenAI).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import AgentRun, ModelCall
from otel_agentic.dialects.values import parsed
from otel_agentic.dialects.words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.requests import Call
    from otel_agentic.conversations.turns import TurnSpans

#: Words in the names of tools that run code, and the names of the parameter that takes it.
_INTERPRETERS: Final = frozenset(
    {"bash", "code", "exec", "interpreter", "ipython", "javascript", "jupyter", "python", "repl", "sandbox", "script"}
)
_CODE_KEYS: Final = frozenset(
    {"code", "program", "python", "python_code", "script", "snippet", "source", "source_code"}
)


def code_runs(calls: Sequence[Call], turn: TurnSpans) -> dict[int, Node | None]:
    """Return the wrapper calls, which only run the code of an agent, by `id()`, with their tool span if there is one.

    Args:
        calls: the calls of the turn.
        turn: the spans of the turn.
    """
    candidates = [(call, code) for call in calls if (code := _code_of(call)) is not None]
    if not candidates:
        return {}
    inside = {(id(call.node.holding_call), id(call.node.run)) for call in calls if call.node is not None}
    texts = list(dict.fromkeys(_texts(turn)))
    return {
        id(call): call.node
        for call, code in candidates
        if (call.node is not None and (id(call.node), id(call.node.run)) in inside)
        or (not _is_chosen(call) and any(_is_written(code, text) for text in texts))
    }


def _code_of(call: Call) -> str | None:
    """Return the code that a call runs, or None if it does not run code."""
    arguments = _arguments(call)
    named = next(
        (value for key, value in arguments.items() if key.lower() in _CODE_KEYS and isinstance(value, str)), None
    )
    if named is not None:
        return named
    if _INTERPRETERS.isdisjoint(words_of(call.name)):
        return None
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return max(texts, key=len, default="")


def _arguments(call: Call) -> Mapping[str, Any]:
    requested = call.request.arguments if call.request is not None else None
    actual = call.event.arguments if call.event is not None else None
    return requested or actual or {}


def _is_chosen(call: Call) -> bool:
    """Return whether a captured response of the model asked for the call."""
    return call.request is not None and not call.from_history


def _texts(turn: TurnSpans) -> Iterator[str]:
    """Yield the texts of the models and agents of a turn without the requested calls; for JSON also the texts in it."""
    for node in turn.nodes:
        if isinstance(node.event, (AgentRun, ModelCall)):
            for message in (*(node.event.messages_in or ()), *(node.event.messages_out or ())):
                if message.role == "assistant" and message.text and not message.requests:
                    yield message.text
                    content = parsed(message.text)
                    if isinstance(content, Mapping):
                        yield from (value for value in content.values() if isinstance(value, str))


def _is_written(code: str, text: str) -> bool:
    """Return whether a text contains the first and the last line of some code: frameworks join several blocks of code."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return bool(lines) and lines[0] in text and lines[-1] in text
