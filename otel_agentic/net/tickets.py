"""One-time tickets for the console: only a user who can read a file next to the store may open it.

A ticket is signed with the secret in that file (mode 0600), so that a command can issue one without a request to the
collector. It is valid for ten minutes, and once.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final

from otel_agentic.errors import ConfigError

#: How long a ticket is valid, seconds.
TICKET_S: Final = 600.0
_SUFFIX: Final = ".console"
_SECRET_BYTES: Final = 32
_PRIVATE: Final = 0o600
#: 128 bits are enough against a forger who can only try.
_SIGNATURE_DIGITS: Final = 32
_MAX_TICKET: Final = 1024


def secret_of(db: Path) -> bytes:
    """Return the secret of a store's console; the first call creates its file, which only this user can read.

    Raises:
        ConfigError: other users can read the file, or it cannot be read or written.
    """
    file = _secret_file(db)
    try:
        if not file.exists():
            _create(file)
        return _read(file)
    except OSError as error:
        raise ConfigError(
            f"{file}: {error.strerror}; the secret of the console is stored there (admin.console = false turns it off)"
        ) from error


def has_secret(db: Path) -> bool:
    """Return whether the process that uses a store serves a console."""
    return _secret_file(db).exists()


def remove_secret(db: Path) -> None:
    """Remove the secret of a store: its process ends, and with it all sessions."""
    _secret_file(db).unlink(missing_ok=True)


def _secret_file(db: Path) -> Path:
    path = db.resolve()
    return path.with_name(path.name + _SUFFIX)


def _create(file: Path) -> None:
    """Create the file of a secret, which appears under its name with its content, so that no process reads an empty one."""
    new_file = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(secrets.token_bytes(_SECRET_BYTES))
    new_file.replace(file)


def _read(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as secret_file:
        status = os.fstat(secret_file.fileno())
        secret = secret_file.read(_SECRET_BYTES + 1)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077 or len(secret) != _SECRET_BYTES:
        raise ConfigError(f"{file}: not a secret of this user alone; remove the file, a new one is created")
    return secret


def new_ticket(secret: bytes, annotator: str) -> str:
    """Return a ticket that opens the console as an annotator."""
    claims = f"{time.time() + TICKET_S:.0f}:{secrets.token_hex(4)}:{annotator}"
    payload = urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    return f"{payload}.{_signature(secret, payload)}"


class Tickets:
    """Checks tickets. It is used on one event loop."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        """Create from the secret that signs the tickets; `clock` returns seconds since 1970."""
        self._secret = secret
        self._clock = clock
        #: The signatures of spent tickets, with the time until which each would be valid.
        self._spent: dict[str, float] = {}

    def spend(self, ticket: str) -> str | None:
        """Return the annotator of a ticket and invalidate it; None if it is invalid, expired or spent."""
        payload, _, signature = ticket.partition(".")
        if len(ticket) > _MAX_TICKET or not ticket.isascii():
            return None
        if not hmac.compare_digest(signature, _signature(self._secret, payload)):
            return None
        until, _, annotator = urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode().split(":", 2)
        now_s = self._clock()
        self._spent = {spent: until for spent, until in self._spent.items() if until > now_s}
        if float(until) <= now_s or signature in self._spent:
            return None
        self._spent[signature] = float(until)
        return annotator


def _signature(secret: bytes, payload: str) -> str:
    return hmac.new(secret, payload.encode(), hashlib.sha256).hexdigest()[:_SIGNATURE_DIGITS]
