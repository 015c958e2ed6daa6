"""The ways to ask a model for its verdict, the most reliable first: structured output, a call of a tool, plain text.

The first two are tried with a schema that states bounds, then, where a provider refuses these, without them.
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
#: Replies without a verdict after which a way that has never given one is left.
_PATIENCE: Final = 3
#: Forms of replies that a model is held ready for; an evaluator may make new ones without end.
_MAX_FORMS: Final = 256
#: What a model raises that cannot be asked in some way.
_CANNOT: Final = (NotImplementedError, ValueError, TypeError, AttributeError, ImportError)
#: How a provider says that it is the schema that it does not take.
_OF_SCHEMA: Final = re.compile(
    r"m(?:in|ax)(?:imum|items)|invalid.{0,20}schema|schema.{0,40}invalid", re.IGNORECASE | re.DOTALL
)


class Rung(NamedTuple):
    """A way to ask; `bounded`: with a schema that states bounds."""

    way: Way
    bounded: bool


class Ladder:
    """Steps down where a model cannot be asked in some way, and remembers it. One event loop uses it."""

    def __init__(self, model: BaseChatModel, method: Literal["auto", "structured", "tool", "text"]) -> None:
        """Stand at the top.

        Args:
            model: the model that is asked.
            method: `auto` for all ways in turn, or the only one.
        """
        self._model = model
        ways = [way for way in _WAYS if method in {"auto", way}]
        self._left = [Rung(way, bounded) for way in ways for bounded in ((False,) if way == "text" else (True, False))]
        self._asked: dict[tuple[Rung, ReplyForm | None], Runnable[Any, Any]] = {}
        self._proven: set[Way] = set()
        self._unread: Counter[Way] = Counter()

    def down(self, rung: Rung, refusal: str = "") -> bool:
        """Leave a rung that the model cannot be asked from; return whether there is another one.

        Args:
            rung: where it was asked.
            refusal: what it said. Where that is about the schema, the same way is tried without bounds.
        """
        if self._left[0] != rung:  # somebody else has left it
            return True
        keeps_way = rung.bounded and _OF_SCHEMA.search(refusal)
        rest = self._left[1:] if keeps_way else [one for one in self._left if one.way != rung.way]
        self._left = rest or self._left
        return bool(rest)

    def read_from(self, rung: Rung) -> None:
        """Remember that a way gave a verdict."""
        self._proven.add(rung.way)

    def unread_from(self, rung: Rung) -> None:
        """Remember that a way gave a reply without a verdict; one that does nothing else is left."""
        self._unread[rung.way] += 1
        if rung.way not in self._proven and self._unread[rung.way] >= _PATIENCE:
            self.down(rung)

    def asked(self, form: ReplyForm | None = None) -> tuple[Rung, Runnable[Any, Any]]:
        """Return the rung that is taken now, and what to invoke with messages.

        Args:
            form: what the model is to reply with; None for a score from 0 to 1.

        Raises:
            NotImplementedError: the model has not the one way that is allowed.
        """
        while True:
            rung = self._left[0]
            try:
                return rung, self._bound(rung, form)
            except _CANNOT as error:
                if not self.down(rung, str(error)):
                    raise NotImplementedError(
                        f"it cannot be asked the way {rung.way!r} (judge.method): {str(error) or type(error).__name__}"
                    ) from error

    def _bound(self, rung: Rung, form: ReplyForm | None) -> Runnable[Any, Any]:
        if (rung, form) not in self._asked:
            if len(self._asked) >= _MAX_FORMS:
                self._asked.clear()
            bind = {"structured": _structured, "tool": _with_tool}.get(rung.way)
            schema = schema_of(form, bounded=rung.bounded)
            self._asked[rung, form] = self._model if bind is None else bind(self._model, schema)
        return self._asked[rung, form]


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
