from __future__ import annotations

import pytest
from pydantic import SecretStr

from otel_agentic.errors import UsageError
from otel_agentic.net import Address, is_authorized, listen, parse_address, require_allowed

TOKEN = SecretStr("s3cret")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:4318", Address(host="127.0.0.1", port=4318)),
        ("localhost:0", Address(host="localhost", port=0)),
        ("[::1]:4318", Address(host="::1", port=4318)),
        ("0.0.0.0:65535", Address(host="0.0.0.0", port=65535)),  # noqa: S104 — only parsed
    ],
)
def test_an_address_reads_and_writes_the_same(text: str, expected: Address) -> None:
    assert parse_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", "4318", ":4318", "host:", "host:x", "::1:4318", "host:65536", "host:-1", "h:１"])  # noqa: RUF001 — a digit that is not ASCII
def test_other_shapes_are_a_usage_error_that_shows_the_right_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:4318"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    require_allowed(Address(host=host, port=1), token=None, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "collector.example"])  # noqa: S104 — only checked
def test_other_addresses_need_a_token_or_an_open_word(host: str) -> None:
    address = Address(host=host, port=1)
    with pytest.raises(UsageError, match="set a token"):
        require_allowed(address, token=None, insecure=False)
    require_allowed(address, token=TOKEN, insecure=False)
    require_allowed(address, token=None, insecure=True)


def test_a_taken_address_is_a_usage_error_that_says_what_to_do() -> None:
    with listen(parse_address("127.0.0.1:0")) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}.*another address"):
            listen(Address(host="127.0.0.1", port=port))


def test_an_address_of_another_machine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1:4318"):
        listen(parse_address("192.0.2.1:4318"))


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", b"Bearer s3cret"])
def test_the_right_bearer_token_is_let_in(header: str | bytes) -> None:
    assert is_authorized(header, TOKEN)


@pytest.mark.parametrize("header", ["Bearer s3cre", "Basic s3cret", "s3cret", "Bearer \udcff", "", None])
def test_anything_else_is_let_in_only_where_no_token_is_set(header: str | None) -> None:
    assert not is_authorized(header, TOKEN)
    assert is_authorized(header, None)
