"""Laws of redaction: twice is once, order means nothing, shapes stay, nothing else changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.redaction.engine import Redactor
from otel_agentic.redaction.fields import MARK
from tests.spans.secrets_made_up import (
    ALL,
    EVERYTHING,
    FIELDS,
    KEY,
    PERSONAL,
    PLACED,
    SHAPED,
    clean,
    redacted_text,
    redactor,
)

PARTS = [*SHAPED.values(), *(text for text, _ in PLACED.values()), *FIELDS, *PERSONAL.values()]
GLUE = st.sampled_from(
    [" ", "", "\n", '"', "'", ",", ":", "=", "{", "}", "\\", "@", "/", ".", "-", "password", "x", "1"]
)
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), GLUE, st.text(max_size=5)), max_size=8).map("".join)
NAMES = st.one_of(st.sampled_from(["a", "password", "token", "value", "name", "X-Api-Key", "type"]), TEXTS)
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@given(TEXTS)
def test_twice_is_as_good_as_once_for_texts(text: str) -> None:
    once = redacted_text(text, EVERYTHING)[0]
    assert (once, {}) == redacted_text(once, EVERYTHING)


@given(VALUES)
def test_twice_is_as_good_as_once_for_values_and_their_json(value: Any) -> None:
    once = clean(value, EVERYTHING)
    assert once == clean(once, EVERYTHING)
    text = redacted_text(json.dumps(value), EVERYTHING)[0]
    assert text == redacted_text(text, EVERYTHING)[0]


@settings(max_examples=30)  # each compiles all rules again
@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_rules_means_nothing(value: Any, random: Any) -> None:
    rules = list(EVERYTHING.rules)
    random.shuffle(rules)
    assert clean(value, EVERYTHING) == Redactor(rules, lambda: KEY).value(value, Counter())


@given(VALUES)
def test_json_stays_json_and_says_the_same_as_the_value(value: Any) -> None:
    recorded_as = [value]  # a bare number is a text of digits, no JSON
    text = json.dumps(recorded_as)
    redacted = redacted_text(text, EVERYTHING)[0]
    assert _shape(recorded_as) == _shape(json.loads(redacted))
    assert clean(json.loads(text), EVERYTHING) == json.loads(redacted)


@given(VALUES)
def test_nothing_changes_but_what_is_taken(value: Any) -> None:
    accepted: Counter[str] = Counter()
    result = EVERYTHING.value(value, accepted)
    if not accepted:
        assert result is value
    for old, new in zip(_leaves(value), _leaves(result), strict=True):
        assert old == new or MARK.search(new)


@given(TEXTS)
def test_without_personal_data_only_credentials_are_taken(text: str) -> None:
    assert not any("personal" in reason for reason in redacted_text(text)[1])


def test_marks_under_one_key_do_not_depend_on_the_rules_in_force() -> None:
    text = f"password={SHAPED['jwt']}"
    assert redacted_text(text, redactor())[0] == redacted_text(text, redactor(**ALL, custom={"x": "nothing-here"}))[0]


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [(_shape(key), _shape(item)) for key, item in value.items()] and [
            _shape(item) for item in value.values()
        ]
    return [_shape(item) for item in value] if isinstance(value, list) else None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in (key, *_leaves(item))]
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]
