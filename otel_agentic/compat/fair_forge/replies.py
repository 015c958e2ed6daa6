"""Asking a chat model whether an answer is correct, and reading its reply, as strictly as Fair Forge does."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from otel_agentic.judges.fence import SYSTEM, encode, new_nonce


class ChatModel(Protocol):
    """Whatever answers messages, such as any LangChain `BaseChatModel`."""

    def invoke(self, messages: list[tuple[str, str]], /) -> Any:
        """Return a reply with its `content`."""
        ...


class _Reply(BaseModel):
    """A reply that Fair Forge takes: both fields, nothing else, the score within its bounds."""

    model_config = ConfigDict(extra="forbid")

    correctness_score: Annotated[float, Field(ge=0.0, le=1.0)]
    reasoning: str


#: How often the model is called for one answer, at most.
TRIES: Final = 5
#: Asked again only where the text of an exception holds this: meant for a status, but any number 400 does it.
_ASK_AGAIN: Final = "400"

_INSTRUCTIONS: Final = """\
Grade how correct the agent's answer to the query is, measured by the expected answer, from 0 to 1:
1.0 the same facts, faultlessly spelled, in whatever words; .85 to .95 the same facts, wordier than needed;
.65 to .75 the right fact with a slip of spelling; .5 to .65 right, but an important detail is missing;
.3 to .5 right in part, with serious mistakes; below .3 a wrong fact.

Reply with one JSON object and nothing else: {"correctness_score": NUMBER, "reasoning": TEXT}."""


def answer_score(model: ChatModel, *, query: str, answer: str, expected: str, strict: bool = True) -> float | None:
    """Return the score that the model gives, in [0, 1]; None where Fair Forge gives 0.0 for want of a score.

    An exception is final, unless its text holds "400": then the model is called up to five times. A reply that is not
    exactly the JSON object is such an exception. `strict`: a model that can is bound strictly to the schema of the reply.
    """
    bound = _bound(model, strict=strict)
    data, word = encode({"query": query, "expected_answer": expected, "agent_answer": answer}), new_nonce()
    material = f"<data {word}>\n{data}\n</data {word}>\n\n{_INSTRUCTIONS}"
    messages = [("system", SYSTEM.format(nonce=word)), ("human", material)]
    for attempt in range(TRIES):
        try:
            score = read_reply(bound.invoke(messages))
        except Exception as error:  # noqa: BLE001 — a chat model may raise anything; all of it means no score
            if _ASK_AGAIN in str(error) and attempt < TRIES - 1:
                continue
            return None
        if score is not None:
            return score
    return None


def read_reply(reply: Any) -> float | None:
    """Return the score of a reply, None where the model called a tool instead of replying.

    Raises:
        ValueError: the reply is not exactly the JSON object, or its score is out of bounds.

    >>> from types import SimpleNamespace
    >>> read_reply(SimpleNamespace(content='{"correctness_score": 0.9, "reasoning": "right"}'))
    0.9
    """
    if getattr(reply, "tool_calls", None):
        return None
    return _Reply.model_validate(json.loads(_text(reply.content))).correctness_score


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = ((part.get("text") or part.get("content")) if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _bound(model: ChatModel, *, strict: bool) -> ChatModel:
    """Return the model bound to the schema of the reply, the model itself where it has no way to be."""
    schema: dict[str, Any] = {"name": "AnswerCorrectness", "schema": _Reply.model_json_schema()}
    if strict:
        schema["strict"] = True
    try:
        bind = model.bind_tools  # type: ignore[attr-defined]  # a capability that not every model has
        return bind([], response_format={"type": "json_schema", "json_schema": schema})  # type: ignore[no-any-return]
    except (AttributeError, NotImplementedError):
        return model
