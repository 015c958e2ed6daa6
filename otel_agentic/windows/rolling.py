"""Rolling windows by event time: a conversation is in `(end - width, end]` by its last span's end."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import ConfigError
from otel_agentic.windows.group import group_by_subject
from otel_agentic.windows.model import GroupKey, WindowPoint
from otel_agentic.windows.summarise import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Estimator
    from otel_agentic.windows.model import GroupSummary, ScoredConversation

_SECOND_NS: Final = 1_000_000_000
UNIT_NS: Final = {"s": _SECOND_NS, "m": 60 * _SECOND_NS, "h": 3_600 * _SECOND_NS, "d": 86_400 * _SECOND_NS}
_WIDTH: Final = re.compile(r"([0-9]{1,9})([smhd])")


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


def current_end(now_ns: int, step_ns: int) -> int:
    """Return the end of the window that is filling now: the smallest multiple of the step that is not before now.

    Raises:
        ConfigError: the step is not above 0.

    >>> current_end(61, 60), current_end(60, 60)
    (120, 60)
    """
    return _end_at_or_after(now_ns, step_ns, 0)


def window_ends(first_ns: int, last_ns: int, step_ns: int, origin_ns: int = 0) -> range:
    """Return the window ends that cover the times from first to last, ascending; none when last is before first.

    Ends are whole multiples of the step counted from the origin (the epoch, or `--since`). The first end is the
    earliest not before `first_ns`, the last one the earliest not before `last_ns`: each time lies in some window.

    Raises:
        ConfigError: the step is not above 0.

    >>> list(window_ends(61, 200, 60)), list(window_ends(61, 200, 60, origin_ns=61))
    ([120, 180, 240], [61, 121, 181, 241])
    """
    start = _end_at_or_after(first_ns, step_ns, origin_ns)
    stop = _end_at_or_after(last_ns, step_ns, origin_ns) if last_ns >= first_ns else start - step_ns
    return range(start, stop + 1, step_ns)


def roll(
    scored: Iterable[ScoredConversation],
    widths: Sequence[str],
    ends: Sequence[int],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
) -> list[WindowPoint]:
    """Return a point for each subject, width and end whose window holds a conversation, sorted by end, width, subject.

    An empty window has no point: a series that has nothing to say stops.

    Args:
        scored: conversations in any order, each once.
        widths: such as "1h" and "24h", as they are named in metrics.
        ends: window ends, nanoseconds UTC, ascending.
        estimators: what to estimate with.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k.

    Raises:
        ConfigError: a width cannot be read.
        UsageError: a k is not allowed.
    """
    widths_ns = {width: parse_width(width) for width in widths}
    points: list[WindowPoint] = []
    for key, conversations in group_by_subject(scored).items():
        ordered = sorted(conversations, key=attrgetter("ended_ns"))
        summaries = _Summaries(key, ordered, estimators=estimators, settings=settings, k=k)
        for width, width_ns in widths_ns.items():
            points += summaries.points(width, width_ns, ends)
    return sorted(points, key=lambda point: (point.end_ns, point.width_ns, point.summary.key.sort_key()))


class _Summaries:
    """Window summaries of one subject; neighbouring windows with the same conversations share one."""

    def __init__(
        self,
        key: GroupKey,
        ordered: Sequence[ScoredConversation],
        *,
        estimators: Sequence[Estimator],
        settings: StatsSettings,
        k: Sequence[int],
    ) -> None:
        self._key = key
        self._ordered = ordered
        self._times = [conversation.ended_ns for conversation in ordered]
        self._estimators = estimators
        self._settings = settings
        self._k = k
        self._known: dict[tuple[int, int], GroupSummary] = {}

    def points(self, window: str, width_ns: int, ends: Iterable[int]) -> Iterator[WindowPoint]:
        for end_ns in ends:
            first = bisect_right(self._times, end_ns - width_ns)
            beyond = bisect_right(self._times, end_ns)
            if first < beyond:
                yield WindowPoint(window=window, width_ns=width_ns, end_ns=end_ns, summary=self._of(first, beyond))

    def _of(self, first: int, beyond: int) -> GroupSummary:
        if (first, beyond) not in self._known:
            self._known[first, beyond] = summarise(
                self._key,
                self._ordered[first:beyond],
                estimators=self._estimators,
                settings=self._settings,
                k=self._k,
            )
        return self._known[first, beyond]


def _end_at_or_after(time_ns: int, step_ns: int, origin_ns: int) -> int:
    if step_ns <= 0:
        raise ConfigError(f"window step {step_ns} ns: the step between window ends must be above 0")
    return origin_ns - (origin_ns - time_ns) // step_ns * step_ns
