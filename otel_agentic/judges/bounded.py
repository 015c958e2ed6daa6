"""Replies of a model's server, bounded: one of a gigabyte is not read, and one that points elsewhere is not followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Bytes of a reply that are read; a verdict takes a few thousand.
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
#: The same of one that came compressed, though that was not asked for: it may grow a thousandfold.
_MAX_COMPRESSED_BYTES: Final = 64 * 1024
#: What a client is made with: texts that are judged go to the address of the settings, and to no other.
CLIENT_OPTIONS: Final[dict[str, Any]] = {"follow_redirects": False, "headers": {"accept-encoding": "identity"}}


class ReplyTooLargeError(ConnectionError):
    """A reply is larger than any verdict: reading it was given up."""


async def bound_reply(response: Any) -> None:
    """Have no more read of a response than a verdict may take; a hook for clients such as httpx has them."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    response.stream = _bounded(response.stream, MAX_REPLY_BYTES if plain else _MAX_COMPRESSED_BYTES)


def _bounded(stream: Any, most_bytes: int) -> Any:
    """Return a stream of bytes that ends in an error where the other one goes on; of the kind that its client knows."""
    kind = next(base for base in type(stream).__mro__ if base.__name__ == "AsyncByteStream")

    async def parts(self: Any) -> AsyncIterator[bytes]:  # noqa: ARG001 — a method
        count = 0
        async for part in stream:
            count += len(part)
            if count > most_bytes:
                raise ReplyTooLargeError(f"the reply has more than {most_bytes:,} bytes")
            yield part

    async def aclose(self: Any) -> None:  # noqa: ARG001 — a method
        await stream.aclose()

    return type("BoundedStream", (kind,), {"__aiter__": parts, "aclose": aclose})()
