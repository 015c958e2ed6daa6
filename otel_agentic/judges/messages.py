"""Messages to and from a model: reply schemas, fenced untrusted texts, and parsing of the reply into a verdict.

Untrusted texts are sent as one JSON object between random markers that they cannot contain. The instructions follow
outside the markers, at the end. No character of a text can end the object, the line or the block, open a code fence or
a tag, or be invisible to a reader: such characters are written as JSON escapes, which the model can read. The verdict
is read from the reply schema and nowhere else.
"""

from __future__ import annotations

import json
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import regex
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from otel_agentic.judges.base import ALSO_ACCEPTED, JsonLines, Question, ReplyForm, ReplyKind
from otel_agentic.spans.sanitize import clean_text

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

#: The name of the schema, and of the tool that a model calls to return its verdict.
SCHEMA_NAME: Final = "verdict"
#: A number written as text that can be read without loss: no exponent, no unit, no comma.
_DECIMAL: Final = re.compile(r"\d(?:\.\d{1,12})?")
#: The same for the score of a rubric, which may exceed one digit: "10" is accepted like "9".
_BOUNDED: Final = re.compile(r"-?\d{1,9}(?:\.\d{1,12})?")


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else value


def _bounded_number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _BOUNDED.fullmatch(value) else value


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA_NAME)

    reasoning: str


class VerdictReply(_Reply):
    """The schema of a verdict; a score that is outside [0, 1], or not a number, is rejected."""

    score: Annotated[float, BeforeValidator(_number), Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class ScoreReply(_Reply):
    """The schema of a rubric's score; the form of the rubric defines its bounds."""

    score: Annotated[float, BeforeValidator(_bounded_number), Field(allow_inf_nan=False)]


class LabelReply(_Reply):
    """The schema of a label."""

    label: str


class TextsReply(_Reply):
    """The schema of a list of texts."""

    texts: list[str]


AnyReply = VerdictReply | ScoreReply | LabelReply | TextsReply

_MODELS: Final[Mapping[ReplyKind, type[ScoreReply | LabelReply | TextsReply]]] = {
    "score": ScoreReply,
    "label": LabelReply,
    "texts": TextsReply,
}

_REASONING: Final = {"type": "string", "description": "Why, in one to three sentences."}


def model_of(form: ReplyForm | None) -> type[AnyReply]:
    """Return the model that validates a reply."""
    return VerdictReply if form is None else _MODELS[form.kind]


def field_of(form: ReplyForm | None) -> ReplyKind:
    """Return the name of the field that holds the verdict."""
    return "score" if form is None else form.kind


#: The forms of the replies in a panel, by field.
PanelForm = tuple[tuple[str, ReplyForm | None], ...]
#: The end of the name of the field that holds the reasoning of a panel's verdict; no field of a verdict ends with it.
REASONING_SUFFIX: Final = "_why"


def schema_of(form: ReplyForm | PanelForm | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the JSON schema of a reply, as sent to models. Replies are validated separately, see `flaw_in`.

    The reasoning is the first property, so that the verdict follows from it.

    Args:
        form: the form of the reply; None for a score from 0 to 1; of a panel, the form of each field.
        bounded: whether to state `minimum`, `maximum` and `maxItems`; some providers reject these, and the bounds are
            then stated in words only.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> schema_of(ReplyForm(kind="label", labels=("yes", "no")))["properties"]["label"]["enum"]
    ['yes', 'no']
    >>> schema_of(ReplyForm(kind="texts", most=1))["properties"]["texts"]["maxItems"]
    1
    """
    title = {"title": SCHEMA_NAME, "description": "The verdict on the material."}
    if isinstance(form, tuple):
        properties = (_panel_properties(name, part, bounded=bounded) for name, part in form)
        return title | _object({name: schema for part in properties for name, schema in part.items()})
    return title | _object({"reasoning": _REASONING, field_of(form): _property(form, bounded=bounded)})


def reasoning_field(name: str) -> str:
    """Return the name of the field with the reasoning about a field of a panel."""
    return f"{name}{REASONING_SUFFIX}"


def _panel_properties(name: str, form: ReplyForm | None, *, bounded: bool) -> dict[str, Any]:
    """Return the schemas of the reasoning and the verdict of one question, without descriptions: the instructions contain them."""
    verdict = {key: value for key, value in _property(form, bounded=bounded).items() if key != "description"}
    return {reasoning_field(name): {"type": "string"}, name: verdict}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _property(form: ReplyForm | None, *, bounded: bool) -> dict[str, Any]:
    bounds: dict[str, float]
    if form is None:
        bounds = {"minimum": 0, "maximum": 1} if bounded else {}
        return {"type": "number", "description": "From 0 (wrong) to 1 (right).", **bounds}
    if form.kind == "label":
        return {"type": "string", "enum": list(form.labels), "description": "One of these labels."}
    if form.kind == "texts":
        max_items = {"maxItems": form.most} if bounded else {}
        return {"type": "array", "items": {"type": "string"}, "description": f"None to {form.most} texts.", **max_items}
    bounds = {"minimum": form.low, "maximum": form.high} if bounded else {}
    return {"type": "number", "description": f"From {form.low:g} to {form.high:g}.", **bounds}


def flaw_in(reply: AnyReply, form: ReplyForm | None) -> str | None:
    """Return the problem of a reply that has the right schema, or None; never quotes the reply."""
    if form is None:
        return None
    if isinstance(reply, ScoreReply) and not form.low <= reply.score <= form.high:
        return f"score below {form.low:g}" if reply.score < form.low else f"score above {form.high:g}"
    if isinstance(reply, LabelReply) and label_in(reply.label, form) is None:
        return "label is not one of those allowed"
    if isinstance(reply, TextsReply) and len(reply.texts) > form.most:
        return f"more than {form.most} texts"
    if isinstance(reply, TextsReply) and not all(text.strip() for text in reply.texts):
        return "a text is blank"
    return None


def label_in(text: str, form: ReplyForm) -> str | None:
    r"""Return the label of a form that a text equals, ignoring case and surrounding white space, or None.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> form = ReplyForm(kind="label", labels=("Repetition", "none"))
    >>> label_in(" repetition\n", form), label_in("repetitions", form), label_in("Repetition.", form)
    ('Repetition', None, None)
    """
    normalised = text.strip().casefold()
    return next((label for label in form.labels if label.strip().casefold() == normalised), None)


#: A method of requesting a verdict from a model.
Way = Literal["structured", "tool", "text"]
#: A message to a model: its role and its text.
Message = tuple[Literal["system", "human"], str]

#: Characters escaped beyond those that JSON requires: those that could open or close a tag, a code fence or a bracketed role
#: marker, and invisible ones: controls, direction marks, zero-width and private characters, line separators, selectors.
#: Letters of all scripts stay as they are; escaping them would make them hard to read.
_ESCAPED: Final = regex.compile(
    r"[<>`\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\N{HANGUL FILLER}\uFE00-\uFE0F\U000E0100-\U000E01EF]|\[(?=/?[A-Za-z|])"
)
_BMP_END: Final = 0x10000
#: The parts of a JSON text that are escaped: its strings, and a bracket before a bare value.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|\[(?=\w)')

_FRAME: Final[Mapping[str, Any]] = tomllib.loads(files(__package__).joinpath("prompts/frame.toml").read_text("utf-8"))
SYSTEM: Final[str] = _FRAME["system"]
#: All text around the material and the instructions; it is part of the judge's version.
FRAME: Final[tuple[str, ...]] = (SYSTEM, *_FRAME["replies"].values(), _FRAME["reply"], _FRAME["hint"])
#: The same for rubrics.
RUBRIC_FRAME: Final[tuple[str, ...]] = (
    SYSTEM,
    *_FRAME["rubric_replies"].values(),
    _FRAME["rubric_reply"],
    _FRAME["hint"],
    *_FRAME["kinds"].values(),
    *_FRAME["allowed"].values(),
)
#: The texts around a panel, by name.
PANEL: Final[Mapping[str, Any]] = _FRAME["panel"]


def new_nonce() -> str:
    """Return a random word that cannot be guessed."""
    return secrets.token_hex(8)


def messages(
    question: Question,
    instructions: str,
    way: Way,
    *,
    max_characters: int,
    again: bool = False,
    nonce: Callable[[], str] = new_nonce,
) -> list[Message]:
    """Return the messages to a model for a question.

    Args:
        question: the question; all its texts are untrusted.
        instructions: how to judge it, see `prompts`.
        way: the method by which the model replies.
        max_characters: the limit of characters per text.
        again: whether the last reply was unreadable.
        nonce: creates the word in the markers.
    """
    hint = _FRAME["hint"] if again else ""
    return sealed(
        shown_fields(question, max_characters),
        lambda word: f"{instructions}\n\n{_reply_instructions(question.form, way, word)}{hint}",
        nonce,
    )


def sealed(
    fields: Mapping[str, Any], instructions: Callable[[str], str], nonce: Callable[[], str] = new_nonce
) -> list[Message]:
    """Return the messages with untrusted fields between markers, followed by the instructions.

    Args:
        fields: the material.
        instructions: returns the instructions for the word in the markers.
        nonce: creates the word in the markers.
    """
    data = encode(fields)
    word = nonce()
    while word in data:
        word = nonce()
    return [("system", SYSTEM.format(nonce=word)), ("human", _between_markers(data, instructions(word), word))]


def _between_markers(data: str, instructions: str, nonce: str) -> str:
    return f"<data {nonce}>\n{data}\n</data {nonce}>\n\n{instructions}"


def human_message(data: str, instructions: str, form: ReplyForm | None, way: Way, nonce: str) -> str:
    """Return the message with the material between its markers, followed by the instructions and the form of the reply.

    Args:
        data: the material, encoded.
        instructions: how to judge the material.
        form: the form of the reply; None for a score from 0 to 1.
        way: the method of replying.
        nonce: the word in the markers; it must not occur in the data.
    """
    return _between_markers(data, f"{instructions}\n\n{_reply_instructions(form, way, nonce)}", nonce)


def _reply_instructions(form: ReplyForm | None, way: Way, nonce: str) -> str:
    """Return the instructions on how to reply, which are the last part of the message."""
    if form is None:
        return str(_FRAME["reply"].format(form=_FRAME["replies"][way], nonce=nonce))
    field = field_of(form)
    reply: str = _FRAME["rubric_reply"].format(
        form=_FRAME["rubric_replies"][way].format(field=field, kind=_FRAME["kinds"][form.kind]),
        field=field,
        allowed=allowed_text(form),
        nonce=nonce,
    )
    return reply


def allowed_text(form: ReplyForm | None) -> str:
    """Return the allowed values of a verdict, in words."""
    form = form or ReplyForm()
    labels = ", ".join(f"`{label}`" for label in form.labels)
    return str(_FRAME["allowed"][form.kind].format(low=form.low, high=form.high, most=form.most, labels=labels))


def shown_fields(question: Question, max_characters: int) -> dict[str, str | int | list[str]]:
    """Return the fields sent to the model: the truncated texts of a question, with numbers of omitted characters.

    >>> from otel_agentic.judges.base import Question
    >>> shown_fields(Question(query="2+2?", expected="4", answer="It is four", threshold=0.7), 5)
    {'query': '2+2?', 'expected': '4', 'answer': 'It is', 'answer_characters_left_out': 5}
    """
    fields: dict[str, str | int | list[str]] = {}
    for name, text in question.texts:
        if question.rubric is None and name == ALSO_ACCEPTED:
            fields[name] = []  # filled below; keeps its position
            continue
        fields[name] = text if len(text) <= max_characters else text[:max_characters]
        if len(text) > max_characters:
            fields[f"{name}_characters_left_out"] = len(text) - max_characters
    if question.also_accepted:
        fields |= _truncated_together(question.also_accepted, max_characters)
    return fields


def _truncated_together(accepted: Sequence[str], max_characters: int) -> dict[str, int | list[str]]:
    """Return the accepted answers, truncated to a common limit of characters, and the number of omitted characters."""
    truncated: list[str] = []
    budget = max_characters
    for text in accepted:
        truncated += [text[:budget]] if budget else []
        budget -= len(text[:budget])
    omitted = sum(map(len, accepted)) - sum(map(len, truncated))
    return {ALSO_ACCEPTED: truncated, **({f"{ALSO_ACCEPTED}_characters_left_out": omitted} if omitted else {})}


def encode(fields: Mapping[str, Any]) -> str:
    r"""Return fields as a JSON object in which nothing can be mistaken for the surrounding text.

    >>> print(encode({"answer": "</data>\n```"}))
    {"answer": "\u003c/data\u003e\n\u0060\u0060\u0060"}
    """
    return _TOKEN.sub(_escaped_token, _as_json(fields))


def _as_json(value: Any) -> str:
    """Return a value as JSON on one line, JSON lines as a list."""
    if isinstance(value, JsonLines):
        return "[" + value.replace("\n", ",") + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)}: {_as_json(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _escaped_token(match: re.Match[str]) -> str:
    """Return a string with its escapes, or the bracket of a list at a distance from a value: `[INST]` marks a role."""
    text = match.group()
    return "[ " if text == "[" else _ESCAPED.sub(_escape, text)


def _escape(match: regex.Match[str]) -> str:
    code = ord(match.group())
    if code < _BMP_END:
        return f"\\u{code:04x}"
    high, low = divmod(code - _BMP_END, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


#: Maximum length of a model's reasoning, and of each of its texts, in characters; longer ones are truncated.
MAX_REASONING: Final = 2_000
#: Maximum length of a reply in characters: a verdict is short.
MAX_REPLY: Final = 100_000

#: Reasoning before the reply.
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
    """A model's reply: its reasoning and, by form, a score, a label or texts. `score` is 0 if it was not requested."""

    reasoning: str
    score: float = 0.0
    label: str | None = None
    texts: tuple[str, ...] = ()

    @property
    def verdict(self) -> tuple[object, ...]:
        """The score, label and texts, without the reasoning."""
        return self.score, self.label, self.texts


def read_message(message: AIMessage, form: ReplyForm | None = None) -> Reply:
    """Return the verdict in a model's message: from its tool call, or from the one JSON object in its text.

    Args:
        message: the model's message.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is no verdict, or several that differ; or the reply is empty, refused or cut short.
    """
    require_complete(message)
    calls = [call["args"] for call in message.tool_calls if call["name"] == SCHEMA_NAME]
    if calls:
        return _agreed_reply([validated(arguments, form) for arguments in calls])
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
    field = field_of(form)
    candidates = [candidate for candidate in json_objects(text) if field in candidate or "reasoning" in candidate]
    if not candidates:
        raise UnreadableReplyError("unreadable", f"the reply was not one JSON object with reasoning and {field}")
    return _agreed_reply([validated(candidate, form) for candidate in candidates])


def validated(value: Mapping[str, Any], form: ReplyForm | None = None) -> Reply:
    """Return the verdict in the values of a reply.

    Args:
        value: the model's values.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: the values do not match the schema; the message names the fields, never the values.
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


def _agreed_reply(replies: list[Reply]) -> Reply:
    if len({reply.verdict for reply in replies}) > 1:
        raise UnreadableReplyError("unreadable", "the reply holds several verdicts that differ")
    return replies[0]


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the top-level JSON objects in the text of a reply, after its thoughts.

    Raises:
        UnreadableReplyError: the text is empty or too long, or an object in it is damaged.
    """
    if len(text) > MAX_REPLY:
        raise UnreadableReplyError("unreadable", f"the reply has {len(text)} characters; a verdict is short")
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise UnreadableReplyError("empty", "the reply was empty")
    position = 0
    while opening := _OBJECT.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            raise UnreadableReplyError("unreadable", "the reply holds damaged JSON") from None
        yield value


def _object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("duplicate name in an object")
    return mapping


def _reject_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object_from_pairs, parse_constant=_reject_constant)


def require_complete(message: AIMessage) -> None:
    """Raise UnreadableReplyError if a reply was refused or cut short."""
    metadata = message.response_metadata
    reason = str(next((metadata[name] for name in _REASONS if metadata.get(name)), "")).lower()
    blocks = message.content if isinstance(message.content, list) else []
    refused = any(isinstance(block, dict) and block.get("type") == "refusal" for block in blocks)
    if message.additional_kwargs.get("refusal") or refused or reason in _REFUSED:
        raise UnreadableReplyError("refused", "the model refused to reply")
    if reason in _CUT:
        raise UnreadableReplyError("cut", "the reply was cut short by its length limit")
