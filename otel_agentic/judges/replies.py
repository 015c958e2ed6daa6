"""What a model replied -> one verdict, or why it is none. The verdict is read from its schema and nowhere else."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from otel_agentic.spans.sanitize import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.messages import AIMessage

#: The name of the schema, and of the tool that a model calls to give its verdict.
SCHEMA_NAME: Final = "verdict"
#: What is kept of a model's reasons, in characters.
MAX_REASONING: Final = 2_000
#: What is read of a reply, in characters: a verdict is short.
MAX_REPLY: Final = 100_000

#: A number written as text, where nothing is lost by reading it: no exponent, no sign, no unit, no comma.
_DECIMAL: Final = re.compile(r"\d(?:\.\d{1,12})?")
#: What a model that thinks aloud puts before its reply.
_THOUGHTS: Final = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
#: Where an object begins, as far as one can tell without reading it.
_OBJECT: Final = re.compile(r'\{\s*["}]')

#: Where providers say why a reply ended, and what they say.
_REASONS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_REFUSED: Final = frozenset({"refusal", "content_filter", "safety", "blocklist", "prohibited_content", "recitation"})
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})

Flaw = Literal["unreadable", "empty", "refused", "cut"]


class UnreadableReplyError(ValueError):
    """A reply that holds no verdict. `flaw` says in which way; the message never repeats the reply."""

    def __init__(self, flaw: Flaw, message: str) -> None:
        super().__init__(message)
        self.flaw = flaw


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else value


class VerdictReply(BaseModel):
    """The schema of a verdict; a score outside [0, 1], or that is not a number, is none."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA_NAME)

    reasoning: str
    score: Annotated[float, BeforeValidator(_number), Field(ge=0.0, le=1.0, allow_inf_nan=False)]


#: What is given to models; their own checks of it vary, ours are those of `VerdictReply`. Reasons come first, so that
#: the score follows from them.
SCHEMA: Final[dict[str, Any]] = {
    "title": SCHEMA_NAME,
    "description": "The verdict on the material.",
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "Why, in one to three sentences."},
        "score": {"type": "number", "description": "From 0 (wrong) to 1 (right)."},
    },
    "required": ["reasoning", "score"],
    "additionalProperties": False,
}


def read_message(message: AIMessage) -> VerdictReply:
    """Return the verdict of a model's message: of its tool call, or of the one JSON object in its text.

    Raises:
        UnreadableReplyError: it has none, or several that differ; it is empty, refused or cut short.
    """
    _require_complete(message)
    calls = [call["args"] for call in message.tool_calls if call["name"] == SCHEMA_NAME]
    if calls:
        return _only([validated(arguments) for arguments in calls])
    if message.tool_calls or message.invalid_tool_calls:
        raise UnreadableReplyError("unreadable", "the call of the tool was damaged, or of another tool")
    return read_text(str(message.text))


def read_text(text: str) -> VerdictReply:
    r"""Return the verdict in a text: the one JSON object, bare or in a code fence, with words around it or none.

    Raises:
        UnreadableReplyError: there is none, it is damaged or not of the schema, or several differ.

    >>> read_text('Sure:\n```json\n{"reasoning": "Same city.", "score": 1}\n```').score
    1.0
    """
    if len(text) > MAX_REPLY:
        raise UnreadableReplyError("unreadable", f"the reply has {len(text)} characters; a verdict is short")
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise UnreadableReplyError("empty", "the reply was empty")
    found = [each for each in _objects(text) if "score" in each or "reasoning" in each]
    if not found:
        raise UnreadableReplyError("unreadable", "the reply was not one JSON object with reasoning and score")
    return _only([validated(each) for each in found])


def validated(value: Mapping[str, Any]) -> VerdictReply:
    """Return the verdict that some values are.

    Raises:
        UnreadableReplyError: they are not of the schema; names the fields, never the values.
    """
    try:
        reply = VerdictReply.model_validate(value)
    except ValidationError as error:
        wrong = "; ".join(sorted({_told(each["loc"], each["type"]) for each in error.errors()}))
        raise UnreadableReplyError("unreadable", f"the reply is not of the schema: {wrong}") from None
    return reply.model_copy(update={"reasoning": _shortened(reply.reasoning)})


def _told(location: tuple[int | str, ...], kind: str) -> str:
    """Return what is wrong with a field; the name of a field that the schema does not know is the model's own text."""
    if kind == "extra_forbidden":
        return "a field beside reasoning and score"
    field = location[0] if location else "it"
    return {
        "missing": f"no {field}",
        "greater_than_equal": f"{field} below 0",
        "less_than_equal": f"{field} above 1",
        "finite_number": f"{field} is not finite",
    }.get(kind, f"{field} is not a {'number' if field == 'score' else 'text'}")


def _shortened(text: str) -> str:
    text = clean_text(text, MAX_REPLY * 4, Counter())
    return text if len(text) <= MAX_REASONING else text[: MAX_REASONING - 1] + "…"


def _only(replies: list[VerdictReply]) -> VerdictReply:
    if len({reply.score for reply in replies}) > 1:
        raise UnreadableReplyError("unreadable", "the reply holds several verdicts that differ")
    return replies[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text that stand in no other one."""
    place = 0
    while begin := _OBJECT.search(text, place):
        try:
            value, place = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            raise UnreadableReplyError("unreadable", "the reply holds damaged JSON") from None
        yield value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice in one object")
    return found


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)


def _require_complete(message: AIMessage) -> None:
    told = message.response_metadata
    reason = str(next((told[name] for name in _REASONS if told.get(name)), "")).lower()
    blocks = message.content if isinstance(message.content, list) else []
    refused = any(isinstance(block, dict) and block.get("type") == "refusal" for block in blocks)
    if message.additional_kwargs.get("refusal") or refused or reason in _REFUSED:
        raise UnreadableReplyError("refused", "the model refused to reply")
    if reason in _CUT:
        raise UnreadableReplyError("cut", "the reply was cut short by its length limit")
