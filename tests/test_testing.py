"""The builders, scripts and the conformance kit that users and plug-in authors get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import ConversationSettings
from otel_agentic.conversations import assemble, link_segments, read_segments
from otel_agentic.dialects import AgentEvent, AgentRun, ModelCall, Reader, Table, TableDialect
from otel_agentic.dialects.messages import read_messages
from otel_agentic.spans.model import LogRecord, Span, StatusCode
from otel_agentic.testing import (
    NOON_NS,
    SECOND_NS,
    AgentRunScript,
    batch,
    check_dialect,
    conversation,
    event,
    link_to,
    log_record,
    outline,
    scripted_call,
    span,
    speak_genai,
    speak_openinference,
    tool_call,
    turn,
)
from tests.snapshots import raises

SETTINGS: Final = ConversationSettings()
SCRIPT: Final = (
    AgentRunScript(agent_name="travel")
    .ask("Which hotel?")
    .calls(
        scripted_call("search", {"q": "hotels"}, result=["Ritz"]), scripted_call("weather", error="TimeoutError: late")
    )
    .answers("The Ritz.")
    .ask("Sure?")
    .answers("Yes.")
)


def test_equal_arguments_build_equal_spans_and_different_ones_do_not() -> None:
    assert span("a", attributes={"x": 1}) == span("a", attributes={"x": 1})
    assert 4 == len(
        {item.span_id for item in (span("a"), span("b"), span("a", start_ns=1), span("a", attributes={"x": 1}))}
    )
    assert (32, 16) == (len(span().trace_id), len(span().span_id))


def test_ids_are_hex_or_any_text() -> None:
    trace, own = "ab" * 16, "cd" * 8

    assert (trace, own) == (span(trace=trace, span_id=own).trace_id, span(trace=trace, span_id=own).span_id)
    assert span(trace="one").trace_id == span(trace="one").trace_id != span(trace="two").trace_id


def test_a_child_inherits_trace_and_resource() -> None:
    root = span("root", trace="t", service="mesa", environment="staging")
    child = span("child", parent=root)

    assert (root.trace_id, root.span_id, root.resource) == (child.trace_id, child.parent_span_id, child.resource)
    assert {"service.name": "mesa", "deployment.environment.name": "staging"} == dict(child.resource.attributes)


def test_a_batch_holds_spans_log_records_and_other_batches() -> None:
    root = span("root", events=[event("e")], links=[link_to(span(trace="other"))])
    log = log_record(root, "gen_ai.choice", {"a": 1})
    item = batch(batch(root), log)

    assert ((root,), (log,)) == (item.spans, item.logs)
    assert (root.end_ns, root.span_id) == (log.time_ns, log.span_id)


def test_a_turn_numbers_its_calls_and_a_conversation_its_turns() -> None:
    item = conversation(turn("q", "a", tool_call("x"), tool_call("y", step=1), tool_call("z")), turn())

    assert [0, 1] == [item.index for item in item.turns]
    assert [("x", 1, 0), ("y", 1, 1), ("z", 2, 2)] == [
        (call.name, call.step, call.position) for call in item.turns[0].calls
    ]
    assert NOON_NS + SECOND_NS == item.ended_ns


def test_a_script_grows_without_changing_the_one_it_came_from() -> None:
    begun = AgentRunScript().ask("Hi")

    assert (None, "Hello!") == (begun.exchanges[0].answer, begun.answers("Hello!").exchanges[0].answer)


def test_a_script_is_rebuilt_from_its_spans() -> None:
    reader = Reader.from_settings(SETTINGS)

    for spoken in (speak_genai(SCRIPT), speak_genai(SCRIPT, "logs"), speak_openinference(SCRIPT)):
        (linked,) = link_segments(read_segments(spoken.spans, spoken.logs, reader), SETTINGS)
        assert SCRIPT.outline() == outline(assemble(linked, SETTINGS))


def test_speaking_twice_gives_the_same_spans_and_later_gives_other_traces() -> None:
    assert speak_genai(SCRIPT) == speak_genai(SCRIPT)
    later = speak_genai(SCRIPT, start_ns=NOON_NS + SECOND_NS)
    assert not {item.trace_id for item in speak_genai(SCRIPT).spans} & {item.trace_id for item in later.spans}


def test_the_style_none_holds_no_content() -> None:
    text = repr(speak_genai(SCRIPT, "none"))

    assert not any(fragment in text for fragment in ("Ritz", "hotels", "Sure"))
    assert "search" in text


def test_a_failed_call_has_a_failed_span() -> None:
    failed = [item for item in speak_openinference(SCRIPT).spans if item.status == StatusCode.ERROR]

    assert [("weather", "exception")] == [(item.name, item.events[0].name) for item in failed]


class Mine(TableDialect):
    """A dialect as a plug-in author writes it."""

    name = "mine"
    table = Table(
        marks=("mine.",),
        kind=("mine.kind",),
        kinds={"run": "agent", "llm": "model"},
        query=("mine.query",),
        messages_in=("mine.in",),
        tool_name=("mine.tool",),
        arguments=("mine.arguments",),
    )


SAMPLES: Final = (
    span("run", attributes={"mine.kind": "run", "mine.query": "Which hotel?"}),
    span("llm", attributes={"mine.kind": "llm", "mine.in": '[{"role": "user", "content": "Which hotel?"}]'}),
    span("tool", attributes={"mine.tool": "search", "mine.arguments": '{"q": "hotels"}'}),
)


class Raising(Mine):
    """It assumes that a query is text."""

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        str.strip(span.attributes.get("mine.query", ""))
        return super().read(span, logs)


class Inventing(Mine):
    """It returns an empty value for content that was not captured."""

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[()]:  # noqa: ARG002 — the signature is the base class's
        return ()


class Fickle(Mine):
    """It takes the conversation id from the first attribute, no matter which."""

    def agent_run(self, header: object, span: Span, logs: object, *, certain: bool) -> AgentRun:  # noqa: ARG002 — same
        first = str(next(iter(span.attributes.values())))
        return AgentRun(
            header=self.header(span, ()), certain=True, query=first, answer=None, messages_in=None, messages_out=None
        )


class Blind(Mine):
    """It claims nothing."""

    def claims(self, span: Span) -> str | None:  # noqa: ARG002 — same
        return None


class Swapping(Mine):
    """It answers with the event of another span."""

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:  # noqa: ARG002 — same
        return ModelCall(
            header=self.header(SAMPLES[0], ()), messages_in=read_messages(None), messages_out=None, model=None, response_id=None
        )  # fmt: skip


def test_a_sound_dialect_conforms() -> None:
    check_dialect(Mine(SETTINGS), *SAMPLES)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (Raising, "raises on span 'run' with mine.query = "),
        (Inventing, "span 'llm' without content has messages_in = (), expected none"),
        (Fickle, "reads span 'run' differently when its attributes are in another order"),
        (Blind, "does not claim span 'run'"),
        (Swapping, "the event of span 'llm' has a header of another span"),
    ],
)
def test_a_broken_rule_is_reported_with_its_span(broken: type[TableDialect], complaint: str) -> None:
    with pytest.raises(AssertionError) as error:
        check_dialect(broken(SETTINGS), *SAMPLES)

    assert complaint in str(error.value)


def test_a_check_without_samples_is_rejected() -> None:
    with raises(AssertionError, snapshot("no sample span given")):
        check_dialect(Mine(SETTINGS))
