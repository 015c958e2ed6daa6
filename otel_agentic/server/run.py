"""Runs the admin app in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import uvicorn

from otel_agentic.errors import UsageError
from otel_agentic.net import Address, listen, parse_address, require_allowed

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.applications import Starlette

_START_LIMIT_S: Final = 10.0
_START_POLL_S: Final = 0.005
_GRACE_S: Final = 2


class AdminServer:
    """The admin address, from `start` to `stop`."""

    def __init__(self, app: Starlette, address: str, *, token: SecretStr | None, insecure: bool) -> None:
        """Take the address.

        Args:
            app: what to serve.
            address: host:port; port 0 takes a free one.
            token: what requests must show; without one only loopback addresses are allowed,
            insecure: unless this is set.

        Raises:
            UsageError: the address cannot be read, is taken, or is public without a token.
        """
        wanted = parse_address(address)
        require_allowed(wanted, token=token, insecure=insecure, section="admin")
        self._listener = listen(wanted)
        self._address = Address(host=wanted.host, port=self._listener.getsockname()[1])
        config = uvicorn.Config(
            app,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,  # logging belongs to the process that runs us
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        # On a thread that is not the main one uvicorn leaves signals alone.
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, name="otel-agentic-admin", daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL, with the real port."""
        return f"http://{self._address}"

    def start(self) -> None:
        """Serve; returns when requests are answered.

        Raises:
            UsageError: it does not come up in time.
        """
        self._thread.start()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise UsageError(f"the admin server on {self._address} did not start; see the log")
            time.sleep(_START_POLL_S)

    def stop(self) -> None:
        """Finish requests under way and release the address."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()
