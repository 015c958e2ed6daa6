"""Certificates for receivers on loopback, made by the openssl program for one test run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files: an authority, the server and client that it signed, and a client that it did not sign."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    untrusted: Path
    untrusted_key: Path
    locked_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Return new certificates in a folder. Raises FileNotFoundError where there is no openssl."""
    certificates = Certificates(
        ca=folder / "ca.pem",
        server=folder / "server.pem",
        server_key=folder / "server.key",
        client=folder / "client.pem",
        client_key=folder / "client.key",
        untrusted=folder / "untrusted.pem",
        untrusted_key=folder / "untrusted.key",
        locked_key=folder / "locked.key",
    )
    ca_key = folder / "ca.key"
    _certificate(certificates.ca, ca_key, "authority", "basicConstraints=critical,CA:TRUE")
    signed = ("-CA", str(certificates.ca), "-CAkey", str(ca_key))
    _certificate(certificates.server, certificates.server_key, "server", "subjectAltName=IP:127.0.0.1", *signed)
    _certificate(certificates.client, certificates.client_key, "client", "extendedKeyUsage=clientAuth", *signed)
    _certificate(certificates.untrusted, certificates.untrusted_key, "untrusted", "extendedKeyUsage=clientAuth")
    _openssl(
        "ec",
        "-in",
        str(certificates.client_key),
        "-aes128",
        "-passout",
        "pass:secret",
        "-out",
        str(certificates.locked_key),
    )
    return certificates


def _certificate(path: Path, key: Path, name: str, extension: str, *signed: str) -> None:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(path), "-days", "2")
    _openssl("req", "-x509", *curve, *files, "-subj", f"/CN={name}", "-addext", extension, *signed)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
