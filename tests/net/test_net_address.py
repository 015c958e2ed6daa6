from __future__ import annotations

import logging
import socket
from functools import partial

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import UsageError
from otel_agentic.net import Address, listen, parse_address, require_allowed
from tests.snapshots import passage, raises

require = partial(require_allowed, token=False, mutual_tls=False, tls=False, insecure=False, section="receive")


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


@pytest.mark.parametrize(
    "text",
    ["", "4318", ":4318", "host:", "host:x", "::1:4318", "host:65536", "host:-1", "h:１", "host:" + "9" * 5000],  # noqa: RUF001 — a digit that is not ASCII
)
def test_other_shapes_are_a_usage_error_that_shows_the_right_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:4318"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    require(Address(host=host, port=1))


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",  # noqa: S104 — only checked
        "::",
        "::ffff:0.0.0.0",
        "::ffff:192.168.1.7",
        "192.168.1.7",
        "0",
        "127.1",
        "localhost.example",
        "me.example",
    ],
)
def test_other_addresses_need_a_token_or_certificates_or_an_open_word(host: str) -> None:
    address = Address(host=host, port=1)
    with raises(
        UsageError,
        snapshot(
            "address <address> can be reached from other machines: set a token (receive.token, receive.token_file, OTEL_AGENTIC_RECEIVE__TOKEN), or ask for certificates (receive.tls_client_ca_file), or allow it openly (receive.insecure, --insecure), or listen on 127.0.0.1"
        ),
        address=address,
    ):
        require(address)
    with pytest.raises(UsageError, match="set a token"):
        require(address, tls=True)  # encryption alone authenticates no caller
    require(address, token=True, tls=True)
    require(address, mutual_tls=True, tls=True)
    require(address, insecure=True)


def test_a_token_without_tls_on_a_public_address_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        require(Address(host="192.168.1.7", port=1), token=True, tls=True)
        require(Address(host="127.0.0.1", port=1), token=True)
        assert "" == caplog.text
        require(Address(host="192.168.1.7", port=4318), token=True)
    assert passage(caplog.text) == snapshot("192.168.1.7:4318: its token can be intercepted")
    assert "receive.tls_cert_file" in caplog.text


def test_a_name_of_this_machine_that_means_another_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # The resolver is the machine's own, with such an entry in its hosts file.
    lying = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.168.1.7", 4318))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: lying)
    with raises(UsageError, snapshot("localhost:4318: here that name is 192.168.1.7")):
        listen(Address(host="localhost", port=4318))


def test_a_taken_address_is_a_usage_error_that_says_what_to_do() -> None:
    with listen(parse_address("127.0.0.1:0")) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}.*another address"):
            listen(Address(host="127.0.0.1", port=port))


def test_an_address_of_another_machine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1:4318"):
        listen(parse_address("192.0.2.1:4318"))
