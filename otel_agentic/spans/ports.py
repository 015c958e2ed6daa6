"""The Protocols between the collectors and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from otel_agentic.spans.model import SpanBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The outcome of a batch: `accepted + duplicate + rejected + ignored` is the number of its items.

    `reasons` counts the rejected and ignored items by reason. `altered` counts the details of stored items that were
    corrected, cut or redacted, by reason.
    """

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    ignored: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    altered: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Receipt) -> Receipt:
        """Return the receipt of both batches together."""
        return Receipt(
            accepted=self.accepted + other.accepted,
            duplicate=self.duplicate + other.duplicate,
            rejected=self.rejected + other.rejected,
            ignored=self.ignored + other.ignored,
            reasons=_sums(self.reasons, other.reasons),
            altered=_sums(self.altered, other.altered),
        )


def _sums(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {reason: some.get(reason, 0) + others.get(reason, 0) for reason in (*some, *others)}


@runtime_checkable
class Sink(Protocol):
    """The destination of every collector's batches."""

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch and return its receipt once it is durable. Thread-safe; blocks.

        Raises:
            OverloadedError: the queue is full; nothing of the batch was stored.
            StoreError: the store cannot be written; nothing of the batch was stored.
        """
        ...


@runtime_checkable
class Submits(Protocol):
    """A sink that stores batches asynchronously, so that no thread has to wait for it."""

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Begin to store a batch; return a future of its receipt, set once it is durable. Thread-safe; does not block.

        The future fails with a `StoreError` as `Sink.accept` does.

        Raises:
            OverloadedError: the queue is full; nothing of the batch was stored.
            StoreError: the store cannot be written; nothing of the batch was stored.
        """
        ...


@runtime_checkable
class CountsRefusals(Protocol):
    """A sink that also counts the requests that a collector refused, on its own or because the sink did."""

    def refused(self, transport: str, status: str) -> None:
        """Count a refused request by the collector's name and the gRPC status in lower case. Thread-safe; does not block."""
        ...


@runtime_checkable
class Collector(Protocol):
    """A source of batches that listens until it is stopped. Built by `Plugin.from_settings(settings)`."""

    name: str

    def start(self, sink: Sink) -> None:
        """Begin to listen; returns when the listener is ready.

        Raises:
            UsageError: the address is in use or not allowed; names the address.
        """
        ...

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, finish the running ones within `grace_s` seconds, and release the address."""
        ...

    @property
    def endpoint(self) -> str:
        """The address to send to, with the real port once started."""
        ...
