"""Logs contain errors and their locations, and never untrusted input."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from collections.abc import Iterator
from io import StringIO
from typing import Literal

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.logs import log_to, log_to_stderr
from otel_agentic.config import LogSettings
from otel_agentic.errors import StoreUnusableError
from tests.snapshots import passage

_CONTENT = "the customer's own words"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Leave the loggers of the process as they were."""
    known = {name: logging.getLogger(name).level for name in (None, "otel_agentic", "collectors")}
    handlers = logging.root.handlers[:]
    hook = threading.excepthook
    yield
    threading.excepthook = hook
    logging.root.handlers[:] = handlers
    for name, level in known.items():
        logging.getLogger(name).setLevel(level)


def written(form: Literal["text", "json"], level: Literal["debug", "info", "warning", "error"] = "info") -> StringIO:
    stream = StringIO()
    log_to(stream, LogSettings(format=form, level=level))
    return stream


def fail(error: Exception) -> None:
    try:
        raise error  # noqa: TRY301 — an exception that was never raised has no place
    except Exception:
        logging.getLogger("otel_agentic.store").exception("writing %d spans failed", 3)


def test_a_json_line_tells_time_level_logger_and_message() -> None:
    stream = written("json")
    logging.getLogger("otel_agentic.live").info("took %d", 3)
    result = json.loads(stream.getvalue())
    assert {"level": "info", "logger": "otel_agentic.live", "message": "took 3"} == {
        key: result[key] for key in ("level", "logger", "message")
    }
    assert result["time"].endswith("+00:00")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_text_of_a_library_s_exception_is_left_out_and_its_location_is_logged(
    form: Literal["text", "json"],
) -> None:
    stream = written(form)
    fail(ValueError(f"cannot convert {_CONTENT!r}"))
    message = stream.getvalue()
    assert (False, True, True) == (_CONTENT in message, "ValueError" in message, "test_cli_logs.py" in message)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_text_of_our_own_error_is_logged(form: Literal["text", "json"]) -> None:
    stream = written(form)
    fail(StoreUnusableError("agents.duckdb cannot be used: no space"))
    assert passage(stream.getvalue()) == snapshot("StoreUnusableError: agents.duckdb cannot be used: no space")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_cause_of_an_error_is_named_without_its_text(form: Literal["text", "json"]) -> None:
    stream = written(form)
    error = StoreUnusableError("cannot be used")
    error.__cause__ = KeyError(_CONTENT)
    fail(error)
    assert _CONTENT not in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_debugging_shows_the_text_of_every_exception(form: Literal["text", "json"]) -> None:
    stream = written(form, "debug")
    fail(ValueError(_CONTENT))
    assert _CONTENT in stream.getvalue()


def test_a_message_of_several_lines_stays_one_json_line() -> None:
    stream = written("json")
    logging.getLogger("collectors").warning("one\ntwo")
    assert 1 == len(stream.getvalue().splitlines())


def test_a_level_holds_back_what_is_less_severe() -> None:
    stream = written("text", "error")
    logging.getLogger("otel_agentic").warning("unheard")
    assert "" == stream.getvalue()


def test_libraries_are_heard_from_warning_on_only() -> None:
    stream = written("text")
    logging.getLogger("uvicorn").info("unheard")
    logging.getLogger("uvicorn").warning("heard")
    assert ["heard"] == [line.rsplit(": ", 1)[1] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_text_of_an_exception_that_ends_a_task_is_left_out(form: Literal["text", "json"]) -> None:
    async def run() -> None:
        task = asyncio.create_task(asyncio.to_thread(int, _CONTENT))
        await asyncio.wait([task])

    stream = written(form)
    asyncio.run(run())
    gc.collect()  # asyncio logs the error once the task is collected
    message = stream.getvalue()
    assert (False, True, True) == ("own words" in message, "never retrieved" in message, "ValueError" in message)


def test_the_text_of_an_exception_that_ends_a_thread_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogSettings())
    thread = threading.Thread(target=int, args=(_CONTENT,))
    thread.start()
    thread.join()
    errors = capsys.readouterr().err
    assert (False, True, True) == ("own words" in errors, "ended a thread" in errors, "ValueError" in errors)


def test_half_a_character_is_still_a_json_line() -> None:
    stream = written("json")
    record = logging.LogRecord("otel_agentic", logging.WARNING, __file__, 1, "%s cannot be read", ("a\udcff",), None)
    logging.root.handlers[-1].handle(
        record
    )  # no other handler: pytest passes on what it captures, and cannot encode this
    assert json.loads(stream.getvalue())["message"] == snapshot("a\udcff cannot be read")
