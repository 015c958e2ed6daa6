"""The result of a decoder: immutable spans, and the size of their request."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from otel_agentic.spans import Limits, SpanBatch, decode_document, decode_logs, decode_traces, decode_traces_json
from otel_agentic.spans.model import Span, merge_batches
from tests.spans.test_spans_otlp_proto import event, logs, new_span, text, traces

JSON = b"""{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "5b8efff798038103d269b633813fc60c",
"spanId": "eee19b7ec3c1b174", "name": "chat", "startTimeUnixNano": "5", "endTimeUnixNano": "9"}]}]}]}"""


def test_a_decoded_span_is_a_span_like_any_other(limits: Limits) -> None:
    (batch,) = decode_traces(traces(new_span(attributes=[text("a", "b")])), limits).spans

    assert Span is type(batch)
    assert replace(batch) == batch
    assert batch == pickle.loads(pickle.dumps(batch))  # noqa: S301 — made here
    with pytest.raises(FrozenInstanceError):
        batch.name = "other"  # type: ignore[misc]  # that is the point


def test_a_batch_tells_the_size_of_its_request(limits: Limits) -> None:
    sent, message = traces(new_span()), logs(event())

    assert len(sent) == decode_traces(sent, limits).size_bytes
    assert len(message) == decode_logs(message, limits).size_bytes
    assert len(JSON) == decode_traces_json(JSON, limits).size_bytes
    assert len(JSON) == decode_document(JSON, limits).size_bytes


def test_sizes_add_up_and_do_not_tell_batches_apart(limits: Limits) -> None:
    sent = traces(new_span())
    batch = decode_traces(sent, limits)

    assert 2 * len(sent) == merge_batches([batch, batch]).size_bytes
    assert replace(batch, size_bytes=0) == batch
    assert 0 == SpanBatch().size_bytes


@pytest.mark.parametrize("key", ["Schlüssel", "a\0b", "long" * 2000])
def test_keys_and_texts_are_cleaned_though_most_need_it_not(limits: Limits, key: str) -> None:
    sent = traces(new_span(attributes=[text(key, "straße\0"), text("plain", "x" * (limits.max_value_bytes + 1))]))

    batch = decode_traces(sent, limits)

    assert [key.replace("\0", "\N{REPLACEMENT CHARACTER}")[: limits.max_name_bytes], "plain"] == list(
        batch.spans[0].attributes
    )
    assert ["straße\N{REPLACEMENT CHARACTER}", "x" * limits.max_value_bytes] == list(batch.spans[0].attributes.values())
