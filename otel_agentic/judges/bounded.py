"""Limits on the HTTP replies of a model's server: replies of a gigabyte are not read, redirects are not followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Maximum size of a reply in bytes; a verdict takes a few thousand.
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
#: The maximum for a compressed reply, although compression was not requested: it may expand a thousandfold.
_MAX_COMPRESSED_BYTES: Final = 64 * 1024
#: Options of the HTTP client: judged texts are sent to the address of the settings, and to no other.
CLIENT_OPTIONS: Final[dict[str, Any]] = {"follow_redirects": False, "headers": {"accept-encoding": "identity"}}


class ReplyTooLargeError(ConnectionError):
    """A reply larger than any verdict, of which the rest was not read."""


async def bound_reply(response: Any) -> None:
    """Limit the bytes that are read of a response; an event hook for httpx-like clients."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    response.stream = _bounded(response.stream, MAX_REPLY_BYTES if plain else _MAX_COMPRESSED_BYTES)


def _bounded(stream: Any, limit_bytes: int) -> Any:
    """Return a stream that raises an error beyond a number of bytes; of the stream class that its client expects."""
    kind = next(base for base in type(stream).__mro__ if base.__name__ == "AsyncByteStream")

    async def parts(self: Any) -> AsyncIterator[bytes]:  # noqa: ARG001 — a method
        count = 0
        async for part in stream:
            count += len(part)
            if count > limit_bytes:
                raise ReplyTooLargeError(f"the reply has more than {limit_bytes:,} bytes")
            yield part

    async def aclose(self: Any) -> None:  # noqa: ARG001 — a method
        await stream.aclose()

    return type("BoundedStream", (kind,), {"__aiter__": parts, "aclose": aclose})()
