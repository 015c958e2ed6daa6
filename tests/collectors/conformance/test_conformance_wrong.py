"""Receivers that are wrong on purpose: the checks of that fault fail, with the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from inline_snapshot import snapshot

from collectors.conformance import CHECKS, Check, Fault, Outcome, Receiver, Target, run, select
from collectors.conformance._receiver import Clients
from tests.collectors.conformance.canned import answering, answering_grpc, http
from tests.snapshots import passage

TOKEN = "s3cret"  # noqa: S105 — made up for the tests
#: The canned receivers look at no token, so that the checks of tokens fail too.
QUICK: dict[str, Any] = {"token": TOKEN, "timeout_s": 20, "patience_s": 0.1, "max_bytes": 7 * 1024 * 1024}


def outcomes(*globs: str, url: str | None = None, grpc_address: str | None = None, **more: Any) -> dict[str, Outcome]:
    """Return the outcomes of the checks that the globs select, by id."""
    with Receiver(Target(url=url, grpc=grpc_address, **{**QUICK, **more})) as receiver:
        return {outcome.check.id: outcome for outcome in run(receiver, select(CHECKS, only=globs))}


def of_transport(transport: str) -> set[str]:
    return {check.id for check in CHECKS if check.transport == transport}


def results(outcomes_by_id: dict[str, Outcome], result: str) -> set[str]:
    return {name for name, outcome in outcomes_by_id.items() if outcome.result == result}


def test_no_http_check_passes_where_all_is_answered_500() -> None:
    with answering(lambda _head: http("500 Internal Server Error", "text/plain", b"oops")) as url:
        outcomes_by_id = outcomes("http.*", url=url, timeout_s=2)
    assert results(outcomes_by_id, "fail") == of_transport("http")
    assert passage(outcomes_by_id["http.protobuf.accepted"].reason) == snapshot("HTTP 500, text/plain, 'oops'")


def test_every_check_of_a_refusal_fails_where_all_is_answered_200() -> None:
    with answering(lambda _head: http("200 OK")) as url:
        outcomes_by_id = outcomes("http.*", url=url, timeout_s=2)
    assert results(outcomes_by_id, "fail") >= {
        *(f"http.gzip.{name}" for name in ("bomb", "multi_member", "not_gzip", "trailing", "truncated")),
        *(f"http.json.{name}" for name in ("truncated", "not_object", "wrong_shape", "not_utf8", "ids_base64")),
        *(
            f"http.data.{name}"
            for name in ("undecodable", "truncated", "not_utf8", "short_ids", "zero_ids", "half_good")
        ),
        *(f"http.data.{name}" for name in ("logs_as_traces", "traces_as_logs")),
        *(f"http.auth.{name}" for name in ("missing", "wrong", "untold")),
        *(f"http.error.{name}" for name in ("explained", "explained_json")),
        *(f"http.size.{name}" for name in ("beyond", "chunked")),
        *(f"http.slow.{name}" for name in ("head", "body", "silent")),
        *("http.method.get", "http.path.unknown", "http.type.unknown", "http.type.mismatch", "http.encoding.unknown"),
        *("http.json.type", "http.json.body", "http.head.length", "http.head.huge", "http.head.garbage"),
        *("http.head.two_lengths", "http.chunked.broken", "http.partial.json"),
    }
    assert "http.protobuf.accepted" in results(outcomes_by_id, "pass")


def test_a_receiver_that_hangs_up_is_reported_as_such() -> None:
    with answering(lambda _head: None) as url:
        outcomes_by_id = outcomes("http.*.accepted", "http.connection.*", url=url)
    assert results(outcomes_by_id, "pass") == set()
    assert passage(outcomes_by_id["http.chunked.accepted"].reason) == snapshot(
        "closed the connection without an answer"
    )


def test_a_receiver_that_never_answers_is_reported_as_such() -> None:
    with answering(lambda _head: b"") as url:
        outcomes_by_id = outcomes(
            "http.protobuf.*", "http.connection.reused", "http.expect.continue", "http.slow.*", url=url, timeout_s=0.5
        )
    assert results(outcomes_by_id, "fail") == set(outcomes_by_id)
    assert "no answer within 0.5 s" in outcomes_by_id["http.protobuf.accepted"].reason
    assert "still waiting after 0.5 s" in outcomes_by_id["http.slow.head"].reason


def test_an_answer_that_does_not_end_is_reported_as_such() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100000000\r\n\r\n"
    with answering(lambda _head: head + b"x" * 2_000_000) as url:
        outcomes_by_id = outcomes("http.protobuf.accepted", url=url)
    assert passage(outcomes_by_id["http.protobuf.accepted"].reason) == snapshot("got an answer that does not end")


def test_threads_share_no_client_that_may_close_the_connection_of_another() -> None:
    clients = Clients(None, 1.0)
    with ThreadPoolExecutor(2) as pool:
        together = threading.Barrier(2)
        pairs = [pool.submit(lambda: (together.wait(5), clients.get(), clients.get())[1:]) for _ in range(2)]
        result = [pair.result() for pair in pairs]
    clients.close()
    assert all(first is second for first, second in result)
    assert result[0][0] is not result[1][0]


def test_a_receiver_that_does_not_speak_http_is_reported_as_such() -> None:
    with answering(lambda _head: b"+OK POP3 ready\r\n\r\n") as url:
        outcomes_by_id = outcomes("http.chunked.accepted", "http.protobuf.accepted", url=url)
    assert results(outcomes_by_id, "fail") == set(outcomes_by_id)
    assert "not HTTP" in outcomes_by_id["http.chunked.accepted"].reason


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("http.protobuf.type", http("200 OK", "text/plain"), "expected content type application/x-protobuf"),
        ("http.protobuf.accepted", http("202 Accepted"), "expected HTTP 200"),
        ("http.protobuf.accepted", http("200 OK", body=b"fine"), "is not an ExportTraceServiceResponse in protobuf"),
        ("http.protobuf.accepted", http("200 OK", body=b"\x0a\x02\x08\x01"), "nothing rejected, but 1 were"),
        ("http.protobuf.unset", http("200 OK", body=b"\x0a\x00"), "partial_success unset"),
        ("http.json.type", http("200 OK"), "expected content type application/json"),
        ("http.json.body", http("200 OK", "application/json", b"ok"), "expected a body that is JSON"),
        ("http.json.body", http("200 OK", "application/json", b"[]"), "no other field than partialSuccess"),
        ("http.json.body", http("200 OK", "application/json", b'{"status": "ok"}'), "no other field"),
        ("http.json.body", http("200 OK", "application/json", b'{"partialSuccess": {}}'), "partial_success unset"),
        ("http.json.accepted", http("200 OK", "application/json", b'{"partialSuccess": 7}'), "not a response message"),
        ("http.json.accepted", http("200 OK", "application/json",
                                    b'{"partialSuccess": {"rejectedSpans": "many"}}'), "not a whole number"),
        ("http.logs.json", http("200 OK", "application/json",
                                b'{"partialSuccess": {"rejectedLogRecords": "1"}}'), "nothing rejected, but 1"),
        ("http.method.get", http("405 Method Not Allowed"), "the header `Allow` with POST in it"),
        ("http.error.explained", http("400 Bad Request", "text/plain", b"bad"), "not a google.rpc.Status"),
        ("http.error.explained", http("400 Bad Request", "application/json", b"{}"), "content type application/x-protobuf"),
        ("http.error.explained", http("400 Bad Request"), "a google.rpc.Status with a message"),
        ("http.error.explained_json", http("400 Bad Request"), "content type application/json"),
        ("http.gzip.bomb", http("503 Service Unavailable"), "expected HTTP 413"),
        ("http.gzip.truncated", http("422 Unprocessable Entity"), "expected HTTP 400"),
        ("http.data.deep_value", http("503 Service Unavailable"), "neither a crash nor a retryable status"),
        ("http.data.odd_times", http("429 Too Many Requests"), "neither a crash nor a retryable status"),
        ("http.partial.explained", http("200 OK", body=b"\x0a\x02\x08\x01"), "an error_message with the reason"),
        ("http.partial.json", http("200 OK", "application/json",
                                   b'{"partialSuccess": {"rejectedSpans": 1}}'), 'the text "1" as rejectedSpans'),
        ("http.auth.missing", http("401 Unauthorized"), "the header WWW-Authenticate"),
        ("http.auth.untold", http("401 Unauthorized", "text/plain", TOKEN.encode()), "without the token in it"),
        ("http.auth.untold", http("401 Unauthorized", "text/plain", b"", f"X-Debug: {TOKEN}"), "without the token in it"),
        ("http.parallel.answered", http("503 Service Unavailable"), "at least one accepted request"),
    ],
)  # fmt: skip
def test_one_wrong_answer_fails_the_check_that_is_about_it(name: str, answer: bytes, message: str) -> None:
    with answering(lambda _head: answer) as url:
        outcome = outcomes(name, url=url)[name]
    assert outcome.result == "fail"
    assert message in outcome.reason


def test_a_receiver_without_json_and_logs_is_not_blamed_for_each_of_their_checks() -> None:
    def reply(head: bytes) -> bytes:
        if b"/v1/logs" in head.partition(b"\r\n")[0]:
            return http("404 Not Found")
        return http("415 Unsupported Media Type") if b"application/json" in head else http("200 OK")

    with answering(reply) as url:
        outcomes_by_id = outcomes("http.json.*", "http.logs.*", "http.data.traces_as_logs", url=url)
    assert results(outcomes_by_id, "fail") == {"http.json.accepted"}
    assert results(outcomes_by_id, "skip") == set(outcomes_by_id) - {"http.json.accepted"}
    assert outcomes_by_id["http.json.deep"].reason == snapshot("the receiver reads no JSON: see http.json.accepted")


def test_a_busy_receiver_is_asked_again() -> None:
    heads: list[bytes] = []

    def reply(head: bytes) -> bytes:
        heads.append(head)
        return http("200 OK") if len(heads) > 2 else http("503 Service Unavailable")

    with answering(reply) as url:
        assert results(outcomes("http.protobuf.accepted", url=url, patience_s=20), "pass") == {"http.protobuf.accepted"}
    assert len(heads) == 3


def test_what_a_receiver_answers_cannot_speak_to_the_terminal() -> None:
    with answering(lambda _head: http("500 Error", "text/plain", b"\x1b[2J\x07 evil \xff" + b"x" * 5000)) as url:
        reason = outcomes("http.protobuf.accepted", url=url)["http.protobuf.accepted"].reason
    assert reason.isprintable()
    assert len(reason) < 600


def unknown(_data: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.UNKNOWN, "it crashed")
    raise AssertionError("not reached")


def test_no_grpc_check_of_a_success_passes_where_every_call_crashes() -> None:
    with answering_grpc(unknown) as address:
        outcomes_by_id = outcomes("grpc.*", grpc_address=address)
    # UNKNOWN is no code to be retried, and it has a message: these three ask for no more.
    fine = {"grpc.error.final", "grpc.error.explained", "grpc.error.details"}
    assert results(outcomes_by_id, "fail") == of_transport("grpc") - fine
    assert "UNKNOWN 'it crashed'" in outcomes_by_id["grpc.data.undecodable"].reason


def test_every_grpc_check_of_a_refusal_fails_where_every_call_succeeds() -> None:
    with answering_grpc(lambda _data, _context: b"") as address:
        outcomes_by_id = outcomes("grpc.*", grpc_address=address)
    assert results(outcomes_by_id, "fail") == {
        *(
            f"grpc.data.{name}"
            for name in ("undecodable", "truncated", "not_utf8", "short_ids", "zero_ids", "half_good")
        ),
        *("grpc.data.logs_as_traces", "grpc.data.traces_as_logs", "grpc.method.unknown", "grpc.service.unknown"),
        *("grpc.error.final", "grpc.error.explained", "grpc.error.details"),
        *("grpc.size.beyond", "grpc.gzip.bomb", "grpc.auth.missing", "grpc.auth.wrong"),
    }


def failing_with(code: grpc.StatusCode, message: str, details: Status | None) -> Callable[[bytes, Any], bytes]:
    def reply(_data: bytes, context: Any) -> bytes:
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
        context.set_code(code)
        context.set_details(message)
        return b""

    return reply


def with_retry_info() -> Status:
    status = Status(code=8, message="too large")
    status.details.add().Pack(RetryInfo())
    return status


@pytest.mark.parametrize(
    ("name", "reply", "message"),
    [
        ("grpc.error.final", failing_with(grpc.StatusCode.UNAVAILABLE, "later", None), "an error that is not retryable"),
        ("grpc.size.beyond", failing_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large", with_retry_info()),
         "no RetryInfo"),
        ("grpc.error.details", failing_with(grpc.StatusCode.INVALID_ARGUMENT, "bad", Status(code=13, message="bad")),
         "details with code 3"),
        ("grpc.error.explained", failing_with(grpc.StatusCode.INVALID_ARGUMENT, "", None), "a status message"),
        ("grpc.traces.accepted", lambda _data, _context: b"fine", "not an ExportTraceServiceResponse in protobuf"),
        ("grpc.traces.unset", lambda _data, _context: b"\x0a\x00", "partial_success unset"),
    ],
)  # fmt: skip
def test_one_wrong_grpc_answer_fails_the_check_that_is_about_it(
    name: str, reply: Callable[[bytes, Any], bytes], message: str
) -> None:
    with answering_grpc(reply) as address:
        outcome = outcomes(name, grpc_address=address)[name]
    assert outcome.result == "fail"
    assert message in outcome.reason


def test_a_fault_says_what_was_sent_what_came_and_what_was_expected() -> None:
    def check() -> Check:
        return next(item for item in CHECKS if item.id == "http.gzip.truncated")

    with answering(lambda _head: http("200 OK")) as url, Receiver(Target(url=url, timeout_s=5)) as receiver:
        verdict = check().run(receiver)
    assert verdict == Fault(
        sent="gzip without its last 9 bytes",
        actual="HTTP 200, application/x-protobuf, an empty body",
        expected="HTTP 400",
    )
