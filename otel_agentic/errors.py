"""The exception hierarchy, and the table that maps it to exit codes and protocol statuses.

```
OtelAgenticError
├── UsageError               the command or setting is wrong
│   └── ConfigError          a settings file, variable or flag has a bad value
├── BadInputError            the data is wrong
│   ├── DecodeError          OTLP bytes or a file line that cannot be read
│   ├── TooLargeError        larger than a limit allows
│   ├── CaseError            ground truth that breaks its own rules
│   ├── ConflictError        another change came first
│   └── QueryError           SQL that is refused or fails
├── StoreError               the DuckDB file cannot be used
│   ├── StoreBusyError       another process holds it
│   └── StoreUnusableError   damaged, of a newer version, or out of disk
├── OverloadedError          try again later
├── BackendError             a telemetry backend or a live server cannot be reached
├── PluginError              a plug-in is missing, doubled or fails to load
└── GateFailedError          a quality gate did not pass
```

A message states what happened, to which object, which values are allowed, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class OtelAgenticError(Exception):
    """The base class of all errors that this project raises deliberately."""


class UsageError(OtelAgenticError):
    """A command was called with arguments that cannot work."""


class ConfigError(UsageError):
    """A settings file, environment variable or flag holds a value that is not allowed."""


class BadInputError(OtelAgenticError):
    """Invalid input data."""


class DecodeError(BadInputError):
    """Bytes that are not valid OTLP or JSON."""


class TooLargeError(BadInputError):
    """Input beyond a configured limit, measured after decompression."""


class CaseError(BadInputError):
    """Ground truth that violates the case format; the message contains file, line and field."""


class ConflictError(BadInputError):
    """A change of something that has been changed since it was read."""


class QueryError(BadInputError):
    """SQL that is not one read-only statement, or that failed while running."""


class StoreError(OtelAgenticError):
    """The DuckDB file cannot be used."""


class StoreBusyError(StoreError):
    """Another process holds the DuckDB file."""


class StoreUnusableError(StoreError):
    """The file is damaged, of a newer version, missing, or the disk is full."""


class OverloadedError(OtelAgenticError):
    """The queue is full: nothing was accepted, and the sender should retry."""


class BackendError(OtelAgenticError):
    """A telemetry backend or a live server does not answer."""


class PluginError(OtelAgenticError):
    """A plug-in is missing, is offered twice, or does not load."""


class GateFailedError(OtelAgenticError):
    """A quality gate did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCodes:
    """The answer to an error class: process exit code, HTTP status, gRPC status name."""

    exit: int
    http: int
    grpc: str


#: Most specific class first; `codes_of` returns the first match.
ERROR_CODES: Final[tuple[tuple[type[Exception], ErrorCodes], ...]] = (
    (GateFailedError, ErrorCodes(exit=1, http=422, grpc="FAILED_PRECONDITION")),
    (TooLargeError, ErrorCodes(exit=3, http=413, grpc="RESOURCE_EXHAUSTED")),
    (ConflictError, ErrorCodes(exit=3, http=409, grpc="ABORTED")),
    (BadInputError, ErrorCodes(exit=3, http=400, grpc="INVALID_ARGUMENT")),
    (StoreError, ErrorCodes(exit=4, http=503, grpc="UNAVAILABLE")),
    (OverloadedError, ErrorCodes(exit=4, http=503, grpc="UNAVAILABLE")),
    (BackendError, ErrorCodes(exit=5, http=502, grpc="UNAVAILABLE")),
    (PluginError, ErrorCodes(exit=2, http=400, grpc="FAILED_PRECONDITION")),
    (UsageError, ErrorCodes(exit=2, http=400, grpc="INVALID_ARGUMENT")),
)

#: Any other exception. OTLP clients drop a batch on 500, so it asks for a retry, too.
UNFORESEEN: Final = ErrorCodes(exit=70, http=503, grpc="UNAVAILABLE")


def codes_of(error: BaseException) -> ErrorCodes:
    """Return the exit code and protocol statuses of an error.

    >>> codes_of(StoreBusyError("held")).exit
    4
    """
    for kind, codes in ERROR_CODES:
        if isinstance(error, kind):
            return codes
    return UNFORESEEN
