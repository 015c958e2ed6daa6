"""Responses to senders, with the same messages and codes on HTTP and gRPC; credentials and TLS of both transports."""

from __future__ import annotations

import logging
import random
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no py.typed

from otel_agentic.errors import UNFORESEEN, OtelAgenticError, StoreError, codes_of
from otel_agentic.net import Credentials, ServerTls, TlsFiles, Tokens, require_allowed
from otel_agentic.spans import CountsRefusals, Receipt, Submits

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.config import AdminSettings, ReceiveSettings
    from otel_agentic.net import Address
    from otel_agentic.spans import Sink, SpanBatch

#: Seconds after which a refused sender should retry: a full queue drains within one. The time is random, so that senders that
#: were refused together do not retry together.
_SOONEST_S: Final = 1
_SPREAD_S: Final = 2

#: The largest number of reasons in the message of a partial success.
_MOST_REASONS: Final = 10
#: Error messages are cut to this length: gRPC sends them in a header, whose size clients limit.
_MOST_CHARACTERS: Final = 500

_logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that is refused because of its head."""

    def __init__(self, http: int, grpc: str, message: str, **headers: str) -> None:
        """Create the error with the statuses of both protocols, the message, and HTTP headers (`_` for `-`)."""
        super().__init__(message)
        self.http = http
        self.grpc = grpc
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def unauthorized(*, known: bool) -> RefusedError:
    """Return the refusal of a sender without the right token; `known` is whether it sent a token of another role."""
    if known:
        return RefusedError(403, "PERMISSION_DENIED", "this token may not send spans: send the one of receive.token")
    return RefusedError(
        401,
        "UNAUTHENTICATED",
        "a bearer token is required: send one header `Authorization: Bearer …`",
        www_authenticate="Bearer",
    )


def deliver(sink: Sink, batch: SpanBatch) -> Future[Receipt]:
    """Submit a batch to the sink; return the future receipt. An empty request succeeds without the sink."""
    if isinstance(sink, Submits) and not batch.is_empty:
        return sink.submit(batch)
    receipt: Future[Receipt] = Future()
    receipt.set_result(Receipt() if batch.is_empty else sink.accept(batch))
    return receipt


def refusals_of(sink: Sink, transport: str) -> Callable[[Exception], None]:
    """Return a function that counts refused requests by their error, if the sink counts refusals."""
    if not isinstance(sink, CountsRefusals):
        return lambda _error: None
    return lambda error: sink.refused(transport, _code_of(error).lower())


def _code_of(error: Exception) -> str:
    return error.grpc if isinstance(error, RefusedError) else codes_of(error).grpc


def retry_after_s(error: BaseException | None = None) -> int:
    """Return how long a refused sender is asked to wait, whole seconds."""
    return _soonest_s(error) + random.randint(0, _SPREAD_S)  # noqa: S311 — spreads senders, keeps no secret


def _soonest_s(error: BaseException | None) -> int:
    """Return the shortest wait. Exporters retry about five times, which should outlast the reopening of a store."""
    return _SOONEST_S + (1 if isinstance(error, StoreError) else 0)


def status_of(error: BaseException) -> status_pb2.Status:
    """Return the `google.rpc.Status` of an error, with `RetryInfo` if the same request may be sent again.

    An unforeseen error is logged here, and its text is not sent.
    """
    if isinstance(error, RefusedError):
        return new_status(error.grpc, str(error))
    codes = codes_of(error)
    if codes is UNFORESEEN:
        _logger.error("unforeseen error while receiving; the sender was asked to try again", exc_info=error)
    foreseen = isinstance(error, OtelAgenticError)
    status = new_status(codes.grpc, str(error) if foreseen else "unforeseen error, nothing was accepted: try again")
    if codes.grpc == "UNAVAILABLE":
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = _soonest_s(error)
        retry.retry_delay.nanos = random.randrange(1_000_000_000)  # noqa: S311 — as above
        status.details.add().Pack(retry)
    return status


def new_status(code: str, message: str) -> status_pb2.Status:
    """Return a `google.rpc.Status` with the number of the gRPC code."""
    cut = message if len(message) <= _MOST_CHARACTERS else message[:_MOST_CHARACTERS] + "…"
    # A message may quote received text, and protobuf accepts no lone surrogates.
    return status_pb2.Status(code=code_pb2.Code.Value(code), message=cut.encode("utf-8", "replace").decode())


def rejection_message(receipt: Receipt, batch: SpanBatch) -> str:
    """Return the rejected items with reasons, as the `error_message` of a partial success; empty if nothing was rejected.

    Reasons of ignored items are left out: these were understood, but are not stored.
    """
    if not receipt.rejected:
        return ""
    reasons = [(reason, count) for reason, count in receipt.reasons.items() if reason not in batch.ignored]
    named = "; ".join(f"{count} x {reason}" for reason, count in reasons[:_MOST_REASONS])
    return named or f"{receipt.rejected} rejected"


def credentials_of(receive: ReceiveSettings, admin: AdminSettings | None) -> Credentials:
    """Return the known tokens: those of senders, and those of the admin address, which have roles of their own.

    Raises:
        ConfigError: a token or a file of them cannot be used; names the setting.
    """
    senders = Tokens("receive.token", receive.token, receive.token_file)
    if admin is None:
        return Credentials({"ingest": senders})
    return Credentials(
        {
            "ingest": senders,
            "query": Tokens("admin.query_token", admin.query_token, admin.query_token_file),
            "admin": Tokens("admin.token", admin.token, admin.token_file),
        }
    )


def tls_of(receive: ReceiveSettings) -> ServerTls | None:
    """Return the configured TLS, or None if it is not configured.

    Raises:
        ConfigError: a file cannot be used; names setting and file.
    """
    files = TlsFiles.of("receive", receive.tls_cert_file, receive.tls_key_file, receive.tls_client_ca_file)
    return None if files is None else ServerTls(files)


def require_protected(
    address: Address, receive: ReceiveSettings, credentials: Credentials, tls: ServerTls | None
) -> None:
    """Check that listening on the address is allowed.

    Raises:
        UsageError: anyone in the network could send; names the settings to change.
    """
    require_allowed(
        address,
        token=credentials.guards("ingest"),
        mutual_tls=tls is not None and tls.is_mutual,
        tls=tls is not None,
        insecure=receive.insecure,
        section="receive",
    )
