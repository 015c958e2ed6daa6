"""The two Protocols between the ways in and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from otel_agentic.spans.model import SpanBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a batch: `accepted + duplicate + rejected + ignored` is all that it held.

    `reasons` explains the rejected and ignored items: reason -> count. `altered` counts what was mended, cut or redacted
    inside those that are kept, by reason.
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
    """Where every way in delivers."""

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch and return its receipt only when it is durable. Thread-safe; blocks.

        Raises:
            OverloadedError: the queue is full, nothing of the batch was taken.
            StoreError: the store cannot be written, nothing of the batch was taken.
        """
        ...


@runtime_checkable
class Submits(Protocol):
    """A sink in which a batch can be left: nobody, and no thread, has to wait beside it."""

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Begin to store a batch; return the receipt that it has once it is durable. Thread-safe; quick.

        The future fails with a `StoreError` as `Sink.accept` does.

        Raises:
            OverloadedError: the queue is full, nothing of the batch was taken.
            StoreError: the store cannot be written, nothing of the batch was taken.
        """
        ...


@runtime_checkable
class CountsRefusals(Protocol):
    """A sink that also counts what a way in refused without asking it, or because it refused."""

    def refused(self, transport: str, status: str) -> None:
        """Count a request: the collector's name, and the gRPC status of its answer in lower case. Quick; thread-safe."""
        ...


@runtime_checkable
class Collector(Protocol):
    """A way in that listens until it is stopped. Built by `Plugin.from_settings(settings)`."""

    name: str

    def start(self, sink: Sink) -> None:
        """Begin to listen; returns when the listener is ready.

        Raises:
            UsageError: the address is taken or not allowed; names the address.
        """
        ...

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, finish those under way within `grace_s` seconds, and release the address."""
        ...

    @property
    def endpoint(self) -> str:
        """The address to send to, with the real port once started."""
        ...
