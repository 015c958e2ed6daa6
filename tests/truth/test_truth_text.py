"""Text in many scripts: the ends of sentences, words, and texts within texts."""

from __future__ import annotations

import pytest

from otel_agentic.truth.values import normalise, says_text, similarity, words


@pytest.mark.parametrize(
    "stated",
    [
        "Where?",
        "どこ\uff1f",
        "在哪里。",
        "أين؟",
        "کہاں ہے\u06d4",
        "कहाँ है।",
        "Ո՞ւր\u0589",
        "የት ነው።",
        "ဘယ်မှာလဲ။",
        "នៅឯណា។",
        "Where…",
    ],
)
def test_what_ends_a_sentence_does_not_matter_in_any_language(stated: str) -> None:
    assert normalise(stated[:-1]) == normalise(stated) == normalise(f" {stated} ")


def test_a_sign_with_a_meaning_is_no_punctuation() -> None:
    assert "50 %" == normalise("50 %")


def test_a_word_with_combining_marks_is_one_word() -> None:
    assert ["मेरा", "ऑर्डर", "कहाँ", "है"] == words(normalise("मेरा ऑर्डर कहाँ है।"))
    assert 0.5 > similarity("मेरा ऑर्डर कहाँ है", "मौसम कैसा है")


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        ("हिन्दी में", "हिन्दी", True),
        ("हिन्दी", "हिन", False),
        ("☀️paris", "paris", True),
        ("東京は晴れ", "東京", True),
        ("order a12", "a1", False),
    ],
)
def test_a_text_is_contained_as_complete_words(text: str, expected: str, *, message: bool) -> None:
    assert message == says_text(text, expected)
