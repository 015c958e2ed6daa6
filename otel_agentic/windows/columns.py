"""Scored conversations, window contents and window points as columns: what is computed for many groups and ends at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from otel_agentic.stats import GroupedAttempts, GroupedEstimates
    from otel_agentic.windows.model import GroupKey, Tier

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Scored conversations, a row each; one that is counted in several groups (by tag) has a row in each.

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

    Attributes:
        keys: (points,) the group.
        windows: (points,) the window's name, such as "24h" or "n200".
        end_ns: (points,) end of the window, inclusive, ns since the epoch.
        attempts: the evaluated ones; its groups are the points.
        reasons: reasons of what was not evaluated.
        not_evaluated: (points, reasons) how many.
        dimension_sum: (points, 4) sum of each tool dimension over the conversations where it applies, weighted.
        dimension_n: (points, 4) how many conversations those are, weighted.
    """

    keys: Sequence[GroupKey]
    windows: Sequence[str]
    end_ns: IntArray
    attempts: GroupedAttempts
    reasons: Sequence[str]
    not_evaluated: IntArray
    dimension_sum: FloatArray
    dimension_n: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowTable:
    """Window points with everything that is said of each.

    Attributes:
        tallies: what was counted.
        estimates: by estimator name; the groups of each are the points.
        default_estimator: (points,) the estimator to show first.
        tier: (points,) the tier.
        leaning: (points,) the tier that insufficient evidence leans to, else None.
    """

    tallies: Tallies
    estimates: Mapping[str, GroupedEstimates]
    default_estimator: Sequence[str]
    tier: Sequence[Tier]
    leaning: Sequence[Tier | None]
