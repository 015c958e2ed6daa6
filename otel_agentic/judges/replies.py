"""Parsing of a model's reply into one verdict; the verdict is read from its schema and nowhere else."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from otel_agentic.judges.forms import SCHEMA_NAME, LabelReply, TextsReply, field_of, flaw_in, label_in, model_of
from otel_agentic.spans.sanitize import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.messages import AIMessage

    from otel_agentic.judges.base import ReplyForm
    from otel_agentic.judges.forms import AnyReply

#: Maximum length of the reasons of a model, and of each of its texts, in characters; longer ones are cut.
MAX_REASONING: Final = 2_000
#: Maximum length of a reply in characters: a verdict is short.
MAX_REPLY: Final = 100_000

#: Reasoning in front of the reply.
_THOUGHTS: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
#: A probable beginning of a JSON object.
_OBJECT: Final = re.compile(r'\{\s*["}]')

#: Fields of providers for the reason why a reply ended, and their values.
_REASONS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_REFUSED: Final = frozenset({"refusal", "content_filter", "safety", "blocklist", "prohibited_content", "recitation"})
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})

Flaw = Literal["unreadable", "empty", "refused", "cut"]


class UnreadableReplyError(ValueError):
    """A reply without a verdict. `flaw` classifies it; the message never quotes the reply."""

    def __init__(self, flaw: Flaw, message: str) -> None:
        super().__init__(message)
        self.flaw = flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply: its reasons and, by form, a score, a label, or texts. `score` is 0 if it was not requested."""

    reasoning: str
    score: float = 0.0
    label: str | None = None
    texts: tuple[str, ...] = ()

    @property
    def verdict(self) -> tuple[object, ...]:
        """Everything except the reasons."""
        return self.score, self.label, self.texts


def read_message(message: AIMessage, form: ReplyForm | None = None) -> Reply:
    """Return the verdict in a model's message: from its tool call, or from the one JSON object in its text.

    Args:
        message: the model's message.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is no verdict, or several that differ; or the reply is empty, refused or cut short.
    """
    _require_complete(message)
    calls = [call["args"] for call in message.tool_calls if call["name"] == SCHEMA_NAME]
    if calls:
        return _only([validated(arguments, form) for arguments in calls])
    if message.tool_calls or message.invalid_tool_calls:
        raise UnreadableReplyError("unreadable", "the call of the tool was damaged, or of another tool")
    return read_text(str(message.text), form)


def read_text(text: str, form: ReplyForm | None = None) -> Reply:
    r"""Return the verdict in a text: one JSON object, bare or in a code fence, with or without words around it.

    Args:
        text: the model's text.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is no verdict, it is damaged or does not match the schema, or several differ.

    >>> read_text('Sure:\n```json\n{"reasoning": "Same city.", "score": 1}\n```').score
    1.0
    """
    if len(text) > MAX_REPLY:
        raise UnreadableReplyError("unreadable", f"the reply has {len(text)} characters; a verdict is short")
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise UnreadableReplyError("empty", "the reply was empty")
    field = field_of(form)
    candidates = [candidate for candidate in _objects(text) if field in candidate or "reasoning" in candidate]
    if not candidates:
        raise UnreadableReplyError("unreadable", f"the reply was not one JSON object with reasoning and {field}")
    return _only([validated(candidate, form) for candidate in candidates])


def validated(value: Mapping[str, Any], form: ReplyForm | None = None) -> Reply:
    """Return the verdict in the values of a reply.

    Args:
        value: the model's values.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: the values do not match the schema; names the fields, never the values.
    """
    field = field_of(form)
    try:
        reply = model_of(form).model_validate(value)
    except ValidationError as error:
        problems = "; ".join(sorted({_problem(detail["loc"], detail["type"], field) for detail in error.errors()}))
        raise UnreadableReplyError("unreadable", f"the reply does not match the schema: {problems}") from None
    flaw = flaw_in(reply, form)
    if flaw is not None:
        raise UnreadableReplyError("unreadable", f"the reply does not match the schema: {flaw}")
    return _read(reply, form)


def _read(reply: AnyReply, form: ReplyForm | None) -> Reply:
    reasoning = _shortened(reply.reasoning)
    if isinstance(reply, LabelReply):
        return Reply(reasoning=reasoning, label=None if form is None else label_in(reply.label, form))
    if isinstance(reply, TextsReply):
        return Reply(reasoning=reasoning, texts=tuple(_shortened(text) for text in reply.texts))
    return Reply(reasoning=reasoning, score=reply.score)


def _problem(location: tuple[int | str, ...], kind: str, verdict: str) -> str:
    """Return the problem of a field; an unknown field is not named, since its name is the model's own text."""
    if kind == "extra_forbidden":
        return f"a field other than reasoning and {verdict}"
    field = location[0] if location else "it"
    expected = {"score": "a number", "texts": "a list of texts"}.get(str(field), "a text")
    return {
        "missing": f"no {field}",
        "greater_than_equal": f"{field} below 0",
        "less_than_equal": f"{field} above 1",
        "finite_number": f"{field} is not finite",
    }.get(kind, f"{field} is not {expected}")


def _shortened(text: str) -> str:
    text = clean_text(text, MAX_REPLY * 4, Counter())
    return text if len(text) <= MAX_REASONING else text[: MAX_REASONING - 1] + "…"


def _only(replies: list[Reply]) -> Reply:
    if len({reply.verdict for reply in replies}) > 1:
        raise UnreadableReplyError("unreadable", "the reply holds several verdicts that differ")
    return replies[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the top-level JSON objects in a text."""
    position = 0
    while begin := _OBJECT.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            raise UnreadableReplyError("unreadable", "the reply holds damaged JSON") from None
        yield value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("duplicate name in an object")
    return mapping


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)


def _require_complete(message: AIMessage) -> None:
    metadata = message.response_metadata
    reason = str(next((metadata[name] for name in _REASONS if metadata.get(name)), "")).lower()
    blocks = message.content if isinstance(message.content, list) else []
    refused = any(isinstance(block, dict) and block.get("type") == "refusal" for block in blocks)
    if message.additional_kwargs.get("refusal") or refused or reason in _REFUSED:
        raise UnreadableReplyError("refused", "the model refused to reply")
    if reason in _CUT:
        raise UnreadableReplyError("cut", "the reply was cut short by its length limit")
