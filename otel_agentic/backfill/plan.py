"""Options of a backfill -> the windows to compute: their ends, widths and estimators, and the labels of exported series."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from otel_agentic.errors import UsageError
from otel_agentic.stats import validate_k
from otel_agentic.windows import window_ends
from otel_agentic.windows.rolling import Window, most_newest, parse_windows, widest_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Prometheus keeps `__` to itself; the others are ours.
_TAKEN: Final = ("__", "agentic_", "gen_ai_", "deployment_", "error_")


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as they are, sorted by name.

    Raises:
        UsageError: a name is not allowed, or its value is empty.

    >>> checked_labels({"job": "otel-agentic", "instance": "collector:9464"})
    {'instance': 'collector:9464', 'job': 'otel-agentic'}
    """
    for name, value in labels.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--label {name}={value}: a name begins with a letter or _, and holds letters, digits and _, such as job"
            )
        if name.startswith(_TAKEN):
            raise UsageError(f"--label {name}={value}: names that begin with {', '.join(_TAKEN)} are taken")
        if not value:
            raise UsageError(f"--label {name}=: give a value; to Prometheus an empty one is none")
    return dict(sorted(labels.items()))


Emit = Literal["none", "otlp", "openmetrics"]

#: More window ends than this are refused: a year of steps of five minutes is 105,120.
MAX_ENDS: Final = 200_000
#: More window ends than this are worth a word: what a longer step would come to.
MANY_ENDS: Final = 20_000
_SECOND_NS: Final = 1_000_000_000
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
#: Steps that are advised, seconds.
_STEPS: Final = (60, 300, 900, 3_600, 21_600, 86_400, 604_800)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a backfill is asked. Times in ns since the epoch; None takes the range of the conversations.

    `windows` are as in the settings: "24h", or "n200" for the last 200 conversations. `labels` stand on every series of an
    OpenMetrics file.
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
    def last_wanted_ns(self) -> int | None:
        """The last end that may be computed: `until` at the same end says the same. None without `until`."""
        origin_ns = self.since_ns or 0
        return None if self.until_ns is None else self.until_ns - (self.until_ns - origin_ns) % self.step_ns

    def checked(self) -> Asked:
        """Return the same with windows and k in order, each once.

        Raises:
            UsageError: until is before since, the step is not above 0, or a k or a label is not allowed.
            ConfigError: a window cannot be read.
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
    """The window ends of a backfill, ascending, and what reaches into their windows.

    Conversations that ended after `reach_ns` (None: however long ago) and at or before `last_ns` are in some window.
    `notes` are sentences about what was decided.
    """

    asked: Asked
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
        """Where the widest window of the first end begins, exclusive; None where the last n count, however old."""
        windows = self.windows
        return None if most_newest(windows) else self.first_ns - widest_ns(windows)

    @property
    def windows(self) -> Sequence[Window]:
        """The windows."""
        return parse_windows(self.asked.windows)


def plan_of(asked: Asked, held: tuple[int, int], now_ns: int, removed_until_ns: int = 0) -> Plan:
    """Return the plan of a backfill.

    With `since`, ends are counted from it; without, they are whole multiples of the step since the epoch, and the first
    is the earliest that is not before the first conversation. With `until`, the last is the newest that is not after
    it; without, the earliest that is not before the last conversation, or not before now where that is earlier.

    Args:
        asked: checked.
        held: when the first and the last conversation ended, ns.
        now_ns: the present; ends are not asked for beyond it.
        removed_until_ns: results before this were removed; without `since`, the first end is late enough that no window
            reaches back to it. 0: nothing was removed.

    Raises:
        UsageError: there are too many ends, or the range holds none, or its first windows reach back to what was removed;
            says what to do.
    """
    notes: list[str] = []
    whole_ns = removed_until_ns + widest_ns(parse_windows(asked.windows)) if removed_until_ns else 0
    if asked.since_ns is not None and asked.since_ns < whole_ns:
        raise UsageError(
            f"--since {moment(asked.since_ns)}: what ended before {moment(removed_until_ns)} was removed (retention), and "
            f"windows of {', '.join(asked.windows)} that end before {moment(whole_ns)} would lack it; give a later --since, "
            "or narrower windows. What is stored there stays"
        )
    if asked.since_ns is not None and asked.since_ns > now_ns:
        raise UsageError(f"--since {moment(asked.since_ns)} has not come yet: give a time in the past")
    until_ns = asked.until_ns
    if until_ns is not None and until_ns > now_ns:
        notes.append(f"--until {moment(until_ns)} has not come yet: the last window ends at or before now")
        until_ns = now_ns
    first_ns = max(held[0], whole_ns) if asked.since_ns is None else asked.since_ns
    if asked.since_ns is None and whole_ns > held[0]:
        notes.append(
            f"what ended before {moment(removed_until_ns)} was removed: the first window ends at {moment(whole_ns)} or later"
        )
    # A span of a clock that is ahead is in no window yet, as in a collector.
    last_ns = max(min(held[1], now_ns), first_ns)
    ends = window_ends(first_ns, last_ns, asked.step_ns, origin_ns=asked.since_ns or 0)
    if until_ns is not None:
        ends = range(ends.start, max(until_ns + 1, ends.start), asked.step_ns)
    if not ends:
        raise UsageError(_no_end(asked, ends.start, until_ns))
    if len(ends) > MAX_ENDS:
        raise UsageError(_too_many(asked, ends))
    if len(ends) > MANY_ENDS:
        notes.append(f"{len(ends):,} window ends; {_longer_step(ends)}")
    return Plan(asked=asked, ends=ends, notes=tuple(notes))


def run_id_of(asked: Asked, more: dict[str, Any]) -> tuple[str, str]:
    """Return the id of a backfill and what it is the hash of, as JSON.

    Args:
        asked: checked.
        more: what else decides the result: statistics, evaluator version.
    """
    said = orjson.dumps({**asdict(asked), **more}, option=orjson.OPT_SORT_KEYS, default=list)
    return hashlib.blake2b(said, digest_size=8).hexdigest(), said.decode()


def parts_of(ends: range, size: int) -> Iterator[range]:
    """Yield some ends after the other, at most `size` at a time.

    >>> [list(part) for part in parts_of(range(0, 50, 10), 2)]
    [[0, 10], [20, 30], [40]]
    """
    for start in range(0, len(ends), size):
        yield ends[start : start + size]


def moment(time_ns: int) -> str:
    """Return a time as people write it, UTC, to the second.

    >>> moment(1_772_442_000_000_000_000)
    '2026-03-02T09:00:00Z'
    """
    from datetime import UTC, datetime  # noqa: PLC0415 — messages only

    return datetime.fromtimestamp(time_ns // _SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(time_ns: int) -> str:
    """Return a length of time in its largest whole unit.

    >>> duration(300 * 10**9), duration(86_400 * 10**9), duration(90 * 10**9)
    ('5m', '1d', '90s')
    """
    seconds = time_ns // _SECOND_NS
    unit = next((unit for unit, size in _UNITS.items() if seconds and seconds % size == 0), "s")
    return f"{seconds // _UNITS[unit]}{unit}"


def _no_end(asked: Asked, first_end_ns: int, until_ns: int | None) -> str:
    return (
        f"no window ends by {moment(until_ns or first_end_ns)}: the first one ends at {moment(first_end_ns)}; give a later "
        f"--until, or a shorter --step than {duration(asked.step_ns)}"
    )


def _too_many(asked: Asked, ends: Sequence[int]) -> str:
    return (
        f"{len(ends):,} window ends from {moment(ends[0])} to {moment(ends[-1])} every {duration(asked.step_ns)}: more "
        f"than {MAX_ENDS:,} in one backfill; give --since and --until, or {_longer_step(ends)}"
    )


def _longer_step(ends: Sequence[int]) -> str:
    """Return which longer step would make few ends, in words."""
    length_ns = ends[-1] - ends[0]
    step_s = next((step_s for step_s in _STEPS if length_ns // (step_s * _SECOND_NS) < MANY_ENDS // 2), _STEPS[-1])
    made = length_ns // (step_s * _SECOND_NS) + 1
    return f"--step {duration(step_s * _SECOND_NS)} makes about {made:,}"
