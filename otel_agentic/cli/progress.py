"""Progress of a long command: a bar with rate and time left, and messages while there is no progress."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from otel_agentic.render.terminal import console, print_text

#: The unit of each stage that does not count conversations.
_UNITS: Final = {"reading": "bytes", "linking": "traces", "windows": "ends", "emitting": "ends"}
#: A rate below this, in units per second, is shown with one decimal.
_SLOW: Final = 10


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function that shows the progress, rate and time left of a stage; it does nothing in a pipe or when quiet."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import (  # noqa: PLC0415 — only a long command on a terminal needs it
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def step(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, rate="")
            bar.update(tasks[stage], completed=done, total=total)
            own = next(task for task in bar.tasks if task.id == tasks[stage])
            bar.update(own.id, rate=rate_text(stage, own.finished_speed or own.speed))

        yield step


def rate_text(stage: str, speed: float | None) -> str:
    """Return the rate of a stage as text.

    >>> rate_text("linking", 1234.5), rate_text("scoring", None)
    ('1,234 traces/s', '')
    """
    if not speed:
        return ""
    unit = _UNITS.get(stage, "conversations")
    return f"{speed:,.1f} {unit}/s" if speed < _SLOW else f"{speed:,.0f} {unit}/s"


#: Seconds without progress until the first message. The total wait doubles from message to message.
FIRST_S: Final = 10.0


@contextmanager
def reporting_waits(
    message: str,
    progress: Callable[[str, int, int | None], None],
    *,
    quiet: bool,
    first_s: float = FIRST_S,
) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function that forwards progress; while it is not called, print messages to standard error.

    Args:
        message: the explanation, printed after "still waiting after 10 s: ".
        progress: the function that receives the progress.
        quiet: print nothing.
        first_s: seconds without progress until the first message; the total wait doubles from message to message.
    """
    progress_event, done_event = threading.Event(), threading.Event()

    def step(stage: str, count: int, total: int | None) -> None:
        progress_event.set()
        progress(stage, count, total)

    def watch() -> None:
        waited_s, next_s = 0.0, first_s
        while not done_event.wait(next_s):
            if progress_event.is_set():
                progress_event.clear()
                waited_s, next_s = 0.0, first_s
                continue
            waited_s += next_s
            print_text(f"still waiting after {waited_s:g} s: {message}\n", err=True)
            next_s = waited_s

    watcher = threading.Thread(target=watch, name="otel-agentic-waiting", daemon=True)
    if not quiet:
        watcher.start()
    try:
        yield step
    finally:
        done_event.set()
        if not quiet:
            watcher.join()
