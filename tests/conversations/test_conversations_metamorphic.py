"""The conversation is the same for any convention, any position of the content and any order of arrival."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.spans.model import Span, SpanBatch, SpanKind
from otel_agentic.testing import AgentRunScript, Outline, TurnOutline, batch, outline, span
from tests.conversations.rebuilding import conversations
from tests.conversations.scripts import NAMELESS, SPEAKERS, WORDLESS, scripts

if TYPE_CHECKING:
    from random import Random


EVERYONE: Final = {**SPEAKERS, **NAMELESS, **WORDLESS}
#: In `make test-slow` the same laws are asked of many more runs.
few: Final = settings(max_examples=settings().max_examples // 5)
many: Final = settings(max_examples=100)
#: Each of these rebuilds everything twice.
fewer: Final = settings(max_examples=settings().max_examples // 10)


def outlines(*items: SpanBatch) -> list[Outline]:
    """Return the content of the conversations, in time order."""
    return [outline(result) for result in sorted(conversations(*items), key=lambda item: item.started_ns)]


def turns(*items: SpanBatch) -> list[TurnOutline]:
    """Return the turns of all conversations in time order: without an id, a failed turn parts those around it."""
    timed = [
        (turn.started_ns, answer)
        for conversation in conversations(*items)
        for turn, answer in zip(conversation.turns, outline(conversation).turns, strict=True)
    ]
    return [answer for _, answer in sorted(timed, key=lambda pair: pair[0])]


def wordless(turn: TurnOutline) -> TurnOutline:
    """Return the rest of a turn without recorded content: its calls, and how they ended."""
    calls = tuple(replace(call, arguments=None, result=None) for call in turn.calls)
    return replace(turn, query=None, answer=None, calls=calls)


def assert_same_conversation(script: AgentRunScript) -> None:
    expected = [script.outline()] if script.exchanges else []

    assert dict.fromkeys(SPEAKERS, expected) == {name: outlines(speak(script)) for name, speak in SPEAKERS.items()}


def assert_same_turns(script: AgentRunScript) -> None:
    speakers = {**SPEAKERS, **NAMELESS} if script.conversation_id is None else NAMELESS
    expected = list(script.outline().turns)

    assert dict.fromkeys(speakers, expected) == {name: turns(speak(script)) for name, speak in speakers.items()}


@given(script=scripts())
@few
def test_a_script_is_the_same_conversation_in_every_convention(script: AgentRunScript) -> None:
    assert_same_conversation(script)


@pytest.mark.slow
@given(script=scripts())
@many
def test_many_scripts_are_the_same_conversation_in_every_convention(script: AgentRunScript) -> None:
    assert_same_conversation(script)


@given(script=scripts(conversation_id=None) | scripts())
@few
def test_a_script_without_an_id_gives_the_same_turns(script: AgentRunScript) -> None:
    assert_same_turns(script)


@pytest.mark.slow
@given(script=scripts(conversation_id=None) | scripts())
@many
def test_scripts_without_an_id_give_the_same_turns(script: AgentRunScript) -> None:
    assert_same_turns(script)


@given(script=scripts(conversation_id=None, min_turns=1, failures=False))
@few
def test_without_an_id_the_growing_history_links_the_turns(script: AgentRunScript) -> None:
    speakers = {**SPEAKERS, **NAMELESS}
    expected = [script.outline()]

    assert dict.fromkeys(speakers, expected) == {name: outlines(speak(script)) for name, speak in speakers.items()}


@given(script=scripts())
@few
def test_without_recorded_content_the_calls_are_the_same(script: AgentRunScript) -> None:
    expected = [wordless(turn) for turn in script.outline().turns]

    assert dict.fromkeys(WORDLESS, expected) == {name: turns(speak(script)) for name, speak in WORDLESS.items()}


@given(script=scripts(), random=st.randoms())
@fewer
def test_the_order_of_spans_and_log_records_changes_nothing(script: AgentRunScript, random: Random) -> None:
    for name, speak in EVERYONE.items():
        spoken = speak(script)
        spans, logs = list(spoken.spans), list(spoken.logs)
        random.shuffle(spans)
        random.shuffle(logs)
        shuffled = SpanBatch(spans=tuple(spans), logs=tuple(logs))

        assert (name, conversations(spoken)) == (name, conversations(shuffled))


@given(script=scripts(min_turns=1))
@fewer
def test_a_parent_that_never_arrives_changes_nothing(script: AgentRunScript) -> None:
    for name, speak in EVERYONE.items():
        spoken = speak(script)
        orphaned = [below(result, "f" * 16) for result in spoken.spans]

        assert (name, conversations(spoken)) == (name, conversations(batch(*orphaned, *spoken.logs)))


@given(script=scripts(min_turns=1))
@fewer
def test_a_web_request_around_each_turn_changes_nothing(script: AgentRunScript) -> None:
    for name, speak in EVERYONE.items():
        spoken = speak(script)
        requests = {result.trace_id: request_around(result) for result in spoken.spans if not result.parent_span_id}
        held = [below(result, requests[result.trace_id].span_id) for result in spoken.spans]

        assert (name, outlines(spoken)) == (name, outlines(batch(*requests.values(), *held, *spoken.logs)))


def below(result: Span, span_id: str) -> Span:
    """Return a span with a parent: its own, or for a root the one given."""
    return result if result.parent_span_id else replace(result, parent_span_id=span_id)


def request_around(root: Span) -> Span:
    """Return the span of a web server that took as long as the root of a trace."""
    return span(
        "POST /api/chat",
        trace=root.trace_id,
        start_ns=root.start_ns,
        end_ns=root.end_ns,
        kind=SpanKind.SERVER,
        attributes={"http.request.method": "POST"},
        scope="web",
    )
