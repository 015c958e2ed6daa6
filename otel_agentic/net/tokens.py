"""Bearer tokens and what each lets its holder do.

A token is kept as its SHA-256 only, and compared in constant time. It is never written into an error or a log.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.errors import ConfigError
from otel_agentic.net.watched import Watched
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pydantic import SecretStr

#: ingest sends spans; query runs the commands that only read; admin does everything. Weakest first.
Role = Literal["ingest", "query", "admin"]
_RANKED: Final[tuple[Role, ...]] = ("ingest", "query", "admin")
_MOST_TOKEN_FILE_BYTES: Final = 64 * 1024
#: A header longer than this holds no token of ours.
_MOST_HEADER_BYTES: Final = 8 * 1024
_log = logging.getLogger(__name__)


class Tokens:
    """The tokens of one role: one from the settings, any number from a file, a line each."""

    def __init__(self, name: str, secret: SecretStr | None = None, file: Path | None = None) -> None:
        """Read the file.

        Args:
            name: the setting of the token, such as `receive.token`; the file's is that with `_file`.
            secret: the token of the settings.
            file: a file of tokens; read again when it changes.

        Raises:
            ConfigError: a token is empty or no header could carry it, or the file cannot be used; names the setting.
        """
        self._name = name
        self._fixed = frozenset() if secret is None else frozenset([_digest(_fit(secret.get_secret_value(), name))])
        self._file = file
        self._watched = None if file is None else Watched([file], self._load)
        if file is not None:
            _warn_if_open(file, f"{name}_file")

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._fixed) or self._watched is not None

    @property
    def digests(self) -> frozenset[bytes]:
        """The SHA-256 of each token of now."""
        return self._fixed if self._watched is None else self._fixed | self._watched.get()

    def _load(self) -> frozenset[bytes]:
        assert self._file is not None  # noqa: S101 — only called where there is one
        return frozenset(_digest(token) for token in read_tokens(self._file, f"{self._name}_file"))


class Credentials:
    """Whose tokens are known, and which role each has."""

    def __init__(self, tokens: Mapping[Role, Tokens]) -> None:
        self._tokens = tokens

    def guards(self, *roles: Role) -> bool:
        """Return whether a token is set for one of the roles."""
        return any(self._tokens[role] for role in roles if role in self._tokens)

    def role_of(self, headers: Sequence[str | bytes]) -> Role | None:
        """Return the strongest role of the token that the `Authorization` headers show; None for none that is known.

        More than one header is none: two readers of the same request could take different ones.
        """
        shown = _shown(headers)
        if shown is None:
            return None
        digest = _digest(shown)
        found: Role | None = None
        for role in _RANKED:
            if role in self._tokens and _is_among(digest, self._tokens[role].digests):
                found = role
        return found


def read_tokens(file: Path, name: str) -> list[str]:
    """Return the tokens of a file, a line each; empty lines are left out.

    Raises:
        ConfigError: the file cannot be read or holds no token, or one that no header could carry; names the setting.
    """
    try:
        text = read_regular(file, _MOST_TOKEN_FILE_BYTES + 1)
        lines = text.decode("utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{name}: {file}: {error.strerror}; give a readable file with a token a line") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: {file} is not text; give a file with a token a line") from None
    if len(text) > _MOST_TOKEN_FILE_BYTES:
        raise ConfigError(
            f"{name}: {file} is larger than {_MOST_TOKEN_FILE_BYTES} bytes; give a file with a token a line"
        )
    found = [(number, line.strip()) for number, line in enumerate(lines, start=1)]
    tokens = [_fit(line, f"{name}: {file}, line {number}") for number, line in found if line]
    if not tokens:
        raise ConfigError(f"{name}: {file} holds no token; give a file with a token a line")
    return tokens


def _fit(token: str, where: str) -> str:
    """Return a token that a header can carry. What it is stands in no error."""
    if not token:
        raise ConfigError(f"{where}: the token is empty; give one, or leave the setting out")
    if not all("!" <= character <= "~" for character in token) or len(token) > _MOST_HEADER_BYTES // 2:
        raise ConfigError(
            f"{where}: a token is made of ASCII letters, digits and signs without spaces, {_MOST_HEADER_BYTES // 2} at most"
        )
    return token


def _shown(headers: Sequence[str | bytes]) -> str | bytes | None:
    if len(headers) != 1 or len(headers[0]) > _MOST_HEADER_BYTES:
        return None
    header = headers[0].encode("utf-8", "surrogateescape") if isinstance(headers[0], str) else headers[0]
    scheme, _, credentials = header.partition(b" ")
    return credentials.strip() if scheme.lower() == b"bearer" else None


def _digest(token: str | bytes) -> bytes:
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def _is_among(digest: bytes, known: Iterable[bytes]) -> bool:
    """Return whether a digest is one of the known. Each is compared, found or not: the time taken tells nothing."""
    return sum(hmac.compare_digest(digest, each) for each in known) > 0


@lru_cache(maxsize=64)  # said once, though each port reads the file
def _warn_if_open(file: Path, name: str) -> None:
    # Not an error: containers mount secrets this way.
    if os.name == "posix" and file.stat().st_mode & stat.S_IROTH:
        _log.warning("%s: every user of this machine can read %s; chmod 600 keeps it to one", name, file)
