"""Listening, authentication, TLS and connection limits, the same for all receivers and the admin address."""

from otel_agentic.net.address import (
    Address,
    Hosts,
    affordable,
    listen,
    listen_bounded,
    parse_address,
    raise_file_limit,
    require_allowed,
)
from otel_agentic.net.auth import (
    Credentials,
    ReloadedFiles,
    Role,
    ServerTls,
    TlsFiles,
    Tokens,
    client_context,
    read_tokens,
)
from otel_agentic.net.guards import Bounds, Connections, guarded_protocol

__all__ = [
    "Address",
    "Bounds",
    "Connections",
    "Credentials",
    "Hosts",
    "ReloadedFiles",
    "Role",
    "ServerTls",
    "TlsFiles",
    "Tokens",
    "affordable",
    "client_context",
    "guarded_protocol",
    "listen",
    "listen_bounded",
    "parse_address",
    "raise_file_limit",
    "read_tokens",
    "require_allowed",
]
