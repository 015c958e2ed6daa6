"""The commands on a store: run in this process, or by the collector that holds the file.

A function decorated with `command` in a module of this package is a command: its name, role, arguments and documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.commands.client import Client as Client
    from otel_agentic.commands.local import LocalClient as LocalClient
    from otel_agentic.commands.local import open_client as open_client
    from otel_agentic.commands.registry import Commands as Commands
    from otel_agentic.commands.remote import RemoteClient as RemoteClient

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "client": "Client",
        "local": "LocalClient open_client",
        "registry": "Commands",
        "remote": "RemoteClient",
    },
)
