"""Scored conversations, window contents and window points as columns: what is computed for many groups and ends at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows.model import DimensionMean, GroupSummary, WindowPoint
from otel_agentic.windows.rolling import parse_window
from otel_agentic.windows.summarise import pass_rate_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from otel_agentic.scoring.model import Dimension
    from otel_agentic.stats import GroupedAttempts, GroupedEstimates
    from otel_agentic.windows.model import GroupKey, Tier

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Scored conversations, a row each; one that is counted in several groups (by tag) has a row in each.

    Rows of one group that ended at the same moment stand in event order (environment, conversation id): that decides
    which of them a count window holds.

    Attributes:
        groups: the groups.
        group: (rows,) index into `groups`.
        case: (rows,) code of the case, 0 or more; equal codes are attempts of one case. -1: without a case, alone.
        ended_ns: (rows,) end of the conversation's last span, ns since the epoch.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        reasons: reasons of what was not evaluated.
        reason: (rows,) index into `reasons`, -1 for what was evaluated.
        dimensions: (rows, 4) tool dimension scores in the order of `DIMENSIONS`, NaN where they do not apply.
        weight: (rows,) 1 / sampling ratio in force when it was scored; 1 where all are evaluated.
    """

    groups: Sequence[GroupKey]
    group: IntArray
    case: IntArray
    ended_ns: IntArray
    outcome: IntArray
    reasons: Sequence[str]
    reason: IntArray
    dimensions: FloatArray
    weight: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tallies:
    """What is counted of each window point, a row each; a group's window without a conversation has none.

    Neighbouring points often hold the same: what is estimated is estimated once for each distinct content.

    Attributes:
        groups: the groups.
        group: (points,) index into `groups`.
        windows: the windows' names, such as "24h" or "n200".
        window: (points,) index into `windows`.
        end_ns: (points,) end of the window, inclusive, ns since the epoch.
        n: (points,) evaluated conversations.
        c: (points,) correct ones among them.
        content: (points,) index of what the window holds; that is a group of `attempts`.
        attempts: the evaluated conversations of each distinct content, by kind of case.
        reasons: reasons of what was not evaluated, sorted.
        not_evaluated: (points, reasons) how many.
        dimension_mean: (points, 4) weighted mean of each tool dimension where it applies, NaN where it never does.
        dimension_n: (points, 4) how many conversations those are.
    """

    groups: Sequence[GroupKey]
    group: IntArray
    windows: Sequence[str]
    window: IntArray
    end_ns: IntArray
    n: IntArray
    c: IntArray
    content: IntArray
    attempts: GroupedAttempts
    reasons: Sequence[str]
    not_evaluated: IntArray
    dimension_mean: FloatArray
    dimension_n: IntArray

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowTable:
    """Window points with everything that is said of each, sorted by end, window and group.

    Attributes:
        tallies: what was counted.
        k: the k, ascending.
        estimates: by estimator name; the groups of each are the points. All that were asked for, also without a point.
        default_estimator: (points,) the headline estimator.
        effective_n: (points,) how many independent conversations the evaluated ones are worth, NaN without any.
        tier: (points,) the tier that is claimed of the group as of the end, from all of its conversations up to then.
        leaning: (points,) the tier that the estimates of the window lean to, None where they are undefined.
    """

    tallies: Tallies
    k: tuple[int, ...]
    estimates: Mapping[str, GroupedEstimates]
    default_estimator: Sequence[str]
    effective_n: FloatArray
    tier: Sequence[Tier]
    leaning: Sequence[Tier | None]

    @property
    def widths(self) -> Sequence[str]:
        """The windows that were asked for, also those without a point."""
        return self.tallies.windows

    def points(self) -> list[WindowPoint]:
        """Return the points one by one, in their order."""
        widths = {name: parse_window(name).width_ns for name in self.widths}
        tallies = self.tallies
        windows = [tallies.windows[window] for window in tallies.window.tolist()]
        return [
            WindowPoint(window=window, width_ns=widths[window], end_ns=end_ns, summary=self._summary(point))
            for point, (window, end_ns) in enumerate(zip(windows, tallies.end_ns.tolist(), strict=True))
        ]

    def _summary(self, point: int) -> GroupSummary:
        tallies = self.tallies
        n, c = int(tallies.n[point]), int(tallies.c[point])
        missing = {
            reason: count
            for reason, count in zip(tallies.reasons, tallies.not_evaluated[point].tolist(), strict=True)
            if count
        }
        everything = n + sum(missing.values())
        return GroupSummary(
            key=tallies.groups[int(tallies.group[point])],
            n=n,
            c=c,
            not_evaluated=missing,
            coverage=n / everything if everything else None,
            bounds=pass_rate_bounds(n, c, everything - n),
            estimates={name: found.of(point) for name, found in self.estimates.items()},
            default_estimator=self.default_estimator[point],
            effective_n=float(self.effective_n[point]) if n else None,
            tool_dimensions=self._dimension_means(point),
            tier=self.tier[point],
            leaning=self.leaning[point],
            needed=None,
        )

    def _dimension_means(self, point: int) -> dict[Dimension, DimensionMean]:
        means = self.tallies.dimension_mean[point].tolist()
        counts = self.tallies.dimension_n[point].tolist()
        return {
            name: DimensionMean(mean=mean, n=count)
            for name, mean, count in zip(DIMENSIONS, means, counts, strict=True)
            if count
        }
