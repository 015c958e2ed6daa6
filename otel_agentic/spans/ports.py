"""The two Protocols between the ways in and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.spans.model import SpanBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a batch: `accepted + duplicate + rejected + ignored` is all that it held.

    `reasons` explains the rejected and ignored items: reason -> count.
    """

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    ignored: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Receipt) -> Receipt:
        """Return the receipt of both batches together."""
        reasons = dict(self.reasons)
        for reason, count in other.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
        return Receipt(
            accepted=self.accepted + other.accepted,
            duplicate=self.duplicate + other.duplicate,
            rejected=self.rejected + other.rejected,
            ignored=self.ignored + other.ignored,
            reasons=reasons,
        )


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
