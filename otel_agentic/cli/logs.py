"""Logging of a collector to standard error: readable lines, or one JSON object per line. Logs never contain span content.

Errors of libraries quote their input: DuckDB's conversion errors contain the value, those of a parser the text. Only the
class and the stack locations of such an exception are logged, unless the log level is debug.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from otel_agentic.errors import OtelAgenticError
from otel_agentic.render.text import compact, printable

if TYPE_CHECKING:
    from otel_agentic.config import LogSettings

_OWN: Final = ("otel_agentic", "collectors")
#: uvicorn, gRPC and HTTP clients log startup messages and traces at INFO and below.
_FOREIGN_LEVEL: Final = logging.WARNING
#: Its messages include the failed task, and therefore the text of the exception.
_SHOWS_ERRORS: Final = "asyncio"


def log_to(stream: TextIO, settings: LogSettings) -> None:
    """Log records of this project from the configured level, and records of libraries from WARNING."""
    handler = logging.StreamHandler(stream)
    is_debug = settings.level == "debug"
    handler.setFormatter(JsonLines(debugging=is_debug) if settings.format == "json" else Lines(debugging=is_debug))
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    for earlier in [
        candidate for candidate in logging.root.handlers if isinstance(candidate.formatter, (Lines, JsonLines))
    ]:
        logging.root.removeHandler(earlier)
    logging.root.addHandler(handler)
    logging.root.setLevel(max(level, _FOREIGN_LEVEL))
    for own_logger in _OWN:
        logging.getLogger(own_logger).setLevel(level)


def log_to_stderr(settings: LogSettings) -> None:
    """Log to standard error, see `log_to`, including exceptions that end a thread."""
    log_to(sys.stderr, settings)
    threading.excepthook = _thread_ended


def _thread_ended(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
        error = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        logging.getLogger("otel_agentic").error("an exception ended a thread", exc_info=error)


class Lines(logging.Formatter):
    """One line for each record, followed by the stack locations of an exception."""

    def __init__(self, *, debugging: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._debugging = debugging

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        # Another handler may have cached its text of the exception in the record: ignore it, and restore it afterwards.
        cached_text, record.exc_text = record.exc_text, None
        try:
            return printable(super().format(record))
        finally:
            record.exc_text = cached_text

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — the name in logging.Formatter
        """Return the line without the exception."""
        record.message = _message(record, debugging=self._debugging)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 — the name in logging.Formatter
        """Return the class and stack locations of an exception.

        The text is included only if this project raised the exception, or when debugging.
        """
        if self._debugging or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(line for error in _chain(ei[1]) for line in (_describe(error), *_locations(error)))


class JsonLines(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `message`, and for an exception `error` and `places`."""

    def __init__(self, *, debugging: bool) -> None:
        super().__init__()
        self._debugging = debugging

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        payload: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record, debugging=self._debugging),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            payload["error"] = str(error) if self._debugging else _describe(error)
            payload["places"] = [location.strip() for cause in _chain(error) for location in _locations(cause)]
        try:
            return compact(payload)
        except TypeError:  # a lone surrogate, as in a file name that is not UTF-8
            return json.dumps(payload, default=str)


def _message(record: logging.LogRecord, *, debugging: bool) -> str:
    text = record.getMessage()
    return text.partition("\n")[0] if record.name == _SHOWS_ERRORS and not debugging else text


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, OtelAgenticError) else name


def _locations(error: BaseException) -> list[str]:
    """Return the stack locations of an error, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each once."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
