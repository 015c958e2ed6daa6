"""Ground truth under redaction: it compares as it did before, and holds no secret."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.scoring.compile import agrees
from otel_agentic.truth import Case, Label
from otel_agentic.truth.load import redacted_case, redacted_label, redacted_labels
from tests.spans.secrets_made_up import ALL, SHAPED, redactor

if TYPE_CHECKING:
    from otel_agentic.redaction.engine import BatchRedactor

KEY = SHAPED["openai_key"]


class Bound:
    """A redactor as a store has one."""

    def __init__(self, by: BatchRedactor) -> None:
        self.redacts_field = by.redacts_field
        self._by = by

    def value(self, value: Any) -> Any:
        return self._by.value(value, Counter())


REDACTS = Bound(redactor(**ALL))


def case_with(parameters: dict[str, Any], **match: Any) -> Case:
    return Case.model_validate(
        {
            "case_id": "c1",
            "turns": [
                {
                    "query": f"use {KEY}",
                    "answer": f"finished with {KEY}",
                    "tools": {"calls": [{"tool_name": "login", "parameters": parameters, "match": match}]},
                }
            ],
        }
    )


def test_a_case_without_secrets_is_the_same_object() -> None:
    case = Case(case_id="c1", notes="max_tokens: 5", effects={"get_password": "read"})
    assert case is redacted_case(case, REDACTS)


def test_texts_of_a_case_are_redacted_and_its_grammar_is_not() -> None:
    case = Case.model_validate(
        {
            "case_id": "bob@example.com",
            "tags": ["eu"],
            "turns": [
                {"query": f"use {KEY}", "answer": [f"password={KEY}", KEY], "reference_topics": ["x bob@example.com"]}
            ],
            "tools": {"calls": [], "forbidden": ["drop"], "alternatives": [{"calls": [{"tool_name": "get_secret"}]}]},
            "effects": {"get_secret": "read"},
            "outputs": [4111111111111111, 20],
            "expected_state": {"user": {"password": "x1", "tries": 3}},
            "notes": KEY,
            "metadata": {"inputs": {"card": "4111111111111111"}, "source": f"mail of bob@example.com {KEY}"},
        }
    )
    result = redacted_case(case, REDACTS)
    text = result.model_dump_json()
    assert not any(secret in text for secret in (KEY, "bob@example", "4111", '"x1"'))
    assert case.effects == result.effects
    assert case.tools == result.tools
    assert 20 == result.outputs[1]
    assert result == redacted_case(result, REDACTS)


@pytest.mark.parametrize(
    ("parameters", "match", "actual", "invalid"),
    [
        ({"api_key": KEY}, {}, {"api_key": KEY}, {"api_key": SHAPED["jwt"]}),
        ({"card": 4111111111111111}, {}, {"card": 4111111111111111}, {"card": 5555555555554444}),
        ({"card": 4111111111111111}, {"card": "number"}, {"card": 4111111111111111}, {"card": 5555555555554444}),
        ({"card": "4111-1111-1111-1111"}, {}, {"card": 4111111111111111}, {"card": 1}),
        ({"to": "Bob@example.com"}, {"to": "casefold"}, {"to": "bob@example.com"}, {"to": "al@example.com"}),
        (
            {"to": ["a@example.com", "b@example.com"]},
            {"to": "one_of"},
            {"to": "b@example.com"},
            {"to": "c@example.com"},
        ),
        (
            {"text": f"key is {re.escape(KEY)}"},
            {"text": "regex"},
            {"text": f"key is {KEY}"},
            {"text": "key is missing"},
        ),
        ({"text": f"key .s {KEY}"}, {"text": "regex"}, {"text": f"key is {KEY}"}, {"text": "key is missing"}),
        ({"text": KEY}, {"text": "contains"}, {"text": f"so {KEY} it is"}, {"text": "so none it is"}),
        ({"password": "x1"}, {"password": {"mode": "exact"}}, {"password": "x1"}, {"password": "x2"}),
    ],
)
def test_parameters_compare_as_before(
    parameters: dict[str, Any], match: dict[str, Any], actual: dict[str, Any], invalid: dict[str, Any]
) -> None:
    call = redacted_case(case_with(parameters, **match), REDACTS).turns[0].tools.calls[0]  # type: ignore[union-attr]
    for arguments, expected in ((actual, True), (invalid, False)):
        recorded = REDACTS.value(arguments)
        (name, rule), *_ = call.rules.items()
        assert expected is agrees(call.parameters[name], recorded[name], rule)


@pytest.mark.parametrize(
    ("value", "mode"),
    [("^.{8,}$", "regex"), ({"type": "string", "pattern": "^a"}, "json_schema"), ("hunt", "contains")],
)
def test_a_rule_about_the_shape_of_what_is_taken_whole_asks_only_for_the_field(value: Any, mode: str) -> None:
    call = redacted_case(case_with({"password": value}, password=mode), REDACTS).turns[0].tools.calls[0]  # type: ignore[union-attr]
    assert {"password": "any"} == {name: rule.mode for name, rule in call.rules.items()}


def test_a_secret_among_escapes_leaves_no_trace_and_nothing_to_compare() -> None:
    case = case_with({"text": f"^key .* {re.escape(KEY)}$"}, text="regex")
    call = redacted_case(case, REDACTS).turns[0].tools.calls[0]  # type: ignore[union-attr]
    assert "any" == call.rules["text"].mode
    assert KEY[-20:] not in call.model_dump_json()


def test_labels_follow_the_ids_of_redacted_conversations_and_cases() -> None:
    label = Label(conversation_id="bob@example.com", case_id="c1", verdict=True, line=2)
    result = redacted_label(label, REDACTS)
    assert REDACTS.value("bob@example.com") == result.conversation_id
    assert {result.conversation_id: result} == redacted_labels({"bob@example.com": label}, REDACTS)
    plain = Label(conversation_id="c", case_id=None, verdict=None, line=1)
    assert plain is redacted_label(plain, REDACTS)
