"""Scored conversations, window contents and window points as columns, computed for many groups and ends at once."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.windows.groups import pass_rate_bounds, subject_key
from otel_agentic.windows.model import DimensionMean, GroupKey, GroupSummary, WindowPoint
from otel_agentic.windows.rolling import parse_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.scoring.model import Dimension, Outcome
    from otel_agentic.stats import GroupedAttempts, GroupedEstimates
    from otel_agentic.stats.model import Tier
    from otel_agentic.windows.model import ScoredConversation

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Scored conversations, one row each; one that is counted in several groups (by tag) has a row in each.

    Rows of one group that ended at the same moment are in event order (environment, conversation id): that decides which of them
    a count window contains.

    Attributes:
        groups: the groups.
        group: (rows,) index into `groups`.
        case: (rows,) code of the case, 0 or more; rows with equal codes are attempts of one case. -1: without a case.
        ended_ns: (rows,) end of the conversation's last span, ns since the epoch.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        reasons: reasons of conversations that were not evaluated.
        reason: (rows,) index into `reasons`, -1 for evaluated ones.
        dimensions: (rows, 4) tool dimension scores in the order of `DIMENSIONS`, NaN if they do not apply.
        weight: (rows,) 1 / sampling ratio at the time of scoring; 1 if all are evaluated.
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
    """The counts of each window point, one row each; a group's window without a conversation has no point.

    Neighbouring points often have the same content: estimates are computed once for each distinct content.

    Attributes:
        groups: the groups.
        group: (points,) index into `groups`.
        windows: the windows' names, such as "24h" or "n200".
        window: (points,) index into `windows`.
        end_ns: (points,) end of the window, inclusive, ns since the epoch.
        n: (points,) evaluated conversations.
        c: (points,) correct ones among them.
        content: (points,) index of the content of the window, which is a group of `attempts`.
        attempts: the evaluated conversations of each distinct content, by kind of case.
        reasons: reasons of conversations that were not evaluated, sorted.
        not_evaluated: (points, reasons) how many there are.
        dimension_mean: (points, 4) weighted mean of each tool dimension over conversations to which it applies, NaN without any.
        dimension_n: (points, 4) the number of these conversations.
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
    """Window points with all their figures, sorted by end, window and group.

    Attributes:
        tallies: the counts.
        k: the values of k, ascending.
        estimates: by estimator name; the groups of each are the points. All requested ones, also without a point.
        default_estimator: (points,) the headline estimator.
        effective_n: (points,) the number of independent conversations to which the evaluated ones amount, NaN without any.
        tier: (points,) the tier claimed for the group at the end, from all of its conversations up to then.
        leaning: (points,) the tier that the estimates of the window lean to, or None if they are undefined.
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
        """The requested windows, also those without a point."""
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
            estimates={name: estimate.of(point) for name, estimate in self.estimates.items()},
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


#: The representation of outcomes in columns.
OUTCOME_CODES: Final[dict[Outcome, int]] = {"pass": 1, "fail": 0, "not_evaluated": -1}


def results_of(scored: Iterable[ScoredConversation], tags: Sequence[str] = ()) -> Results:
    """Return the columns of scored conversations, in event order, groups sorted by key.

    Args:
        scored: conversations in any order, each once.
        tags: case tags, names or globs, that form separate groups in addition to the total.
    """
    ordered = sorted(scored, key=lambda row: (row.ended_ns, row.environment, row.conversation_id))
    rows = [(key, row) for row in ordered for key in _keys(row, tags)]
    groups = sorted({key for key, _ in rows}, key=GroupKey.sort_key)
    cases = sorted({row.case_key for row in ordered if row.case_id is not None})
    reasons = sorted({_reason(row) for row in ordered if row.outcome == "not_evaluated"})
    group_codes = {key: code for code, key in enumerate(groups)}
    case_codes = {key: code for code, key in enumerate(cases)}
    reason_codes = {reason: code for code, reason in enumerate(reasons)}
    return Results(
        groups=groups,
        group=np.array([group_codes[key] for key, _ in rows], dtype=np.int64),
        case=np.array([-1 if row.case_id is None else case_codes[row.case_key] for _, row in rows], dtype=np.int64),
        ended_ns=np.array([row.ended_ns for _, row in rows], dtype=np.int64),
        outcome=np.array([OUTCOME_CODES[row.outcome] for _, row in rows], dtype=np.int64),
        reasons=reasons,
        reason=np.array(
            [reason_codes[_reason(row)] if row.outcome == "not_evaluated" else -1 for _, row in rows], dtype=np.int64
        ),
        dimensions=np.array(
            [[row.dimensions.get(name, np.nan) for name in DIMENSIONS] for _, row in rows], dtype=np.float64
        ).reshape(-1, len(DIMENSIONS)),
        weight=np.array([row.weight for _, row in rows], dtype=np.float64),
    )


def _keys(scored: ScoredConversation, tags: Sequence[str]) -> Iterator[GroupKey]:
    total = subject_key(scored)
    yield total
    for tag in dict.fromkeys(scored.tags):
        if any(fnmatchcase(tag, glob) for glob in tags):
            yield GroupKey(
                agent=total.agent,
                agent_version=total.agent_version,
                environment=total.environment,
                service=total.service,
                tag=tag,
            )


def _reason(scored: ScoredConversation) -> str:
    return scored.reason or "no_data"
