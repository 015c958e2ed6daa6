from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.truth.patterns import MAX_PARTS, compile_pattern, matches_fully, occurs, parts_of


@pytest.mark.parametrize(
    ("pattern", "text", "fully", "somewhere"),
    [
        ("[A-Z]{3}", "JFK", True, True),
        ("[A-Z]{3}", "to JFK", False, True),
        ("a|b", "b", True, True),
        ("", "", True, True),
        ("(?i)rome", "ROME", True, True),
        (r"\p{L}+", "Zürich", True, True),
        (r"\{9}", "{9}", True, True),
        ("(a|aa)+b", "a" * 60, False, False),
    ],
)
def test_a_pattern_matches_in_full_or_somewhere(pattern: str, text: str, fully: object, somewhere: object) -> None:
    assert (matches_fully(pattern, text), occurs(pattern, text)) == (fully, somewhere)


@pytest.mark.parametrize(
    "pattern",
    ["a{100000000}", "(?:a{1000}){1000}", "((((a{9}){9}){9}){9}){9}", "[a-z]{20000,}", "a" * (MAX_PARTS + 1)],
)
def test_a_pattern_that_would_fill_the_memory_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(ValueError, match="has more than 10,000 parts, counting repetitions; shorten it"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "(" * 2000 + ")" * 2000, "*"])
def test_what_is_no_pattern_is_refused_with_its_beginning(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression") as refused:
        compile_pattern(pattern)
    assert repr(pattern[:5])[1:-1] in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("pattern", ["a{0,1000000}", ".*", "(?:ab?)+", r"\d{4}-\d{2}-\d{2}", "(?:[0-9a-f]{4}-){7}"])
def test_a_pattern_that_may_repeat_without_having_to_takes_little(pattern: str) -> None:
    assert parts_of(pattern) < 100
    compile_pattern(pattern)


@given(st.text(alphabet="ab(){}[]|*+?\\,0129^$.-", max_size=30))
@settings(max_examples=500)
def test_any_text_is_a_pattern_or_is_refused(pattern: str) -> None:
    with suppress(ValueError):
        assert occurs(pattern, "ab01") in {True, False}
    assert parts_of(pattern) >= 0
