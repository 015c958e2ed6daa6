"""Which dialect reads a span, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic import plugins
from otel_agentic.dialects import AgentEvent, Ignored, ModelCall, Reader, Table, TableDialect
from otel_agentic.dialects.genai import GenAI
from otel_agentic.testing import log_record, span
from tests.dialects.reading import READER, SETTINGS

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_FOREIGN_DIALECT = """
from otel_agentic.dialects import Table, TableDialect

class Foreign(TableDialect):
    name = "foreign"
    table = Table(marks=("foreign.",), kind=("foreign.kind",), kinds={"think": "model"})
"""


@pytest.mark.parametrize(
    ("result", "dialect", "why"),
    [
        (span(attributes={"gen_ai.operation.name": "chat"}), "genai", "attribute gen_ai.operation.name"),
        (span(scope="openinference.instrumentation.x"), "openinference", "scope openinference.instrumentation.x"),
        (
            span(attributes={"openinference.span.kind": "LLM", "gen_ai.system": "x"}),
            "openinference",
            "attribute openinference.span.kind",
        ),
        (span(attributes={"tool.name": "weather"}), "generic", "names a tool"),
        (span(attributes={"type": "llm"}), "generic", "names its kind"),
        (
            span(attributes={"session.id": "s1", "query": "Weather?"}),
            "generic",
            "has a conversation id and content",
        ),
        (span("GET /", attributes={"session.id": "s1"}), "none", "no dialect claims it"),
    ],
)
def test_a_span_has_the_first_dialect_that_claims_it_and_its_reason(result: Span, dialect: str, why: str) -> None:
    reading = READER.read(result)

    assert (dialect, why) == (reading.event.header.dialect, reading.why)


def test_a_span_of_no_dialect_still_carries_session_case_verdict_and_end() -> None:
    root = span(
        attributes={"session.id": "s1", "agentic.case.id": "case-1", "agentic.conversation.end": True},
    )
    verdict = {"gen_ai.evaluation.name": "agentic.conversation", "gen_ai.evaluation.score.label": "pass"}

    header = READER.read(root, [log_record(root, "gen_ai.evaluation.result", attributes=verdict)]).event.header

    assert ("none", "s1", "case-1", True, True) == (
        header.dialect,
        header.conversation_id,
        header.case_id,
        header.verdict,
        header.ends_conversation,
    )


@pytest.fixture
def foreign_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution with a foreign dialect during a test."""
    info = tmp_path / "a_strange_dialect-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-strange-dialect\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[otel_agentic.dialects]\nforeign = a_strange_dialect:Foreign\n", encoding="utf-8"
    )
    (tmp_path / "a_strange_dialect.py").write_text(_FOREIGN_DIALECT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.find.cache_clear()
    yield
    sys.modules.pop("a_strange_dialect", None)
    plugins.find.cache_clear()


@pytest.mark.usefixtures("foreign_dialect")
def test_a_plug_in_dialect_is_found_by_entry_point_and_asked_before_the_built_in_ones() -> None:
    reader = Reader.from_settings(SETTINGS)

    result = reader.read(span(attributes={"foreign.kind": "think", "gen_ai.operation.name": "execute_tool"}))

    assert ("foreign", "attribute foreign.kind") == (result.event.header.dialect, result.why)
    assert isinstance(result.event, ModelCall)
    assert reader.read(span(attributes={"gen_ai.operation.name": "chat"})).event.header.dialect == "genai"


class Broken(TableDialect):
    """A dialect that raises on each span."""

    name = "broken"
    table = Table(marks=("broken.",), kinds={})

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:  # noqa: ARG002 — the signature is the base class's
        raise ZeroDivisionError(span.name)


def test_a_dialect_that_raises_costs_its_own_span_only() -> None:
    reader = Reader([Broken(SETTINGS), GenAI(SETTINGS)], SETTINGS)

    broken, sound = reader.read_all(
        [span("a", attributes={"broken.x": 1}), span("b", attributes={"gen_ai.operation.name": "chat"})], {}
    )

    assert isinstance(broken.event, Ignored)
    assert broken.event.reason == snapshot("dialect 'broken' failed: ZeroDivisionError: a")
    assert reader.faults == snapshot(("dialect 'broken' failed: ZeroDivisionError: a",))
    assert isinstance(sound.event, ModelCall)


class Undecided(TableDialect):
    """A dialect that raises when it is asked which spans are its own."""

    name = "undecided"
    table = Table(kinds={})

    def claims(self, span: Span) -> str | None:
        raise ZeroDivisionError(span.name)


def test_a_dialect_that_cannot_say_what_is_its_own_is_passed_over_and_complained_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = Reader([Undecided(SETTINGS), GenAI(SETTINGS)], SETTINGS)

    result = [reader.read(span(name, attributes={"gen_ai.operation.name": "chat"})) for name in ("a", "b")]

    assert [reading.event.header.dialect for reading in result] == ["genai", "genai"]
    assert [record.getMessage() for record in caplog.records] == snapshot(
        ["dialect 'undecided' failed to decide which spans it reads; it is skipped for these spans"]
    )


def test_log_records_are_joined_by_trace_and_span() -> None:
    first = span("a", attributes={"gen_ai.operation.name": "chat"})
    second = span("b", attributes={"gen_ai.operation.name": "chat"})
    logs = {(second.trace_id, second.span_id): [log_record(second, "gen_ai.user.message", {"content": "Hi"})]}

    result: list[Any] = [reading.event for reading in READER.read_all([first, second], logs)]

    assert result[0].messages_in is None
    assert result[1].messages_in[0].text == "Hi"


def test_a_dialect_that_looks_at_values_is_asked_for_every_span() -> None:
    reader = Reader.from_settings(SETTINGS)
    named = {"acme.kind": "tool", "acme.tool.name": "search"}

    first, second = span(attributes=named), span(attributes={**named, "acme.kind": "heartbeat", "acme.tool.name": ""})

    assert ["generic", "none"] == [reader.dialect_of(item)[0].name for item in (first, second)]


def test_spans_with_the_same_names_have_the_same_dialect_and_reason() -> None:
    reader = Reader.from_settings(SETTINGS)
    spans = [span(attributes={"gen_ai.operation.name": name}) for name in ("chat", "execute_tool")]

    assert [("genai", "attribute gen_ai.operation.name")] * 2 == [
        (dialect.name, why) for dialect, why in map(reader.dialect_of, spans)
    ]
