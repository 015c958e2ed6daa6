"""TLS from PEM files, for listeners and for clients."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import ConfigError
from otel_agentic.net.auth import ReloadedFiles
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)
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
    """TLS of one listener. New connections use renewed files."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            ConfigError: a file cannot be used, or certificate and key do not match; the message names setting and file.
        """
        self._files = files
        watched = [files.cert, files.key] if files.client_ca is None else [files.cert, files.key, files.client_ca]
        self._files_content = ReloadedFiles(watched, lambda: _load(files))

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
