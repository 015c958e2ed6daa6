"""What both transports ask of the settings before they listen: who may send, and how it is encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.net import Credentials, ServerTls, TlsFiles, Tokens, require_allowed

if TYPE_CHECKING:
    from otel_agentic.config import AdminSettings, ReceiveSettings
    from otel_agentic.net import Address


def credentials_of(receive: ReceiveSettings, admin: AdminSettings | None) -> Credentials:
    """Return whose tokens are known: those of senders, and those of the admin address, which have roles of their own.

    Raises:
        ConfigError: a token or a file of them cannot be used; names the setting.
    """
    senders = Tokens("receive.token", receive.token, receive.token_file)
    if admin is None:
        return Credentials({"ingest": senders})
    return Credentials(
        {
            "ingest": senders,
            "query": Tokens("admin.query_token", admin.query_token, admin.query_token_file),
            "admin": Tokens("admin.token", admin.token, admin.token_file),
        }
    )


def tls_of(receive: ReceiveSettings) -> ServerTls | None:
    """Return TLS as the settings ask for it, None where they do not.

    Raises:
        ConfigError: a file cannot be used; names setting and file.
    """
    files = TlsFiles.of("receive", receive.tls_cert_file, receive.tls_key_file, receive.tls_client_ca_file)
    return None if files is None else ServerTls(files)


def require_open_door(
    address: Address, receive: ReceiveSettings, credentials: Credentials, tls: ServerTls | None
) -> None:
    """Return nothing where listening on the address is allowed.

    Raises:
        UsageError: strangers could send; says what to do.
    """
    require_allowed(
        address,
        token=credentials.guards("ingest"),
        mutual_tls=tls is not None and tls.is_mutual,
        tls=tls is not None,
        insecure=receive.insecure,
        section="receive",
    )
