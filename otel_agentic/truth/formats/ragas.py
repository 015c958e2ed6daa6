"""RAGAS and NeMo Evaluator rows: the user's input (a question or a conversation), and its reference.

The reference of a question is its answer; that of a conversation is the outcome that the user wanted. Reference calls and
topics belong to the conversation as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from otel_agentic.truth.formats.base import Format, Reading
from otel_agentic.truth.formats.foreign import (
    Call,
    Id,
    Message,
    Record,
    TextOrNumber,
    calls_of_conversation,
    literal_arguments,
    recorded_call,
    recorded_conversation,
    recorded_turn,
    turns_of,
)
from otel_agentic.truth.model import Case, Name, found_text

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, Turn
    from otel_agentic.truth.formats.located import Item


def _form(value: Any) -> str:
    return "[messages]" if isinstance(value, list) else "[text]"


def _text_or_messages(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise ValueError(f"found {found_text(value)}; allowed: a text or a list of messages")  # noqa: TRY004 — for pydantic
    return value


class _Row(Record):
    """A row; `id` and `dataset` are extensions that RAGAS ignores. `tool_calls` are the actual calls for a question."""

    user_input: Annotated[
        Annotated[str, Tag("[text]")] | Annotated[list[Message], Tag("[messages]")],
        Discriminator(_form),
        BeforeValidator(_text_or_messages),
    ]
    reference: TextOrNumber | None = None
    reference_tool_calls: list[Call] | None = None
    reference_topics: list[Name] | None = None
    response: TextOrNumber | None = None
    tool_calls: list[Call] | None = None
    id: Id | None = None
    dataset: Name | None = None


class Ragas(Format):
    """RAGAS and NeMo Evaluator rows, as JSON lines."""

    name = "ragas"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has a user input."""
        return "user_input" in record

    def reading(self, item: Item, number: int) -> Reading:
        """Return a row as a case, with the conversation if the row contains agent output."""
        row = _Row.of(item.value)
        question = [row.user_input] if isinstance(row.user_input, str) else None
        turns_read = turns_of(row.user_input) if not isinstance(row.user_input, str) else []
        queries = [text or None for text in question] if question else [turn.query for turn in turns_read]
        topics = {"reference_topics": row.reference_topics} if row.reference_topics else {}
        turns = [{**({} if query is None else {"query": query}), **topics} for query in queries]
        fields: dict[str, Any] = {"case_id": row.id or f"row-{number + 1}", "turns": turns}
        if row.reference and question:
            turns[0]["answer"] = row.reference
        elif row.reference:
            fields["goal"] = row.reference
        if row.reference_tool_calls is not None:
            calls = [{"tool_name": call.name, "parameters": call.args} for call in row.reference_tool_calls]
            fields["tools"] = {"calls": calls, **({"order": "relative"} if calls else {})}
        if row.dataset:
            fields["dataset"] = row.dataset
        name = fields["case_id"]
        return Reading(fields=fields, conversation=_conversation(name, row, turns_read), left_out=tuple(row.left_out()))

    def document(self, cases: Sequence[Case]) -> str:
        """Return rows without agent output: inputs for a run."""
        return "".join(json.dumps(_row(case), ensure_ascii=False) + "\n" for case in cases)


def _conversation(name: str, row: _Row, turns: list[Turn]) -> Conversation | None:
    """Return the agent's conversation in a row, or None if there is no agent output."""
    if isinstance(row.user_input, str):
        if row.response is None and not row.tool_calls:
            return None
        calls = [
            recorded_call(call.name, call.args, step=index + 1, position=index, call_id=call.id)
            for index, call in enumerate(row.tool_calls or ())
        ]
        return recorded_conversation(name, [recorded_turn(0, row.user_input or None, row.response or None, calls)])
    if turns and row.response and turns[-1].answer is None:
        turns = [*turns[:-1], replace(turns[-1], answer=row.response)]
    if not any(turn.answer is not None or turn.calls for turn in turns):
        return None
    return recorded_conversation(name, turns)


def _row(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {"id": case.case_id, "dataset": case.dataset}
    single_turn = case.turns[0] if len(case.turns) == 1 else None
    if single_turn is not None and (single_turn.answer is not None or case.goal is None):
        row |= {"user_input": single_turn.query or "", "reference": single_turn.first_answer}
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
