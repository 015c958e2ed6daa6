"""What the recorders of function calls share (LangSmith, Langfuse, MLflow): spans are functions with inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import TableDialect
from otel_agentic.dialects.fields import session_keys
from otel_agentic.dialects.paths import first
from otel_agentic.dialects.values import id_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.spans.model import LogRecord, Span

_RUNS: Final = frozenset({"agent", "maybe_agent"})
#: Where a recorder puts the arguments: as they are, or beside the positional ones.
_ARGUMENTS: Final = ("", "kwargs.")
#: What a function calls the parameter that takes the conversation's id.
_PARAMETERS: Final = (*session_keys(""), "session")


class RecordedDialect(TableDialect):
    """A dialect of recorded function calls: the function that runs the agent may have been given the conversation's id."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._given = tuple(f"{key}~{at}{name}" for key in cls.table.input for at in _ARGUMENTS for name in _PARAMETERS)

    _given: tuple[str, ...] = ()

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id that the span names, else the one that its function was given.

        Only a run's arguments count: a tool may well be about another conversation.
        """
        found = super().conversation_id(span, logs)
        if found is not None or self.meaning(span) not in _RUNS:
            return found
        given = first(span.attributes, self._given)
        return id_of(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else None
