"""Groups, scored conversations and window points, and the evidence that a tier claim is based on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from otel_agentic.stats.model import Attempts, CaseCount, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.scoring.model import Dimension, FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.stats.hierarchical import Targets
    from otel_agentic.stats.model import CaseKey, Estimates
    from otel_agentic.stats.tiers import TierEvidence

#: Keys of a group that counts of removed conversations have; what they used of tools is not kept.
_KEPT_KEYS: Final = ("agent", "agent_version", "environment", "service", "dataset", "case")
_REMOVED: Final = (
    "conversations that used it were removed by retention, so that not all since the version's first are known"
)


#: A pass rate that the judge is estimated to shift by more than this supports no tier.
MAX_PASS_SHIFT: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedByProbability:
    """Conversations of which a calibrated judge decided the answers; those with an unsure answer are not evaluated.

    Attributes:
        n: all of them.
        probability: sum of their probabilities to pass.
        evaluated: those that passed or failed.
        passed: of them passed.
    """

    n: int
    probability: float
    evaluated: int
    passed: int

    @property
    def shift(self) -> float | None:
        """By how much the pass rate is estimated to lie above that of all, None where none is evaluated.

        A conversation leaves the rate with its first unsure answer, whatever else failed, and passes where all are likely
        right: both shift the rate, the more the longer the conversations.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).shift
        0.25
        """
        return self.passed / self.evaluated - self.probability / self.n if self.evaluated else None

    @property
    def withheld(self) -> str | None:
        """Why the rate supports no tier, None where it may.

        >>> JudgedByProbability(n=2, probability=1.5, evaluated=1, passed=1).withheld
        "the judge's doubt shifts the pass rate by an estimated +.25 (limit .05); label conversations or use an LLM judge"
        """
        if self.shift is None or abs(self.shift) <= MAX_PASS_SHIFT:
            return None
        shift = f"{self.shift:+.2f}".replace("0.", ".", 1)
        return f"the judge's doubt shifts the pass rate by an estimated {shift} (limit .05); label conversations or use an LLM judge"


def judged_by_probability(scored: Iterable[ScoredConversation]) -> JudgedByProbability:
    """Return the conversations among some of which a calibrated judge decided the answers."""
    members = [(one.pass_probability, one.outcome) for one in scored if one.pass_probability is not None]
    return JudgedByProbability(
        n=len(members),
        probability=sum(probability for probability, _ in members),
        evaluated=sum(outcome != "not_evaluated" for _, outcome in members),
        passed=sum(outcome == "pass" for _, outcome in members),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedAttempts:
    """Evaluated conversations of one subject and case that retention removed, of which the counts are kept.

    Attributes:
        key: agent, version, environment, service, and dataset and case where there is one.
        tags: of the case.
        n: conversations.
        c: correct ones.
        first_ns: end of the first of them.
        last_ns: end of the last.
    """

    key: GroupKey
    tags: tuple[str, ...]
    n: int
    c: int
    first_ns: int
    last_ns: int

    def is_of(self, group: GroupKey) -> bool:
        """Return whether they are part of a group, by everything but tools."""
        keys = ((getattr(group, name), getattr(self.key, name)) for name in _KEPT_KEYS)
        return all(wanted is None or wanted == own for wanted, own in keys) and (
            group.tag is None or group.tag in self.tags
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBasis:
    """The conversations that a tier of a group rests on.

    Attributes:
        attempts: the evaluated ones, by case, each of weight 1.
        since_ns: end of the first of them, None without any.
        agent_version: the version that they are of, None where it is not known.
        versions: how many versions the group has: of several the one that came last counts alone.
        withheld: why no tier may be claimed, None where one may.
    """

    attempts: Attempts
    since_ns: int | None = None
    agent_version: str | None = None
    versions: int = 1
    withheld: str | None = None


def claim_basis(
    group: GroupKey,
    scored: Iterable[ScoredConversation],
    *,
    removed: Sequence[RemovedAttempts] = (),
    since_ns: int | None = None,
) -> ClaimBasis:
    """Return what a tier of a group may rest on.

    Args:
        group: the group.
        scored: its conversations from the beginning, in any order.
        removed: counts of conversations that are not among them any more, of any group.
        since_ns: count from this time on, None: from the version's first conversation.
    """
    members = [one for one in scored if since_ns is None or one.ended_ns >= since_ns]
    gone = [each for each in removed if each.is_of(group) and (since_ns is None or each.first_ns >= since_ns)]
    first: dict[str | None, int] = {}
    for version, ended_ns in [
        *((one.agent_version, one.ended_ns) for one in members),
        *((each.key.agent_version, each.first_ns) for each in gone),
    ]:
        first[version] = min(ended_ns, first.get(version, ended_ns))
    if not first:
        return ClaimBasis(attempts=Attempts())
    newest = max(first, key=lambda version: (first[version], version or ""))
    counts: Counter[CaseKey] = Counter()
    correct: Counter[CaseKey] = Counter()
    times = []
    for one in members:
        if one.agent_version == newest and one.outcome != "not_evaluated":
            counts[one.case_key] += 1
            correct[one.case_key] += one.outcome == "pass"
            times.append(one.ended_ns)
    own = [each for each in gone if each.key.agent_version == newest]
    for place, each in enumerate(own):
        times.append(each.first_ns)
        for case, n, c in _cases(each, place):
            counts[case] += n
            correct[case] += c
    cases = (CaseCount(dataset=case[0], case_id=case[1], n=counts[case], c=correct[case]) for case in sorted(counts))
    judged = judged_by_probability(one for one in members if one.agent_version == newest)
    return ClaimBasis(
        attempts=Attempts(cases=tuple(cases)),
        since_ns=min(times, default=None),
        agent_version=newest,
        versions=len(first),
        withheld=_REMOVED if own and group.tool is not None else judged.withheld,
    )


def _cases(removed: RemovedAttempts, place: int) -> list[tuple[CaseKey, int, int]]:
    """Return case, attempts and correct ones; conversations without a case are cases of their own."""
    if removed.key.case is not None:
        return [((removed.key.dataset or "", removed.key.case), removed.n, removed.c)]
    return [(("", f"removed {place} {number}"), 1, int(number < removed.c)) for number in range(removed.n)]


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
