"""The data file of redaction: every rule finds its own examples, and its pre-filter lets them through."""

from __future__ import annotations

import json
from random import Random

import pytest

from benchmarks import redaction_recall
from benchmarks.redaction_texts import HARMLESS, PERSONAL, PERSONAL_HARMLESS
from otel_agentic.redaction import checks as redact_checks
from otel_agentic.redaction.engine import Glance, NearGlance
from otel_agentic.redaction.fields import rule_data
from otel_agentic.redaction.rules import Rule, credential_rules, joined, personal_rules
from otel_agentic.redaction.search import Pattern
from tests.spans.redaction_examples import examples_of
from tests.spans.secrets_made_up import DEFAULT, EVERYTHING, redacted_text

RULES = [*credential_rules(), *personal_rules()]
IDS = [f"{rule.kind}-{position}" for position, rule in enumerate(RULES)]


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_every_alternative_of_a_pattern_passes_its_hint(rule: Rule) -> None:
    random = Random(IDS[RULES.index(rule)])  # noqa: S311 — examples, no secrets
    hints = [Glance(joined(rule.hints)), *([Glance(rule.close)] if rule.close else [])]
    for text, secret in examples_of(rule, random):
        hits = [text[hit.start : hit.end] for hit in Pattern(rule.pattern).hits(text)]
        assert rule.columns or any(hit in secret or secret in hit for hit in hits), text
        for written in (
            text,
            json.dumps(text),
            json.dumps({"x": json.dumps([text])}),
            json.dumps(text, ensure_ascii=False),
        ):
            assert all(hint(written.encode()) for hint in hints), written
            assert EVERYTHING.glance(written.encode()), written


NEAR_RULES = [rule for rule in RULES if rule.body]


@pytest.mark.parametrize("rule", NEAR_RULES, ids=[IDS[RULES.index(rule)] for rule in NEAR_RULES])
@pytest.mark.parametrize("earlier_word", ["", "jira and "])
def test_a_value_near_a_word_is_found_at_every_distance_from_an_earlier_word(rule: Rule, earlier_word: str) -> None:
    near, close = NearGlance(NEAR_RULES), Glance(rule.close)
    text, secret = next(iter(examples_of(rule, Random(3))))  # noqa: S311 — same
    introduction, value = text.split(secret, 1)[0], secret
    for padding in range(0, 600, 7):
        for gap in (0, 40, 70):
            written = f"{earlier_word}{'x ' * padding}{introduction}{'. ' * (gap // 2)}{value} and more".encode()
            assert near(written) or not close(written), written
    assert near(f"{earlier_word}{text}".encode())


@pytest.mark.parametrize("letter", ["の", "é", "🔑", "x"])
def test_the_distance_between_a_word_and_a_value_is_counted_in_characters(letter: str) -> None:
    key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    for distance in (1, 29, 58):
        written = f"{'jira ' * 60}wandb {letter * distance} {key} and more"
        for text in (written, json.dumps([written]), json.dumps({"a": json.dumps([written])})):
            assert key not in redacted_text(text)[0], text
    assert key in redacted_text(f"wandb {letter * 100} {key} and more")[0]


def test_a_word_without_a_value_near_it_is_nothing_to_redact() -> None:
    near = NearGlance(NEAR_RULES)
    assert not near(b"we use jira here. " * 200)
    assert not near(b"jira" + b" and so on" * 100 + b" 0123456789abcdef0123456789abcdef")
    assert not near(b"")


@pytest.mark.parametrize(
    "rule",
    # A generated Discord token does not decode to an account number; the corpus of the benchmark has tokens that do.
    [
        pytest.param(rule, id=name)
        for rule, name in zip(credential_rules(), IDS, strict=False)
        if rule.check is not redact_checks.discord
    ],
)
def test_every_example_is_taken_in_any_depth_of_json_text(rule: Rule) -> None:
    random = Random(2)  # noqa: S311 — same
    for text, secret in examples_of(rule, random):
        for written in (
            f"see {text}" if not rule.named and not rule.columns else text,
            json.dumps({"a": json.dumps([{"b": text}])}),
        ):
            assert secret[-8:] not in redacted_text(written)[0], written


def test_every_kind_of_mark_can_be_read_again() -> None:
    assert all(rule.kind.replace("_", "").isalnum() for rule in RULES)
    assert {"token", "pattern", "field", "columns", "names", "fragments", "naming", "personal"} == rule_data().keys()


@pytest.fixture(scope="module")
def shapes() -> dict[str, redaction_recall.Recall]:
    """Return the share of secrets that are redacted, by kind."""
    return redaction_recall.by_shape(redaction_recall.redactor(), count=1, seed=7)


def test_nine_in_ten_secrets_of_each_kind_are_redacted(shapes: dict[str, redaction_recall.Recall]) -> None:
    assert {} == {kind: recall for kind, recall in shapes.items() if recall.share < 0.85}  # one of eight may be missed


def test_recall_is_as_documented(shapes: dict[str, redaction_recall.Recall]) -> None:
    default = redaction_recall.redactor()
    assert redaction_recall.total(shapes).share >= 0.95
    assert redaction_recall.total(redaction_recall.by_field(default)).share >= 0.95
    assert len(redaction_recall.mistaken(default)) <= 0.02 * len(HARMLESS)


@pytest.mark.parametrize("kind", PERSONAL)
def test_personal_data_is_found_as_it_is_written(kind: str) -> None:
    redact = redaction_recall.redactor(personal=[kind])
    assert [] == [text for text in PERSONAL[kind] if text in redact(f"It is {text}, as of today.")]
    assert [] == [text for text in PERSONAL_HARMLESS if redact(text) != text]


@pytest.mark.parametrize(
    "text",
    [
        "the tests pass",
        "I have a token",
        "no auth",
        "of the bearer",
        "the password",
        "a secret",
        "my cookie",
        "prior authorization",
        "Give me your token, the bearer token or pass; then auth: done",
    ],
)
@pytest.mark.parametrize("end", ["", ".", '"', ",", "\n"])
def test_a_word_of_prose_does_not_make_a_history_be_read(text: str, end: str) -> None:
    history = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text + end}]}] * 3)
    assert not DEFAULT.glance(json.dumps({"gen_ai.input.messages": history}).encode())


@pytest.mark.slow
def test_recall_exceeds_that_of_detect_secrets(shapes: dict[str, redaction_recall.Recall]) -> None:
    from detect_secrets.core import scan  # noqa: PLC0415 — slow, and only here
    from detect_secrets.settings import default_settings  # noqa: PLC0415 — same

    def redact(text: str) -> str:
        for line in text.splitlines():
            for secret in scan.scan_line(line):
                text = text.replace(secret.secret_value or "", "")
        return text

    with default_settings():
        theirs = redaction_recall.by_shape(redact, count=1, seed=7)
        positions = redaction_recall.total(redaction_recall.by_field(redact))
    by_us, by_them = redaction_recall.total(shapes), redaction_recall.total(theirs)
    assert by_us.share > by_them.share
    # Kind by kind, as far as shapes alone decide: theirs finds anything random in quotes.
    assert [] == [kind for kind in shapes if shapes[kind].share < min(theirs[kind].share, 0.85)]
    assert redaction_recall.total(redaction_recall.by_field(redaction_recall.redactor())).share > positions.share
