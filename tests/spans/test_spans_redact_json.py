"""JSON text inside attributes: read as data, written again as it was."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from otel_agentic.redaction.fields import MARK, mark_of
from tests.spans.secrets_made_up import DEFAULT, EVERYTHING, KEY, PEM, SHAPED, clean, redacted_text

HUNTER = mark_of("credential", "hunter22", KEY)


def test_only_the_value_is_replaced_and_every_blank_stays() -> None:
    text = ' { "a" : 1.50,\n\t"password": "hunter22" , "b": [1e5, 12345678901234567890123, "é\\u00e9"] } '
    assert text.replace("hunter22", HUNTER) == redacted_text(text)[0]


def test_a_number_becomes_a_text_within_quotes() -> None:
    assert json.loads(redacted_text('{"api_key": 123456, "n": 1}')[0]) == {
        "api_key": mark_of("credential", "123456", KEY),
        "n": 1,
    }


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items())
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_a_secret_is_found_through_levels_of_json_text(kind: str, secret: str, levels: int) -> None:
    value: Any = {"note": f"it is {secret}!", "n": [1, {"x": None}]}
    for _ in range(levels):
        value = json.dumps({"inner": json.dumps(value)})
    read: Any = redacted_text(str(value))[0]
    for _ in range(levels):
        read = json.loads(json.loads(read)["inner"])
    assert {"note": f"it is {mark_of(kind, secret, KEY)}!", "n": [1, {"x": None}]} == read


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items())
@pytest.mark.parametrize("edge", ["\n", "\t", "\x1f", '"', "/", "é", "\\"])
def test_an_escape_right_before_a_secret_hides_nothing(kind: str, secret: str, edge: str) -> None:
    for written in (json.dumps([edge + secret]), json.dumps([edge + secret], ensure_ascii=False)):
        assert [edge + mark_of(kind, secret, KEY)] == json.loads(redacted_text(written)[0])
        nested = json.loads(redacted_text(json.dumps({"a": written}))[0])
        assert [edge + mark_of(kind, secret, KEY)] == json.loads(nested["a"])


@pytest.mark.parametrize("escape", ["\\u{:04x}", "\\u{:04X}"])
def test_a_secret_written_in_escapes_is_found(escape: str) -> None:
    secret = SHAPED["openai_key"]
    escaped = "".join(escape.format(ord(character)) for character in secret)
    assert {"a": mark_of("openai_key", secret, KEY)} == json.loads(redacted_text(f'{{"a": "{escaped}"}}')[0])
    name = "".join(escape.format(ord(character)) for character in "password")
    assert {"password": HUNTER} == json.loads(redacted_text(f'{{"{name}": "hunter22"}}')[0])


def test_slashes_may_be_escaped() -> None:
    redacted = redacted_text('{"u": "https:\\/\\/bob:hunter22@db.local\\/x"}')[0]
    assert {"u": f"https://bob:{mark_of('url_password', 'hunter22', KEY)}@db.local/x"} == json.loads(redacted)


def test_a_private_key_has_one_mark_in_json_and_outside() -> None:
    assert {"k": redacted_text(PEM)[0]} == json.loads(redacted_text(json.dumps({"k": PEM}))[0])


def test_names_count_together_with_their_values() -> None:
    text = '{"headers": [{"name": "X-Api-Key", "value": "abc"}, {"name": "Accept", "value": "abc"}]}'
    assert {
        "headers": [
            {"name": "X-Api-Key", "value": mark_of("credential", "abc", KEY)},
            {"name": "Accept", "value": "abc"},
        ]
    } == json.loads(redacted_text(text)[0])


def test_names_count_as_services_of_aws_write_them() -> None:
    mark = mark_of("credential", "abc", KEY)
    assert [{"Name": "DB_PASSWORD", "Value": mark}] == clean([{"Name": "DB_PASSWORD", "Value": "abc"}])
    assert {"SecretString": mark} == clean({"SecretString": "abc"})


def test_a_value_with_a_type_is_no_schema() -> None:
    mark = mark_of("credential", "a b", KEY)
    schema = {"password": {"type": "string", "description": "at least 8 characters"}}
    assert {"password": {"type": "string", "value": mark}} == clean({"password": {"type": "string", "value": "a b"}})
    assert schema == clean(schema)


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n", "\r\n  "])
def test_blanks_around_a_name_hide_nothing(blank: str) -> None:
    text = f'{{"password"{blank}:{blank}"hunter22"{blank}}}'
    pairs = f'{{"name":{blank}"password"{blank},{blank}"value": "hunter22"}}'
    for written in (text, pairs, json.dumps([text]), json.dumps([pairs])):
        assert written.replace("hunter22", HUNTER) == redacted_text(written)[0]
    assert f"password{blank}" in clean({f"password{blank}": "hunter22"})
    assert HUNTER == clean({f"password{blank}": "hunter22"})[f"password{blank}"]


def test_lists_and_maps_under_a_credentials_name_are_taken_leaf_by_leaf() -> None:
    mark = mark_of("credential", "a1", KEY)
    assert {"cookies": {"x": mark, "y": [mark, None, True]}} == clean({"cookies": {"x": "a1", "y": ["a1", None, True]}})


def test_equal_keys_hide_nothing() -> None:
    assert (
        f'{{"password": "{HUNTER}", "password": "{HUNTER}"}}'
        == redacted_text('{"password": "hunter22", "password": "hunter22"}')[0]
    )


def test_a_secret_as_a_key_is_taken() -> None:
    secret = SHAPED["github_token"]
    mark = mark_of("github_token", secret, KEY)
    assert {mark: 1} == clean({secret: 1})
    assert {mark: 1} == json.loads(redacted_text(json.dumps({secret: 1}))[0])


def test_bytes_are_read_as_the_text_that_they_are() -> None:
    assert f'{{"password": "{HUNTER}"}}'.encode() == clean(b'{"password": "hunter22"}')
    assert b"\xff " + HUNTER.encode() == clean(b"\xff password=hunter22")[:2] + clean(b"\xff password=hunter22")[11:]


def test_json_that_was_cut_is_searched_as_text() -> None:
    complete = json.dumps({"a": json.dumps({"password": "hunter22", "b": 1})})
    for length in range(complete.index("hunter22") + 8, len(complete)):
        assert "hunter22" not in redacted_text(complete[:length])[0]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "[" * 3000 + "]" * 3000, '["\\ud800 password=x1"]'])
def test_nesting_and_lone_surrogates_end_in_a_text(text: str) -> None:
    assert "password=x1" not in redacted_text(f'{text} password=x1 "')[0]
    assert isinstance(DEFAULT.text(text, Counter()), str)


def test_a_lone_surrogate_stays_an_escape() -> None:
    assert f'["\\ud800 password={mark_of("credential", "x1", KEY)}"]' == redacted_text('["\\ud800 password=x1"]')[0]


def test_text_nested_deeper_than_it_is_followed_is_searched_as_it_stands() -> None:
    value = json.dumps({"password": "hunter22"})
    for _ in range(12):
        value = json.dumps({"n": value})
    result, counted = redacted_text(value)
    assert "hunter22" not in result
    assert 1 == sum(counted.values())
    assert isinstance(json.loads(result), dict)


def test_a_card_as_a_number_in_arguments_is_the_card_of_the_prose() -> None:
    payload = json.loads(redacted_text('{"card": 4111111111111111, "amount": 20.5}', EVERYTHING)[0])
    assert {"card": redacted_text("4111 1111 1111 1111", EVERYTHING)[0], "amount": 20.5} == payload
    assert MARK.fullmatch(payload["card"])


@pytest.mark.parametrize("wrapped", [False, True])
def test_of_a_long_history_only_what_is_found_is_changed(wrapped: bool) -> None:  # noqa: FBT001 — pytest's
    secret = SHAPED["openai_key"]
    messages: list[dict[str, Any]] = [
        {"role": "user", "n": position, "content": f"message {position}, 1.50"} for position in range(200)
    ]
    messages[3]["content"] = f"it is {secret}"
    messages[90]["arguments"] = json.dumps({"password": "hunter22"})
    messages[91] |= {"name": "X-Api-Key", "value": "abc"}
    messages[199]["command"] = ["login", "--password", "hunter22"]
    text = json.dumps({"messages": messages} if wrapped else messages, indent=1)
    redacted = redacted_text(text)[0]
    read = json.loads(redacted)["messages"] if wrapped else json.loads(redacted)
    complete = [clean(message) for message in messages]
    assert complete == read
    assert 4 == sum(new != old for new, old in zip(read, messages, strict=True))
    remaining = [
        line for line in text.splitlines() if "hunter22" not in line and secret not in line and "abc" not in line
    ]
    assert [line for line in redacted.splitlines() if not MARK.search(line)] == remaining
