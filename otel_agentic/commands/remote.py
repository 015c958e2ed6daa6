"""The client of a running collector: its commands over the admin address."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx
import orjson

from otel_agentic import errors
from otel_agentic.commands.client import Client, present
from otel_agentic.errors import BackendError, OtelAgenticError
from otel_agentic.net import client_context, read_tokens

if TYPE_CHECKING:
    import ssl

    from otel_agentic.config import AdminSettings

#: Wildcard addresses, and the loopback address by which this machine reaches them.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 — compared with, not listened on
_CONNECT_TIMEOUT_S: Final = 5.0
_FAILURE: Final = {"error", "message", "exit_code"}


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

    @classmethod
    def at(cls, url: str, admin: AdminSettings) -> RemoteClient:
        """Return the client of a URL, with the token and the certificates of the settings.

        Raises:
            ConfigError: a file of tokens or certificates cannot be used.
        """
        return cls(url, _token(admin), _tls(admin))

    @classmethod
    def answering(cls, url: str, admin: AdminSettings) -> RemoteClient | None:
        """Return the client of a URL, with the loopback address instead of a wildcard; None if nothing responds there."""
        url, tls = _without_wildcard(url), _tls(admin)
        return cls(url, _token(admin), tls) if _responds(url, tls) else None

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
        return _Answer(self._http, self._url, name, present(arguments))


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
        ("admin.review_token", admin.review_token, admin.review_token_file),
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
