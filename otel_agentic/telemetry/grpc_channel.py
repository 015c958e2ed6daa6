"""Options of a channel that need grpc itself: credentials and compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.telemetry.sinks import Tls

#: The same compression as for OTLP over HTTP.
GZIP = grpc.Compression.Gzip


def credentials(tls: Tls) -> Any:
    """Return channel credentials from PEM files."""
    return grpc.ssl_channel_credentials(
        root_certificates=_read(tls.ca_file),
        private_key=_read(tls.key_file),
        certificate_chain=_read(tls.cert_file),
    )


def _read(path: Path | None) -> bytes | None:
    return None if path is None else read_regular(path)
