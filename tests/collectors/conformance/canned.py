"""Receivers that give the same answer to every request, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

if TYPE_CHECKING:
    Reply = Callable[[bytes], bytes | None]


def http(status: str, kind: str = "application/x-protobuf", body: bytes = b"", *more: str) -> bytes:
    """Return the bytes of an HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def answering(reply: Reply) -> Iterator[str]:
    """Run a server that sends `reply(head)` for each request head that it saw; None hangs up. Yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    open_connections: set[socket.socket] = set()

    def converse(connection: socket.socket) -> None:
        data = b""
        with connection:
            try:
                while more := connection.recv(65536):
                    data += more
                    while b"\r\n\r\n" in data:
                        head, _, data = data.partition(b"\r\n\r\n")
                        answer = reply(head)
                        if answer is None:
                            return
                        connection.sendall(answer)
                    data = data[-200_000:]
            except OSError:
                pass
        open_connections.discard(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_connections.add(connection)
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in tuple(open_connections):
            connection.close()


@contextmanager
def answering_grpc(reply: Callable[[bytes, Any], bytes]) -> Iterator[str]:
    """Run a gRPC server that answers every method with `reply(request, context)`; yield host:port."""

    class Everything(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
        def service(self, _details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(reply)

    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool, handlers=(Everything(),), options=[("grpc.max_receive_message_length", -1)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()
