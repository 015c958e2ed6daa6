"""What was said in a scope, by whom and when; read when the first call asks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.results import json_text, values_of
from otel_agentic.scoring.said import SaidText
from otel_agentic.truth.values import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.scoring.made import MadeCall, Scope
    from otel_agentic.scoring.results import ResultValues

#: Arguments read of one call.
MAX_ARGUMENTS: Final = 500

_Key = tuple[int, int, int]


class Texts:
    """What user and agent said in a scope, and what calls were given."""

    def __init__(self, scope: Scope) -> None:
        """Keep the scope; nothing is read yet."""
        self._scope = scope
        self._given: dict[_Key, SaidText] = {}
        self._results: dict[_Key, ResultValues] = {}

    @cached_property
    def answers(self) -> list[tuple[int, SaidText]]:
        """The answers with their turns, in order."""
        return [(turn, SaidText.of(text)) for turn, text in self._scope.answers]

    @cached_property
    def _queries(self) -> list[tuple[int, SaidText]]:
        turns = self._scope.query_turns or (-1,) * len(self._scope.queries)
        earlier = [(turn.index, turn.query) for turn in self._scope.earlier if turn.query is not None]
        said = [*earlier, *zip(turns, self._scope.queries, strict=True)]
        return [(turn, SaidText.of(text)) for turn, text in said]

    @cached_property
    def earlier(self) -> list[SaidText]:
        """What was said, and what calls were given and answered, in the turns before the scope."""
        turns = self._scope.earlier
        texts = [text for turn in turns for text in (turn.query, turn.answer) if text is not None]
        calls = [json_text(part) for turn in turns for call in turn.calls for part in (call.arguments, call.result)]
        return [SaidText.of(text) for text in (*texts, *calls)]

    def answers_after(self, made: MadeCall) -> Iterator[tuple[int, SaidText]]:
        """Yield the answers of the call's turn and of the turns after it, each with its turn."""
        return (answer for answer in self.answers if answer[0] >= made.turn_index)

    def brought_in(self, made: MadeCall, turn_index: int) -> list[SaidText]:
        """Return what a call was given and what the user had said before a turn was answered: there it proves nothing."""
        return [self.given_to(made), *(query for turn, query in self._queries if turn <= turn_index)]

    def given_to(self, made: MadeCall) -> SaidText:
        """Return the arguments of a call as one text."""
        found = self._given.get(made.place)
        if found is None:
            given = (str(value) for _, value in leaves(made.call.arguments or {}, limit=MAX_ARGUMENTS))
            found = self._given[made.place] = SaidText.of("\n".join(given))
        return found

    def result_of(self, made: MadeCall) -> ResultValues:
        """Return the values of a call's result."""
        found = self._results.get(made.place)
        if found is None:
            found = self._results[made.place] = values_of(made.call.result)
        return found

    def others(self, made: MadeCall) -> Iterator[MadeCall]:
        """Yield the other calls that were made before the call's turn was answered."""
        return (other for other in self._scope.calls if other.turn_index <= made.turn_index and other is not made)
