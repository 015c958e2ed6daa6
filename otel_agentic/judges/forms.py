"""Forms of replies: the JSON schema sent to the model, and the validation of its reply."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.judges.base import Question, ReplyForm, ReplyKind

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
    """The schema of a rubric's score, which the form of the rubric bounds."""

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


def form_of(question: Question) -> ReplyForm | None:
    """Return the form of the reply to a question, None for a score from 0 to 1, as for all questions without a rubric."""
    return None if question.rubric is None else question.rubric.form


def model_of(form: ReplyForm | None) -> type[AnyReply]:
    """Return the model that validates a reply."""
    return VerdictReply if form is None else _MODELS[form.kind]


def field_of(form: ReplyForm | None) -> ReplyKind:
    """Return the name of the field that holds the verdict."""
    return "score" if form is None else form.kind


def schema_of(form: ReplyForm | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the JSON schema of a reply that is sent to models. Replies are validated by our own check, see `flaw_in`.

    The reasons are the first property, so that the verdict follows from them.

    Args:
        form: of the reply; None for a score from 0 to 1.
        bounded: with `minimum`, `maximum` and `maxItems`; some providers refuse these and receive the bounds in words alone.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> schema_of(ReplyForm(kind="label", labels=("yes", "no")))["properties"]["label"]["enum"]
    ['yes', 'no']
    >>> schema_of(ReplyForm(kind="texts", most=1))["properties"]["texts"]["maxItems"]
    1
    """
    properties = {"reasoning": _REASONING, field_of(form): _property(form, bounded=bounded)}
    return {
        "title": SCHEMA_NAME,
        "description": "The verdict on the material.",
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
        most = {"maxItems": form.most} if bounded else {}
        return {"type": "array", "items": {"type": "string"}, "description": f"None to {form.most} texts.", **most}
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
