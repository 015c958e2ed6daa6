"""TLS to a backend: the files of the settings, checked before anything is sent."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import EmitSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Readable PEM files, None where the usual authorities, or no certificate of our own, will do."""

    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None


def tls_of(emit: EmitSettings, endpoint: str) -> Tls:
    """Return the TLS files for an endpoint.

    Raises:
        ConfigError: a file cannot be used, a certificate has no key or the other way round, or the endpoint is not https.
    """
    given = {
        name: path
        for name, path in (
            ("emit.ca_file", emit.ca_file),
            ("emit.client_cert_file", emit.client_cert_file),
            ("emit.client_key_file", emit.client_key_file),
        )
        if path is not None
    }
    if given and not endpoint.startswith("https://"):
        raise ConfigError(f"{', '.join(given)}: TLS needs an endpoint that begins with https://")
    if (emit.client_cert_file is None) != (emit.client_key_file is None):
        raise ConfigError("emit.client_cert_file and emit.client_key_file: give both or neither")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if emit.ca_file is not None:
        try:
            context.load_verify_locations(cafile=emit.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"emit.ca_file: {emit.ca_file}: {_told(error)}; give a PEM file of authorities"
            ) from error
    if emit.client_cert_file is not None and emit.client_key_file is not None:
        try:
            context.load_cert_chain(emit.client_cert_file, emit.client_key_file, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"emit.client_cert_file: {emit.client_cert_file} with emit.client_key_file {emit.client_key_file}: "
                f"{_told(error)}; give a PEM certificate and its PEM key without a password"
            ) from error
    return Tls(ca_file=emit.ca_file, cert_file=emit.client_cert_file, key_file=emit.client_key_file)


def _no_password() -> str:
    """Return the empty password: without this, OpenSSL would ask for one at the terminal."""
    return ""


def _told(error: OSError) -> str:
    return (
        error.strerror or error.__class__.__name__ if not isinstance(error, ssl.SSLError) else error.reason or "not PEM"
    )
