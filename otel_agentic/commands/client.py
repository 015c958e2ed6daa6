"""Clients that run commands on a store: in this process, or in the running collector that holds the file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import orjson

from otel_agentic import errors
from otel_agentic.errors import BackendError, OtelAgenticError
from otel_agentic.net import client_context, read_tokens
from otel_agentic.net.server_file import find_live_server
from otel_agentic.results import from_json

if TYPE_CHECKING:
    import ssl

    from otel_agentic.config import AdminSettings, Settings
    from otel_agentic.engine.engine import Engine

T = TypeVar("T")
#: Wildcard addresses, and the loopback address by which this machine reaches them.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 — compared with, not listened on
_CONNECT_TIMEOUT_S: Final = 5.0
_FAILURE: Final = {"error", "message", "exit_code"}


class Client(ABC):
    """Runs commands by name; see `otel_agentic.commands`. An argument of None means the default of the command."""

    #: Whether a running collector runs the commands, with its own settings.
    is_remote: ClassVar[bool] = False

    @abstractmethod
    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value.

        Raises:
            OtelAgenticError: any error of the command, of the same class as in the process that ran it.
        """

    @abstractmethod
    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""

    def get(self, kind: type[T], name: str, /, **arguments: Any) -> T:
        """Run a command and return its result as a type of `otel_agentic.results`.

        Raises:
            BackendError: the result has another shape, because the collector has another version.
        """
        return _typed(kind, name, self.call(name, **arguments))

    def stream_of(self, kind: type[T], name: str, /, **arguments: Any) -> Generator[T]:
        """Yield the results of a command that streams as a type of `otel_agentic.results`; see `get`."""
        with closing(self.stream(name, **arguments)) as stream:
            for item in stream:
                yield _typed(kind, name, item)

    @abstractmethod
    def close(self) -> None:
        """Release the file or the connection."""


def _typed(kind: type[T], name: str, payload: Any) -> T:
    try:
        return from_json(kind, payload)
    except ValueError as error:
        raise BackendError(f"unexpected result of {name}; is the collector of the same version? {error}") from error


class LocalClient(Client):
    """Commands on a file that this process opens."""

    def __init__(self, settings: Settings, progress: Callable[[str, int, int | None], None]) -> None:
        """Open the file.

        Raises:
            StoreError: the file is missing or cannot be used.
        """
        self._settings = settings
        self._progress = progress
        self._engine: Engine | None = None
        self._open_engine()

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value."""
        if name == "query":
            return dict(self._query(**arguments))
        from otel_agentic.commands.registry import Commands  # noqa: PLC0415 — DuckDB is not needed to ask a server

        return Commands(self._open_engine(), self._progress).call(name, _present(arguments))

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""
        yield from self.call(name, **arguments)

    def close(self) -> None:
        """Close the file."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _open_engine(self) -> Engine:
        from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — DuckDB is not needed to ask a server

        if self._engine is None:
            self._engine = Engine(self._settings)
        return self._engine

    def _query(self, *, sql: str, fresh: bool | None = None, evaluation: str | None = None) -> Any:  # noqa: ARG002 — the file itself is always current
        """Run a query in a separate process on the file itself, which this process closes first."""
        from otel_agentic.store.connection import DEFAULT, require_evaluation  # noqa: PLC0415 — DuckDB, as above
        from otel_agentic.store.maintenance.export import export_folder_of  # noqa: PLC0415 — same
        from otel_agentic.store.queries.user_queries import UserQueries, limits_of  # noqa: PLC0415 — same

        store, name = self._open_engine().store, evaluation or DEFAULT
        with store.read() as con:
            require_evaluation(con, name)
        self.close()
        return UserQueries().run(
            store.path,
            sql,
            limits_of(self._settings.store),
            as_of_ns=store.clock(),
            evaluation=name,
            folder=export_folder_of(self._settings).resolve(),
        )


class RemoteClient(Client):
    """Commands on a live collector, over its admin address."""

    is_remote = True

    def __init__(self, url: str, token: str | None, tls: ssl.SSLContext | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # A command may take long, so only connecting has a timeout.
        timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S)
        self._url = url
        verify = True if tls is None else tls
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=verify)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run a command and return its result as a JSON value."""
        with self._connection_errors(), self._request(name, arguments) as response:
            return orjson.loads(response.read())

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield the JSON values of a command that streams."""
        with self._connection_errors(), self._request(name, arguments) as response:
            for line in response.iter_lines():
                if line:
                    yield self._item(orjson.loads(line))

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _item(self, item: Any) -> Any:
        """Return an object of a stream, or raise the error that it describes, which came after the status was sent."""
        if isinstance(item, dict) and item.keys() == _FAILURE:
            raise _error_of(item, self._url)
        return item

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise BackendError(
                f"no collector answers at {self._url}: {error}; check --server, or use --db on a file that none holds"
            ) from error

    def _request(self, name: str, arguments: dict[str, Any]) -> _Answer:
        return _Answer(self._http, self._url, name, _present(arguments))


def _present(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


class _Answer:
    """One request as a context manager; entering it sends the request and checks the response."""

    def __init__(self, http: httpx.Client, url: str, name: str, arguments: dict[str, Any]) -> None:
        self._url = url
        body = orjson.dumps(arguments)
        self._open = http.stream(
            "POST", f"/v1/commands/{name}", content=body, headers={"content-type": "application/json"}
        )

    def __enter__(self) -> httpx.Response:
        response = self._open.__enter__()
        if response.is_success:
            return response
        try:
            raise _error_in(response, self._url)
        finally:
            self._open.__exit__(None, None, None)

    def __exit__(self, *failure: object) -> None:
        self._open.__exit__(*failure)  # type: ignore[arg-type]  # passed through


def _error_in(response: httpx.Response, url: str) -> OtelAgenticError:
    """Return the error in the response of a collector, as an instance of the class that the collector raised."""
    try:
        payload = orjson.loads(response.read())
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return errors.UsageError(f"{url}: {payload['message']}; set admin.token (OTEL_AGENTIC_ADMIN__TOKEN)")
        if response.status_code == httpx.codes.FORBIDDEN:
            return errors.UsageError(f"{url}: {payload['message']}")
        return _error_of(payload, url)
    except (orjson.JSONDecodeError, KeyError, TypeError, httpx.HTTPError):
        return BackendError(f"{url} answered {response.status_code}: is that the admin address of a collector?")


def _error_of(payload: dict[str, Any], url: str) -> OtelAgenticError:
    kind, message = str(payload["error"]), str(payload["message"])
    known_class = getattr(errors, kind, None)
    if isinstance(known_class, type) and issubclass(known_class, OtelAgenticError):
        return known_class(message)
    return BackendError(f"{url}: {kind}: {message}")


def open_client(
    settings: Settings,
    *,
    server: str | None,
    progress: Callable[[str, int, int | None], None] = lambda *_: None,
) -> Client:
    """Return a client of the server, else of the collector that holds the configured store, else of the store itself.

    Raises:
        StoreError: the file is missing or cannot be used.
        ConfigError: a file of tokens or certificates cannot be used.
    """
    if server is not None:
        return RemoteClient(server, _token(settings.admin), _tls(settings.admin))
    live = find_live_server(Path(settings.store.db))
    if live is not None:
        tls = _tls(settings.admin)
        if _responds(_without_wildcard(live.admin), tls):  # a dead process leaves its file behind, and its id is reused
            return RemoteClient(_without_wildcard(live.admin), _token(settings.admin), tls)
    return LocalClient(settings, progress)


def answering_at(admin: AdminSettings) -> str | None:
    """Return the URL of the configured admin address, or None if nothing responds there."""
    scheme = "http" if admin.tls_cert_file is None else "https"
    url = _without_wildcard(f"{scheme}://{admin.address}")
    return url if _responds(url, _tls(admin)) else None


def _without_wildcard(url: str) -> str:
    """Return the URL with the loopback address instead of a wildcard, as no certificate is valid for 0.0.0.0."""
    parts = urlsplit(url)
    loopback = _LOOPBACK.get(parts.hostname or "")
    return url if loopback is None else f"{parts.scheme}://{loopback}:{parts.port}"


def _token(admin: AdminSettings) -> str | None:
    """Return the configured token with the strongest role."""
    for name, secret, file in (
        ("admin.token", admin.token, admin.token_file),
        ("admin.query_token", admin.query_token, admin.query_token_file),
    ):
        if secret is not None:
            return secret.get_secret_value()
        if file is not None:
            return read_tokens(file, f"{name}_file")[0]
    return None


def _tls(admin: AdminSettings) -> ssl.SSLContext | None:
    return client_context("admin", admin.ca_file, admin.client_cert_file, admin.client_key_file)


def _responds(url: str, tls: ssl.SSLContext | None) -> bool:
    try:
        httpx.get(f"{url}/healthz", timeout=_CONNECT_TIMEOUT_S, trust_env=False, verify=True if tls is None else tls)
    except httpx.HTTPError as error:
        # Over TLS, a server that responds may still refuse this client: the command reports that instead of opening the
        # file.
        is_there = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) or "SSL" in str(error)
        return url.startswith("https://") and is_there
    return True
