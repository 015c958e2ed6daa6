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

if TYPE_CHECKING:
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


#: How outcomes stand in columns.
OUTCOME_CODES: Final[dict[Outcome, int]] = {"pass": 1, "fail": 0, "not_evaluated": -1}


def results_of(scored: Iterable[ScoredConversation], tags: Sequence[str] = ()) -> Results:
    """Return the columns of scored conversations, in event order, groups sorted by key.

    Args:
        scored: conversations in any order, each once.
        tags: case tags, names or globs, that make groups of their own beside the whole.
    """
    ordered = sorted(scored, key=lambda each: (each.ended_ns, each.environment, each.conversation_id))
    rows = [(key, each) for each in ordered for key in _keys(each, tags)]
    groups = sorted({key for key, _ in rows}, key=GroupKey.sort_key)
    cases = sorted({each.case_key for each in ordered if each.case_id is not None})
    reasons = sorted({_reason(each) for each in ordered if each.outcome == "not_evaluated"})
    group_codes = {key: code for code, key in enumerate(groups)}
    case_codes = {key: code for code, key in enumerate(cases)}
    reason_codes = {reason: code for code, reason in enumerate(reasons)}
    return Results(
        groups=groups,
        group=np.array([group_codes[key] for key, _ in rows], dtype=np.int64),
        case=np.array([-1 if each.case_id is None else case_codes[each.case_key] for _, each in rows], dtype=np.int64),
        ended_ns=np.array([each.ended_ns for _, each in rows], dtype=np.int64),
        outcome=np.array([OUTCOME_CODES[each.outcome] for _, each in rows], dtype=np.int64),
        reasons=reasons,
        reason=np.array(
            [reason_codes[_reason(each)] if each.outcome == "not_evaluated" else -1 for _, each in rows], dtype=np.int64
        ),
        dimensions=np.array(
            [[each.dimensions.get(name, np.nan) for name in DIMENSIONS] for _, each in rows], dtype=np.float64
        ).reshape(-1, len(DIMENSIONS)),
        weight=np.array([each.weight for _, each in rows], dtype=np.float64),
    )


def _keys(scored: ScoredConversation, tags: Sequence[str]) -> Iterator[GroupKey]:
    whole = subject_key(scored)
    yield whole
    for tag in dict.fromkeys(scored.tags):
        if any(fnmatchcase(tag, glob) for glob in tags):
            yield GroupKey(
                agent=whole.agent,
                agent_version=whole.agent_version,
                environment=whole.environment,
                service=whole.service,
                tag=tag,
            )


def _reason(scored: ScoredConversation) -> str:
    return scored.reason or "no_data"
