"""Rows of evaluation datasets: what an agent did and what it should have done, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import ConversationId
from otel_agentic.errors import CaseError
from otel_agentic.truth.formats.base import said, shown
from otel_agentic.truth.formats.items import Trouble
from otel_agentic.truth.formats.ragas import Ragas
from otel_agentic.truth.formats.reading import parse_text

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.truth.formats.items import Parsed
    from otel_agentic.truth.model import Case

_RAGAS: Final = Ragas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One row: the file that it is in, its line (or row of a table) there, 1-based, and its name, unique in the file.

    `conversation` is None where the row tells nothing of an agent. `left_out` are fields that say something and that
    nothing here looks at.
    """

    file: str
    line: int
    name: str
    case: Case
    conversation: Conversation | None
    left_out: tuple[str, ...] = ()


def read_attempts(name: str, text: str) -> tuple[Attempt, ...]:
    """Return the rows of a RAGAS or NeMo Evaluator dataset: JSON lines, a JSON list, YAML or CSV, in their order.

    Raises:
        CaseError: see `attempts_of`.
    """
    if "\x00" in text:
        raise CaseError(f"{name}: a NUL character stands in it: the file is damaged, or no text")
    return attempts_of(parse_text(name.lower(), text.removeprefix("\ufeff"), _RAGAS), name)


def attempts_of(parsed: Parsed, name: str) -> tuple[Attempt, ...]:
    """Return the rows of a parsed dataset, in their order.

    Rows may repeat: each is an attempt of its own. One that has the `id` of an earlier row must expect the same.

    Raises:
        CaseError: rows cannot be read, or there is none; lists the problems of all, with file, line (or row) and field.
    """
    troubles: list[Trouble] = []
    rows: list[Attempt] = []
    first: dict[str, tuple[int, Case]] = {}
    times: Counter[str] = Counter()
    names: set[str] = set()
    for item, reading, case in _RAGAS.readings(parsed, name, troubles):
        line = item.place_of(())
        untold = _calls_untold(item.value, reading.conversation) and case.tools is not None
        if untold:
            case = case.model_copy(update={"tools": None})  # noqa: PLW2901 — what was called is unknown, not nothing
        known_line, known = first.setdefault(case.case_id, (line, case))
        if known.version != case.version:
            told = (
                f"id: {case.case_id!r} stands on {parsed.unit} {known_line} already, with other queries, or "
                "another reference or dataset; give each row its own"
            )
            troubles.append(Trouble(place=line, text=told))
            continue
        times[case.case_id] += 1
        row_name = _unused(case.case_id, times[case.case_id], names)
        names.add(row_name)
        made = reading.conversation
        if made is not None:
            made = replace(made, conversation_id=ConversationId(row_name), case_id=case.case_id)
        left_out = tuple(
            dict.fromkeys((*reading.left_out, *(("reference_tool_calls without tool_calls",) if untold else ())))
        )
        rows.append(Attempt(file=name, line=line, name=row_name, case=known, conversation=made, left_out=left_out))
    if troubles:
        troubles.sort(key=lambda trouble: trouble.place)
        raise CaseError("\n".join(shown([said(name, trouble, parsed.unit) for trouble in troubles])))
    if not rows:
        raise CaseError(f"{name}: no row; a row is an object with `user_input`, such as one line of JSON lines")
    return tuple(rows)


def _calls_untold(row: Mapping[str, Any], made: Conversation | None) -> bool:
    """Return whether a question with an answer says nothing of calls: messages hold them, a text has them beside it."""
    return made is not None and isinstance(row.get("user_input"), str) and row.get("tool_calls") is None


def _unused(case_id: str, time: int, names: Container[str]) -> str:
    """Return the name of the row that has a case for the so-manieth time: that of the case, numbered from the second on."""
    first = (case_id,) if time == 1 else ()
    # An id may look like the number of another row.
    numbered = (f"{case_id}#{number}" for number in count(max(time, 2)))
    return next(name for name in chain(first, numbered) if name not in names)
