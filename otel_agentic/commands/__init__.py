"""The commands on a store: run in this process, or by the collector that holds the file.

A function decorated with `command` in a module of this package is a command: its name, role, arguments and documentation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.commands.client import Client, LocalClient, RemoteClient, open_client
    from otel_agentic.commands.registry import Command, Commands, Context, command, registered

__all__ = [
    "Client",
    "Command",
    "Commands",
    "Context",
    "LocalClient",
    "RemoteClient",
    "command",
    "open_client",
    "registered",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "client" if name.lower().endswith("client") else "registry"
    return getattr(import_module(f"{__name__}.{home}"), name)
