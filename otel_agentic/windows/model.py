"""Groups, scored conversations and window points."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from otel_agentic.stats.model import TIERS, Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.scoring.model import Dimension, FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.stats.model import CaseKey, Estimates
    from otel_agentic.stats.targets import Targets
    from otel_agentic.stats.tiers import TierEvidence
    from otel_agentic.windows.claims import ClaimBasis

__all__ = [
    "TIERS",
    "DimensionMean",
    "GroupKey",
    "GroupSummary",
    "ScoredConversation",
    "Tier",
    "WindowPoint",
]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GroupKey:
    """What a rate is about; a key that does not apply to the grouping is None.

    The same key stands in the `windows` table, in JSON and in metric attributes. `dataset` is told with a case. Sort keys
    by `sort_key`: plain comparison fails where one has None and the other a text.
    """

    agent: str | None = None
    agent_version: str | None = None
    environment: str | None = None
    service: str | None = None
    tag: str | None = None
    dataset: str | None = None
    case: str | None = None
    tool: str | None = None

    def sort_key(self) -> tuple[tuple[bool, str], ...]:
        """Return what keys are sorted by: field by field, None before any text.

        >>> sorted([GroupKey(agent="b"), GroupKey(), GroupKey(agent="a")], key=GroupKey.sort_key)[0].agent is None
        True
        """
        parts = [getattr(self, each.name) for each in fields(self)]
        return tuple((part is not None, part or "") for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredConversation:
    """One closed conversation with its newest score: the row that groups and windows are made of.

    `ended_ns` is when it counts: its last span's end, or earlier where the sender's clock was ahead (`clock_ahead`). `dataset` and `case_id` are both None without a case. `dimensions` are the tool
    dimension scores of its expectations (one mean each), without those that do not apply. `tools` are the names of
    tools that its expectations or faults name. `weight` is 1 / the share of conversations evaluated when it was scored.
    `known_failure` is why one that is `not_evaluated: judge_unsure` fails all the same, None where nothing failed.
    `pass_probability` is that of passing, by a calibrated judge; None where no such judge decided.
    """

    environment: str
    conversation_id: str
    revision: int
    agent: str | None
    agent_version: str | None
    service: str | None
    ended_ns: int
    dataset: str | None
    case_id: str | None
    tags: tuple[str, ...]
    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    dimensions: Mapping[Dimension, float] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    weight: float = 1.0
    clock_ahead: bool = False
    known_failure: FailReason | None = None
    pass_probability: float | None = None

    @property
    def case_key(self) -> CaseKey:
        """What it is an attempt of, the same for every attempt: dataset and case id.

        A conversation without a case is a case of its own. No case file can name a dataset "": no clash with real cases.
        """
        if self.case_id is None:
            return ("", repr((self.environment, self.conversation_id)))
        return (self.dataset or "", self.case_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionMean:
    """Mean of one tool dimension over the `n` conversations where it applies."""

    mean: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """Everything that is said of one group, over all time or one window.

    `n` evaluated, `c` correct, `coverage` = evaluated / all (None when there is nothing), `bounds` on the pass rate
    given the not evaluated (None when there is nothing), of which `known_failures` fail all the same (a window does not count
    them: 0). `needed`: more conversations at the observed rate that would
    settle the tier (0 when it is settled), None where unknown or above 100,000; `leaning` is given with
    `insufficient_evidence` only, of a window always: it is what the window's estimates lean to. `default_estimator` is the headline one. `effective_n` is how many independent conversations
    the evaluated ones are worth (attempts of one case may go alike), None without any: it widens intervals only.
    `targets` answer how this traffic goes on and how a new case does: None with fewer than two cases, without named cases, and
    in a window. `tier_evidence` and `tier_basis` are what the tier rests on, None in a window: there the tier is that of all
    conversations of the version up to its end.
    """

    key: GroupKey
    n: int
    c: int
    not_evaluated: Mapping[str, int]
    coverage: float | None
    bounds: tuple[float, float] | None
    estimates: Mapping[str, Estimates]
    default_estimator: str
    effective_n: float | None = None
    targets: Targets | None = None
    tool_dimensions: Mapping[Dimension, DimensionMean]
    tier: Tier
    leaning: Tier | None
    needed: int | None
    tier_evidence: TierEvidence | None = None
    known_failures: int = 0
    tier_basis: ClaimBasis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPoint:
    """A group's summary over the event-time window `(end_ns - width_ns, end_ns]`, or over its newest conversations.

    `width_ns` is None for a count window: `window` tells how many.
    """

    window: str
    width_ns: int | None
    end_ns: int
    summary: GroupSummary
