"""What many have in common costs no more than its sum: histories, last lines, ids; and names that are far too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from otel_agentic.conversations.link import link
from otel_agentic.conversations.merge import short
from otel_agentic.conversations.segments import Transcript
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, scripted_call, span, speak_genai
from tests.conversations.rebuilding import conversation_of, linked, segments
from tests.steps import LINEAR, growth

MANY = 200
IDLE_NS = 300 * SECOND_NS
(PLAIN,) = segments(speak_genai(AgentRunScript().ask("Hello?").answers("Hello.")))
LOOSE = replace(PLAIN, explicit_id=None, query_digest=None, transcript=None, agents=frozenset())


def alike(count: int, *, agents: int = 1) -> list[str]:
    """Return how conversations were linked: so many of two turns each, which all begin with the same messages at different times."""
    results = []
    for at in range(count):
        start_ns = NOON_NS + at * 1000
        named = replace(LOOSE, agent_name=f"agent {at % agents}", start_ns=start_ns, end_ns=start_ns + 10)
        later_ns = start_ns + SECOND_NS
        results.append(replace(named, trace_id=f"first {at}", history_in=(), history_out=("same",)))
        second = replace(named, trace_id=f"then {at}", start_ns=later_ns, end_ns=later_ns + 10)
        results.append(replace(second, history_in=("same",), history_out=()))
    return [conversation.method for conversation in link(results, idle_ns=IDLE_NS)]


def test_many_conversations_that_begin_alike_are_linked_in_time_that_grows_with_them() -> None:
    assert ["history"] * MANY == alike(MANY)
    assert ["history"] * MANY == alike(MANY, agents=100)
    assert growth(lambda count: partial(alike, count), MANY) < LINEAR
    assert growth(lambda count: partial(alike, count, agents=100), MANY) < LINEAR


def test_many_conversations_that_end_on_the_same_line_are_linked_in_time_that_grows_with_them() -> None:
    answer, received = Transcript(digest="line", answer=(frozenset({"line"}),)), Transcript(digest="other")

    def ending_alike(count: int) -> Callable[[], Any]:
        results = []
        for at in range(count):
            start_ns = NOON_NS + at * 1000
            first = replace(LOOSE, trace_id=f"first {at}", start_ns=start_ns, end_ns=start_ns + 10)
            results.append(replace(first, history_in=(), history_out=("line",), transcript=answer))
            later = replace(
                first, trace_id=f"then {at}", start_ns=start_ns + SECOND_NS, end_ns=start_ns + 2 * SECOND_NS
            )
            results.append(replace(later, history_in=("line",), history_out=(), transcript=received))
        return lambda: [item.method for item in link(results, idle_ns=IDLE_NS)]

    assert ["trace"] * (2 * MANY) == ending_alike(MANY)()
    assert growth(ending_alike, MANY) < LINEAR


def test_conversations_of_a_deep_trace_are_distinguished_in_linear_time() -> None:
    def deep(count: int) -> Callable[[], Any]:
        chain = [span("step", trace="deep", span_id="0")]
        leaves = []
        for at in range(1, count + 1):
            chain.append(span("step", parent=chain[-1], span_id=str(at), start_ns=NOON_NS + at))
            message = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "a",
                "gen_ai.conversation.id": f"c{at}",
            }
            leaves.append(span("invoke_agent a", parent=chain[-1], start_ns=NOON_NS + at, attributes=message))
        return partial(linked, *chain, *leaves)

    assert MANY == len(deep(MANY)())
    assert growth(deep, MANY) < LINEAR


def test_a_very_long_name_is_its_beginning_and_a_digest_of_all() -> None:
    first, other = "n" * 1001, "n" * 1002
    assert "n" * 1000 == short("n" * 1000)
    assert (233, 233) == (len(short(first)), len(short(other)))
    assert short(first) != short(other)
    assert short(first) == short(first)


def test_names_that_every_row_of_a_conversation_repeats_are_short() -> None:
    long = "x" * 100_000
    script = (
        AgentRunScript(agent_name=long, conversation_id=long)
        .ask("Hello?")
        .calls(scripted_call("look"))
        .answers("Hello.")
    )
    spoken = speak_genai(script)
    resource = replace(spoken.spans[0].resource, attributes={"service.name": long, "deployment.environment.name": long})
    conversation = conversation_of(*(replace(item, resource=resource) for item in spoken.spans))
    assert {short(long)} == {
        conversation.agent_name, str(conversation.conversation_id), conversation.environment, conversation.service,
        *(call.agent_name for turn in conversation.turns for call in turn.calls),
    }  # fmt: skip
