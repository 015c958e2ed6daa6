"""`python -m collectors.conformance`: what it prints, in which form, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot

from collectors.conformance import CHECKS, Target, select
from collectors.conformance._run import command
from otel_agentic.errors import UsageError
from tests.collectors.conformance.canned import answering, answering_grpc, http
from tests.collectors.conformance.conftest import TOKEN
from tests.snapshots import opening, raises


@pytest.fixture
def faulty_receiver() -> Iterator[str]:
    """A receiver that answers 200 and nothing else."""
    with answering(lambda _head: http("200 OK")) as url:
        yield url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_a_receiver_that_passes_ends_with_0(target: Target) -> None:
    done = run(str(target.url), "--grpc", str(target.grpc), "--token", TOKEN, "--only", "*.accepted")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "8 passed, 0 failed, 0 skipped"


def test_a_failure_ends_with_1_and_says_what_to_do(faulty_receiver: str) -> None:
    done = run(faulty_receiver, "--only", "http.gzip.truncated", "--only", "http.protobuf.accepted")
    assert done.exit_code == 1
    assert done.stdout.split("\n\n")[1].splitlines() == snapshot(
        [
            "MUST http.gzip.truncated: truncated gzip is refused with 400",
            "  sent      gzip without its last 9 bytes",
            "  got       HTTP 200, application/x-protobuf, an empty body",
            "  expected  HTTP 400",
            "  to do     answer 400 to compressed bytes that do not open: a retryable status would repeat them forever",
            "  see       OTLP: OTLP/HTTP Response, Bad Data",
        ]
    )
    assert done.stdout.splitlines()[-1] == snapshot("1 passed, 1 failed (1 MUST), 0 skipped")


def test_what_fails_below_the_wanted_severity_ends_with_0(faulty_receiver: str) -> None:
    assert run(faulty_receiver, "--only", "http.gzip.trailing", "--fail-on", "should").exit_code == 0
    assert run(faulty_receiver, "--only", "http.gzip.trailing", "--fail-on", "guard").exit_code == 1


def test_json_tells_each_check(faulty_receiver: str) -> None:
    done = run(faulty_receiver, "--only", "http.gzip.t*", "--only", "grpc.gzip.bomb", "--format", "json")
    payload = json.loads(done.stdout)
    assert payload["summary"] == {"passed": 0, "failed": 2, "skipped": 1}
    first = payload["checks"][0]
    assert set(first) == {
        *("id", "severity", "holds", "spec", "fix", "result", "reason", "sent", "got", "expected", "duration_s")
    }
    assert (first["id"], first["result"], first["expected"]) == ("http.gzip.truncated", "fail", "HTTP 400")
    assert (payload["checks"][2]["result"], payload["checks"][2]["sent"]) == ("skip", None)


def test_junit_is_read_by_others(faulty_receiver: str) -> None:
    done = run(faulty_receiver, "--only", "http.gzip.t*", "--only", "grpc.gzip.bomb", "--format", "junit")
    suite = ET.fromstring(done.stdout.encode())  # noqa: S314 — made by ourselves
    assert suite.attrib == {"name": "otlp-conformance", "tests": "3", "failures": "2", "skipped": "1"}
    assert [case.get("name") for case in suite] == ["truncated", "trailing", "bomb"]
    assert "expected HTTP 400" in (suite[0][0].text or "")


def test_the_list_needs_no_receiver() -> None:
    listed = json.loads(run("--list", "--format", "json").stdout)
    assert [check.id for check in CHECKS] == [item["id"] for item in listed]
    table = run("--list", "--only", "http.slow.*").stdout
    assert [line.split()[0] for line in table.splitlines()] == [
        "check",
        "http.slow.head",
        "http.slow.body",
        "http.slow.silent",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "missing receiver: pass its URL"),
        (("localhost:4318",), 2, "expected http://host:port"),
        (("ftp://localhost",), 2, "expected http://host:port"),
        (("--grpc", "nonsense"), 2, "expected host:port"),
        (("http://127.0.0.1:1", "--only", "no.such"), 2, "no check is called 'no.such'; --list shows them all"),
        (("http://127.0.0.1:1", "--header", "secretvalue"), 2, "expected NAME=VALUE"),
        (("http://127.0.0.1:1",), 5, "no connection to http://127.0.0.1:1"),
        (("--grpc", "127.0.0.1:1", "--timeout", "1"), 5, "no gRPC server at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_checked_is_one_line_with_the_right_exit_code(
    arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(*arguments)
    assert (code, "") == (done.exit_code, done.stdout)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_receiver_that_accepts_connections_and_never_answers_is_reported_at_once() -> None:
    never = threading.Event()
    with answering(lambda _head: b"") as url:
        over_http = run(url, "--timeout", "0.3")
    with answering_grpc(lambda _data, _context: bytes(never.wait(3))) as address:
        over_grpc = run("--grpc", address, "--timeout", "0.3")
        never.set()

    silence = "did not respond to one span within 0.3 s (--timeout)\n"
    assert (5, "", f"Error: {url} accepts connections, but {silence}") == (
        over_http.exit_code,
        over_http.stdout,
        over_http.stderr,
    )
    assert (5, f"Error: {address} uses gRPC, but {silence}") == (over_grpc.exit_code, over_grpc.stderr)


def test_a_token_is_never_shown(target: Target) -> None:
    for form in ("table", "json", "junit"):
        done = run(str(target.url), "--token", f"{TOKEN}-wrong", "--only", "http.protobuf.*", "--format", form)
        assert done.exit_code == 1
        assert TOKEN not in done.output


def test_headers_are_sent_with_each_request() -> None:
    heads: list[bytes] = []

    def reply(head: bytes) -> bytes:
        heads.append(head.lower())
        return http("200 OK")

    with answering(reply) as url:
        run(
            f"{url}/base/",
            "--header",
            "X-Tenant=a=b",
            "--only",
            "http.protobuf.accepted",
            "--only",
            "http.chunked.accepted",
        )
    requests = [head for head in heads if head.startswith(b"post ")]  # the others are ends of chunked bodies
    assert len(requests) == 3  # the first checks that a process answers
    for head in requests:
        assert head.startswith(b"post /base/v1/traces http/1.1\r\n")
        assert b"\r\nx-tenant: a=b" in head


def test_globs_choose_and_leave_out() -> None:
    chosen = select(CHECKS, only=["grpc.*"], skip=["grpc.data.*", "*.gzip.*"])
    assert {"grpc"} == {check.transport for check in chosen}
    assert not [check.id for check in chosen if ".data." in check.id or ".gzip." in check.id]
    with raises(UsageError, snapshot("no check is called 'http'")):
        select(CHECKS, skip=["http"])


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "collectors.conformance", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert opening(done.stdout) == snapshot("Usage: python -m collectors.conformance [OPTIONS] [URL]")
