"""Bearer tokens and their roles, TLS from PEM files, and files that are reloaded when they change.

A token is stored only as its SHA-256 and compared in constant time. It never appears in an error or a log.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from otel_agentic.errors import ConfigError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from pydantic import SecretStr

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: ingest sends spans; feedback records what end users think; query runs the commands that only read; review also records
#: verdicts; admin may do everything. Weakest first.
Role = Literal["ingest", "feedback", "query", "review", "admin"]
_RANKED: Final[tuple[Role, ...]] = ("ingest", "feedback", "query", "review", "admin")
#: Roles that include another one; admin includes all.
_INCLUDED: Final[Mapping[Role, Role]] = {"review": "query"}
#: The settings of the tokens of the admin address.
_ADMIN_TOKENS: Final[Mapping[Role, str]] = {
    "feedback": "feedback_token",
    "query": "query_token",
    "review": "review_token",
    "admin": "token",
}
_MAX_TOKEN_FILE_BYTES: Final = 64 * 1024
#: A longer header contains no valid token.
_MAX_HEADER_BYTES: Final = 8 * 1024


class ReloadedFiles(Generic[T]):
    """A value loaded from files, and reloaded when one of them has changed. Thread-safe."""

    def __init__(
        self,
        paths: Sequence[Path],
        load: Callable[[], T],
        *,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the value.

        Args:
            paths: the files.
            load: returns the value; raises ConfigError if the files cannot be used.
            every_s: minimum time between two checks, seconds.
            clock: a monotonic clock, seconds.

        Raises:
            ConfigError: `load` raised it.
        """
        self._paths = tuple(paths)
        self._load = load
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._marks = self._current_marks()
        self._value = load()
        self._next_s = clock() + every_s

    def get(self) -> T:
        """Return the current value.

        If changed files cannot be used, the previous value remains; this is logged once.
        """
        if self._clock() >= self._next_s and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def _refresh(self) -> None:
        self._next_s = self._clock() + self._every_s
        marks = self._current_marks()
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._value = self._load()
        except ConfigError as error:
            _log.error("%s; the previous content stays active", error)
        else:
            _log.info("reloaded: %s", ", ".join(map(str, self._paths)))

    def _current_marks(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(path) for path in self._paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class Tokens:
    """The tokens of one role: one from the settings, and any number from a file, one per line."""

    def __init__(self, name: str, secret: SecretStr | None = None, file: Path | None = None) -> None:
        """Read the file.

        Args:
            name: the setting of the token, such as `receive.token`; the setting of the file has the suffix `_file`.
            secret: the token in the settings.
            file: a file of tokens; reloaded when it changes.

        Raises:
            ConfigError: a token is empty or not allowed in a header, or the file cannot be used; the message names the setting.
        """
        self._name = name
        self._fixed = (
            frozenset() if secret is None else frozenset([_digest(_require_valid(secret.get_secret_value(), name))])
        )
        self._file = file
        self._file_digests = None if file is None else ReloadedFiles([file], self._load)
        if file is not None:
            _warn_if_open(file, f"{name}_file")

    def __bool__(self) -> bool:
        """Whether any token is set."""
        return bool(self._fixed) or self._file_digests is not None

    @property
    def digests(self) -> frozenset[bytes]:
        """The SHA-256 of each current token."""
        return self._fixed if self._file_digests is None else self._fixed | self._file_digests.get()

    def _load(self) -> frozenset[bytes]:
        assert self._file is not None  # noqa: S101 — called only if there is one
        return frozenset(_digest(token) for token in read_tokens(self._file, f"{self._name}_file"))


def admin_tokens(admin: object) -> dict[Role, Tokens]:
    """Return the tokens of the admin address, by role.

    Args:
        admin: the section `admin` of the settings, which this package does not import.

    Raises:
        ConfigError: a token or a file of tokens cannot be used; names the setting.
    """
    return {
        role: Tokens(f"admin.{name}", getattr(admin, name), getattr(admin, f"{name}_file"))
        for role, name in _ADMIN_TOKENS.items()
    }


def permits(role: Role, needed: Role) -> bool:
    """Return whether a role is allowed to do what another one is for.

    >>> permits("review", "query"), permits("query", "review"), permits("admin", "ingest")
    (True, False, True)
    """
    return role in {needed, "admin"} or _INCLUDED.get(role) == needed


class Credentials:
    """The known tokens and their roles."""

    def __init__(self, tokens: Mapping[Role, Tokens]) -> None:
        self._tokens = tokens

    def guards(self, *roles: Role) -> bool:
        """Return whether a token is set for one of the roles."""
        return any(self._tokens[role] for role in roles if role in self._tokens)

    def role_of(self, headers: Sequence[str | bytes]) -> Role | None:
        """Return the strongest role of the token in the `Authorization` headers; None if it is unknown.

        More than one header counts as no token, because two parsers of the same request could use different ones.
        """
        token = _bearer_token(headers)
        if token is None:
            return None
        digest = _digest(token)
        strongest: Role | None = None
        for role in _RANKED:
            if role in self._tokens and _is_among(digest, self._tokens[role].digests):
                strongest = role
        return strongest


def read_tokens(file: Path, name: str) -> list[str]:
    """Return the tokens of a file, one per line; empty lines are skipped.

    Raises:
        ConfigError: the file cannot be read, contains no token, or one not allowed in a header; the message names the setting.
    """
    try:
        text = read_regular(file, _MAX_TOKEN_FILE_BYTES + 1)
        lines = text.decode("utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{name}: {file}: {error.strerror}; give a readable file with one token per line") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: {file} is not text; give a file with one token per line") from None
    if len(text) > _MAX_TOKEN_FILE_BYTES:
        raise ConfigError(
            f"{name}: {file} is larger than {_MAX_TOKEN_FILE_BYTES} bytes; give a file with one token per line"
        )
    numbered_lines = [(number, line.strip()) for number, line in enumerate(lines, start=1)]
    tokens = [_require_valid(line, f"{name}: {file}, line {number}") for number, line in numbered_lines if line]
    if not tokens:
        raise ConfigError(f"{name}: {file} contains no token; give a file with one token per line")
    return tokens


def _require_valid(token: str, location: str) -> str:
    """Return a token that is allowed in a header. Errors do not contain the token."""
    if not token:
        raise ConfigError(f"{location}: the token is empty; set one, or remove the setting")
    if not all("!" <= character <= "~" for character in token) or len(token) > _MAX_HEADER_BYTES // 2:
        raise ConfigError(
            f"{location}: a token consists of at most {_MAX_HEADER_BYTES // 2} ASCII letters, digits and punctuation, without spaces"
        )
    return token


def _bearer_token(headers: Sequence[str | bytes]) -> str | bytes | None:
    if len(headers) != 1 or len(headers[0]) > _MAX_HEADER_BYTES:
        return None
    header = headers[0].encode("utf-8", "surrogateescape") if isinstance(headers[0], str) else headers[0]
    scheme, _, credentials = header.partition(b" ")
    return credentials.strip() if scheme.lower() == b"bearer" else None


def _digest(token: str | bytes) -> bytes:
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def _is_among(digest: bytes, known_digests: Iterable[bytes]) -> bool:
    """Return whether a digest is known. All digests are compared, so that the duration reveals nothing."""
    return sum(hmac.compare_digest(digest, known_digest) for known_digest in known_digests) > 0


@lru_cache(maxsize=64)  # log once, although each port reads the file
def _warn_if_open(file: Path, name: str) -> None:
    # Not an error: containers mount secrets this way.
    if os.name == "posix" and file.stat().st_mode & stat.S_IROTH:
        _log.warning("%s: every user of this machine can read %s; run chmod 600", name, file)


_GIVE_PAIR: Final = "give a PEM certificate, followed by its chain, and its PEM key without a password"
_GIVE_AUTHORITIES: Final = "give a PEM file of authorities"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The PEM files of a listener, and the section of the settings that names them."""

    section: str
    cert: Path
    key: Path
    client_ca: Path | None = None

    @classmethod
    def of(cls, section: str, cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
        """Return the files, or None if TLS is not configured.

        Raises:
            ConfigError: certificate or key is missing.
        """
        if cert is not None and key is not None:
            return cls(section=section, cert=cert, key=key, client_ca=client_ca)
        if cert is not None or key is not None:
            raise ConfigError(f"{section}.tls_cert_file and {section}.tls_key_file: give both or neither")
        if client_ca is not None:
            raise ConfigError(
                f"{section}.tls_client_ca_file: needs {section}.tls_cert_file and {section}.tls_key_file, because clients show "
                "certificates over TLS only"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """The content of the files: for OpenSSL, and as text for gRPC."""

    context: ssl.SSLContext
    cert: bytes
    key: bytes
    client_ca: bytes | None


class ServerTls:
    """The TLS configuration of one listener. New connections use renewed files."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            ConfigError: a file cannot be used, or certificate and key do not match; the message names setting and file.
        """
        self._files = files
        paths = [files.cert, files.key] if files.client_ca is None else [files.cert, files.key, files.client_ca]
        self._files_content = ReloadedFiles(paths, lambda: _load(files))

    @property
    def is_mutual(self) -> bool:
        """Whether clients must present a certificate."""
        return self._files.client_ca is not None

    @property
    def context(self) -> ssl.SSLContext:
        """The current context: TLS 1.2 or newer."""
        return self._files_content.get().context

    @property
    def pem(self) -> tuple[bytes, bytes, bytes | None]:
        """Key, certificate and client authorities, as PEM."""
        now = self._files_content.get()
        return now.key, now.cert, now.client_ca


def client_context(
    section: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> ssl.SSLContext | None:
    """Return the context of a client, or None if nothing is configured and the default applies.

    Raises:
        ConfigError: a file cannot be used, or only one of certificate and key is set; the message names setting and file.
    """
    if ca_file is None and cert_file is None and key_file is None:
        return None
    if (cert_file is None) != (key_file is None):
        raise ConfigError(f"{section}.client_cert_file and {section}.client_key_file: give both or neither")
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        load_authorities(context, ca_file, f"{section}.ca_file")
    if cert_file is not None and key_file is not None:
        load_pair(context, cert_file, key_file, f"{section}.client_cert_file", f"{section}.client_key_file")
    return context


def load_authorities(context: ssl.SSLContext, file: Path, name: str) -> None:
    """Make a context trust the authorities in a file.

    Raises:
        ConfigError: the file cannot be used; the message names setting and file.
    """
    try:
        context.load_verify_locations(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{name}: {file}: {_reason(error)}; {_GIVE_AUTHORITIES}") from error


def load_pair(context: ssl.SSLContext, cert: Path, key: Path, cert_name: str, key_name: str) -> None:
    """Make a context present a certificate.

    Raises:
        ConfigError: a file cannot be used, or certificate and key do not match; the message names settings and files.
    """
    for file, name in ((cert, cert_name), (key, key_name)):
        _bytes(file, name, _GIVE_PAIR)  # OpenSSL's errors do not name the file
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{cert_name}: {cert} with {key_name}: {key}: {_reason(error)}; {_GIVE_PAIR}") from error


def _load(files: TlsFiles) -> _Loaded:
    cert_name, key_name, ca_name = (f"{files.section}.tls_{part}_file" for part in ("cert", "key", "client_ca"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, files.cert, files.key, cert_name, key_name)
    if files.client_ca is not None:
        load_authorities(context, files.client_ca, ca_name)
        context.verify_mode = ssl.CERT_REQUIRED
    return _Loaded(
        context=context,
        cert=_bytes(files.cert, cert_name, _GIVE_PAIR),
        key=_bytes(files.key, key_name, _GIVE_PAIR),
        client_ca=None if files.client_ca is None else _bytes(files.client_ca, ca_name, _GIVE_AUTHORITIES),
    )


def _bytes(file: Path, name: str, advice: str) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise ConfigError(f"{name}: {file}: {_reason(error)}; {advice}") from error


def _no_password() -> str:
    """Return an empty password; without this, OpenSSL would prompt at the terminal."""
    return ""


def _reason(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or type(error).__name__
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the one of the certificate"
    return error.reason or "not PEM"
