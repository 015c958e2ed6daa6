"""A conversation as the draft of a case: its content, its omissions, and that it matches its conversation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case, CaseIndex, parse_cases
from otel_agentic.truth.promote import CaseIdentity, draft_case

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation


def draft(actual: Conversation, **fields: Any) -> Case:
    provided = {"dataset": "production", "promoted_from": ["conversation-1"], "why": "Promoted by name.", **fields}
    return draft_case(actual, **provided)


def test_a_draft_holds_what_was_asked_answered_and_called() -> None:
    actual = conversation(
        turn("Which hotel?", "The Ritz.", tool_call("search", {"q": "hotels", "n": 2}), tool_call("rate", {})),
        turn("Thanks!", None),
    )
    result = draft(actual)

    assert {
        "case_id": result.case_id,
        "dataset": "production",
        "tags": ["production"],
        "agent": "travel",
        "turns": [
            {
                "query": "Which hotel?",
                "answer": "The Ritz.",
                "tools": {
                    "calls": [
                        {"tool_name": "search", "parameters": {"q": "hotels", "n": 2}, "step": 1},
                        {"tool_name": "rate", "step": 2},
                    ]
                },
            },
            {"query": "Thanks!"},
        ],
        "reviewed": False,
        "promoted_from": ["conversation-1"],
        "notes": "Promoted by name.",
    } == result.model_dump(mode="json", exclude_defaults=True)


def test_only_calls_that_scoring_counts_are_expected_and_their_steps_have_no_gaps() -> None:
    actual = conversation(
        turn(
            "Go",
            "Done.",
            tool_call("broken", step=1, error="timeout"),
            tool_call("to_other", step=2, kind="transfer"),
            tool_call("helper", step=3, kind="agent", span_id="s1"),
            tool_call("inner", step=4, parent_span_id="s1", agent_name="helper"),
            tool_call("one", step=5),
            tool_call("other", step=5),
        )
    )

    assert [("inner", 1), ("one", 2), ("other", 2)] == _calls(draft(actual))
    assert draft(actual).notes == snapshot("Promoted by name. Left out: 1 call that returned an error.")
    counted = draft(actual, count_errors=True)
    assert [("broken", 1), ("inner", 2), ("one", 3), ("other", 3)] == _calls(counted)
    assert "Promoted by name." == counted.notes


def _calls(case: Case) -> list[tuple[str, int | None]]:
    tools = case.turns[0].tools
    assert tools is not None
    return [(call.tool_name, call.step) for call in tools.calls]


def test_missing_content_is_absent_and_reported() -> None:
    silent = replace(tool_call("search"), arguments=None)
    actual = conversation(
        turn("Go", None, silent, answer_captured=False), turn(None, " ", query_captured=False), turn("Then?", "Yes.")
    )
    result = draft(actual)

    assert [("Go", None), (None, None), ("Then?", "Yes.")] == [(item.query, item.answer) for item in result.turns]
    assert result.turns[0].tools is not None
    assert result.turns[0].tools.calls[0].ignore_extra_parameters
    assert result.notes == snapshot(
        "Promoted by name. Not captured: the arguments of 1 call. Not captured: the query of turn 2. "
        "Not captured: the answer of turn 1."
    )


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ([], "without a turn"),
        ([None, "?!"], "no query was captured, so that no conversation could match such a case"),
        ([None, "Go"], None),
    ],
)
def test_a_conversation_that_no_case_could_match_is_reported(queries: list[str | None], problem: str | None) -> None:
    assert problem == CaseIdentity.of("a", queries).problem


def test_the_id_follows_from_agent_and_queries_alone_and_tells_none_of_them() -> None:
    first = draft(conversation(turn("Cancel my order!", "Done.")))
    same = draft(conversation(turn(" cancel MY order", "No.", tool_call()), conversation_id="c2"), dataset="other")
    others = [
        draft(conversation(turn("Cancel my order", "Done."), agent_name="b")),
        draft(conversation(turn("Cancel my order"), turn("Please"))),
        draft(conversation(turn("Cancel my"), turn("order"))),
        draft(conversation(turn("Cancel my order"), turn(None))),
    ]

    assert first.case_id == same.case_id
    assert 5 == len({first.case_id, *(other.case_id for other in others)})
    assert first.case_id.startswith("production-")
    assert "cancel" not in first.case_id


@pytest.mark.parametrize("agent", ["bot", "bot[1]", "bot*", "*", "[!a]", "?", "a]b", None])
def test_a_draft_is_for_its_own_agent_with_any_name(agent: str | None) -> None:
    result = draft(conversation(agent_name=agent))

    assert result.is_for(agent)
    assert (agent is None) == result.is_for("another agent")


TEXTS = st.none() | st.text(max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
CALLS = st.builds(
    lambda name, arguments, error: tool_call(name, arguments, error=error),
    st.sampled_from(["search", "book"]),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=2),
    st.none() | st.just("timeout"),
)
TURNS = st.builds(lambda query, answer, calls: turn(query, answer, *calls), TEXTS, TEXTS, st.lists(CALLS, max_size=2))


@given(turns=st.lists(TURNS, min_size=1, max_size=3), agent=st.none() | st.text(max_size=4))
def test_a_draft_loads_again_and_is_matched_with_its_own_conversation(turns: list[Any], agent: str | None) -> None:
    actual = conversation(*turns, agent_name=agent or None)
    queries = [item.query for item in actual.turns]
    result = draft(actual)

    stated = json.dumps(result.model_dump(mode="json", exclude_defaults=True))
    assert (result,) == parse_cases("production.jsonl", stated).require()
    if CaseIdentity.of(actual.agent_name, queries).problem is None:
        match = CaseIndex([result]).match(actual)
        assert ("exact_queries", result) == (match.method, match.case)
