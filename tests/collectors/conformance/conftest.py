from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from collectors.conformance import Receiver, Target
from tests.live.running_collector import OPEN, live_settings, running

TOKEN = "s3cret-token-of-the-tests"  # noqa: S105 — made up for the tests
MAX_BYTES = 8 * 1024 * 1024
#: Short deadlines and a small limit: the checks that wait and those that send much take a second each.
RECEIVE: dict[str, Any] = {
    "http": "127.0.0.1:0",
    "grpc": "127.0.0.1:0",
    "token": TOKEN,
    "header_timeout_s": 0.5,
    "body_timeout_s": 0.5,
    "max_request_bytes": MAX_BYTES,
}


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Run our receiver, with a store behind it, for all checks."""
    db = tmp_path_factory.mktemp("conformance") / "spans.duckdb"
    with running(live_settings(db, **OPEN, receive=RECEIVE)) as (_, server):
        yield Target(
            url=server.http,
            grpc=server.grpc,
            token=TOKEN,
            timeout_s=30,
            max_bytes=MAX_BYTES,
        )


@pytest.fixture(scope="session")
def receiver(target: Target) -> Iterator[Receiver]:
    with Receiver(target) as speaking:
        yield speaking
