"""No untrusted value of an attribute makes a dialect raise, or keeps it busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.dialects.base import UNKNOWN
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.generic import Generic
from otel_agentic.dialects.openinference import OpenInference
from otel_agentic.testing import batch, check_dialect, event, log_record, span, speak_genai, speak_openinference
from tests.conversations.rebuilding import conversations
from tests.dialects.hostile import (
    DIALECTS,
    EVENTS,
    KEYS,
    RUN,
    SAMPLES,
    Tabled,
    anything,
    attributes,
    first_keys,
    keys_of,
    slow_texts,
)
from tests.dialects.reading import READER, SETTINGS
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from otel_agentic.dialects import AgentEvent
    from otel_agentic.spans.model import LogRecord, Span

#: As long as a value is when it arrives (`receive.max_value_bytes`), and long enough to see how steps grow.
LONGEST: Final = 4 * 1024 * 1024
SIZE: Final = 4_000
#: The traps that are tried at full length.
LONG_TRAPS: Final = (
    "open brackets", "open objects", "quotes", "backslashes", "spaces before a letter", "line ends", "open angles",
    "lists of lists in Python", "dictionaries in Python", "an object of the Responses API", "JSON in JSON in JSON",
    "empty objects", "messages", "a list of digits", "one message of many blocks",
)  # fmt: skip
#: The meanings of spans that dialects look into.
READ: Final = frozenset({"agent", "maybe_agent", "model", "tool", "plan"})
OPERATIONS: Final = (None, "chat", "invoke_agent", "execute_tool", "plan")

each_dialect: Final = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@each_dialect
@given(values=attributes, body=anything)
@settings(max_examples=15)
def test_no_value_under_any_key_makes_a_dialect_raise(dialect: Tabled, values: dict[str, Any], body: Any) -> None:
    events = [event(name, values) for name in EVENTS]
    for kind in {*dialect.table.kinds, *OPERATIONS}:
        kinds = {} if kind is None else dict.fromkeys((*dialect.table.kind, "gen_ai.operation.name"), kind)
        hostile = span(attributes={**kinds, **values}, events=events)
        logs = [log_record(hostile, name, body, attributes=values) for name in EVENTS]

        dialect.claims(hostile)
        assert dialect.read(hostile, logs) is not None


@given(
    speaker=st.sampled_from(sorted(SAMPLES)),
    changes=st.lists(st.tuples(st.integers(0, 9), attributes), min_size=1, max_size=4),
    body=anything,
    name=st.sampled_from(EVENTS),
)
@settings(max_examples=80)
def test_a_conversation_with_hostile_values_is_rebuilt(
    speaker: str, changes: list[tuple[int, dict[str, Any]]], body: Any, name: str
) -> None:
    spans = list(SAMPLES[speaker])
    logs: list[LogRecord] = []
    for index, result in changes:
        at = index % len(spans)
        attacked = {**spans[at].attributes, **result}
        spans[at] = replace(spans[at], attributes=attacked, events=(*spans[at].events, event(name, result)))
        logs.append(log_record(spans[at], name, body, attributes=result))

    for hostile in spans:
        strictly(hostile, *logs)
    assert conversations(batch(*spans, *logs)) is not None


def strictly(hostile: Span, *logs: LogRecord) -> AgentEvent:
    """Return the event that a span's dialect reads, without catching its faults."""
    dialect, _ = READER.dialect_of(hostile)
    return dialect.read(hostile, logs)


def test_every_key_of_every_table_is_tried() -> None:
    assert len(DIALECTS) == len(READER.names) + 1
    assert UNKNOWN == DIALECTS[-1].name
    assert {key for dialect in DIALECTS for key in keys_of(dialect)} <= set(KEYS)


@each_dialect
def test_no_text_under_all_keys_is_read_in_more_than_linear_time(dialect: Tabled) -> None:
    keys = first_keys(dialect)

    assert {} == superlinear(dialect, partial(dict.fromkeys, keys))


@pytest.mark.slow
@each_dialect
def test_no_text_under_any_key_is_read_in_more_than_linear_time(dialect: Tabled) -> None:
    for key in keys_of(dialect):
        assert (key, {}) == (key, superlinear(dialect, partial(dict.fromkeys, (key,))))


@pytest.mark.slow
@each_dialect
@pytest.mark.parametrize("name", LONG_TRAPS)
def test_the_longest_text_under_all_keys_is_read_to_its_end(dialect: Tabled, name: str) -> None:
    # Regular expressions are no steps of Python: a quadratic one of 4 MiB takes hours, and the test's own limit ends it.
    read_all(dialect, dict.fromkeys(first_keys(dialect), slow_texts(LONGEST)[name]))


def superlinear(dialect: Tabled, attributes_of: Callable[[str], dict[str, Any]]) -> dict[str, float]:
    """Return the hostile texts for which twice the length takes far more than twice the steps, each with the factor."""

    def prepared(name: str, size: int) -> Callable[[], object]:
        return partial(read_all, dialect, attributes_of(slow_texts(size)[name]))

    factors = {name: growth(partial(prepared, name), SIZE) for name in slow_texts(SIZE)}
    return {name: factor for name, factor in factors.items() if factor > LINEAR}


def read_all(dialect: Tabled, result: dict[str, Any]) -> None:
    """Read a span of each kind that the dialect looks into."""
    read = {meaning: kind for kind, meaning in dialect.table.kinds.items() if meaning in READ}
    for kind in (None, *read.values()):
        kinds = {} if kind is None else dict.fromkeys(dialect.table.kind, kind)
        _look_at(dialect, span(attributes={**kinds, **result}, span_id="hostile"))


def _look_at(dialect: Tabled, hostile: Span) -> None:
    dialect.claims(hostile)
    dialect.read(hostile, ())


def test_the_genai_dialect_conforms() -> None:
    check_dialect(GenAI(SETTINGS), *speak_genai(RUN).spans, *speak_genai(RUN, "structured").spans)


def test_the_openinference_dialect_conforms() -> None:
    flattened = ("llm.input_messages", "llm.output_messages")

    check_dialect(OpenInference(SETTINGS), *speak_openinference(RUN).spans, content=flattened)


def test_the_generic_dialect_conforms() -> None:
    check_dialect(
        Generic(SETTINGS),
        span(attributes={"tool.name": "weather", "tool.arguments": "{}", "tool.result": "21"}),
        span(attributes={"type": "llm", "prompt": "Weather?", "completion": "21 °C."}),
        span(attributes={"type": "agent", "query": "Weather?", "answer": "21 °C."}),
        content=("tool.arguments", "tool.result", "prompt", "completion", "query", "answer"),
    )
