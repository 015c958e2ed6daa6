"""Methods of requesting a verdict, the most reliable first: structured output, tool call, plain text.

The first two are tried with a schema that states bounds and, if the provider refuses these, without them.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from otel_agentic.judges.forms import SCHEMA_NAME, schema_of
from otel_agentic.judges.replies import Reply, UnreadableReplyError, read_message, validated

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

    from otel_agentic.judges.base import ReplyForm
    from otel_agentic.judges.fence import Way

_WAYS: Final[tuple[Way, ...]] = ("structured", "tool", "text")
#: Replies without a verdict after which a method that has never returned one is abandoned.
_PATIENCE: Final = 3
#: Number of reply forms with a prepared model; an evaluator may create new ones without end.
_MAX_FORMS: Final = 256
#: Errors of a model that does not support a method.
_CANNOT: Final = (NotImplementedError, ValueError, TypeError, AttributeError, ImportError)
#: Texts by which a provider reports that it rejects the schema.
_OF_SCHEMA: Final = re.compile(
    r"m(?:in|ax)(?:imum|items)|invalid.{0,20}schema|schema.{0,40}invalid", re.IGNORECASE | re.DOTALL
)


class Rung(NamedTuple):
    """A method; `bounded`: with a schema that states bounds."""

    way: Way
    bounded: bool


class Ladder:
    """Falls back to the next method if a model does not support one, and remembers it. Used by one event loop."""

    def __init__(self, model: BaseChatModel, method: Literal["auto", "structured", "tool", "text"]) -> None:
        """Begin with the most reliable method.

        Args:
            model: the model to call.
            method: `auto` for all methods in turn, or the only one allowed.
        """
        self._model = model
        ways = [way for way in _WAYS if method in {"auto", way}]
        self._left = [Rung(way, bounded) for way in ways for bounded in ((False,) if way == "text" else (True, False))]
        self._prepared: dict[tuple[Rung, ReplyForm | None], Runnable[Any, Any]] = {}
        self._proven: set[Way] = set()
        self._unread: Counter[Way] = Counter()

    def down(self, rung: Rung, refusal: str = "") -> bool:
        """Abandon a rung that the model does not support; return whether there is another one.

        Args:
            rung: the rung that was used.
            refusal: the error. If it is about the schema, the same method is tried without bounds.
        """
        if self._left[0] != rung:  # another call has abandoned it already
            return True
        keeps_way = rung.bounded and _OF_SCHEMA.search(refusal)
        rest = self._left[1:] if keeps_way else [other for other in self._left if other.way != rung.way]
        self._left = rest or self._left
        return bool(rest)

    def read_from(self, rung: Rung) -> None:
        """Remember that a method returned a verdict."""
        self._proven.add(rung.way)

    def unread_from(self, rung: Rung) -> None:
        """Remember that a method returned a reply without a verdict; one that returns nothing else is abandoned."""
        self._unread[rung.way] += 1
        if rung.way not in self._proven and self._unread[rung.way] >= _PATIENCE:
            self.down(rung)

    def current(self, form: ReplyForm | None = None) -> tuple[Rung, Runnable[Any, Any]]:
        """Return the current rung, and the runnable to invoke with messages.

        Args:
            form: the requested form of the reply; None for a score from 0 to 1.

        Raises:
            NotImplementedError: the model does not support the only method allowed.
        """
        while True:
            rung = self._left[0]
            try:
                return rung, self._bound(rung, form)
            except _CANNOT as error:
                if not self.down(rung, str(error)):
                    raise NotImplementedError(
                        f"the model does not support the method {rung.way!r} (judge.method): {str(error) or type(error).__name__}"
                    ) from error

    def _bound(self, rung: Rung, form: ReplyForm | None) -> Runnable[Any, Any]:
        if (rung, form) not in self._prepared:
            if len(self._prepared) >= _MAX_FORMS:
                self._prepared.clear()
            bind = {"structured": _structured, "tool": _with_tool}.get(rung.way)
            schema = schema_of(form, bounded=rung.bounded)
            self._prepared[rung, form] = self._model if bind is None else bind(self._model, schema)
        return self._prepared[rung, form]


def _structured(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 — heavy

    if type(model).with_structured_output is BaseChatModel.with_structured_output:
        raise NotImplementedError("it has no structured output of its own")  # the default implementation is a tool call
    # Langchain recommends another method in a warning: that is what the ladder does.
    warnings.filterwarnings("ignore", message=".*structured output", category=UserWarning)
    return _unparsed(model.with_structured_output(schema, include_raw=True))


def _unparsed(chain: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the part of a chain that calls the model, without its parser; the entire chain if it has another structure.

    The reply is parsed here, and the parser costs as much time as the call.
    """
    from langchain_core.runnables import RunnableParallel, RunnableSequence  # noqa: PLC0415 — heavy

    first = chain.first if isinstance(chain, RunnableSequence) else None
    steps = dict(first.steps__) if isinstance(first, RunnableParallel) else {}
    return steps["raw"] if set(steps) == {"raw"} else chain


def _with_tool(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    try:
        return model.bind_tools([schema], tool_choice=SCHEMA_NAME)
    except (ValueError, TypeError):  # some models support tools, but not a forced tool
        return model.bind_tools([schema])


def message_of(output: object) -> AIMessage | None:
    """Return the message in the output of a model, or None."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 — heavy

    raw = output.get("raw") if isinstance(output, dict) else output
    return raw if isinstance(raw, AIMessage) else None


def read_output(output: object, form: ReplyForm | None = None) -> Reply:
    """Return the verdict in the output of a model, for any method.

    The model's own text counts; a client's parser silently repairs damaged replies.

    Args:
        output: the output of the model.
        form: the requested form; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is no verdict.
    """
    message = message_of(output)
    if message is not None:
        return read_message(message, form)
    parsed = output.get("parsed", output) if isinstance(output, dict) else output
    dump = getattr(parsed, "model_dump", None)
    values = dump() if dump is not None else parsed
    if isinstance(values, dict):
        return validated(values, form)
    raise UnreadableReplyError("unreadable", f"the model returned a {type(output).__name__}, not a message")
