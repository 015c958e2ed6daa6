"""Where this process may listen, and who may come in: the same rules for every way in and the admin address."""

from otel_agentic.net.address import Address, Hosts, listen, parse_address, require_allowed
from otel_agentic.net.connections import Bounds, Connections
from otel_agentic.net.guarded import guarded_protocol
from otel_agentic.net.open_files import affordable, listen_bounded, raise_file_limit
from otel_agentic.net.tls import ServerTls, TlsFiles, client_context
from otel_agentic.net.tokens import Credentials, Role, Tokens, read_tokens
from otel_agentic.net.watched import ReloadedFiles

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
