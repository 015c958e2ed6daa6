"""The ways to ask a model for its verdict, the most reliable first: structured output, a call of a tool, plain text."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from otel_agentic.judges.forms import SCHEMA_NAME, schema_of
from otel_agentic.judges.replies import Reply, UnreadableReplyError, read_message, validated

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

    from otel_agentic.judges.base import ReplyForm
    from otel_agentic.judges.fence import Way

_WAYS: Final[tuple[Way, ...]] = ("structured", "tool", "text")
#: Replies without a verdict after which a way that has never given one is left.
_PATIENCE: Final = 3
#: Forms of replies that a model is held ready for; an evaluator may make new ones without end.
_MAX_FORMS: Final = 256
#: What a model raises that cannot be asked in some way.
_CANNOT: Final = (NotImplementedError, ValueError, TypeError, AttributeError, ImportError)


class Ladder:
    """Steps down where a model cannot be asked in some way, and remembers it. One event loop uses it."""

    def __init__(self, model: BaseChatModel, method: Literal["auto", "structured", "tool", "text"]) -> None:
        """Stand at the top.

        Args:
            model: the model that is asked.
            method: `auto` for all ways in turn, or the only one.
        """
        self._model = model
        self._left = [way for way in _WAYS if method in {"auto", way}]
        self._asked: dict[tuple[Way, ReplyForm | None], Runnable[Any, Any]] = {}
        self._proven: set[Way] = set()
        self._unread: Counter[Way] = Counter()

    @property
    def way(self) -> Way:
        """The way that is taken now."""
        return self._left[0]

    def down(self, way: Way) -> bool:
        """Leave a way that the model cannot be asked in; return whether there is another one."""
        if len(self._left) > 1 and self.way == way:
            del self._left[0]
        return self.way != way

    def read_from(self, way: Way) -> None:
        """Remember that a way gave a verdict."""
        self._proven.add(way)

    def unread_from(self, way: Way) -> None:
        """Remember that a way gave a reply without a verdict; one that does nothing else is left."""
        self._unread[way] += 1
        if way not in self._proven and self._unread[way] >= _PATIENCE:
            self.down(way)

    def asked(self, form: ReplyForm | None = None) -> tuple[Way, Runnable[Any, Any]]:
        """Return the way that is taken now, and what to invoke with messages.

        Args:
            form: what the model is to reply with; None for a score from 0 to 1.

        Raises:
            NotImplementedError: the model has not the one way that is allowed.
        """
        while True:
            way = self.way
            try:
                return way, self._bound(way, form)
            except _CANNOT as error:
                if not self.down(way):
                    raise NotImplementedError(
                        f"it cannot be asked the way {way!r} (judge.method): {str(error) or type(error).__name__}"
                    ) from error

    def _bound(self, way: Way, form: ReplyForm | None) -> Runnable[Any, Any]:
        if (way, form) not in self._asked:
            if len(self._asked) >= _MAX_FORMS:
                self._asked.clear()
            bind = {"structured": _structured, "tool": _with_tool}.get(way)
            self._asked[way, form] = self._model if bind is None else bind(self._model, schema_of(form))
        return self._asked[way, form]


def _structured(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 — heavy

    if type(model).with_structured_output is BaseChatModel.with_structured_output:
        raise NotImplementedError("it has no structured output of its own")  # the default one is a call of a tool
    # Langchain advises to take another way, as a warning: we do so by ourselves.
    warnings.filterwarnings("ignore", message=".*structured output", category=UserWarning)
    return _unparsed(model.with_structured_output(schema, include_raw=True))


def _unparsed(chain: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the part of a chain that asks the model, without the parser behind it; the whole where it is built otherwise.

    We read the model's own words, and the parser costs as much time as the call.
    """
    from langchain_core.runnables import RunnableParallel, RunnableSequence  # noqa: PLC0415 — heavy

    first = chain.first if isinstance(chain, RunnableSequence) else None
    steps = dict(first.steps__) if isinstance(first, RunnableParallel) else {}
    return steps["raw"] if set(steps) == {"raw"} else chain


def _with_tool(model: BaseChatModel, schema: dict[str, Any]) -> Runnable[Any, Any]:
    try:
        return model.bind_tools([schema], tool_choice=SCHEMA_NAME)
    except (ValueError, TypeError):  # some models know tools, but not how to insist on one
        return model.bind_tools([schema])


def message_of(output: object) -> AIMessage | None:
    """Return the message in what a model gave back, None where there is none."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 — heavy

    raw = output.get("raw") if isinstance(output, dict) else output
    return raw if isinstance(raw, AIMessage) else None


def read_output(output: object, form: ReplyForm | None = None) -> Reply:
    """Return the verdict in what a model gave back, whichever way it was asked.

    What the model itself said counts; a client's own reading of it mends damaged replies silently.

    Args:
        output: what it gave back.
        form: what it was to reply with; None for a score from 0 to 1.

    Raises:
        UnreadableReplyError: there is none.
    """
    message = message_of(output)
    if message is not None:
        return read_message(message, form)
    parsed = output.get("parsed", output) if isinstance(output, dict) else output
    dump = getattr(parsed, "model_dump", None)
    values = dump() if dump is not None else parsed
    if isinstance(values, dict):
        return validated(values, form)
    raise UnreadableReplyError("unreadable", f"the model gave a {type(output).__name__}, not a message")
