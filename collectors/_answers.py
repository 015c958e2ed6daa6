"""What a sender is told: the same words and codes on HTTP and on gRPC."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no py.typed

from otel_agentic.errors import UNFORESEEN, OtelAgenticError, codes_of
from otel_agentic.spans import Receipt

if TYPE_CHECKING:
    from otel_agentic.spans import Sink, SpanBatch

#: When a refused sender should try again, seconds: a full queue drains within one.
RETRY_AFTER_S: Final = 1

#: The message of a partial success names at most so many reasons.
_MOST_REASONS: Final = 10

_logger = logging.getLogger(__name__)


def deliver(sink: Sink, batch: SpanBatch) -> Receipt:
    """Return the sink's receipt; an empty request succeeds without asking it."""
    return Receipt() if batch.is_empty else sink.accept(batch)


def status_of(error: BaseException) -> status_pb2.Status:
    """Return the `google.rpc.Status` of an error, with `RetryInfo` where the same request may be sent again.

    An error that nobody foresaw is logged here, and its text is kept from the sender.
    """
    codes = codes_of(error)
    if codes is UNFORESEEN:
        _logger.error("unforeseen error while receiving; the sender was asked to try again", exc_info=error)
    foreseen = isinstance(error, OtelAgenticError)
    status = new_status(codes.grpc, str(error) if foreseen else "unforeseen error, nothing was accepted: try again")
    if codes.grpc == "UNAVAILABLE":
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = RETRY_AFTER_S
        status.details.add().Pack(retry)
    return status


def new_status(code: str, message: str) -> status_pb2.Status:
    """Return a `google.rpc.Status` with the number of the gRPC code."""
    return status_pb2.Status(code=code_pb2.Code.Value(code), message=message)


def rejection_message(receipt: Receipt, batch: SpanBatch) -> str:
    """Return what was rejected and why, for the `error_message` of a partial success; empty if nothing was.

    Reasons of ignored items are left out: these were understood, they are just not ours to keep.
    """
    if not receipt.rejected:
        return ""
    reasons = [(reason, count) for reason, count in receipt.reasons.items() if reason not in batch.ignored]
    named = "; ".join(f"{count} x {reason}" for reason, count in reasons[:_MOST_REASONS])
    return named or f"{receipt.rejected} rejected"
