"""The options of a backfill, and the plan made from them: the window ends to compute and their time range."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

import orjson

from otel_agentic.errors import UsageError
from otel_agentic.stats import validate_k
from otel_agentic.windows import window_ends
from otel_agentic.windows.model import Window, most_newest, parse_windows, widest_ns

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Reserved prefixes of label names: `__` by Prometheus, the others by this project.
_RESERVED: Final = ("__", "agentic_", "gen_ai_", "deployment_", "error_")


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels sorted by name.

    Raises:
        UsageError: a name is invalid, or a value is empty.

    >>> checked_labels({"job": "otel-agentic", "instance": "collector:9464"})
    {'instance': 'collector:9464', 'job': 'otel-agentic'}
    """
    for name, value in labels.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--label {name}={value}: a name begins with a letter or _ and consists of letters, digits and _, such as job"
            )
        if name.startswith(_RESERVED):
            raise UsageError(f"--label {name}={value}: names that begin with {', '.join(_RESERVED)} are reserved")
        if not value:
            raise UsageError(f"--label {name}=: value must not be empty (Prometheus drops empty labels)")
    return dict(sorted(labels.items()))


Emit = Literal["none", "otlp", "openmetrics"]

#: Maximum number of window ends; a year at a step of five minutes has 105,120.
MAX_ENDS: Final = 200_000
#: From this number of window ends on, a note suggests a longer step.
MANY_ENDS: Final = 20_000
_SECOND_NS: Final = 1_000_000_000
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
#: Suggested steps, seconds.
_STEPS: Final = (60, 300, 900, 3_600, 21_600, 86_400, 604_800)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """The options of a backfill. Times are ns since the epoch; None means the range of the conversations.

    `windows` are names as in the settings: "24h", or "n200" for the newest 200 conversations. `labels` are added to
    every series of an OpenMetrics file.
    """

    windows: tuple[str, ...]
    step_ns: int
    k: tuple[int, ...]
    since_ns: int | None = None
    until_ns: int | None = None
    emit: Emit = "none"
    endpoint: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def last_end_ns(self) -> int | None:
        """The last end that may be computed, or None without `until`; different values of `until` may share it."""
        origin_ns = self.since_ns or 0
        return None if self.until_ns is None else self.until_ns - (self.until_ns - origin_ns) % self.step_ns

    def checked(self) -> BackfillRequest:
        """Return the request with sorted windows and k, without duplicates.

        Raises:
            UsageError: until is before since, the step is not positive, or a k or a label is invalid.
            ConfigError: a window is invalid.
        """
        if self.step_ns <= 0:
            raise UsageError("--step 0: the step between window ends must be above 0, such as 5m, 1h, 24h")
        if self.since_ns is not None and self.until_ns is not None and self.until_ns < self.since_ns:
            raise UsageError(
                f"--until {moment(self.until_ns)} is before --since {moment(self.since_ns)}: give a range that ends "
                "after it begins"
            )
        windows = tuple(window.name for window in parse_windows(self.windows))
        return replace(self, windows=windows, k=validate_k(self.k), labels=checked_labels(self.labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The window ends of a backfill, ascending, and the range of conversations in their windows.

    Conversations that ended after `reach_ns` (None: at any time) and at or before `last_ns` are in at least one window.
    `notes` are messages about decisions of the plan.
    """

    request: BackfillRequest
    ends: range
    notes: tuple[str, ...] = field(default=())

    @property
    def first_ns(self) -> int:
        """The first end."""
        return self.ends[0]

    @property
    def last_ns(self) -> int:
        """The last end."""
        return self.ends[-1]

    @property
    def reach_ns(self) -> int | None:
        """The start of the widest window at the first end, exclusive; None with a count window, which has no start."""
        windows = self.windows
        return None if most_newest(windows) else self.first_ns - widest_ns(windows)

    @property
    def windows(self) -> Sequence[Window]:
        """The windows."""
        return parse_windows(self.request.windows)


def plan_of(request: BackfillRequest, stored: tuple[int, int], now_ns: int, removed_until_ns: int = 0) -> Plan:
    """Return the plan of a backfill.

    With `since`, ends are counted from it. Otherwise they are whole multiples of the step since the epoch, and the
    first end is the earliest at or after the end of the first conversation. With `until`, the last end is the latest at
    or before it. Otherwise the last end is the earliest at or after the end of the last conversation, or at or after
    now if that is earlier.

    Args:
        request: the checked request.
        stored: the ends of the first and the last conversation, ns.
        now_ns: the current time; later ends are not computed.
        removed_until_ns: results before this time were removed, 0 if nothing was removed. Without `since`, the first
            end is late enough that no window includes removed results.

    Raises:
        UsageError: there are too many ends or none, or the first windows include removed results; the message suggests
            a solution.
    """
    notes: list[str] = []
    complete_ns = removed_until_ns + widest_ns(parse_windows(request.windows)) if removed_until_ns else 0
    if request.since_ns is not None and request.since_ns < complete_ns:
        raise UsageError(
            f"--since {moment(request.since_ns)}: conversations that ended before {moment(removed_until_ns)} were removed "
            f"(retention), so windows of {', '.join(request.windows)} that end before {moment(complete_ns)} would be incomplete; use "
            "a later --since or narrower windows. Stored windows are not changed"
        )
    if request.since_ns is not None and request.since_ns > now_ns:
        raise UsageError(f"--since {moment(request.since_ns)} is in the future: give a time in the past")
    until_ns = request.until_ns
    if until_ns is not None and until_ns > now_ns:
        notes.append(f"--until {moment(until_ns)} is in the future: the last window ends at or before now")
        until_ns = now_ns
    first_ns = max(stored[0], complete_ns) if request.since_ns is None else request.since_ns
    if request.since_ns is None and complete_ns > stored[0]:
        notes.append(
            f"conversations that ended before {moment(removed_until_ns)} were removed: the first window ends at "
            f"{moment(complete_ns)} or later"
        )
    # As in a collector, a conversation with an end in the future (the sender's clock is ahead) is in no window yet.
    last_ns = max(min(stored[1], now_ns), first_ns)
    ends = window_ends(first_ns, last_ns, request.step_ns, origin_ns=request.since_ns or 0)
    if until_ns is not None:
        ends = range(ends.start, max(until_ns + 1, ends.start), request.step_ns)
    if not ends:
        raise UsageError(_no_end(request, ends.start, until_ns))
    if len(ends) > MAX_ENDS:
        raise UsageError(_too_many(request, ends))
    if len(ends) > MANY_ENDS:
        notes.append(f"{len(ends):,} window ends; {_longer_step(ends)}")
    return Plan(request=request, ends=ends, notes=tuple(notes))


def run_id_of(request: BackfillRequest, more: dict[str, Any]) -> tuple[str, str]:
    """Return the id of a backfill, which is a hash, and the JSON that was hashed.

    Args:
        request: the checked request.
        more: everything else that determines the result: statistics, evaluator version.
    """
    definition = orjson.dumps({**asdict(request), **more}, option=orjson.OPT_SORT_KEYS, default=list)
    return hashlib.blake2b(definition, digest_size=8).hexdigest(), definition.decode()


def parts_of(ends: range, size: int) -> Iterator[range]:
    """Yield the ends in parts of at most `size`.

    >>> [list(part) for part in parts_of(range(0, 50, 10), 2)]
    [[0, 10], [20, 30], [40]]
    """
    for start in range(0, len(ends), size):
        yield ends[start : start + size]


def moment(time_ns: int) -> str:
    """Return a time as ISO 8601 text in UTC, to the second.

    >>> moment(1_772_442_000_000_000_000)
    '2026-03-02T09:00:00Z'
    """
    from datetime import UTC, datetime  # noqa: PLC0415 — messages only

    return datetime.fromtimestamp(time_ns // _SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(time_ns: int) -> str:
    """Return a duration as text, in the largest unit in which it is a whole number.

    >>> duration(300 * 10**9), duration(86_400 * 10**9), duration(90 * 10**9)
    ('5m', '1d', '90s')
    """
    seconds = time_ns // _SECOND_NS
    unit = next((unit for unit, size in _UNITS.items() if seconds and seconds % size == 0), "s")
    return f"{seconds // _UNITS[unit]}{unit}"


def _no_end(request: BackfillRequest, first_end_ns: int, until_ns: int | None) -> str:
    return (
        f"no window ends by {moment(until_ns or first_end_ns)}: the first one ends at {moment(first_end_ns)}; give a later "
        f"--until, or a shorter --step than {duration(request.step_ns)}"
    )


def _too_many(request: BackfillRequest, ends: Sequence[int]) -> str:
    return (
        f"{len(ends):,} window ends from {moment(ends[0])} to {moment(ends[-1])} every {duration(request.step_ns)}: more "
        f"than {MAX_ENDS:,} in one backfill; give --since and --until, or {_longer_step(ends)}"
    )


def _longer_step(ends: Sequence[int]) -> str:
    """Return a suggestion of a step that has fewer ends."""
    range_ns = ends[-1] - ends[0]
    step_s = next((step_s for step_s in _STEPS if range_ns // (step_s * _SECOND_NS) < MANY_ENDS // 2), _STEPS[-1])
    count = range_ns // (step_s * _SECOND_NS) + 1
    return f"--step {duration(step_s * _SECOND_NS)} has about {count:,}"
