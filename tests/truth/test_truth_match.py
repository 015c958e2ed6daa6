from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import testing
from otel_agentic.errors import CaseError
from otel_agentic.testing import tool_call, turn
from otel_agentic.truth import CaseIndex, Label, parse_cases
from tests.snapshots import exactly, opening, raises

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation


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
    calls = (tool_call("book", arguments),) if arguments else ()
    turns = tuple(replace(turn(query, "done", *calls), index=position) for position, query in enumerate(queries))
    return replace(testing.conversation(agent_name=agent, case_id=case_id), turns=turns)


def label(case_id: str) -> Label:
    return Label(conversation_id="c1", case_id=case_id, verdict=None, line=2)


CASES = index_of(case("hotel", "Book a hotel", "In Rome"), case("flight", "Book a flight"), case("taxi", "Book a taxi"))


@pytest.mark.parametrize(
    ("actual", "row", "expected"),
    [
        (conversation("Book a flight", case_id="hotel"), label("taxi"), ("hotel", "case_id", 1.0)),
        (conversation("Book a flight"), label("taxi"), ("taxi", "labels_file", 1.0)),
        (conversation("  BOOK a hotel?", "in  rome."), None, ("hotel", "exact_queries", 1.0)),
        (conversation("book a hotel"), None, ("hotel", "first_query", 0.8)),
        (conversation("book a hotel", "a hotel in Rome, please"), None, ("hotel", "first_query", 0.8)),
        (conversation("book a hotel", None), None, ("hotel", "first_query", 0.8)),
        (conversation("book a hotel", "thanks", "in rome"), None, ("hotel", "first_query", 0.8)),
        (conversation("book a hotel", "in rome", "now play music"), None, ("hotel", "first_query", 0.8)),
        (conversation("book a taxi", "Now play music"), None, ("taxi", "first_query", 0.8)),
    ],
)
def test_the_first_method_that_hits_wins(
    actual: Conversation, row: Label | None, expected: tuple[str, str, float]
) -> None:
    match = CASES.match(actual, row)
    assert match.case is not None
    assert (match.case.case_id, match.method, match.confidence) == expected
    assert match.reason is None


@pytest.mark.parametrize(
    "actual",
    [
        conversation("Book a boat"),
        conversation(None),
        conversation(),
        conversation("Book a hotel", "in Paris"),
        conversation("Book a hotel", "What is the capital of France?", "In Rome"),
        conversation("Book a hotel", "not in Rome"),
    ],
)
def test_what_no_method_finds_is_unmatched(actual: Conversation) -> None:
    match = CASES.match(actual)
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
    assert named.warning == snapshot("the spans name case 'b', which is not for agent 'mesa'; check the case's `agent`")


def test_an_id_that_leads_nowhere_is_reported_and_the_next_method_is_tried() -> None:
    match = CASES.match(conversation("book a taxi", case_id="gone"))
    assert (match.method, match.warning) == snapshot(
        ("exact_queries", "the spans name case 'gone', which is in no dataset; load its file or correct the id")
    )
    message = CASES.match(conversation("book a boat"), label("gone"))
    assert (message.reason, message.warning) == snapshot(
        ("unmatched", "the labels file names case 'gone', which is in no dataset; load its file or correct the id")
    )
    long = CASES.match(conversation("book a boat", case_id="x" * 10_000))
    assert exactly(long.warning or "", value="x" * 199) == snapshot(
        "the spans name case '<value>…', which is in no dataset; load its file or correct the id"
    )


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("one/a", ("one/a", 1.0)),
        ("ONE/A", ("one/a", 0.9)),
        ("two/ a", None),
        ("  b ", ("two/b", 0.9)),
        ("B", ("two/b", 0.9)),
        ("b", ("two/b", 1.0)),
        ("two/b", ("two/b", 1.0)),
        ("c", ("two/c", 1.0)),
        ("C", ("one/C", 1.0)),
        ("one/c", ("one/C", 0.9)),
        ("", None),
        (" ", None),
        ("two", None),
    ],
)
def test_an_id_may_name_its_dataset_and_be_spelt_otherwise_where_that_is_one_case(
    name: str, result: tuple[str, float] | None
) -> None:
    index = index_of(
        case("a", "x", dataset="one"),
        case("a", "y", dataset="two"),
        case("b", "z", dataset="two"),
        case("c", "u", dataset="two"),
        case("C", "v", dataset="one"),
    )
    match = index.match(conversation("w", case_id=name))
    assert result == (match.case and (f"{match.case.dataset}/{match.case.case_id}", match.confidence))


def test_an_id_spelt_like_none_but_near_to_two_is_ambiguous() -> None:
    match = index_of(case("Ab"), case("aB")).match(conversation("x", case_id="ab"))
    assert (match.reason, match.candidates) == ("ambiguous", ("Ab", "aB"))


@pytest.mark.parametrize(
    ("stated", "method"),
    [
        ((None, "Book it", "Yes"), "exact_queries"),
        ((None, "Book it"), "first_query"),
        ((None, "Book it", "Thanks"), "first_query"),
        ((None, "Book it", "No"), None),
        (("Book it", "Yes"), None),
        ((None, None, "Book it"), None),
        (("?", "Book it", "Yes"), "exact_queries"),
    ],
)
def test_where_the_agent_speaks_first_the_first_query_is_the_first_that_is_known(
    stated: tuple[str | None, ...], method: str | None
) -> None:
    greeted = {"case_id": "greeted", "turns": [{"answer": "Hello!"}, {"query": "Book it"}, {"query": "Yes"}]}
    assert index_of(greeted).match(conversation(*stated)).method == method


def draft(case_id: str, *queries: str, **fields: Any) -> dict[str, Any]:
    return case(case_id, *queries, reviewed=False, **fields)


def test_a_draft_is_matched_where_no_reviewed_case_fits() -> None:
    index = index_of(case("old", "Book a hotel"), draft("new", "Book a boat"))
    match = index.match(conversation("book a boat"))
    assert (match.candidates, match.method, match.confidence) == (("new",), "exact_queries", 1.0)
    assert index.match(conversation("else", case_id="new")).candidates == ("new",)


@pytest.mark.parametrize(
    ("actual", "method"),
    [
        (conversation("Hi"), "first_query"),
        (conversation("Hi", case_id="draft"), "first_query"),
        (conversation("Ho", "Rome", case_id="old"), "case_id"),
    ],
)
def test_a_draft_never_competes_with_a_reviewed_case(actual: Conversation, method: str) -> None:
    match = index_of(case("old", "Hi", "Paris"), draft("draft", "Hi", "Rome")).match(actual)
    assert (match.candidates, match.method) == (("old",), method)
    if actual.case_id == "draft":
        assert match.warning == snapshot(
            "the spans name case 'draft', a draft: a reviewed case that fits goes before it"
        )


def test_a_draft_settles_nothing_where_reviewed_cases_are_ambiguous() -> None:
    index = index_of(case("a", "Hi", "Rome"), case("b", "Hi", "Paris"), draft("c", "Hi", "Oslo"))
    match = index.match(conversation("Hi", None))
    assert (match.reason, match.candidates) == ("ambiguous", ("a", "b"))


def test_what_contradicts_a_reviewed_case_may_be_a_draft() -> None:
    index = index_of(case("old", "Hi", "A seat to Paris"), draft("new", "Hi", "A room in Rome"))
    assert index.match(conversation("Hi", "A room in Rome")).candidates == ("new",)


@pytest.mark.parametrize(
    ("stated", "candidates"),
    [
        (("Hi", "Refund order 17"), ("a",)),
        (("Hi", "Please refund my order 17", "Bye"), ("a",)),
        (("Hi", "Refund order 18"), ("b",)),
        (("Hi", "Refund order 19"), ()),
        (("Hi", "Do not refund order 17"), ()),
        (("Hi", "Refund my order"), ("a", "b")),
    ],
)
def test_later_turns_tell_cases_apart_that_begin_alike(stated: tuple[str, ...], candidates: tuple[str, ...]) -> None:
    index = index_of(case("a", "Hi", "Refund order 17", "Bye"), case("b", "Hi", "Refund order 18", "Bye"))
    assert index.match(conversation(*stated)).candidates == candidates


def test_a_case_of_another_agent_does_not_keep_a_draft_away() -> None:
    index = index_of(case("a", "Hi", agent="other"), draft("b", "Hi"))
    assert index.match(conversation("Hi")).candidates == ("b",)


BOOKING = {"calls": [{"tool_name": "book", "parameters": {"code": "HAT136", "seats": 250}}]}


@pytest.mark.parametrize(
    ("actual", "warned"),
    [
        (conversation("A boat", case_id="x"), False),
        (conversation("A boat", case_id="x", arguments={"code": "HAT999"}), True),
        (conversation("book it", case_id="x", arguments={"code": "HAT999"}), False),
        (conversation("A boat", case_id="x", arguments={"other": "hat136"}), False),
        (conversation("A boat", case_id="x", arguments={"n": 250.0}), False),
        (conversation("Where is hat136?", case_id="x"), False),
        (conversation(None, case_id="x"), False),
    ],
)
def test_a_case_that_shares_nothing_with_its_conversation_is_a_warning(actual: Conversation, *, warned: bool) -> None:
    match = index_of(case("x", "Book it", tools=BOOKING)).match(actual)
    assert (match.warning is not None) == warned
    if match.warning:
        assert opening(match.warning) == snapshot("wrong ground truth? Case 'x' of dataset 'd' shares neither")


def test_a_case_given_twice_is_one_case_unless_it_differs() -> None:
    first, same, other = (
        parse_cases("d.jsonl", json.dumps(case("a", query))).require()[0] for query in ("Hi", "Hi", "Bye")
    )
    assert len(CaseIndex([first, same])) == 1
    with raises(CaseError, snapshot("exists twice with different content")):
        CaseIndex([first, other])
