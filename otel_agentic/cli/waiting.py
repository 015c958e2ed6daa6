"""A word to whoever waits for a command that says nothing."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from otel_agentic.cli.output import print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
