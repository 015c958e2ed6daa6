from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.config.patterns import own_pattern
from otel_agentic.truth.values import schema_problems


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
    assert (own_pattern(pattern).fullmatch(text), own_pattern(pattern).search(text)) == (fully, somewhere)


@pytest.mark.parametrize(
    "pattern", ["a{100000000}", "(?:a{1000}){1000}", "((((a{9}){9}){9}){9}){9}" * 99, "[a-z]{20000,}"]
)
def test_a_pattern_that_would_fill_the_memory_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot be used"):
        own_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "(" * 2000, "*"])
def test_what_is_no_pattern_is_refused_with_its_beginning(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot be used") as refused:
        own_pattern(pattern)
    assert repr(pattern[:5])[1:-1] in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("(?=a)b", "look-ahead"),
        ("a(?!b)", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "backreferences"),
        ("(?P<x>a)(?P=x)", "backreferences"),
        ("(?>a+)b", "atomic groups"),
    ],
)
def test_what_only_other_engines_support_is_refused_by_name(pattern: str, missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        own_pattern(pattern)
    assert any(missing in problem for problem in schema_problems({"items": {"pattern": pattern}}))


def test_a_text_that_freezes_other_engines_is_matched_in_linear_time() -> None:
    assert not own_pattern("(a+)+$").fullmatch("a" * 50_000 + "!")


def test_a_lone_surrogate_is_a_character_like_another() -> None:
    assert own_pattern("a.b").fullmatch("a\ud800b")


@given(st.text(alphabet="ab(){}[]|*+?\\,0129^$.-", max_size=30))
@settings(max_examples=100)
def test_any_text_is_a_pattern_or_is_refused(pattern: str) -> None:
    with suppress(ValueError):
        assert own_pattern(pattern).search("ab01") in {True, False}
