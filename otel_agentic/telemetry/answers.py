"""What a backend answers over HTTP: read in part, and looked through for points that it left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

if TYPE_CHECKING:
    from requests import Response

#: Told how many points or events a backend left out of a request, and why.
Partly: TypeAlias = Callable[[int, str], None]

#: Bytes read of a backend's answer: OTLP answers are tiny, and a hostile one must not fill the memory.
MAX_ANSWER_BYTES: Final = 64 * 1024
_REDIRECTS: Final = range(300, 400)
_OK: Final = 200


def session(partly: Partly) -> requests.Session:
    """Return a session that reads only the beginning of an answer: the default reads all of it into memory.

    Args:
        partly: told of what a backend took only in part.
    """

    def read(response: Response, *_args: object, **_kwargs: object) -> None:
        if response.status_code in _REDIRECTS:
            response.close()  # the SDK takes a redirect, which it does not follow, for a success
            raise requests.HTTPError(f"answered {response.status_code} {response.reason}: the address is another one")
        body = _beginning(response)
        if response.status_code == _OK and body:
            _look_through(body, partly)

    made = _Session()
    made.stream = True
    made.auth = _as_it_is
    made.hooks["response"].append(read)
    return made


class _Session(requests.Session):
    """A session in which a file of authorities wins over REQUESTS_CA_BUNDLE; in its parent that wins over the file."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> dict[str, Any]:
        """Return proxies and the like of the environment, and our own authorities."""
        merged: dict[str, Any] = dict(super().merge_environment_settings(url, proxies, stream, verify, cert))
        return merged | ({} if self.verify is True else {"verify": self.verify})


def _as_it_is(request: Any) -> Any:
    """Leave a request's headers alone; without this, a password of ~/.netrc would replace the configured header."""
    return request


def _beginning(response: Response) -> bytes:
    """Read a short answer, so that its connection serves again; hang up on any other."""
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) <= MAX_ANSWER_BYTES:
        body: bytes = response.raw.read(MAX_ANSWER_BYTES, decode_content=False)
        response.raw.release_conn()
        return body
    response.close()
    return b""


def _look_through(body: bytes, partly: Partly) -> None:
    """Tell of a partial success; what is not OTLP says nothing. Metrics and logs are answered in the same fields."""
    try:
        found = ExportMetricsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return
    if found.rejected_data_points or found.error_message:
        partly(found.rejected_data_points, found.error_message)
