"""Commands on a store: in this process, or in the running collector that holds the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.commands.client import Client, present
from otel_agentic.config import export_folder_of
from otel_agentic.net.server_file import find_live_server

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.engine.engine import Engine

#: Files next to a store that was not closed: its log, and the undo file of an unfinished checkpoint.
_LEFT_BEHIND: Final = ("wal", "undo")
#: What DuckDB may use for a command on a file, MB: less than in a collector. With 64, queries on a million spans fail.
_MEMORY_MB: Final = 96


class LocalClient(Client):
    """Commands on a file. This process opens it for the first command other than `query`."""

    def __init__(self, settings: Settings, progress: Callable[[str, int, int | None], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._engine: Engine | None = None

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value.

        Raises:
            StoreError: the file is missing or cannot be used.
        """
        if name == "query":
            return dict(self._query(**arguments))
        from otel_agentic.commands.registry import Commands  # noqa: PLC0415 — DuckDB is not needed to ask a server

        return Commands(self.opened(), self._progress).call(name, present(arguments))

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""
        yield from self.call(name, **arguments)

    def close(self) -> None:
        """Close the file."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def opened(self) -> Engine:
        """Return the store of this client, opened."""
        from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — DuckDB is not needed to ask a server

        if self._engine is None:
            self._engine = Engine(_for_one_command(self._settings))
        return self._engine

    def _query(self, *, sql: str, fresh: bool | None = None, evaluation: str | None = None) -> Any:  # noqa: ARG002 — the file itself is always current
        """Run a query in a separate process on the file itself; this process opens it only to repair or explain it."""
        from otel_agentic.store.queries.user_queries import UserQueries, limits_of  # noqa: PLC0415 — only for queries

        file = self._settings.store.db
        leftovers = (Path(f"{file.resolve()}.{ending}") for ending in _LEFT_BEHIND)
        if not file.is_file() or any(leftover.exists() for leftover in leftovers):
            self.opened()
        self.close()
        return UserQueries().run(
            file,
            sql,
            limits_of(self._settings.store),
            as_of_ns=time.time_ns(),
            evaluation=evaluation,
            folder=export_folder_of(self._settings).resolve(),
            is_store=True,
        )


def _for_one_command(settings: Settings) -> Settings:
    """Return settings with the memory that commands need, unless the settings set it: pages are hardly read twice."""
    store = settings.store
    if "memory_limit_mb" in store.model_fields_set:
        return settings
    return settings.model_copy(update={"store": store.model_copy(update={"memory_limit_mb": _MEMORY_MB})})


def open_client(
    settings: Settings,
    *,
    server: str | None,
    progress: Callable[[str, int, int | None], None] = lambda *_: None,
) -> Client:
    """Return a client of the server, else of the collector that holds the configured store, else of the store itself.

    Raises:
        ConfigError: a file of tokens or certificates cannot be used.
    """
    live = find_live_server(settings.store.db) if server is None else None
    if server is None and live is None:
        return LocalClient(settings, progress)
    from otel_agentic.commands.remote import RemoteClient  # noqa: PLC0415 — httpx is not needed without a collector

    if live is None:
        return RemoteClient.at(str(server), settings.admin)
    # A dead process leaves its file behind, and its id is reused.
    return RemoteClient.answering(live.admin, settings.admin) or LocalClient(settings, progress)
