"""What goes wrong with a call of a model: is another try of use, and when?"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.judges.call_problems import Kind, problem_of
from otel_agentic.judges.inquiry import Backoff
from otel_agentic.judges.messages import UnreadableReplyError

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class Response:
    status_code: int
    headers: dict[str, str] = field(default_factory=dict)


class ProviderError(Exception):
    """An error as clients of providers raise it."""

    def __init__(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.response = Response(status, headers or {})


class RateLimitError(Exception):
    status_code = 429


class GoogleError(Exception):
    code = 503


class BotoError(Exception):
    response: ClassVar[dict[str, Any]] = {"ResponseMetadata": {"HTTPStatusCode": 403}}


class ModelNotFoundError(Exception):
    pass


class AuthenticationFailed(Exception):  # noqa: N818 — a third-party name
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((ProviderError(status), "again") for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        *((ProviderError(status), "refused") for status in (401, 402, 403)),
        *((ProviderError(status, "no such thing"), "final") for status in (400, 404, 413, 422)),
        (ProviderError(429, "insufficient_quota: pay first"), "refused"),
        (ProviderError(400, "Your credit balance is too low"), "refused"),
        (RateLimitError(), "again"),
        (GoogleError(), "again"),
        (BotoError(), "refused"),
        (ModelNotFoundError(), "final"),
        (AuthenticationFailed(), "refused"),
        (TimeoutError(), "again"),
        (ConnectionResetError(), "again"),
        (RuntimeError("Event loop is closed"), "again"),
        (ProviderError(200, "a body without content"), "again"),
        (ValueError("unexpected end of data"), "reply"),
        (KeyError("choices"), "reply"),
        (UnreadableReplyError("empty", "the reply was empty"), "reply"),
        (NotImplementedError(), "unable"),
        (TypeError("_generate() got an unexpected keyword argument 'tools'"), "unable"),
        (ProviderError(400, "'response_format' of type 'json_schema' is not supported with this model"), "unable"),
        (ProviderError(400, "registry/llama3 does not support tools"), "unable"),
        (ProviderError(404, "No endpoints found that support tool use"), "unable"),
        (ProviderError(422, "Extra inputs are not permitted: tool_choice"), "unable"),
        (ProviderError(500, "tools param requires --jinja flag"), "unable"),
    ],
)
def test_each_error_has_its_meaning(error: Exception, kind: Kind) -> None:
    assert kind == problem_of(error).kind


@pytest.mark.parametrize(
    ("error", "messages"),
    [
        (ProviderError(500, "boom\n\n  at line 3"), "HTTP 500: boom at line 3"),
        (ProviderError(500, "Error code: 500 - boom"), "Error code: 500 - boom"),
        (ProviderError(503), "HTTP 503: ProviderError"),
        (TimeoutError("no reply within 60 s"), "no reply within 60 s"),
        (ValueError("no choices"), "the reply could not be read: ValueError: no choices"),
        (OSError("lost"), "OSError: lost"),
        (ProviderError(401, "bad key sk-secret-7"), "HTTP 401: bad key ***"),
    ],
)
def test_a_problem_is_reported_in_one_line_without_secrets(error: Exception, messages: str) -> None:
    assert messages == problem_of(error, ["sk-secret-7"]).message


def test_the_root_cause_is_reported() -> None:
    error = OSError("Connection error.")
    error.__cause__ = RuntimeError("wrapped")
    error.__cause__.__cause__ = ConnectionRefusedError("no process listens on port 9")
    assert problem_of(error).message == snapshot(
        "OSError: Connection error. (ConnectionRefusedError: no process listens on port 9)"
    )


def test_a_long_trouble_is_cut() -> None:
    assert 300 == len(problem_of(ProviderError(500, "x" * 10_000)).message)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 2 "}, 2.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Fri, 01 May 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 01 May 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_read(headers: dict[str, str], wait_s: float | None) -> None:
    assert wait_s == problem_of(ProviderError(429, headers=headers), now=NOW).wait_s


@given(
    tries=st.integers(1, 10_000),
    first_s=st.floats(0, 100),
    longest_s=st.floats(0, 1_000),
    asked_s=st.none() | st.floats(0, 1e12),
    seed=st.integers(),
)
def test_a_wait_is_never_longer_than_the_longest(
    tries: int, first_s: float, longest_s: float, asked_s: float | None, seed: int
) -> None:
    wait_s = Backoff(first_s=first_s, longest_s=longest_s).wait_s(tries, asked_s, Random(seed))  # noqa: S311 — jitter
    assert 0.0 <= wait_s <= longest_s


def test_what_a_provider_asks_for_is_waited_in_full() -> None:
    assert 2.0 <= Backoff(first_s=0.1, longest_s=30).wait_s(1, 2.0, Random(1)) <= 2.2  # noqa: S311 — jitter
