"""Spans and log records: every place that can hold text, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.spans import LogRecord, Resource, Scope, Span, SpanBatch
from otel_agentic.testing import batch, log_record, span
from tests.spans.positions import POSITIONS
from tests.spans.secrets_made_up import DEFAULT, EVERYTHING, FIELDS, PLACED, SHAPED, everything_in, redactor

SECRET = SHAPED["github_token"]
MARKED = "[redacted:github_token:"


@pytest.mark.parametrize("position", POSITIONS)
def test_a_secret_is_taken_wherever_text_can_stand(position: str) -> None:
    given_batch: SpanBatch = POSITIONS[position](f"my {SECRET} here")
    assert SECRET in everything_in(given_batch)
    redacted = DEFAULT.batch(given_batch)
    assert SECRET not in everything_in(redacted)
    assert MARKED in everything_in(redacted)
    assert redacted.altered == snapshot({"credential redacted: github_token": 1})


TEXTS = [*SHAPED.values(), *(text for text, _ in PLACED.values()), *FIELDS]


@given(
    text=st.sampled_from(TEXTS),
    position=st.sampled_from(sorted(POSITIONS)),
    before=st.text(alphabet=" \n\t\x1f\"'\\aé{[:,", max_size=8),
    levels=st.integers(0, 3),
)
def test_the_first_look_misses_nothing_that_reading_would_find(
    text: str, position: str, before: str, levels: int
) -> None:
    value = before + text
    for _ in range(levels):
        value = json.dumps({"x": value})
    message = POSITIONS[position](value)
    unread: list[Span | LogRecord] = [*message.spans, *message.logs]
    by_reading = [DEFAULT._part(item, Counter()) for item in unread]
    redacted = DEFAULT.batch(message)
    items: list[Span | LogRecord] = [*redacted.spans, *redacted.logs]
    assert [_content(item) for item in by_reading] == [_content(item) for item in items]


def _content(item: Span | LogRecord) -> Any:
    return replace(item, resource=Resource(), scope=Scope())


def test_a_batch_without_a_finding_is_the_same_object() -> None:
    message = batch(*(span(attributes={"a": "max_tokens: 5", "n": i}) for i in range(100)), log_record(span(), "e"))
    assert message is DEFAULT.batch(message)
    assert message is EVERYTHING.batch(message)


def test_only_the_spans_with_a_finding_are_made_anew() -> None:
    spans = [span(attributes={"a": SECRET if i in {3, 40, 99} else "clean"}) for i in range(100)]
    redacted = DEFAULT.batch(batch(*spans))
    assert [3, 40, 99] == [i for i, (old, new) in enumerate(zip(spans, redacted.spans, strict=True)) if old is not new]
    assert redacted.altered == snapshot({"credential redacted: github_token": 3})


def test_a_resource_is_read_and_counted_once_and_stays_shared() -> None:
    resource = Resource(attributes={"process.command_line": f"agent --key {SECRET}"})
    redacted = DEFAULT.batch(batch(*(replace(span(), resource=resource) for _ in range(50))))
    assert 1 == len({id(first.resource) for first in redacted.spans})
    assert redacted.altered == snapshot({"credential redacted: github_token": 1})


def test_ids_times_and_numbers_stay() -> None:
    event = span(attributes={"password": "x1", "n": 5, "f": 0.5, "t": True, "none": None})
    redacted = DEFAULT.batch(batch(event)).spans[0]
    assert event == replace(redacted, attributes={**redacted.attributes, "password": "x1"})


def test_what_was_counted_before_is_counted_still() -> None:
    message = replace(batch(span(attributes={"a": SECRET})), altered={"cut": 2}, rejected={"bad": 1})
    redacted = DEFAULT.batch(message)
    assert redacted.altered == snapshot({"cut": 2, "credential redacted: github_token": 1})
    assert {"bad": 1} == redacted.rejected


def test_without_rules_nothing_is_looked_at() -> None:
    message = batch(span(attributes={"a": SECRET}))
    assert message is redactor(credentials=False).batch(message)


def test_what_json_cannot_hold_is_looked_at_all_the_same() -> None:
    message = batch(span(attributes={"a": {1: SECRET}, "b": object, "c": (SECRET,)}))
    assert SECRET not in everything_in(DEFAULT.batch(message))


def test_patterns_of_ones_own_are_found_in_every_place() -> None:
    by = redactor(custom={"code": 'Falke "N"'})
    for position in ("name", "attribute", "list", "json in json", "bytes", "log body map", "resource attribute"):
        redacted = by.batch(POSITIONS[position]('xx Falke "N" yy'))
        assert {"custom redacted: code": 1} == redacted.altered, position
