"""Listening, authentication, TLS and connection limits, the same for all receivers and the admin address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.net.address import Address as Address
    from otel_agentic.net.address import Hosts as Hosts
    from otel_agentic.net.address import affordable as affordable
    from otel_agentic.net.address import listen as listen
    from otel_agentic.net.address import listen_bounded as listen_bounded
    from otel_agentic.net.address import parse_address as parse_address
    from otel_agentic.net.address import raise_file_limit as raise_file_limit
    from otel_agentic.net.address import require_allowed as require_allowed
    from otel_agentic.net.auth import Credentials as Credentials
    from otel_agentic.net.auth import ReloadedFiles as ReloadedFiles
    from otel_agentic.net.auth import Role as Role
    from otel_agentic.net.auth import ServerTls as ServerTls
    from otel_agentic.net.auth import TlsFiles as TlsFiles
    from otel_agentic.net.auth import Tokens as Tokens
    from otel_agentic.net.auth import admin_tokens as admin_tokens
    from otel_agentic.net.auth import client_context as client_context
    from otel_agentic.net.auth import permits as permits
    from otel_agentic.net.auth import read_tokens as read_tokens
    from otel_agentic.net.guards import Bounds as Bounds
    from otel_agentic.net.guards import Connections as Connections
    from otel_agentic.net.guards import guarded_protocol as guarded_protocol

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "address": "Address Hosts affordable listen listen_bounded parse_address raise_file_limit require_allowed",
        "auth": "Credentials ReloadedFiles Role ServerTls TlsFiles Tokens admin_tokens client_context permits read_tokens",
        "guards": "Bounds Connections guarded_protocol",
    },
)
