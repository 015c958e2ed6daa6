"""Whoever tells it, wherever the content stands, in whatever order it comes: the conversation is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.spans.model import SpanBatch
from otel_agentic.testing import GenAIStyle, outline, speak_genai, speak_openinference
from tests.conversations.rebuilding import conversation_of, conversations
from tests.conversations.scripts import scripts

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.testing import AgentRunScript

STYLES: Final[tuple[GenAIStyle, ...]] = tuple(style for style in get_args(GenAIStyle) if style != "none")


@given(script=scripts())
@settings(max_examples=25)
def test_a_script_is_the_same_conversation_in_every_convention(script: AgentRunScript) -> None:
    expected = script.outline()

    for style in STYLES:
        assert (style, expected) == (style, outline(conversation_of(speak_genai(script, style))))
    assert expected == outline(conversation_of(speak_openinference(script)))


@given(script=scripts(conversation_id=None))
@settings(max_examples=10)
def test_a_script_without_an_id_is_the_same_turns_in_every_convention(script: AgentRunScript) -> None:
    expected = script.outline().turns

    for batch in (*(speak_genai(script, style) for style in STYLES), speak_openinference(script)):
        found = sorted(conversations(batch), key=lambda item: item.started_ns)
        assert expected == tuple(turn for item in found for turn in outline(item).turns)


@given(script=scripts(), style=st.sampled_from(STYLES), random=st.randoms())
@settings(max_examples=15)
def test_the_order_of_spans_and_log_records_changes_nothing(
    script: AgentRunScript, style: GenAIStyle, random: Random
) -> None:
    spoken = speak_genai(script, style)
    spans, logs = list(spoken.spans), list(spoken.logs)
    random.shuffle(spans)
    random.shuffle(logs)

    assert conversations(spoken) == conversations(SpanBatch(spans=tuple(spans), logs=tuple(logs)))
