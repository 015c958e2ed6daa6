"""Conditions under which a check does not apply, because the receiver lacks the checked feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.conformance._check import JSON, PROTOBUF, Skip

if TYPE_CHECKING:
    from collectors.conformance._check import Call
    from collectors.conformance._receiver import Receiver


def no_json(receiver: Receiver) -> Skip | None:
    """Skip if JSON is not supported; `http.json.accepted` reports that."""
    return None if receiver.reads(JSON, "traces") else Skip(reason="the receiver reads no JSON: see http.json.accepted")


def no_logs(receiver: Receiver, kind: str = PROTOBUF) -> Skip | None:
    """Skip where no logs are received: no signal is obligatory."""
    return None if receiver.reads(kind, "logs") else Skip(reason=f"the receiver takes no logs as {kind} at /v1/logs")


def no_such_service(call: Call) -> Skip | None:
    """Skip if the receiver has no service for a signal; `grpc.traces.accepted` reports a missing one for traces."""
    return Skip(reason="the receiver does not take this signal over gRPC") if call.code == "UNIMPLEMENTED" else None


def no_token(receiver: Receiver) -> Skip | None:
    """Skip where no token was given, so none can be left out."""
    return None if receiver.target.token is not None else Skip(reason="no token was given (--token)")


def no_size(receiver: Receiver) -> Skip | None:
    """Skip if the largest request of the receiver is unknown."""
    if receiver.target.max_bytes:
        return None
    return Skip(reason="the receiver's limit is not known (--max-bytes)")
