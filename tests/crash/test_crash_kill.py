"""A collector that is killed again and again under real exporters loses nothing acknowledged and stores nothing twice."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.errors import StoreError
from tests.crash.outcome import conversations_of, finish, lost_or_doubled, never_killed
from tests.crash.sending import Sender, acknowledged, conversation, sending

if TYPE_CHECKING:
    from tests.crash.conftest import MakeServer
    from tests.crash.serving import Server

#: Longest time between the start of a collector and its kill, s. It rebuilds, scores and makes checkpoints meanwhile.
LONGEST_LIFE_S = 0.6
#: Longest time after which a collector is killed that was just started, s.
LONGEST_START_S = 1.5


def kill_at_random_moments(server: Server, kills: int, seed: int) -> list[Sender]:
    """Kill a collector under its senders; return them after the last one was acknowledged by a collector that lived on."""
    draw = random.Random(seed)  # noqa: S311 — moments, no secrets
    server.start()
    with sending(f"http://{server.http}", server.grpc) as senders:
        for kill in range(4 * kills // 5):  # of five kills one meets a start
            before = [sender.acknowledged for sender in senders]
            time.sleep(draw.uniform(0.02, LONGEST_LIFE_S))
            server.kill()
            if kill % 4 == 0:  # and the next one while it is just starting, and may be reading its log
                server.start(wait=False)
                time.sleep(draw.uniform(0.0, LONGEST_START_S))
                server.kill()
            server.start()
            check_round(server, senders, before)
        last = [sender.acknowledged for sender in senders]
        deadline = time.monotonic() + 120
        while any(sender.acknowledged == was for sender, was in zip(senders, last, strict=True)):
            assert time.monotonic() < deadline, server.log
            time.sleep(0.02)
    return senders


def check_round(server: Server, senders: list[Sender], before: list[int]) -> None:
    """Check that the next collector has the spans that the previous one acknowledged."""
    expected = [
        sender.spans(number)[0].trace_id
        for sender, first in zip(senders, before, strict=True)
        for number in range(first, sender.acknowledged)
    ]
    ((doubled,),) = server.ask("SELECT count(*) - count(DISTINCT trace_id || span_id) FROM spans")
    listed = ", ".join(f"'{trace_id}'" for trace_id in expected) or "''"
    ((complete,),) = server.ask(
        "SELECT count(*) FROM "  # noqa: S608 — ids of our own making
        f"(SELECT trace_id FROM spans WHERE trace_id IN ({listed}) GROUP BY trace_id HAVING count(*) = 4)"
    )
    assert (len(expected), 0) == (complete, doubled)
    assert [] == list(server.db.parent.glob("*.damaged-*"))  # a torn end of the log is no damage


def test_no_acknowledged_span_is_lost_or_doubled_by_kills_and_conversations_are_those_of_a_quiet_life(
    make_server: MakeServer, cases: Path, tmp_path: Path
) -> None:
    server = make_server("--cases", str(cases), STORE__CHECKPOINT_THRESHOLD_MB=1)
    senders = kill_at_random_moments(server, kills=2, seed=time.time_ns())
    server.kill()

    check_all(server.db, senders, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_acknowledged_span_is_lost_or_doubled_by_two_hundred_kills(
    make_server: MakeServer, cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    server = make_server("--cases", str(cases), STORE__CHECKPOINT_THRESHOLD_MB=1)
    senders = kill_at_random_moments(server, kills=200, seed=time.time_ns())
    server.kill()

    sent = len(acknowledged(senders))
    refused = sum(sender.refused for sender in senders)
    with capsys.disabled():
        sys.stdout.write(
            f"\n200 kills: {4 * sent} spans of {sent} requests acknowledged, {refused} exports failed and were sent again; "
            f"{time.monotonic() - began:.0f} s\n"
        )
    check_all(server.db, senders, tmp_path)


def check_all(db: Path, senders: list[Sender], tmp_path: Path) -> None:
    """Check that the file holds all acknowledged spans once, and equals that of a collector that was never killed."""
    assert [] == lost_or_doubled(db, acknowledged(senders))
    finish(db)
    quiet = tmp_path / "quiet.duckdb"
    never_killed(
        quiet,
        [
            conversation(number, number_of_sender)
            for number, sender in enumerate(senders)
            for number_of_sender in range(sender.acknowledged + 1)
        ],
    )
    theirs = {str(item["conversation_id"]) for item in conversations_of(db)}
    # The last conversation of a sender may be stored although its acknowledgement never came.
    expected = [item for item in conversations_of(quiet) if item["conversation_id"] in theirs]
    assert expected == conversations_of(db)


@pytest.mark.slow  # one that dies right after the schema was applied is in tests/store/test_store_migrations.py
def test_a_file_killed_while_it_is_made_is_finished_by_the_next_start(make_server: MakeServer) -> None:
    server = make_server()
    server.start(wait=False)
    deadline = time.monotonic() + 120
    while not server.db.exists():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    time.sleep(random.uniform(0.0, 0.15))  # noqa: S311 — a moment while the migrations are applied
    server.kill()
    try:
        server.start()
    except AssertionError as error:  # a process that ends logs the reason
        raise StoreError(server.log) from error

    assert [[0]] == server.ask("SELECT count(*) FROM spans")
