"""The receiver under test as checks use it: HTTP clients, raw connections and gRPC channels, and their responses."""

from __future__ import annotations

import functools
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import h11
import httpx
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed

from collectors.conformance import _requests
from otel_agentic.errors import BackendError, UsageError
from otel_agentic.net import parse_address
from otel_agentic.regular_files import read_regular

Signal = Literal["traces", "logs"]


PROTOBUF: Final = "application/x-protobuf"


JSON: Final = "application/json"


_SHOWN_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The HTTP response to the request described by `sent`; without a response, `status` is 0 and `error` is the reason.

    `unanswered` is whether nothing was received before the timeout.
    """

    sent: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""
    unanswered: bool = False
    informed: tuple[int, ...] = ()

    @property
    def type(self) -> str:
        """The media type, in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def summary(self) -> str:
        """The response in one line that is safe to print."""
        if self.error:
            return self.error
        return f"HTTP {self.status}, {self.type or 'no content type'}, {printable(self.body)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The gRPC response to the request described by `sent`; `code` is the name of the status code."""

    sent: str
    code: str
    details: str = ""
    body: bytes = b""
    trailers: Mapping[str, str | bytes] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The response in one line that is safe to print."""
        return f"OK, {printable(self.body)}" if self.code == "OK" else f"{self.code} {self.details[:_SHOWN_BYTES]!a}"

    @property
    def status(self) -> Status | None:
        """The `google.rpc.Status` of the trailers, None if it is missing or cannot be read."""
        raw = self.trailers.get("grpc-status-details-bin")
        try:
            return Status.FromString(raw) if isinstance(raw, bytes) else None
        except ProtobufDecodeError:
            return None


def printable(body: bytes) -> str:
    """Return a body as text of limited length that is safe for terminals."""
    if not body:
        return "an empty body"
    suffix = f" and {len(body) - _SHOWN_BYTES} bytes more" if len(body) > _SHOWN_BYTES else ""
    return ascii(body[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")) + suffix


#: The largest response that is read, bytes: a response message contains only a count and a sentence.
_MOST_BYTES: Final = 1024 * 1024


class Clients:
    """Provides each thread with its own client.

    With a shared client, httpx may close a connection that another thread acquired at the same moment, and a check that sends many
    requests at once would attribute the error to the receiver.
    """

    def __init__(self, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._own = threading.local()
        self._all: list[httpx.Client] = []

    def get(self) -> httpx.Client:
        """Return the client of this thread, which opens a connection for each request and adds no headers."""
        client: httpx.Client | None = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = httpx.Client(
                verify=self._tls
                or False,  # False only for plain HTTP, where loading the default authorities takes 50 ms
                timeout=self._timeout_s,
                # A connection for each request, so that checks do not affect each other's connections.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,  # the checks with raw connections use no proxies either
            )
            client.headers.clear()
            self._all.append(client)
        return client

    def close(self) -> None:
        """Close all clients."""
        for client in self._all:
            client.close()


def body_of(answer: httpx.Response, deadline_s: float) -> bytes | None:
    """Return the body of a response; None if it exceeds the deadline or the size limit."""
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > _MOST_BYTES or time.monotonic() > deadline_s:
            return None
    return bytes(body)


_PIECE_BYTES: Final = 64 * 1024
_CLOSED: Final = "closed the connection without an answer"


class Wire:
    """A raw connection, for bytes that an HTTP client would never send; `answer` reads the next response from it."""

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connect.

        Raises:
            OSError: the connection failed.
        """
        tcp_socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket = tls.wrap_socket(tcp_socket, server_hostname=host) if tls else tcp_socket
        self._timeout_s = timeout_s
        self._unread = b""

    def send(self, data: bytes) -> None:
        """Write until all bytes are written, an early response arrives, or the receiver disconnects."""
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                if start and self.has_answer():
                    return
                self._socket.sendall(data[start : start + _PIECE_BYTES])
        except OSError:
            return  # an earlier response can still be read

    def has_answer(self, wait_s: float = 0.0) -> bool:
        """Return whether a response, or the end of the connection, arrives within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while not self._unread:
            left_s = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._socket], [], [], left_s)[0]:
                return False
            if self._received():
                return True
        return True

    def _received(self) -> bool:
        self._socket.setblocking(False)
        try:
            self._unread = self._socket.recv(_PIECE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False  # only a TLS message
        except OSError:
            return True
        finally:
            self._socket.settimeout(self._timeout_s)
        return True

    def trickle(self, data: bytes) -> bool:
        """Write byte by byte, a hundred bytes per time limit.

        Return whether the receiver responded or disconnected meanwhile.
        """
        for start in range(len(data)):
            if self.has_answer(self._timeout_s / 100):
                return True
            try:
                self._socket.sendall(data[start : start + 1])
            except OSError:
                return True
        return False

    def answer(self, sent: str) -> Answer:
        """Return the next response, or one with an `error`."""
        parser = h11.Connection(h11.CLIENT)
        # h11 only parses responses to requests that it has seen.
        parser.send(h11.Request(method="POST", target="/", headers=[("host", "receiver")]))
        parser.send(h11.EndOfMessage())
        if self._unread:  # h11 interprets empty bytes as the end of the connection
            parser.receive_data(self._unread)
        try:
            return self._read(parser, sent)
        except TimeoutError:
            return Answer(sent=sent, error=f"no answer within {self._timeout_s:g} s")
        except h11.RemoteProtocolError as error:
            return Answer(sent=sent, error=f"something that is not HTTP: {error}")
        except OSError:
            return Answer(sent=sent, error=_CLOSED)

    def is_closed(self) -> bool:
        """Return whether the receiver ends the connection within the time limit."""
        try:
            self._socket.settimeout(self._timeout_s)
            while self._socket.recv(_PIECE_BYTES):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read(self, parser: h11.Connection, sent: str) -> Answer:
        deadline = time.monotonic() + self._timeout_s
        interim_statuses: list[int] = []
        response: h11.Response | None = None
        body = bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._socket.recv(_PIECE_BYTES)
                if not data and response is None:
                    return Answer(sent=sent, error=_CLOSED, informed=tuple(interim_statuses))
                parser.receive_data(data)
            elif isinstance(event, h11.InformationalResponse):
                interim_statuses.append(event.status_code)
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and response is not None:
                self._unread = parser.trailing_data[0]
                return _answer(sent, response, bytes(body), tuple(interim_statuses))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def chunked(body: bytes, size: int) -> list[bytes]:
    """Return a body as chunks of at most `size` bytes, followed by the empty last chunk."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return [*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def _answer(sent: str, response: h11.Response, body: bytes, interim_statuses: tuple[int, ...]) -> Answer:
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in response.headers}
    return Answer(sent=sent, status=response.status_code, headers=headers, body=body, informed=interim_statuses)


_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A receiver.

    `url` is the base of `/v1/traces`, None if only gRPC is checked; `grpc` is `host:port`, or the same with `http://` or `https://`
    before it. `timeout_s` is the longest wait for a response, or for the end of a stalled connection; `patience_s` is how long a
    request with a retryable response is retried. `max_bytes` is the largest request that the receiver documents, 0 if unknown.
    """

    url: str | None = None
    grpc: str | None = None
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_s: float = 45.0
    patience_s: float = 20.0
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check the addresses.

        Raises:
            UsageError: both addresses are missing, or one is malformed.
        """
        if self.url is None and self.grpc is None:
            raise UsageError("missing receiver: pass its URL, such as http://127.0.0.1:4318, or --grpc host:port")
        if self.url is not None and (self.scheme not in _PORTS or not urlsplit(self.url).hostname):
            raise UsageError(f"URL {self.url!r}: expected http://host:port or https://host:port")
        if self.grpc is not None:
            parse_address(self.grpc_address)

    @property
    def scheme(self) -> str:
        """The scheme of the URL: http or https."""
        return urlsplit(self.url or "").scheme

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the URL."""
        parts = urlsplit(self.url or "")
        return parts.hostname or "", parts.port or _PORTS[parts.scheme]

    @property
    def prefix(self) -> str:
        """The path of the URL, without a slash at its end."""
        return urlsplit(self.url or "").path.rstrip("/")

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC address."""
        return (self.grpc or "").removeprefix("https://").removeprefix("http://").rstrip("/")

    @property
    def grpc_is_secure(self) -> bool:
        """Whether gRPC uses TLS: by the scheme of its address, else by that of the URL or a CA file."""
        address = self.grpc or ""
        if "://" in address:
            return address.startswith("https://")
        return self.scheme == "https" or self.ca_file is not None

    @property
    def authorization(self) -> Mapping[str, str]:
        """The header with the token, in lower case; empty without a token."""
        return {"authorization": f"Bearer {self.token}"} if self.token is not None else {}

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of HTTPS, None for plain HTTP.

        Raises:
            UsageError: a certificate or key cannot be read.
        """
        if self.scheme != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"cannot use the certificate files: {error}") from error
        return context


#: The number of parallel requests and connections in checks that send many.
PARALLEL: Final = 100
METHODS: Final[Mapping[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_BUSY: Final = frozenset({429, 503})
_FIRST_WAIT_S: Final = 0.25
_AnswerT = TypeVar("_AnswerT", Answer, Call)
_NO_SUCH: Final = frozenset({404, 405, 415, 501})


class Receiver:
    """Sends requests to one target; use it as a context manager. Thread-safe."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._tls = target.tls()
        self._clients = Clients(self._tls, target.timeout_s)
        self._lock = threading.Lock()
        self._read: dict[tuple[str, Signal], bool] = {}
        self._channel: Any = None

    def require(self) -> None:
        """Check that the receiver listens and responds.

        Raises:
            BackendError: it does not; names the address. Otherwise each check would wait for a timeout, an hour in total.
        """
        limit = f"within {self.target.timeout_s:g} s (--timeout)"
        if self.target.url is not None:
            try:
                self.wire().close()
            except OSError as error:
                raise BackendError(f"no connection to {self.target.url}: {error}; is the receiver running?") from error
            request_body = _plain(PROTOBUF, "traces")
            if self.post(request_body, sent="one span", patient=False).unanswered:
                raise BackendError(f"{self.target.url} accepts connections, but did not respond to one span {limit}")
        if self.target.grpc is not None:
            try:
                grpc.channel_ready_future(self.channel).result(timeout=min(self.target.timeout_s, 10.0))
            except grpc.FutureTimeoutError as error:
                raise BackendError(
                    f"no gRPC server at {self.target.grpc}: is it running, and does it use TLS or not, as specified?"
                ) from error
            if self.call(_plain(PROTOBUF, "traces"), sent="one span").code == "DEADLINE_EXCEEDED":
                raise BackendError(f"{self.target.grpc} uses gRPC, but did not respond to one span {limit}")

    def reads(self, kind: str, signal: Signal) -> bool:
        """Return whether the receiver accepts a content type for a signal.

        The result of the first request is cached.
        """
        with self._lock:
            if (kind, signal) not in self._read:
                content = _plain(kind, signal)
                answer = self.post(content, kind, signal=signal, sent=f"one of {signal} as {kind}")
                self._read[kind, signal] = answer.status not in _NO_SUCH
            return self._read[kind, signal]

    def post(
        self,
        content: bytes,
        kind: str = PROTOBUF,
        *,
        sent: str,
        signal: Signal = "traces",
        encoding: str | None = None,
        headers: Mapping[str, str] | None = None,
        patient: bool = True,
    ) -> Answer:
        """Return the response to a POST of `content`; `headers` override the usual headers.

        If the receiver responds with 429 or 503, the request is retried for `patience_s` if `patient`, as exporters do.
        """
        fields = self.headers(kind, encoding) if headers is None else headers

        def send() -> Answer:
            return self.request("POST", f"/v1/{signal}", content, fields, sent=sent)

        return self._retry_while_busy(send, lambda answer: answer.status in _BUSY) if patient else send()

    def request(self, method: str, path: str, content: bytes, headers: Mapping[str, str], *, sent: str) -> Answer:
        """Return the response to any request below the URL."""
        url = f"{(self.target.url or '').rstrip('/')}{path}"
        try:
            pairs = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
            with self._clients.get().stream(method, url, content=content, headers=pairs) as answer:
                body = body_of(answer, time.monotonic() + self.target.timeout_s)
        except httpx.TimeoutException:
            return Answer(sent=sent, error=f"no answer within {self.target.timeout_s:g} s", unanswered=True)
        except httpx.HTTPError as error:
            return Answer(sent=sent, error=f"no answer: {type(error).__name__} {error}".rstrip())
        if body is None:
            return Answer(sent=sent, error="an answer that does not end")
        return Answer(sent=sent, status=answer.status_code, headers=answer.headers, body=body)

    def headers(self, kind: str | None = PROTOBUF, encoding: str | None = None) -> dict[str, str]:
        """Return the usual headers of a request, keys in lower case."""
        return {
            **{key.lower(): value for key, value in self.target.headers.items()},
            **self.target.authorization,
            **({"content-type": kind} if kind is not None else {}),
            **({"content-encoding": encoding} if encoding is not None else {}),
        }

    def wire(self) -> Wire:
        """Return a new connection.

        Raises:
            OSError: no server answers.
        """
        host, port = self.target.http_address
        return Wire(host, port, tls=self._tls, timeout_s=self.target.timeout_s)

    def head(self, *, path: str = "/v1/traces", headers: Mapping[str, str] | None = None, **more: str) -> bytes:
        """Return the bytes of a request head; `more` are headers, in whose names underscores become hyphens."""
        host, port = self.target.http_address
        fields = self.headers() if headers is None else dict(headers)
        fields |= {key.replace("_", "-"): value for key, value in more.items()}
        lines = [f"POST {self.target.prefix}{path} HTTP/1.1", f"Host: {host}:{port}"]
        lines += [f"{key}: {value}" for key, value in fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def valid_request(self) -> bytes:
        """Return the bytes of a valid request: one span in protobuf."""
        body = _requests.traces().SerializeToString()
        return self.head(content_length=str(len(body))) + body

    @functools.cached_property
    def channel(self) -> Any:
        """A gRPC channel, one for all calls."""
        self._channel = self.new_channel()
        return self._channel

    def new_channel(self) -> Any:
        """Return a gRPC channel with its own connection.

        Raises:
            UsageError: a certificate or key cannot be read.
        """
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
        ]
        target = self.target
        if not target.grpc_is_secure:
            return grpc.insecure_channel(target.grpc_address, options=options)
        credentials = grpc.ssl_channel_credentials(
            _content(target.ca_file), _content(target.key_file or target.cert_file), _content(target.cert_file)
        )
        return grpc.secure_channel(target.grpc_address, credentials, options=options)

    def call(
        self,
        data: bytes,
        *,
        sent: str,
        signal: Signal = "traces",
        method: str | None = None,
        metadata: Mapping[str, str | bytes] | None = None,
        compression: Any = None,
        timeout_s: float | None = None,
    ) -> Call:
        """Return the response to a unary call, which is retried for `patience_s` on UNAVAILABLE."""
        pairs = tuple((self.metadata() if metadata is None else metadata).items())
        limit_s = self.target.timeout_s if timeout_s is None else timeout_s

        def send() -> Call:
            stub = self.channel.unary_unary(method or METHODS[signal])
            return finished(stub.future(data, timeout=limit_s, metadata=pairs, compression=compression), sent)

        return self._retry_while_busy(send, lambda call: call.code == "UNAVAILABLE")

    def metadata(self) -> dict[str, str | bytes]:
        """Return the usual metadata of a call."""
        return {**{key.lower(): value for key, value in self.target.headers.items()}, **self.target.authorization}

    def _retry_while_busy(self, send: Callable[[], _AnswerT], is_busy: Callable[[_AnswerT], bool]) -> _AnswerT:
        """Return the first response for which `is_busy` is false, or the last one once `patience_s` has passed."""
        deadline = time.monotonic() + self.target.patience_s
        wait_s = _FIRST_WAIT_S
        while is_busy(answer := send()) and time.monotonic() + wait_s < deadline:
            time.sleep(wait_s)
            wait_s *= 2
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()
        if self._channel is not None:
            self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finished(begun: Any, sent: str) -> Call:
    """Wait for a call that was begun, and return its response."""
    code = begun.code().name
    trailers = {entry.key: entry.value for entry in begun.trailing_metadata() or ()}
    body = begun.result() if code == "OK" else b""
    return Call(sent=sent, code=code, details=begun.details() or "", body=body, trailers=trailers)


def _plain(kind: str, signal: Signal) -> bytes:
    if kind == JSON:
        return _requests.traces_json() if signal == "traces" else _requests.logs_json()
    request = _requests.traces() if signal == "traces" else _requests.logs()
    return request.SerializeToString()


def _content(file: Path | None) -> bytes | None:
    try:
        return read_regular(file) if file is not None else None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
