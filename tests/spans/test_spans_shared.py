"""A resource is written to the row of each of its spans: its size limit depends on their number."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits
from otel_agentic.spans.model import CUT_SHARED, shared, size_of

LIMITS = replace(Limits.from_settings(ReceiveSettings()), max_request_bytes=100_000)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.booleans() | st.integers(-(10**6), 10**6) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def test_a_resource_that_few_spans_share_is_kept_whole() -> None:
    attributes: dict[str, Any] = {"service.name": "desk", "large": "x" * 9_000}
    altered: Counter[str] = Counter()
    assert shared(attributes, 11, LIMITS, altered) is attributes
    assert not altered


def test_of_a_resource_that_many_spans_share_what_fits_is_kept_in_order() -> None:
    attributes: dict[str, Any] = {
        "large": "x" * 9_000,
        "service.name": "desk",
        "list": ["y" * 5_000],
        "last": "z" * 4_000,
    }
    altered: Counter[str] = Counter()
    assert {"service.name", "list"} == shared(attributes, 12, LIMITS, altered).keys()
    assert altered == {CUT_SHARED: 2}


def test_a_resource_of_8_kib_is_never_cut() -> None:
    attributes: dict[str, Any] = {"a": "x" * 8_000}
    assert shared(attributes, 10**6, LIMITS, Counter()) is attributes


@given(attributes=st.dictionaries(texts, values, max_size=5), records=st.integers(0, 10**7))
def test_all_rows_together_hold_no_more_than_a_request(attributes: dict[str, Any], records: int) -> None:
    remaining = shared(attributes, records, replace(LIMITS, max_request_bytes=1_000), Counter())
    assert size_of(remaining) <= max(8 * 1024, 1_000 // max(records, 1))
    assert [key for key in attributes if key in remaining] == list(remaining)


@given(value=st.dictionaries(texts, values, max_size=5))
def test_the_size_is_about_that_of_the_json(value: dict[str, Any]) -> None:
    escapes = sum(json.dumps(value).count(mark) for mark in ("\\", '"'))
    assert (
        len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) <= size_of(value) + 2 + 6 * escapes
    )
