"""What a collector writes to standard error: lines for people, or one JSON object a line. Never content of spans.

Libraries quote what they choke on: DuckDB's conversion errors show the value, a parser's the text. So of an exception that
is not ours only its class and where it was raised are written, unless debugging is asked for.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.render.text import compact, printable
from otel_agentic.errors import OtelAgenticError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from otel_agentic.config import LogSettings

_OWN: Final = ("otel_agentic", "collectors")
#: uvicorn, gRPC and HTTP clients greet and trace at INFO and below.
_FOREIGN_LEVEL: Final = logging.WARNING
#: It shows below its message the task that failed, and so the text of the exception.
_SHOWS_ERRORS: Final = "asyncio"


def log_to(stream: TextIO, settings: LogSettings) -> None:
    """Write what we log at the settings' level and above, and what libraries log from WARNING on."""
    handler = logging.StreamHandler(stream)
    debugging = settings.level == "debug"
    handler.setFormatter(JsonLines(debugging=debugging) if settings.format == "json" else Lines(debugging=debugging))
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    for earlier in [known for known in logging.root.handlers if isinstance(known.formatter, (Lines, JsonLines))]:
        logging.root.removeHandler(earlier)
    logging.root.addHandler(handler)
    logging.root.setLevel(max(level, _FOREIGN_LEVEL))
    for own in _OWN:
        logging.getLogger(own).setLevel(level)


def log_to_stderr(settings: LogSettings) -> None:
    """Write logs to standard error, see `log_to`; an exception that ends a thread is one of them."""
    log_to(sys.stderr, settings)
    threading.excepthook = _thread_ended


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        error = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger("otel_agentic").error("an exception ended a thread", exc_info=error)


class Lines(logging.Formatter):
    """One line for each thing told, and the places of an exception below it."""

    def __init__(self, *, debugging: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._debugging = debugging

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        # What another handler wrote of the exception is kept on the record: it is neither taken over nor left changed.
        cached, record.exc_text = record.exc_text, None
        try:
            return printable(super().format(record))
        finally:
            record.exc_text = cached

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — as below
        """Return the line itself."""
        record.message = _message(record, debugging=self._debugging)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 — the name that logging gives it
        """Return class and places of an exception; its text only where it is ours, or debugging is asked for."""
        if self._debugging or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(line for error in _chain(ei[1]) for line in (_said(error), *_places(error)))


class JsonLines(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and of an exception `error` and `places`."""

    def __init__(self, *, debugging: bool) -> None:
        super().__init__()
        self._debugging = debugging

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record, debugging=self._debugging),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            told["error"] = str(error) if self._debugging else _said(error)
            told["places"] = [place.strip() for each in _chain(error) for place in _places(each)]
        try:
            return compact(told)
        except TypeError:  # half a character, as in the name of a file that is not UTF-8
            return json.dumps(told, default=str)


def _message(record: logging.LogRecord, *, debugging: bool) -> str:
    text = record.getMessage()
    return text.partition("\n")[0] if record.name == _SHOWS_ERRORS and not debugging else text


def _said(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, OtelAgenticError) else name


def _places(error: BaseException) -> list[str]:
    """Return where an error passed by, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, each once."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
