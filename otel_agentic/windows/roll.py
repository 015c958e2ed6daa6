"""Results -> window points: counted at many ends, estimated once for each distinct content."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats import GroupedAttempts, validate_k
from otel_agentic.windows.ordered import Ordered
from otel_agentic.windows.rolling import parse_windows
from otel_agentic.windows.tables import window_table
from otel_agentic.windows.tally import tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, Tier
    from otel_agentic.windows.columns import Results, Tallies, WindowTable
    from otel_agentic.windows.model import GroupKey

_CELLS: Final = 100_000


def roll(
    results: Results,
    widths: Sequence[str],
    ends: Sequence[int],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    claims: Mapping[tuple[GroupKey, int], Tier] | None = None,
    cells: int = _CELLS,
) -> WindowTable:
    """Return a point for each group, window and end whose window holds a conversation, sorted by end, window, group.

    An empty window has no point: a series that has nothing to say stops. A count window has one while its newest
    conversation is no older than the widest time window among `widths`, or than 7 days where there is none.

    Args:
        results: the conversations; for windows at the first end all that it reaches back to.
        widths: such as "1h", "24h" and "n200", as they are named in metrics.
        ends: window ends, nanoseconds UTC, ascending.
        estimators: what to estimate with, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k.
        claims: the tiers that are claimed of groups at ends, see `window_table`.
        cells: groups x windows x ends that are counted at once: bounds the memory.

    Raises:
        ConfigError: a width cannot be read.
        UsageError: a k is not allowed.
    """
    windows = parse_windows(widths)
    chosen_k = validate_k(k)
    ordered = Ordered.of(results)
    size = max(1, cells // max(1, len(results.groups) * len(windows)))
    parts = [tally(ordered, windows, part) for part in _chunks(sorted(set(ends)), size)]
    tallies = _joined(parts) if parts else tally(ordered, windows, [])
    return window_table(tallies, estimators=estimators, settings=settings, k=chosen_k, claims=claims)


def _chunks(ends: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(ends), size):
        yield ends[start : start + size]


def _joined(parts: Sequence[Tallies]) -> Tallies:
    """Return the tallies of several stretches of ends, ascending, as one."""
    if len(parts) == 1:
        return parts[0]
    reasons = sorted({reason for part in parts for reason in part.reasons})
    before = np.cumsum([0, *(part.attempts.size for part in parts)])
    return replace(
        parts[0],
        group=np.concatenate([part.group for part in parts]),
        window=np.concatenate([part.window for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        content=np.concatenate([part.content + start for part, start in zip(parts, before[:-1], strict=True)]),
        attempts=_joined_attempts([part.attempts for part in parts]),
        reasons=reasons,
        not_evaluated=np.concatenate([_by_reason(part, reasons) for part in parts]),
        dimension_mean=np.concatenate([part.dimension_mean for part in parts]),
        dimension_n=np.concatenate([part.dimension_n for part in parts]),
    )


def _joined_attempts(parts: Sequence[GroupedAttempts]) -> GroupedAttempts:
    before = np.cumsum([0, *(part.size for part in parts)])
    weighted = any(part.weights is not None for part in parts)
    return GroupedAttempts(
        size=int(before[-1]),
        group=np.concatenate([part.group + start for part, start in zip(parts, before[:-1], strict=True)]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        cases=np.concatenate([part.cases for part in parts]),
        weights=np.concatenate([_weights(part) for part in parts]) if weighted else None,
    )


def _weights(part: GroupedAttempts) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.stack((part.n, part.c, part.n), axis=1).astype(np.float64) if part.weights is None else part.weights


def _by_reason(part: Tallies, reasons: Sequence[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    table = np.zeros((part.size, len(reasons)), dtype=np.int64)
    table[:, [reasons.index(reason) for reason in part.reasons]] = part.not_evaluated
    return table
