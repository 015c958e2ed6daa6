"""What only grpc itself can say of a channel: its credentials, and that it compresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.telemetry.sinks import Tls

#: As OTLP over HTTP is sent, too.
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
