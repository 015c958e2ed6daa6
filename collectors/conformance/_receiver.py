"""The receiver under test, as checks speak to it."""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx

from collectors.conformance import _requests
from collectors.conformance._answer import JSON, PROTOBUF, Answer, Call
from collectors.conformance._clients import Clients, body_of
from collectors.conformance._wire import Wire
from otel_agentic.errors import BackendError, UsageError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from collectors.conformance._answer import Signal
    from collectors.conformance._target import Target

#: As many connections as requests at once, in the checks that send many.
PARALLEL: Final = 100
METHODS: Final[Mapping[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_BUSY: Final = frozenset({429, 503})
_FIRST_WAIT_S: Final = 0.25
_Told = TypeVar("_Told", Answer, Call)
_NO_SUCH: Final = frozenset({404, 405, 415, 501})


class Receiver:
    """Speaks to one target; use it as a context manager. Thread-safe."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._tls = target.tls()
        self._clients = Clients(self._tls, target.timeout_s)
        self._lock = threading.Lock()
        self._read: dict[tuple[str, Signal], bool] = {}
        self._channel: Any = None

    def require(self) -> None:
        """Return nothing where somebody listens, and says anything at all.

        Raises:
            BackendError: nobody does; names the address. Each check would wait for an answer in vain, an hour in all.
        """
        limit = f"within {self.target.timeout_s:g} s (--timeout)"
        if self.target.url is not None:
            try:
                self.wire().close()
            except OSError as error:
                raise BackendError(
                    f"nothing answers at {self.target.url}: {error}; is the receiver running?"
                ) from error
            plain = _plain(PROTOBUF, "traces")
            if self.post(plain, sent="one span", patient=False).unanswered:
                raise BackendError(f"{self.target.url} takes connections, and answered one span with nothing {limit}")
        if self.target.grpc is not None:
            try:
                grpc.channel_ready_future(self.channel).result(timeout=min(self.target.timeout_s, 10.0))
            except grpc.FutureTimeoutError as error:
                raise BackendError(
                    f"no gRPC server answers at {self.target.grpc}: is it running, and does it speak TLS or not, as you said?"
                ) from error
            if self.call(_plain(PROTOBUF, "traces"), sent="one span").code == "DEADLINE_EXCEEDED":
                raise BackendError(f"{self.target.grpc} speaks gRPC, and answered one span with nothing {limit}")

    def reads(self, kind: str, signal: Signal) -> bool:
        """Return whether the receiver takes a content type for a signal at all; asked once."""
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
        """Return the answer to a POST of `content`; `headers` win over those that are usual.

        Where the receiver says 429 or 503 a patient sender tries again for a while, as exporters do.
        """
        given = self.headers(kind, encoding) if headers is None else headers

        def send() -> Answer:
            return self.request("POST", f"/v1/{signal}", content, given, sent=sent)

        return self._patiently(send, lambda answer: answer.status in _BUSY) if patient else send()

    def request(self, method: str, path: str, content: bytes, headers: Mapping[str, str], *, sent: str) -> Answer:
        """Return the answer to any request below the URL."""
        url = f"{(self.target.url or '').rstrip('/')}{path}"
        try:
            given = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
            with self._clients.get().stream(method, url, content=content, headers=given) as answer:
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
            OSError: nobody answers.
        """
        host, port = self.target.http_address
        return Wire(host, port, tls=self._tls, timeout_s=self.target.timeout_s)

    def head(self, *, path: str = "/v1/traces", headers: Mapping[str, str] | None = None, **more: str) -> bytes:
        """Return the bytes of a request head; underscores in the names of `more` stand for hyphens."""
        host, port = self.target.http_address
        fields = self.headers() if headers is None else dict(headers)
        fields |= {key.replace("_", "-"): value for key, value in more.items()}
        lines = [f"POST {self.target.prefix}{path} HTTP/1.1", f"Host: {host}:{port}"]
        lines += [f"{key}: {value}" for key, value in fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def whole(self) -> bytes:
        """Return the bytes of a good request: one span in protobuf."""
        body = _requests.traces().SerializeToString()
        return self.head(content_length=str(len(body))) + body

    @functools.cached_property
    def channel(self) -> Any:
        """A gRPC channel, one for all calls."""
        self._channel = self.new_channel()
        return self._channel

    def new_channel(self) -> Any:
        """Return a gRPC channel with a connection of its own.

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
        """Return the answer to a unary call, tried again for a while where the receiver says UNAVAILABLE."""
        given = tuple((self.metadata() if metadata is None else metadata).items())
        limit_s = self.target.timeout_s if timeout_s is None else timeout_s

        def send() -> Call:
            stub = self.channel.unary_unary(method or METHODS[signal])
            return finished(stub.future(data, timeout=limit_s, metadata=given, compression=compression), sent)

        return self._patiently(send, lambda call: call.code == "UNAVAILABLE")

    def metadata(self) -> dict[str, str | bytes]:
        """Return the usual metadata of a call."""
        return {**{key.lower(): value for key, value in self.target.headers.items()}, **self.target.authorization}

    def _patiently(self, send: Callable[[], _Told], is_busy: Callable[[_Told], bool]) -> _Told:
        """Return the first answer that is not `is_busy`, or the last one when patience ends."""
        deadline = time.monotonic() + self.target.patience_s
        wait_s = _FIRST_WAIT_S
        while is_busy(told := send()) and time.monotonic() + wait_s < deadline:
            time.sleep(wait_s)
            wait_s *= 2
        return told

    def close(self) -> None:
        """End all connections."""
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
    """Return the answer to a call that was begun, once it is there."""
    code = begun.code().name
    trailers = {item.key: item.value for item in begun.trailing_metadata() or ()}
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
