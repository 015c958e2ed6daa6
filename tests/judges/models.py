"""Chat models with scripted replies: real LangChain models without a provider."""

from __future__ import annotations

import asyncio
import json
import re
import threading  # noqa: TC003 — pydantic reads the annotation
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from otel_agentic.judges.base import JsonLines, ReplyForm
from otel_agentic.judges.messages import schema_of

#: What a model is asked, and which way; what it replies.
Say = Callable[[str, str], AIMessage | str | BaseException]
#: What a model replies to all messages it got.
SayToAll = Callable[[list[BaseMessage]], str]
_BLOCK: Final = re.compile(r"\A<data ([0-9a-f]+)>\n(.*)\n</data \1>\n", re.DOTALL)


def verdict(score: object = 1.0, reasoning: str = "The text states it.") -> str:
    return json.dumps({"reasoning": reasoning, "score": score})


def fields_of(human: str) -> dict[str, Any]:
    """Return the material of a message, as a model reads it that trusts the first marker."""
    block = _BLOCK.match(human)
    assert block is not None, human
    fields: dict[str, Any] = json.loads(block.group(2))
    return fields


def read_lines(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with each text of JSON lines as the list that a model receives."""
    return {
        name: [json.loads(line) for line in text.split("\n")] if isinstance(text, JsonLines) else text
        for name, text in fields.items()
    }


def by_answer(scores: dict[str, object] | None = None, default: object = 1.0) -> Say:
    """Return a model that scores answers by a list."""
    return lambda human, _: verdict((scores or {}).get(fields_of(human)["answer"], default))


class Bare(BaseChatModel):
    """A model that knows text and nothing else, and has no asynchronous client."""

    say: Say = by_answer()
    say_to_all: SayToAll | None = None
    forms: tuple[ReplyForm, ...] = ()
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    ways: list[str] = Field(default_factory=list)
    usage: tuple[int, int] | None = (100, 10)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _reply(self, messages: list[BaseMessage], way: str) -> AIMessage:
        self.requests.append(messages)
        self.ways.append(way)
        stated = self.say_to_all(messages) if self.say_to_all else self.say(str(messages[-1].content), way)
        if isinstance(stated, BaseException):
            raise stated
        message = AIMessage(stated) if isinstance(stated, str) else stated
        if self.usage is not None:
            given, selected = self.usage
            message.usage_metadata = {
                "input_tokens": given,
                "output_tokens": selected,
                "total_tokens": given + selected,
            }
        return message

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        assert {"stop"} >= set(options), options
        return _result(self._reply(messages, "text"))


class Tools(Bare):
    """A model that calls the tool it is given, with its reply as arguments."""

    tool_choice: list[object] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        self.tool_choice.append(options.get("tool_choice"))
        return self.bind(tools=tools, **options)

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        message = self._reply(messages, "tool" if options.get("tools") else "text")
        if options.get("tools") and message.text.startswith("{"):
            call = {"name": "verdict", "args": json.loads(message.text), "id": "call-1", "type": "tool_call"}
            message = message.model_copy(update={"content": "", "tool_calls": [call]})
        return _result(message)


class Structured(Tools):
    """A model with structured output of its own."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Runnable[Any, Any]:
        assert include_raw
        assert schema in map(schema_of, (None, *self.forms))

        def reply(messages: Any) -> dict[str, Any]:
            raw = self._reply([*self._convert_input(messages).to_messages()], "structured")
            return {"raw": raw, "parsed": None, "parsing_error": None}

        return RunnableLambda(reply)


class Slow(Bare):
    """A model with an asynchronous client that takes its time; remembers how many calls it had at once."""

    takes_s: float = 0.0
    at_once: list[int] = Field(default_factory=lambda: [0, 0])
    cancelled: list[str] = Field(default_factory=list)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.at_once[0] += 1
        self.at_once[1] = max(self.at_once)
        try:
            await asyncio.sleep(self.takes_s)
            return _result(self._reply(messages, "text"))
        except asyncio.CancelledError:
            self.cancelled.append(str(messages[-1].content))
            raise
        finally:
            self.at_once[0] -= 1


class Blocking(Bare):
    """A model without an asynchronous client whose calls wait for one another: they return once `expected` are in."""

    barrier: threading.Barrier

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.barrier.wait(timeout=20)
        return _result(self._reply(messages, "text"))


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])
