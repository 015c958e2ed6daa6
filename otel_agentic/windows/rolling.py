"""Rolling windows by event time: their names, their ends, and how far they reach back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECOND_NS: Final = 1_000_000_000
UNIT_NS: Final = {"s": _SECOND_NS, "m": 60 * _SECOND_NS, "h": 3_600 * _SECOND_NS, "d": 86_400 * _SECOND_NS}
_WIDTH: Final = re.compile(r"([0-9]{1,9})([smhd])")
_COUNT: Final = re.compile(r"n([1-9][0-9]{0,8})")
#: How long a count window continues after its newest conversation if no time window is requested.
_STALE_NS: Final = 7 * UNIT_NS["d"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A kind of rolling window: of one width, or of a number of conversations.

    Attributes:
        name: such as "24h" or "n200", as in tables and metrics.
        width_ns: a conversation that ended in `(end - width_ns, end]` is in it; None for a count window.
        newest: the number of conversations in a count window, the last that ended at or before its end; None for a time.
    """

    name: str
    width_ns: int | None = None
    newest: int | None = None


def parse_window(text: str) -> Window:
    """Return the window with a name such as "90s", "15m", "24h", "7d" or "n200".

    Raises:
        ConfigError: it is neither.

    >>> parse_window("1h").width_ns, parse_window("n200").newest
    (3600000000000, 200)
    """
    match = _COUNT.fullmatch(text)
    if match:
        return Window(name=text, newest=int(match[1]))
    if text.startswith("n"):
        raise ConfigError(f"window {text!r}: give n and how many conversations, e.g. n200 for the newest 200")
    return Window(name=text, width_ns=parse_width(text))


def parse_windows(names: Iterable[str]) -> tuple[Window, ...]:
    """Return the windows with some names, each once, in the order passed.

    Raises:
        ConfigError: one cannot be read.
    """
    return tuple(parse_window(name) for name in dict.fromkeys(names))


def parse_width(text: str) -> int:
    """Return the nanoseconds of a width such as "90s", "15m", "24h" or "7d".

    Raises:
        ConfigError: it is not a whole number above 0 with one of these units.

    >>> parse_width("15m")
    900000000000
    """
    match = _WIDTH.fullmatch(text)
    width_ns = int(match[1]) * UNIT_NS[match[2]] if match else 0
    if width_ns == 0:
        raise ConfigError(
            f"window width {text!r}: give a whole number above 0 and a unit s, m, h or d, e.g. 90s, 15m, 24h, 7d"
        )
    return width_ns


def widest_ns(windows: Iterable[Window]) -> int:
    """Return the width of the widest time window, ns; 7 days without any.

    A count window has a point as long as its newest conversation is no older than that: otherwise the last 200 conversations of an
    agent that no longer exists would be reported for ever.
    """
    return max((window.width_ns for window in windows if window.width_ns is not None), default=_STALE_NS)


def most_newest(windows: Iterable[Window]) -> int:
    """Return the number of conversations in the largest count window; 0 without any."""
    return max((window.newest for window in windows if window.newest is not None), default=0)


def current_end(now_ns: int, step_ns: int) -> int:
    """Return the end of the window that is being filled now: the smallest multiple of the step that is not before now.

    Raises:
        ConfigError: the step is not above 0.

    >>> current_end(61, 60), current_end(60, 60)
    (120, 60)
    """
    return _end_at_or_after(now_ns, step_ns, 0)


def window_ends(first_ns: int, last_ns: int, step_ns: int, origin_ns: int = 0) -> range:
    """Return the window ends that cover the times from first to last, ascending; none when last is before first.

    Ends are whole multiples of the step counted from the origin (the epoch, or `--since`). The first end is the
    earliest not before `first_ns`, the last one the earliest not before `last_ns`: each time is in some window.

    Raises:
        ConfigError: the step is not above 0.

    >>> list(window_ends(61, 200, 60)), list(window_ends(61, 200, 60, origin_ns=61))
    ([120, 180, 240], [61, 121, 181, 241])
    """
    start = _end_at_or_after(first_ns, step_ns, origin_ns)
    stop = _end_at_or_after(last_ns, step_ns, origin_ns) if last_ns >= first_ns else start - step_ns
    return range(start, stop + 1, step_ns)


def _end_at_or_after(time_ns: int, step_ns: int, origin_ns: int) -> int:
    if step_ns <= 0:
        raise ConfigError(f"window step {step_ns} ns: the step between window ends must be above 0")
    return origin_ns - (origin_ns - time_ns) // step_ns * step_ns
