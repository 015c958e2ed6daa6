"""What every event carries: identity, case, version, verdict, end mark."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.config import ConversationSettings
from otel_agentic.dialects import Header, Reader
from otel_agentic.testing import event, log_record, span
from tests.dialects.reading import READER

CHAT = {"gen_ai.operation.name": "chat"}
VERDICT = {"gen_ai.evaluation.name": "agentic.conversation", "gen_ai.evaluation.score.label": "fail"}


def header(attributes: dict[str, Any], **more: Any) -> Header:
    return READER.read(span(attributes={**CHAT, **attributes}, **more)).event.header


@pytest.mark.parametrize(
    ("value", "expected"),
    [("c1", "c1"), (17, "17"), ("", None), ("[Scrubbed due to 'session']", None), ("__REDACTED__", None)],
)
def test_a_conversation_id_is_text_and_a_redacted_one_is_none(value: Any, expected: str | None) -> None:
    assert expected == header({"gen_ai.conversation.id": value}).conversation_id


def test_a_redacted_conversation_id_gives_way_to_the_next_name() -> None:
    both = {"gen_ai.conversation.id": "[Scrubbed due to 'session']", "session.id": "s1"}

    assert header(both).conversation_id == "s1"


def test_a_log_record_may_name_the_conversation() -> None:
    model = span(attributes=CHAT)
    log = log_record(model, "gen_ai.user.message", {}, attributes={"gen_ai.conversation.id": "c1"})

    assert READER.read(model, [log]).event.header.conversation_id == "c1"


def test_own_attribute_names_come_first() -> None:
    reader = Reader.from_settings(
        ConversationSettings(
            conversation_id_attributes=("chat.key",), case_id_attributes=("test.case",), end_attributes=("chat.over",)
        )
    )
    attributes = {"chat.key": "k1", "gen_ai.conversation.id": "c1", "test.case": 7, "chat.over": True}

    result = reader.read(span(attributes={**CHAT, **attributes})).event.header

    assert ("k1", "7", True) == (result.conversation_id, result.case_id, result.ends_conversation)


def test_the_case_id_of_a_span_wins_over_that_of_its_resource() -> None:
    resource = {"agentic.case.id": "case-2"}

    assert header({}, resource=resource).case_id == "case-2"
    assert header({"agentic.case.id": "case-1"}, resource=resource).case_id == "case-1"


def test_the_agent_version_is_the_spans_else_the_services() -> None:
    assert header({}).agent_version is None
    assert header({}, resource={"service.version": "7"}).agent_version == "7"
    assert header({"gen_ai.agent.version": "8"}, resource={"service.version": "7"}).agent_version == "8"


@pytest.mark.parametrize(("label", "expected"), [("pass", True), ("fail", False), ("maybe", None), (["pass"], None)])
def test_a_verdict_is_pass_or_fail(label: Any, expected: bool | None) -> None:  # noqa: FBT001 — a parameter of pytest
    result = event("gen_ai.evaluation.result", {**VERDICT, "gen_ai.evaluation.score.label": label})

    assert header({}, events=[result]).verdict is expected


def test_a_verdict_on_something_else_is_none() -> None:
    result = event("gen_ai.evaluation.result", {**VERDICT, "gen_ai.evaluation.name": "relevance"})

    assert header({}, events=[result]).verdict is None


@pytest.mark.parametrize("value", [False, "true", 1, None])
def test_only_true_ends_a_conversation(value: Any) -> None:
    assert not header({"agentic.conversation.end": value}).ends_conversation
