"""RAGAS and NeMo Evaluator rows: what the user said (a question or a conversation), and the reference for it.

The reference of a question is its answer; that of a conversation is the outcome that the user wanted. Reference calls and
topics belong to the conversation as a whole.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Tag

from otel_agentic.truth.formats.base import Format, Reading
from otel_agentic.truth.formats.foreign import (
    Call,
    Id,
    Message,
    Record,
    Said,
    call_reasons,
    calls_of_conversation,
    literal_arguments,
    made_call,
    made_conversation,
    made_turn,
    turns_of,
)
from otel_agentic.truth.model import (
    Name,
    found_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.truth.formats.located import Item
    from otel_agentic.truth.model import Case


def _form(value: Any) -> str:
    return "[messages]" if isinstance(value, list) else "[text]"


def _said(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise ValueError(f"found {found_text(value)}; allowed: a text or a list of messages")  # noqa: TRY004 — pydantic's own
    return value


class _Row(Record):
    """A row; `id` and `dataset` are ours, and ignored by RAGAS. `tool_calls` are those made for a question."""

    user_input: Annotated[
        Annotated[str, Tag("[text]")] | Annotated[list[Message], Tag("[messages]")],
        Discriminator(_form),
        BeforeValidator(_said),
    ]
    reference: Said | None = None
    reference_tool_calls: list[Call] | None = None
    reference_topics: list[Name] | None = None
    response: Said | None = None
    tool_calls: list[Call] | None = None
    id: Id | None = None
    dataset: Name | None = None


class Ragas(Format):
    """RAGAS and NeMo Evaluator rows, as JSON lines."""

    name = "ragas"
    reasons: ClassVar[Mapping[str, str]] = {
        "": "RAGAS has no field for it",
        "goal": "the one reference holds the answer",
        "turns.answer": "the one reference is the first accepted answer of a question, or the outcome of a conversation",
        "turns.tools": "RAGAS expects calls of the conversation, not of a turn",
        "tools": "calls expected of turns become calls expected of the conversation",
        "turns.query": "a question without text is none",
        "turns.reference_topics": "RAGAS has topics of the conversation, so all turns must have the same",
        **call_reasons("tools", order="RAGAS lists calls in their order, read as relative"),
    }

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has a user input."""
        return "user_input" in record

    def reading(self, item: Item, number: int) -> Reading:
        """Return a row as a case, with the conversation where the agent said or did anything in it."""
        row = _Row.of(item.value)
        asked = [row.user_input] if isinstance(row.user_input, str) else None
        made = turns_of(row.user_input) if not isinstance(row.user_input, str) else []
        queries = [text or None for text in asked] if asked else [turn.query for turn in made]
        topics = {"reference_topics": row.reference_topics} if row.reference_topics else {}
        turns = [{**({} if query is None else {"query": query}), **topics} for query in queries]
        fields: dict[str, Any] = {"case_id": row.id or f"row-{number + 1}", "turns": turns}
        if row.reference and asked:
            turns[0]["answer"] = row.reference
        elif row.reference:
            fields["goal"] = row.reference
        if row.reference_tool_calls is not None:
            calls = [{"tool_name": call.name, "parameters": call.args} for call in row.reference_tool_calls]
            fields["tools"] = {"calls": calls, **({"order": "relative"} if calls else {})}
        if row.dataset:
            fields["dataset"] = row.dataset
        name = fields["case_id"]
        return Reading(fields=fields, conversation=_conversation(name, row, made), left_out=tuple(row.left_out()))

    def document(self, cases: Sequence[Case]) -> str:
        """Return rows without an agent's part: inputs for a run."""
        return "".join(json.dumps(_row(case), ensure_ascii=False) + "\n" for case in cases)


def _conversation(name: str, row: _Row, made: list[Turn]) -> Conversation | None:
    """Return what the row tells of an agent; None where it tells nothing."""
    if isinstance(row.user_input, str):
        if row.response is None and not row.tool_calls:
            return None
        calls = [
            made_call(call.name, call.args, step=place + 1, position=place, call_id=call.id)
            for place, call in enumerate(row.tool_calls or ())
        ]
        return made_conversation(name, [made_turn(0, row.user_input or None, row.response or None, calls)])
    if made and row.response and made[-1].answer is None:
        made = [*made[:-1], replace(made[-1], answer=row.response)]
    if not any(turn.answer is not None or turn.calls for turn in made):
        return None
    return made_conversation(name, made)


def _row(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {"id": case.case_id, "dataset": case.dataset}
    only = case.turns[0] if len(case.turns) == 1 else None
    if only is not None and (only.answer is not None or case.goal is None):
        row |= {"user_input": only.query or "", "reference": only.first_answer}
    else:
        row |= {
            "user_input": [{"content": turn.query or "", "type": "human"} for turn in case.turns],
            "reference": case.goal,
        }
    calls = calls_of_conversation(case)
    if calls is not None:
        row["reference_tool_calls"] = [
            {"name": call.tool_name, "args": literal_arguments(call)} for call in calls if call.required
        ]
    topics = {turn.reference_topics for turn in case.turns}
    if len(topics) == 1 and (shared := topics.pop()):
        row["reference_topics"] = list(shared)
    return {name: value for name, value in row.items() if value is not None}
