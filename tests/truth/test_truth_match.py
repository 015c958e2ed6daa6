from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.errors import CaseError
from otel_agentic.truth import CaseIndex, Label, parse_cases


def index_of(*cases: dict[str, Any]) -> CaseIndex:
    return CaseIndex(parse_cases("d.jsonl", "\n".join(json.dumps(case) for case in cases)).require())


def case(case_id: str, *queries: str, **fields: Any) -> dict[str, Any]:
    return {"case_id": case_id, "turns": [{"query": query} for query in queries], **fields}


def conversation(
    *queries: str | None,
    case_id: str | None = None,
    agent: str | None = "mesa",
    arguments: dict[str, Any] | None = None,
) -> Conversation:
    made = ToolCall(
        name="book",
        kind="tool",
        step=1,
        position=0,
        arguments=arguments,
        result=None,
        result_captured=True,
        error=None,
        call_id=None,
        trace_id="t",
        span_id=None,
        parent_span_id=None,
        agent_name=None,
        source="span",
    )
    turns = tuple(
        Turn(
            index=place,
            query=query,
            query_captured=query is not None,
            answer="done",
            answer_captured=True,
            error=None,
            calls=(made,) if arguments else (),
            trace_id="t",
            span_id="s",
            started_ns=0,
            ended_ns=1,
        )
        for place, query in enumerate(queries)
    )
    return Conversation(
        environment="production",
        conversation_id=ConversationId("c1"),
        revision=1,
        agent_name=agent,
        agent_version=None,
        service=None,
        started_ns=0,
        ended_ns=1,
        closed_by="end_of_input",
        link_method="explicit",
        case_id=case_id,
        verdict=None,
        turns=turns,
    )


def label(case_id: str) -> Label:
    return Label(conversation_id="c1", case_id=case_id, verdict=None, line=2)


CASES = index_of(case("hotel", "Book a hotel", "In Rome"), case("flight", "Book a flight"), case("taxi", "Book a taxi"))


@pytest.mark.parametrize(
    ("made", "row", "expected"),
    [
        (conversation("Book a flight", case_id="hotel"), label("taxi"), ("hotel", "case_id", 1.0)),
        (conversation("Book a flight"), label("taxi"), ("taxi", "labels_file", 1.0)),
        (conversation("  BOOK a hotel?", "in  rome."), None, ("hotel", "exact_queries", 1.0)),
        (conversation("book a hotel", "in paris"), None, ("hotel", "first_query", 0.8)),
        (conversation("book a hotel", None), None, ("hotel", "first_query", 0.8)),
    ],
)
def test_the_first_method_that_hits_wins(
    made: Conversation, row: Label | None, expected: tuple[str, str, float]
) -> None:
    match = CASES.match(made, row)
    assert match.case is not None
    assert (match.case.case_id, match.method, match.confidence) == expected
    assert match.reason is None


@pytest.mark.parametrize("made", [conversation("Book a boat"), conversation(None), conversation()])
def test_what_no_method_finds_is_unmatched(made: Conversation) -> None:
    match = CASES.match(made)
    assert (match.case, match.reason, match.candidates) == (None, "unmatched", ())


def test_two_cases_that_fit_equally_are_ambiguous_and_listed() -> None:
    index = index_of(case("b", "Hi", "Rome"), case("a", "Hi", "Paris"), case("c", "Bye"), case("d", "Bye"))
    assert index.match(conversation("hi")).candidates == ("a", "b")
    assert index.match(conversation("hi")).reason == "ambiguous"
    assert index.match(conversation("hi", "rome")).candidates == ("b",)
    assert index.match(conversation("bye")).candidates == ("c", "d")


def test_an_id_that_two_datasets_share_is_ambiguous_with_the_datasets() -> None:
    index = index_of(case("a", "x", dataset="one"), case("a", "y", dataset="two"))
    assert index.match(conversation("x", case_id="a")).candidates == ("one/a", "two/a")


def test_a_case_is_only_for_the_agent_it_names() -> None:
    index = index_of(case("a", "Hi", agent="mesa*"), case("b", "Hi", agent="other"))
    match = index.match(conversation("Hi", agent="mesa-2"))
    assert match.case is not None
    assert match.case.case_id == "a"
    assert index.match(conversation("Hi", agent=None)).reason == "unmatched"
    named = index.match(conversation("Hi", agent="mesa", case_id="b"))
    assert named.warning == "the spans name case 'b', which is not for agent 'mesa'; check the case's `agent`"


def test_an_id_that_leads_nowhere_is_told_and_the_next_method_asked() -> None:
    match = CASES.match(conversation("book a taxi", case_id="gone"))
    assert (match.method, match.warning) == (
        "exact_queries",
        "the spans name case 'gone', which is in no dataset; load its file or correct the id",
    )


BOOKING = {"calls": [{"tool_name": "book", "parameters": {"code": "HAT136", "seats": 250}}]}


@pytest.mark.parametrize(
    ("made", "warned"),
    [
        (conversation("A boat", case_id="x"), True),
        (conversation("A boat", case_id="x", arguments={"code": "HAT999"}), True),
        (conversation("book it", case_id="x", arguments={"code": "HAT999"}), False),
        (conversation("A boat", case_id="x", arguments={"other": "hat136"}), False),
        (conversation("A boat", case_id="x", arguments={"n": 250.0}), False),
        (conversation("Where is hat136?", case_id="x"), False),
        (conversation(None, case_id="x"), False),
    ],
)
def test_a_case_that_shares_nothing_with_its_conversation_is_a_warning(made: Conversation, *, warned: bool) -> None:
    match = index_of(case("x", "Book it", tools=BOOKING)).match(made)
    assert (match.warning is not None) == warned
    if match.warning:
        assert match.warning.startswith("wrong ground truth? Case 'x' of dataset 'd' shares neither")


def test_a_case_given_twice_is_one_case_unless_it_differs() -> None:
    one, same, other = (
        parse_cases("d.jsonl", json.dumps(case("a", query))).require()[0] for query in ("Hi", "Hi", "Bye")
    )
    assert len(CaseIndex([one, same])) == 1
    with pytest.raises(CaseError, match="given twice with different content"):
        CaseIndex([one, other])
