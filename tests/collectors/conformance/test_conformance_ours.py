"""Our own receivers, with a store behind them, pass every check of the kit, over HTTP and over gRPC."""

from __future__ import annotations

import pytest

from collectors.conformance import CHECKS, Check, Receiver, run_check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_our_receiver_passes(receiver: Receiver, check: Check) -> None:
    outcome = run_check(receiver, check)
    assert ("pass", "") == (outcome.result, outcome.reason)


def test_names_are_unique_and_say_the_transport() -> None:
    names = [check.id for check in CHECKS]
    assert len(set(names)) == len(names)
    assert {name.partition(".")[0] for name in names} == {"http", "grpc"}


def test_each_check_says_what_must_hold_where_that_is_written_and_what_to_do() -> None:
    for check in CHECKS:
        assert check.holds, check.id
        assert check.fix, check.id
        assert check.spec.startswith(("OTLP: ", "RFC ", "gRPC", "proto3: ", "ProtoJSON ", "none: ")), check.id
