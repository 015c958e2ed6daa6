"""Fair Forge datasets: sessions of an assistant, each turn with its actual and expected answer.

A dataset is a session (`session_id`) of one assistant; sessions with equal expectations are attempts at one case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from otel_agentic.truth.formats.base import Format, Reading
from otel_agentic.truth.formats.foreign import (
    Arguments,
    Id,
    Listed,
    Record,
    Silent,
    TextOrNumber,
    literal_arguments,
    recorded_call,
    recorded_conversation,
    recorded_turn,
    required_calls,
    tools_of_turn,
)
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall
    from otel_agentic.truth.formats.located import Item
    from otel_agentic.truth.model import Case, CaseTurn, ToolExpectation


class _Tool(Record):
    """A call; actual ones have a `result`."""

    tool_name: Name
    parameters: Arguments = Field(default_factory=dict)
    step: Annotated[int, Field(ge=0)] | None = None
    result: Any = None


class _Agentic(Silent):
    """The actual calls of the assistant, among other metadata."""

    tools_used: Annotated[list[_Tool], Listed] = Field(default_factory=list)
    final_answer_uses_tools: Any = None


class _Expected(Record):
    """The expected calls; without a list of tools there is no expectation.

    Their sequence matters unless `tool_sequence_matters` is false.
    """

    expected_tools: list[_Tool] | None = None
    tool_sequence_matters: bool | None = None


class _Batch(Record):
    """A turn."""

    query: TextOrNumber | None
    assistant: TextOrNumber | None = None
    ground_truth_assistant: TextOrNumber | None = None
    agentic: _Agentic | None = None
    ground_truth_agentic: _Expected | None = None
    qa_id: Any = None


class _Session(Record):
    """A conversation; `dataset` is an extension, ignored by Fair Forge."""

    session_id: Id
    assistant_id: TextOrNumber | None = None
    conversation: list[_Batch]
    dataset: Name | None = None


class FairForge(Format):
    """Fair Forge datasets, as one JSON list."""

    name = "fair-forge"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is a session with its turns."""
        return "session_id" in record and isinstance(record.get("conversation"), list)

    def reading(self, item: Item, number: int) -> Reading:  # noqa: ARG002 — the signature of a format
        """Return a session as a case, with the conversation if the session contains agent output."""
        session = _Session.of(item.value)
        fields: dict[str, Any] = {
            "case_id": session.session_id,
            **({"dataset": session.dataset} if session.dataset else {}),
            "turns": [_turn(batch) for batch in session.conversation],
        }
        id_with_assistant = f"{session.session_id}/{session.assistant_id}" if session.assistant_id else None
        return Reading(
            fields=fields,
            conversation=_conversation(session),
            left_out=tuple(session.left_out()),
            other_id=id_with_assistant,
            attempt=session.session_id,
        )

    def document(self, cases: Sequence[Case]) -> str:
        """Return sessions without answers: templates that Fair Forge completes by running the assistant."""
        return json.dumps([_session(case) for case in cases], indent=2, ensure_ascii=False) + "\n"


def _turn(batch: _Batch) -> dict[str, Any]:
    turn: dict[str, Any] = {}
    if batch.query:
        turn["query"] = batch.query
    if batch.ground_truth_assistant:
        turn["answer"] = batch.ground_truth_assistant
    expected = batch.ground_truth_agentic
    if expected is not None and expected.expected_tools is not None:
        turn["tools"] = {
            "calls": [
                {"tool_name": tool.tool_name, "parameters": tool.parameters, "step": tool.step}
                for tool in expected.expected_tools
            ],
            "order": "any" if expected.tool_sequence_matters is False else "relative",
        }
    return turn


def _conversation(session: _Session) -> Conversation | None:
    if not any(batch.assistant or (batch.agentic and batch.agentic.tools_used) for batch in session.conversation):
        return None
    turns = [
        recorded_turn(index, batch.query or None, batch.assistant or None, _calls(batch.agentic))
        for index, batch in enumerate(session.conversation)
    ]
    return recorded_conversation(session.session_id, turns, agent_name=session.assistant_id or None)


def _calls(agentic: _Agentic | None) -> list[ToolCall]:
    if agentic is None:
        return []
    used = agentic.final_answer_uses_tools if isinstance(agentic.final_answer_uses_tools, bool) else None
    return [
        recorded_call(
            tool.tool_name,
            tool.parameters,
            step=tool.step if tool.step is not None else index + 1,
            position=index,
            used=used,
            **({"result": tool.result} if "result" in tool.model_fields_set else {}),
        )
        for index, tool in enumerate(agentic.tools_used)
    ]


def _session(case: Case) -> dict[str, Any]:
    return {
        "session_id": case.case_id,
        "assistant_id": case.agent or "agent",
        "dataset": case.dataset,
        "context": "",
        "conversation": [
            _batch(turn, tools_of_turn(case, turn), number) for number, turn in enumerate(case.turns, start=1)
        ],
    }


def _batch(turn: CaseTurn, tools: ToolExpectation | None, number: int) -> dict[str, Any]:
    return {
        "qa_id": f"q{number}",
        "query": turn.query or "",
        "assistant": "",
        "ground_truth_assistant": turn.first_answer or "",
        **({"ground_truth_agentic": _expected(tools)} if tools is not None else {}),
    }


def _expected(tools: ToolExpectation) -> dict[str, Any]:
    return {
        "expected_tools": [
            {
                "tool_name": call.tool_name,
                "parameters": literal_arguments(call),
                **({} if call.step is None else {"step": call.step}),
            }
            for call in required_calls(tools)
        ],
        "tool_sequence_matters": tools.order != "any",
    }
