"""Several user inputs under one root are several turns, for any names of the spans; inputs that only look similar are one turn."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.spans.model import Span, StatusCode
from otel_agentic.testing import span
from tests.conversations.rebuilding import act, asks, assistant, at, chat, conversation_of, run, tool, tool_result, user

Exchanges = list[tuple[str | None, str | None]]

FIRST = ("Where is the Ritz?", "In Paris.")
SECOND = ("How far is it?", "Two hours.")
THIRD = ("Book it.", "Booked.")


def turns(*spans: Span) -> Exchanges:
    return [(turn.query, turn.answer) for turn in conversation_of(*spans).turns]


def history(*stated: tuple[str, str]) -> list[dict[str, Any]]:
    return [message for query, answer in stated for message in (user(query), assistant(answer))]


def exchange(start_s: float, parent: Span, *before: tuple[str, str], now: tuple[str, str]) -> list[Span]:
    """Return a model call that asks for a tool, the tool, and a model call that answers."""
    received = [*history(*before), user(now[0])]
    look = asks((f"c{start_s}", "look", {"at": start_s}))
    return [
        chat(start_s, received, [look], parent=parent),
        tool(start_s + 1, "look", call_id=f"c{start_s}", arguments={"at": start_s}, result="seen", parent=parent),
        chat(start_s + 2, [*received, look, tool_result(f"c{start_s}", "seen")], [assistant(now[1])], parent=parent),
    ]


def root_of(kind: str) -> Span:
    """Return a root that may be an agent run, or is one for certain, and records no content."""
    if kind == "workflow":
        return act("invoke_workflow", 0, 90)
    if kind == "agent":
        return run(0, 90, agent="concierge")
    attributes = {"openinference.span.kind": "CHAIN"} if kind == "chain" else {"acme.name": "session"}
    return span("session", start_ns=at(0), end_ns=at(90), attributes=attributes)


def turn_of_kind(kind: str, start_s: float, parent: Span) -> Span:
    if kind == "run":
        return run(start_s, start_s + 5, agent="concierge", parent=parent)
    attributes = {"openinference.span.kind": "CHAIN"} if kind == "chain" else {}
    return span("exchange", start_ns=at(start_s), end_ns=at(start_s + 5), attributes=attributes, parent=parent)


@pytest.mark.parametrize("turn_kind", ["run", "chain", "plain"])
@pytest.mark.parametrize("root_kind", ["workflow", "agent", "chain", "plain"])
def test_spans_below_one_root_that_each_bring_a_users_input_are_turns(root_kind: str, turn_kind: str) -> None:
    root = root_of(root_kind)
    first, second, third = (turn_of_kind(turn_kind, start, root) for start in (1, 10, 20))
    spans = [
        *exchange(1, first, now=FIRST),
        *exchange(10, second, FIRST, now=SECOND),
        *exchange(20, third, FIRST, SECOND, now=THIRD),
    ]

    conversation = conversation_of(root, first, second, third, *spans)

    assert [FIRST, SECOND, THIRD] == [(turn.query, turn.answer) for turn in conversation.turns]
    assert [["look"]] * 3 == [[call.name for call in turn.calls] for turn in conversation.turns]


def test_a_root_around_the_root_changes_nothing() -> None:
    outer = span("suite", start_ns=at(0), end_ns=at(99))
    root = act("invoke_workflow", 0, 90, parent=outer)
    first, second = (run(start, start + 5, parent=root) for start in (1, 10))

    assert [FIRST, SECOND] == turns(
        outer, root, first, second, *exchange(1, first, now=FIRST), *exchange(10, second, FIRST, now=SECOND)
    )


def test_a_root_that_records_all_inputs_or_none_of_them_is_no_run() -> None:
    for given in (f"{FIRST[0]}\n{SECOND[0]}", "scenario 17"):
        root = span("simulate", start_ns=at(0), end_ns=at(90), attributes=_chain(given))
        first, second = (run(start, start + 5, parent=root) for start in (1, 10))
        spans = [*exchange(1, first, now=FIRST), *exchange(10, second, FIRST, now=SECOND)]

        assert [FIRST, SECOND] == turns(root, first, second, *spans)


def _chain(query: str) -> dict[str, Any]:
    return {"openinference.span.kind": "CHAIN", "input.value": query}


def test_one_agent_that_is_asked_other_things_in_a_row_takes_turns_although_no_history_shows_it() -> None:
    root = act("invoke_workflow", 0, 90)
    runs = [run(i * 10, i * 10 + 5, query=q, answer=a, parent=root) for i, (q, a) in enumerate((FIRST, SECOND))]

    assert [FIRST, SECOND] == turns(root, *runs)


def test_runs_of_one_agent_take_turns_although_only_their_model_calls_show_what_they_were_asked() -> None:
    root = act("invoke_workflow", 0, 90)
    first, second = (run(start, start + 5, parent=root) for start in (1, 10))

    assert [FIRST, SECOND] == turns(
        root, first, second, *exchange(1, first, now=FIRST), *exchange(10, second, now=SECOND)
    )


def test_a_greeting_belongs_to_the_first_turn() -> None:
    root = act("invoke_workflow", 0, 90)
    greeting, first, second = (run(start, start + 5, parent=root) for start in (1, 10, 20))
    system = {"role": "system", "parts": [{"type": "text", "content": "Greet the caller."}]}
    hello = chat(1, [system], [assistant("Welcome!")], parent=greeting)
    spans = [*exchange(10, first, now=FIRST), *exchange(20, second, FIRST, now=SECOND)]

    assert [FIRST, SECOND] == turns(root, greeting, hello, first, second, *spans)


def test_a_query_that_is_asked_again_after_it_was_answered_is_another_turn() -> None:
    root = act("invoke_workflow", 0, 90)
    again = (FIRST[0], "Still in Paris.")
    first, second = (run(start, start + 5, parent=root) for start in (1, 10))

    assert [FIRST, again] == turns(
        root, first, second, *exchange(1, first, now=FIRST), *exchange(10, second, FIRST, now=again)
    )


def test_a_run_whose_history_holds_earlier_queries_is_one_turn() -> None:
    root = run(0, 90)

    assert [THIRD] == turns(root, *exchange(1, root, FIRST, SECOND, now=THIRD))


def test_a_run_is_one_turn_although_its_framework_asks_again() -> None:
    root = run(0, 90)
    faulty_receiver, right = ("Where is the Ritz?", "Paris, perhaps."), ("Answer in JSON, please.", '{"city":"Paris"}')

    assert [(FIRST[0], right[1])] == turns(
        root, *exchange(1, root, now=faulty_receiver), *exchange(10, root, faulty_receiver, now=right)
    )


def test_a_run_that_names_its_query_is_one_turn_with_any_inputs_of_its_parts() -> None:
    root = run(0, 90, agent="flow", query=FIRST[0], answer=THIRD[1])
    first, second = (run(start, start + 5, agent="worker", parent=root) for start in (1, 10))

    assert [(FIRST[0], THIRD[1])] == turns(
        root, first, second, *exchange(1, first, now=FIRST), *exchange(10, second, FIRST, now=THIRD)
    )


@pytest.mark.parametrize(
    ("written", "question"),
    [
        ("Name the street as well, please.", "Name the street as well, please."),
        ("Ask it so: Name the street as well, please.", "Name the street as well, please."),
        ("Name the street as well, please.", "Feedback: Name the street as well, please."),
        ('{"feedback": "Name the street as well, please.", "score": 2}', "Feedback: Name the street as well, please."),
    ],
)
def test_what_another_model_wrote_is_no_users_input(written: str, question: str) -> None:
    root = act("invoke_workflow", 0, 90)
    writer, critic, again = (
        run(s, s + 5, agent=a, parent=root) for s, a in ((1, "writer"), (10, "critic"), (20, "writer"))
    )
    remark = (question, "In Paris, Place Vendôme.")
    spans = [
        *exchange(1, writer, now=FIRST),
        chat(10, [user(f"Judge: {FIRST[1]}")], [assistant(written)], parent=critic),
        *exchange(20, again, FIRST, now=remark),
    ]

    assert [FIRST[0]] == [query for query, _ in turns(root, writer, critic, again, *spans)]


def test_a_sub_agent_that_a_tool_call_started_takes_no_turns() -> None:
    root = run(0, 90, query=FIRST[0], answer=FIRST[1])
    call = tool(1, "ask_helper", parent=root, end_s=60)
    inner = act("invoke_workflow", 2, 50, parent=call)
    first, second = (run(start, start + 5, agent="helper", parent=inner) for start in (3, 10))

    assert [FIRST] == turns(
        root, call, inner, first, second, *exchange(3, first, now=SECOND), *exchange(10, second, SECOND, now=THIRD)
    )


def test_a_pipeline_of_agents_is_one_turn() -> None:
    root = act("invoke_workflow", 0, 90)
    notes = run(1, 5, agent="researcher", query=FIRST[0], answer="Notes on the Ritz.", parent=root)
    text = run(6, 9, agent="writer", query="Write this up: Notes on the Ritz.", answer=FIRST[1], parent=root)

    assert [FIRST] == turns(root, notes, text)


def test_runs_side_by_side_take_no_turns() -> None:
    root = act("invoke_workflow", 0, 90)
    runs = [run(1, 9, query=query, answer=answer, parent=root, span_id=query) for query, answer in (FIRST, SECOND)]

    assert 1 == len(turns(root, *runs))


def test_a_run_that_failed_and_is_tried_again_is_one_turn_that_worked() -> None:
    root = span("suite", start_ns=at(0), end_ns=at(99))
    failed = run(1, 5, query=FIRST[0], status=StatusCode.ERROR, attributes={"error.type": "Timeout"}, parent=root)
    worked = run(6, 9, query=FIRST[0], answer=FIRST[1], parent=root)

    (turn,) = conversation_of(root, failed, worked).turns

    assert (*FIRST, None) == (turn.query, turn.answer, turn.error)


def test_a_failed_run_that_is_not_tried_again_fails_its_turn() -> None:
    failed = run(1, 5, query=FIRST[0], status=StatusCode.ERROR, attributes={"error.type": "Timeout"})

    (turn,) = conversation_of(failed).turns

    assert (FIRST[0], None, "Timeout") == (turn.query, turn.answer, turn.error)
