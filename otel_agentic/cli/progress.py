"""Progress of a long command: a bar with rate and time left, and messages while nothing arrives."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.cli.render.terminal import console, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What a stage counts, where that is not conversations or window ends.
_UNITS: Final = {"reading": "bytes", "linking": "traces", "windows": "ends", "emitting": "ends"}
#: A rate below this is told with a digit behind the point, things a second.
_SLOW: Final = 10


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Lend a function that shows a stage, what is done of it, how fast, and the time left; nothing in a pipe or when quiet."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import (  # noqa: PLC0415 — only a long command on a terminal pays for it
        BarColumn,
        MofNCompleteColumn,
        Progress,
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
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        tasks: dict[str, Any] = {}

        def step(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=total, rate="")
            shown.update(tasks[stage], completed=done, total=total)
            own = next(task for task in shown.tasks if task.id == tasks[stage])
            shown.update(own.id, rate=rate_text(stage, own.finished_speed or own.speed))

        yield step


def rate_text(stage: str, speed: float | None) -> str:
    """Return how fast a stage is, in words.

    >>> rate_text("linking", 1234.5), rate_text("scoring", None)
    ('1,234 traces/s', '')
    """
    if not speed:
        return ""
    unit = _UNITS.get(stage, "conversations")
    return f"{speed:,.1f} {unit}/s" if speed < _SLOW else f"{speed:,.0f} {unit}/s"


#: When a wait is told of, seconds since anything was heard; then after as long again, and so on.
FIRST_S: Final = 10.0


@contextmanager
def telling_waits(
    message: str,
    progress: Callable[[str, int, int | None], None],
    *,
    quiet: bool,
    first_s: float = FIRST_S,
) -> Iterator[Callable[[str, int, int | None], None]]:
    """Lend a function to hand on progress; while it hears of none, say on standard error what is waited for.

    Args:
        message: what is waited for, told after "still waiting after 10 s: ".
        progress: where progress goes.
        quiet: say nothing.
        first_s: the first wait that is told of, seconds; the next ones are twice as long each.
    """
    heard, done = threading.Event(), threading.Event()

    def step(stage: str, count: int, total: int | None) -> None:
        heard.set()
        progress(stage, count, total)

    def watch() -> None:
        waited_s, next_s = 0.0, first_s
        while not done.wait(next_s):
            if heard.is_set():
                heard.clear()
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
        done.set()
        if not quiet:
            watcher.join()
