"""The form of a reply -> its schema, how a model is told of it, and what of a model's values is of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.judges.base import Question, ReplyForm, ReplyKind

#: The name of the schema, and of the tool that a model calls to give its verdict.
SCHEMA_NAME: Final = "verdict"
#: A number written as text, where nothing is lost by reading it: no exponent, no unit, no comma.
_DECIMAL: Final = re.compile(r"\d(?:\.\d{1,12})?")
#: The same where a rubric says how large it may be: "10" is as good as "9".
_BOUNDED: Final = re.compile(r"-?\d{1,9}(?:\.\d{1,12})?")


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else value


def _bounded_number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _BOUNDED.fullmatch(value) else value


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA_NAME)

    reasoning: str


class VerdictReply(_Reply):
    """The schema of a verdict; a score outside [0, 1], or that is not a number, is none."""

    score: Annotated[float, BeforeValidator(_number), Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class ScoreReply(_Reply):
    """The same for a rubric, whose form bounds the score."""

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


def form_of(question: Question) -> ReplyForm | None:
    """Return the form of the reply to a question, None for a score from 0 to 1 as all questions without a rubric have it."""
    return None if question.rubric is None else question.rubric.form


def model_of(form: ReplyForm | None) -> type[AnyReply]:
    """Return the schema that a reply is checked by."""
    return VerdictReply if form is None else _MODELS[form.kind]


def field_of(form: ReplyForm | None) -> ReplyKind:
    """Return the name of the field that holds the verdict."""
    return "score" if form is None else form.kind


def schema_of(form: ReplyForm | None) -> dict[str, Any]:
    """Return the JSON schema of a reply, as models are given it.

    Bounds are told in words: some providers refuse schemas that have them.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> schema_of(ReplyForm(kind="label", labels=("yes", "no")))["properties"]["label"]["enum"]
    ['yes', 'no']
    """
    if form is None:
        return SCHEMA
    field = field_of(form)
    properties = {"reasoning": SCHEMA["properties"]["reasoning"], field: _property(form)}
    return {**SCHEMA, "properties": properties, "required": list(properties)}


def _property(form: ReplyForm) -> dict[str, Any]:
    if form.kind == "label":
        return {"type": "string", "enum": list(form.labels), "description": "One of these labels."}
    if form.kind == "texts":
        description = f"None to {form.most} texts."
        return {"type": "array", "items": {"type": "string"}, "description": description}
    return {"type": "number", "description": f"From {form.low:g} to {form.high:g}."}


def flaw_in(reply: AnyReply, form: ReplyForm | None) -> str | None:
    """Return what is wrong with a reply of the right schema, None where nothing is; never repeats what was replied."""
    if form is None:
        return None
    if isinstance(reply, ScoreReply) and not form.low <= reply.score <= form.high:
        return f"score below {form.low:g}" if reply.score < form.low else f"score above {form.high:g}"
    if isinstance(reply, LabelReply) and label_in(reply.label, form) is None:
        return "label is none of those allowed"
    if isinstance(reply, TextsReply) and len(reply.texts) > form.most:
        return f"more than {form.most} texts"
    if isinstance(reply, TextsReply) and not all(text.strip() for text in reply.texts):
        return "a text is blank"
    return None


def label_in(text: str, form: ReplyForm) -> str | None:
    r"""Return the label of a form that a text is; case and blanks around it do not count, nothing else is forgiven.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> form = ReplyForm(kind="label", labels=("Repetition", "none"))
    >>> label_in(" repetition\n", form), label_in("repetitions", form), label_in("Repetition.", form)
    ('Repetition', None, None)
    """
    wanted = text.strip().casefold()
    return next((label for label in form.labels if label.strip().casefold() == wanted), None)
