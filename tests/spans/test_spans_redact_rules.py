"""Redacted and unchanged parts of plain text."""

from __future__ import annotations

import json
import re

import pytest
from inline_snapshot import snapshot
from pydantic import ValidationError

from otel_agentic.config import RedactionSettings, load_settings
from otel_agentic.errors import ConfigError
from otel_agentic.redaction.fields import MARK, mark_of
from tests.snapshots import exactly
from tests.spans.secrets_made_up import (
    BODY,
    DEFAULT,
    EVERYTHING,
    FIELDS,
    JWT,
    KEY,
    PEM,
    PERSONAL,
    PLACED,
    SHAPED,
    clean,
    redacted_text,
    redactor,
)


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items())
@pytest.mark.parametrize("around", ["{}", "key: {} (old)", "a={};b", "“{}”", "x {}\n"])
def test_a_secret_of_a_known_shape_is_taken_and_named(kind: str, secret: str, around: str) -> None:
    result, counted = redacted_text(around.format(secret))
    assert around.format(mark_of(kind, secret, KEY)) == result
    assert {f"credential redacted: {kind}": 1} == counted


@pytest.mark.parametrize(("kind", "text", "secret"), [(kind, *both) for kind, both in PLACED.items()])
def test_a_secret_in_its_place_is_taken_and_the_place_stays(kind: str, text: str, secret: str) -> None:
    assert text.replace(secret, mark_of(kind, secret, KEY)) == redacted_text(text)[0]


@pytest.mark.parametrize(
    ("kind", "text", "secret"),
    [
        ("bearer", "h=Authorization%3A%20Bearer%20abcdefgh12345678&x", "abcdefgh12345678"),
        ("bearer", "h=a+Bearer+abcdefgh12345678&x", "abcdefgh12345678"),
        ("url_password", "next=redis%3A%2F%2F%3Ahunter%2122%40db.local&b=2", "hunter%2122"),
    ],
)
def test_a_secret_in_its_place_is_taken_from_what_is_encoded_for_a_url(kind: str, text: str, secret: str) -> None:
    assert text.replace(secret, mark_of(kind, secret, KEY)) == redacted_text(text)[0]


@pytest.mark.parametrize(("kind", "secret"), SHAPED.items())
@pytest.mark.parametrize(
    "before", ["%3D", "?next=%2Fa%2f", "old_", "\x1b[1;31m", '{"cut": "line\\n', '["a\\u001b[0m\\t']
)
def test_letters_and_digits_that_are_no_part_of_a_word_hide_no_secret(kind: str, secret: str, before: str) -> None:
    assert f"{before}{mark_of(kind, secret, KEY)}" == redacted_text(before + secret)[0]


@pytest.mark.parametrize(
    "name",
    [
        *("password_2", "password_confirmation", "newPasswordConfirm", "SecretString", "API_KEY_PROD", "secret_hash"),
        *("openai_key", "Ocp-Apim-Subscription-Key", "http.request.header.authorization", "Proxy-Authorization"),
    ],
)
def test_names_of_credentials_are_known_by_more_than_their_last_word(name: str) -> None:
    assert {name: mark_of("credential", "a b", KEY)} == clean({name: "a b"})


@pytest.mark.parametrize("header", ['Digest username="bob", response="00c0ffee"', "Signature a=1, b=2", "opensesame"])
def test_the_header_of_an_authorization_is_taken_whole(header: str) -> None:
    mark = mark_of("credential", header, KEY)
    assert {"http.request.header.authorization": [mark]} == clean({"http.request.header.authorization": [header]})


@pytest.mark.parametrize(("text", "secret"), FIELDS.items())
def test_the_value_of_a_credentials_field_is_taken_in_any_writing(text: str, secret: str) -> None:
    assert text.replace(secret, mark_of("credential", secret, KEY)) == redacted_text(text)[0]


@pytest.mark.parametrize(("kind", "text"), PERSONAL.items())
def test_personal_data_is_taken_only_where_the_settings_say_so(kind: str, text: str) -> None:
    sentence = f"It is {text}, as of today."
    assert sentence == redacted_text(sentence)[0]
    result, counted = redacted_text(sentence, redactor(personal=[kind]))
    assert exactly(result, value=MARK.search(result)[0]) == snapshot("It is <value>, as of today.")  # type: ignore[index] # the assertion fails without it
    assert {f"personal data redacted: {kind}": 1} == counted


@pytest.mark.parametrize(
    "text",
    [
        "task-force-on-something-long-enough-for-a-key 12",
        "disk-0123456789012345678901234567890",
        "sk-learn-for-complete-beginners-in-python",
        "sk-learn-for-complete-beginners-2024",
        "key-performance-indicators-2024-quarter-3",
        "lin_api_documentation_of_endpoints_2024",
        "docker run -u 1000:1000 --user node:nodejs me",
        "cp --password-file x; use --password to set it; --token-count 1234567890123456",
        "password=$password, secret=%s, api_key={api_key}, passwd=$DB_PASS_2",
        "rsync -u host:backup2024/dir",
        '{"pwd": "C:\\\\Users\\\\bob"}',
        '{"usage": {"input_tokens": 512, "max_tokens": 4096, "total_tokens": 9}}',
        '{"token": "Hello", "logprob": -0.1}',
        '{"next_page_token": "CAUQAAabcdef1234567", "pageToken": "EAAaBlBUOkNBVQ123456"}',
        "Enter your password: it must be long",
        "the secret: patience and time",
        "password: str, token: str | None = None",
        "prior authorization: required",
        '{"authorization": "approved"}',
        "basic information and bearer responsibilities",
        "PWD=/home/bob OLDPWD=/tmp",
        "see https://example.com:8080/path?session_id=abcdefgh12345678",
        "git@github.com:bob/repo.git, bob@example.com",
        "trace 4bf92f3577b34da6a3ce929d0e0e4736, span 00f067aa0ba902b7",
        "call_Zk3Yq8Rt5Wn2Vb7Xc1Ld4Mf6, chatcmpl-Zk3Yq8Rt5Wn2Vb7Xc1Ld4Mf6Hg9Jp",
        "the header -----BEGIN PRIVATE KEY----- begins such a file",
        "eyJ is how a JWT begins; eyJhbGci.abcd is too short",
        '{"cookie_consent": "yes", "password_length": 12, "passwords": 3, "secret_name": "db"}',
        '{"has_password": true, "password": null, "forgot_password": "false", "api_key": ""}',
        '{"properties": {"password": {"type": "string", "description": "The password"}}, "required": ["password"]}',
        '{"password": "<your password>", "api_key": "${OPENAI_API_KEY}", "secret": "***"}',
    ],
)
def test_what_only_sounds_like_a_secret_stays(text: str) -> None:
    assert (text, {}) == redacted_text(text)


@pytest.mark.parametrize("mark", ["__REDACTED__", "[Scrubbed due to 'password']", "[REDACTED]", "<elided>"])
def test_marks_of_others_stay_so_that_they_still_mean_not_captured(mark: str) -> None:
    assert {"password": mark} == clean({"password": mark})


@pytest.mark.parametrize(
    "number",
    [
        "4111 1111 1111 1112",  # Luhn
        "1234567812345670",  # no scheme begins so
        "1731234567890123456",  # nanoseconds since the epoch
        "1731234567890",  # milliseconds
        "00000000-0000-4000-8000-411111111111",
    ],
)
def test_numbers_that_are_no_cards_stay(number: str) -> None:
    assert number == redacted_text(number, redactor(personal=["card"]))[0]


@pytest.mark.parametrize("number", ["378282246310005", "3782 822463 10005", "30569309025904", "5555-5555-5555-4444"])
def test_cards_of_other_lengths_are_taken(number: str) -> None:
    assert MARK.fullmatch(redacted_text(number, redactor(personal=["card"]))[0])


def test_a_card_is_found_next_to_other_digits() -> None:
    redacted = redacted_text("card 4111 1111 1111 1111 12/27", redactor(personal=["card"]))[0]
    assert re.fullmatch(r"card \[redacted:card:\w{8}\] 12/27", redacted)


def test_one_value_has_one_mark_however_it_is_written() -> None:
    texts = ("4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111")
    assert 1 == len({redacted_text(text, EVERYTHING)[0] for text in texts} | {clean(4111111111111111, EVERYTHING)})
    assert redacted_text("Bob@Example.com", EVERYTHING)[0] == redacted_text("bob@example.com", EVERYTHING)[0]
    assert redacted_text("DE89370400440532013000", EVERYTHING)[0] == redacted_text(PERSONAL["iban"], EVERYTHING)[0]


def test_one_value_has_another_mark_under_another_key() -> None:
    assert mark_of("jwt", JWT, KEY) != mark_of("jwt", JWT, b"another")


def test_a_secret_has_the_same_mark_in_a_field_and_in_prose() -> None:
    secret = SHAPED["openai_key"]
    in_field = clean({"api_key": secret})["api_key"]
    in_header = clean({"authorization": f"Bearer {secret}"})["authorization"]
    assert redacted_text(f"it is {secret}!")[0] == f"it is {in_field}!"
    assert f"Bearer {in_field}" == in_header


def test_what_overlaps_is_taken_whole_and_named_after_what_is_longest() -> None:
    result, counted = redacted_text(f"password='{SHAPED['openai_key']} or {JWT}'")
    assert re.fullmatch(r"password='\[redacted:credential:\w{8}\]'", result)
    assert {"credential redacted: credential": 1} == counted


def test_a_private_key_that_was_cut_off_is_taken_to_its_end() -> None:
    assert re.fullmatch(r"\[redacted:private_key:\w{8}\]", redacted_text(PEM[:60])[0])


def test_credentials_stay_where_the_settings_say_so() -> None:
    text = f"password=hunter22 {JWT}"
    assert text == redacted_text(text, redactor(credentials=False))[0]


def test_kept_fields_keep_values_but_not_keys_of_a_known_shape() -> None:
    by = redactor(keep_fields=["*_cookie", "secret"])
    result = clean({"favourite_cookie": "oat", "secret": SHAPED["openai_key"], "password": "x1"}, by)
    assert "oat" == result["favourite_cookie"]
    assert result["secret"].startswith("[redacted:openai_key:")
    assert result["password"].startswith("[redacted:credential:")
    assert "favourite_cookie=oat" == redacted_text("favourite_cookie=oat", by)[0]


def test_a_pattern_of_ones_own_names_its_kind() -> None:
    by = redactor(custom={"project": 'Falke "[A-Z]+"', "number": "K-[0-9]{6}"})
    assert {"custom redacted: project": 1, "custom redacted: number": 1} == redacted_text(
        'Falke "NORD" of K-123456', by
    )[1]
    nested = json.dumps({"a": json.dumps({"b": 1, "c": 'call Falke "NORD"'})})
    inner = json.loads(json.loads(redacted_text(nested, by)[0])["a"])
    mark = mark_of("project", 'Falke "NORD"', KEY)
    assert {"b": 1, "c": f"call {mark}"} == inner


@pytest.mark.parametrize(
    ("custom", "answer"),
    [
        ({"x": "(?<=a)b"}, "custom.x: '(?<=a)b' cannot be used: invalid perl operator"),
        ({"x": "(a"}, "custom.x: '(a' cannot be used: missing"),
        ({"x": "a*"}, "it matches the empty text"),
        ({"X y": "a"}, "custom.X y"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_by_name(custom: dict[str, str], answer: str) -> None:
    with pytest.raises(ConfigError, match="redaction") as refused:
        load_settings(redaction={"custom": custom})
    assert answer in str(refused.value)
    with pytest.raises(ValidationError):
        RedactionSettings(custom=custom)


def test_a_bearer_token_of_no_known_shape_is_taken_without_a_header() -> None:
    assert f"send bearer {mark_of('bearer', BODY, KEY)}" == redacted_text(f"send bearer {BODY}", DEFAULT)[0]
